"""What ragged sizes of a dense sweep cost, in a sentence for the title of a figure. Pure.

A loss is named only where it is beyond what whole tiles differ by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.analysis import ragged_sizes, rates
from harness.analysis.ragged_sizes import swept as swept_sizes
from harness.analysis.ragged_sizes.swept import Sweep
from harness.experiment import Json
from harness.stats.statistics import median
from harness.store.store import Cell

MOST_NOISE = 25.0  # percent by which whole tiles may differ in a sweep that tells what other sizes cost
# What the machine can do, in a sentence.
_MACHINE = {"peak": "the peak", rates.READ: "the rate of reading"}


class _Found(NamedTuple):
    """The sweeps of a figure, the worst size of each, the row of the subject, and what is beyond noise."""

    sweeps: dict[tuple[str, str], Sweep]
    ends: dict[tuple[str, str], tuple[int, float]]
    subject: tuple[str, str]
    beyond: list[tuple[str, str]]


def _find(cells: list[Cell], options: Json) -> _Found | None:
    """Return what is known of the sweeps of a figure, or None of a subject that was measured alone or not at all."""
    found, firm = swept_sizes.sweeps(cells, options), ragged_sizes.firm_sizes(cells, options)
    ends = {
        name: ragged_sizes.worst(sweep.points, {n for owner, n in firm if owner == name[0]})
        for name, sweep in found.items()
    }
    own = [name for name in found if name[0] == options["subject"]]
    if not own:
        return None
    subject = max(own, key=lambda name: (found[name].is_noise_known, ends[name][1]))
    return _Found(found, ends, subject, [name for name in found if found[name].is_beyond_noise(ends[name][1])])


def losses(cells: list[Cell], options: Json) -> str:
    """Return what ragged sizes cost the subject at most, or why that cannot be told."""
    found, who = _find(cells, options), options["subject"]
    if found is None:
        is_measured = any(cell.is_ok and cell.contender == who for cell in rates.contenders(cells))
        return f"{who} was measured alone: the drift of the machine hides what a size costs" if is_measured else ""
    noise, what = found.sweeps[found.subject].noise, options.get("ragged", "Sizes that fit no tile")
    price = f"{what} cost {in_row(found.subject)}"
    if not found.sweeps[found.subject].is_noise_known:
        return f"Too few whole tiles were measured to tell from noise what {price[0].lower()}{price[1:]}"
    if noise > MOST_NOISE:
        return f"Whole tiles of {in_row(found.subject)} differ by {noise:.0f} %, which hides what other sizes cost"
    if found.subject not in found.beyond:
        return f"{price} no more of its speed than whole tiles differ by, {noise:.0f} %"
    n, loss = found.ends[found.subject]
    return f"{price} at most {loss:.0f} % of its speed ({_size(n, options)})"


def details(cells: list[Cell], options: Json) -> str:
    """Return what speeds of `losses` are relative to, what the subject loses in the middle, and who else loses most."""
    found = _find(cells, options)
    if found is None or not found.sweeps[found.subject].is_noise_known:
        return ""
    sweep = found.sweeps[found.subject]
    parts = [
        f"Speeds are over {_MACHINE.get(sweep.beside, sweep.beside)}, timed in turns",
        f"in the median {in_row(found.subject)} loses {_at_the_median(sweep)}",
        f"whole tiles differ by {sweep.noise:.0f} %",
    ]
    others = [name for name in found.beyond if name[0] != options["subject"]]
    if others:
        most = max(others, key=lambda name: found.ends[name][1])
        beside, (n, loss) = found.sweeps[most].beside, found.ends[most]
        over = "" if beside == sweep.beside else f" over {beside}"
        parts.append(f"{in_row(most)}{over} loses up to {loss:.0f} % ({_size(n, options)})")
    return "; ".join(parts)


def in_row(name: tuple[str, str]) -> str:
    """Return a contender with its row in a figure: "gpu-tuned (float32)"."""
    contender, row = name
    return f"{contender} ({row})" if row else contender


def _at_the_median(sweep: Sweep) -> str:
    middle = median([loss for _, loss in sweep.points])
    return f"{middle:.1f} %" if middle > 0 else "nothing"


def _size(n: int, options: Json) -> str:
    x = options.get("x", "n")
    return f"n={n}" if x == "n" else f"{x} {n}"
