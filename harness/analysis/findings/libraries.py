"""What libraries were read back to do, and findings about those that are told which processor this is. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis import conditions, rates
from harness.experiment import Json
from harness.stats.statistics import geometric_mean
from harness.store.store import Cell

BY_OPENBLAS = ("cpu-numpy", "cpu-scipy")


def families(cells: Sequence[Cell]) -> dict[str, str]:
    """Return by contender what its library was read back to do: "Haswell kernels, 1 of 2 threads".

    A number of threads stands there if that is so wherever it had several.
    """
    told = {}
    for contender, own in rates.group((cell for cell in cells if cell.is_ok), lambda cell: cell.contender).items():
        kernels = dict.fromkeys(f"{name} kernels" for cell in own if (name := kernels_of(cell)))
        used = dict.fromkeys(conditions.one_of_several(cell) for cell in own if cell.threads > 1)
        words = [*kernels, *(used if len(used) == 1 and all(used) else ())]
        if words:
            told[contender] = ", ".join(words)
    return told


def kernels_of(cell: Cell) -> str:
    """Return the kernel family that its library took; older records of OpenBLAS have it beside the threads."""
    recorded = str((cell.record.get("threads_read") or {}).get("openblas kernels", ""))
    of_openblas = recorded.rsplit(maxsplit=1)[-1:] if rates.axis(cell, "backend") in BY_OPENBLAS else []
    return str(cell.facts.get("kernels") or "".join(of_openblas))


def is_as_installed(cell: Cell) -> bool:
    """Return whether `cell` was measured without variables that tell its library what to do."""
    return not cell.record.get("environment")


def as_installed(cells: Sequence[Cell], options: Json) -> str:
    """Return the speed of the subject over the fastest peer as installed: "2.00"; empty where no peer was told any."""
    plain = [cell for cell in cells if is_as_installed(cell)]
    if len(plain) == len(cells):
        return ""
    own = [c for c in rates.contenders(plain) if c.is_ok and rates.axis(c, "backend") == options["subject"]]
    ratios = [ratio.estimate for cell in own if (ratio := rates.over_fastest(cell, plain)) is not None]
    return f"{geometric_mean(ratios):.2f}" if ratios else ""
