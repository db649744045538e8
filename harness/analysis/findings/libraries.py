"""What libraries were read back to do, and findings about those that are told which processor this is. Pure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from harness import registry
from harness.analysis import conditions, rates, rivals
from harness.experiment import Json
from harness.interface import Backend
from harness.stats.statistics import geometric_mean
from harness.store.store import Cell

# Backends that call OpenBLAS, the best known first; the first two by a package that brings its own.
BY_OPENBLAS = ("cpu-numpy", "cpu-scipy")
OPENBLAS = (*BY_OPENBLAS, "cpu-openblas")


def families(cells: Sequence[Cell]) -> dict[str, str]:
    """Return by contender what its library was read back to do: "Haswell kernels, 1 of 2 threads".

    A number of threads stands there if that is so wherever it had several.
    """
    told = {}
    for contender, own in _by_contender([cell for cell in cells if cell.is_ok]).items():
        kernels = dict.fromkeys(f"{name} kernels" for cell in own if (name := kernels_of(cell)))
        used = dict.fromkeys(conditions.one_of_several(cell) for cell in own if cell.threads > 1)
        words = [*kernels, *(used if len(used) == 1 and all(used) else ())]
        if words:
            told[contender] = ", ".join(words)
    return told


def untold(cells: Iterable[Cell]) -> set[str]:
    """Return the contenders by a library that could have been told which processor this is, and never was.

    Their results are older than that treatment, and do not say whose kernels they are. Such a library took kernels for
    another processor, or in C: what it can do is not known.
    """
    by_backend = rates.group(cells, lambda cell: str(rates.axis(cell, "backend")))
    plain = [own for name, own in by_backend.items() if name in _told() and all(map(is_as_installed, own))]
    return {cell.contender for own in plain for cell in own if cell.is_ok and "project" not in cell.facts}


@functools.cache
def _told() -> frozenset[str]:
    """Return the backends of libraries that are compared in more than one configuration."""
    ask = registry.discover()
    return frozenset(e.name for e in ask if e.backend and type(e.backend).configurations is not Backend.configurations)


def merged(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells with contenders that run the same kernels of OpenBLAS as one, named after all of them.

    In each case it is the fastest of them. Who is the fastest is chance, and would change from size to size.
    Contenders whose kernels differ from case to case, or were not read back, stay as they are.
    """
    told = [cell for cell in cells if _tells_kernels(cell)]
    kernels = {name: {kernels_of(cell) for cell in own} for name, own in _by_contender(told).items()}
    steady = [name for name, families in kernels.items() if len(families) == 1]
    alike = rates.group(steady, lambda name: kernels[name].pop()).values()
    names = {name: _name_of_all(group) for group in alike if len(group) > 1 for name in group}

    def place(cell: Cell) -> tuple[str, str, str]:
        name = names.get(cell.contender, cell.contender) if _tells_kernels(cell) else cell.contender
        return cell.run, cell.case, name

    groups = rates.group(cells, place)
    return [own[0] if len(own) == 1 else _as_one(own, name) for (_, _, name), own in groups.items()]


def _tells_kernels(cell: Cell) -> bool:
    return cell.is_ok and rates.axis(cell, "backend") in OPENBLAS and kernels_of(cell) != ""


def _by_contender(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    return rates.group(cells, lambda cell: cell.contender)


def _name_of_all(names: Sequence[str]) -> str:
    """Return one name for contenders: "cpu-numpy = scipy"; a library told what it takes by itself is not named."""
    own = [name for name in names if name.partition(" as ")[0] == name or name.partition(" as ")[0] not in names]
    first, *others = sorted(own, key=lambda name: [*OPENBLAS, name].index(name))
    return " = ".join([first, *(name.removeprefix("cpu-") for name in others)])


def _as_one(cells: Sequence[Cell], name: str) -> Cell:
    """Return the fastest of `cells` under one name, as installed if any of them is."""
    fastest, plain = max(cells, key=lambda cell: cell.rate), min(cells, key=lambda cell: not is_as_installed(cell))
    backends = [str(rates.axis(cell, "backend")) for cell in cells]
    first = next(backend for backend in OPENBLAS if backend in backends)
    record = {**fastest.record, "environment": plain.record.get("environment")}
    return dataclasses.replace(
        fastest, contender=name, record=record, arguments={**fastest.arguments, "backend": first}
    )


def plain_name(cell: Cell) -> str:
    """Return what a reader knows its library by; the names of all who call OpenBLAS stand in the legend."""
    return "OpenBLAS" if " = " in cell.contender else rivals.project_of(cell) or cell.contender


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
    own = [c for c in rates.timed(plain) if rates.axis(c, "backend") == options["subject"]]
    ratios = [ratio.estimate for cell in own if (ratio := rivals.over_fastest(cell, plain)) is not None]
    return f"{geometric_mean(ratios):.2f}" if ratios else ""
