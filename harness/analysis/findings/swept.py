"""What ragged sizes of a dense sweep cost, in a sentence for the title of a figure. Pure.

A loss is named only where it is beyond what whole tiles differ by themselves.
"""

from __future__ import annotations

from harness.analysis import ragged_sizes, rates
from harness.analysis.ragged_sizes import swept as swept_sizes
from harness.analysis.ragged_sizes.swept import Sweep
from harness.experiment import Json
from harness.stats.statistics import median
from harness.store.store import Cell

# What the machine can do, in a sentence.
_MACHINE = {"peak": "the peak", rates.READ: "the rate of reading"}


def losses(cells: list[Cell], options: Json) -> str:
    """Return what ragged sizes cost the subject, and what another loses most, in units of one measured in turns."""
    found, who = swept_sizes.sweeps(cells, options), options["subject"]
    firm = ragged_sizes.firm_sizes(cells, options)
    ends = {
        name: ragged_sizes.worst(sweep.points, {n for owner, n in firm if owner == name[0]})
        for name, sweep in found.items()
    }
    own = [name for name in found if name[0] == who]
    if not own:
        is_measured = any(cell.is_ok and cell.contender == who for cell in rates.contenders(cells))
        alone = f"{who} was measured alone: the drift of the machine hides what a size costs"
        return alone if is_measured else ""
    subject = max(own, key=lambda name: (found[name].is_noise_known, ends[name][1]))
    sweep, beyond = found[subject], [name for name in found if found[name].is_beyond_noise(ends[name][1])]
    what = f"{options.get('ragged', 'Sizes that fit no tile')} cost {in_row(subject)}"
    unit = f"its speed over {_MACHINE.get(sweep.beside, sweep.beside)}"
    if not sweep.is_noise_known:
        return f"Too few whole tiles were measured to tell from noise what {what[0].lower()}{what[1:]}"
    first = f"{what} no more of {unit} than whole tiles differ by, {sweep.noise:.0f} %"
    if subject in beyond:
        at_worst = f"at worst {_place(ends[subject], options)}; whole tiles differ by {sweep.noise:.0f} %"
        first = f"{what} {_at_the_median(sweep)} of {unit} (median), {at_worst}"
    others = [name for name in beyond if name[0] != who]
    if not others:
        return first
    most = max(others, key=lambda name: ends[name][1])
    beside = found[most].beside
    over = "" if beside == sweep.beside else f" over {beside}"
    return f"{first}; {in_row(most)}{over} loses up to {_place(ends[most], options)}"


def in_row(name: tuple[str, str]) -> str:
    """Return a contender with its row in a figure: "gpu-tuned (float32)"."""
    contender, row = name
    return f"{contender} ({row})" if row else contender


def _at_the_median(sweep: Sweep) -> str:
    middle = median([loss for _, loss in sweep.points])
    return f"{middle:.1f} %" if middle > 0 else "nothing"


def _place(end: tuple[int, float], options: Json) -> str:
    x, (n, loss) = options.get("x", "n"), end
    return f"{loss:.0f} % ({f'n={n}' if x == 'n' else f'{x} {n}'})"
