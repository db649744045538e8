"""Findings about contenders: over peers and references, of peaks, losses, costs and thresholds. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from harness.analysis import caveats, conditions, peaks, ragged_sizes, rates, rivals
from harness.analysis.caveats import Undecided
from harness.analysis.findings import swept
from harness.analysis.findings.panels import named_panels, panels
from harness.analysis.findings.ranks import Claim, ends, number
from harness.analysis.findings.swept import in_row
from harness.analysis.places import where_in_words
from harness.experiment import COLD, HOT, Json
from harness.stats.statistics import median
from harness.store.store import Cell

# A choice is as good as the best if it has this part of its rate.
AS_GOOD = 0.95
LITTLE = 10  # percent of work in vain


def subject_over_reference(cells: list[Cell], options: Json) -> str:
    """Return the speed of the contender called `subject` over the reference of its case, at most and at least."""
    claims = [
        Claim(rates.speed_up(cell, reference), cell.reference, _place(cell, options["place"]), cell)
        for cell in rates.contenders(cells)
        if cell.is_ok and cell.contender == options["subject"]
        if (reference := rates.reference_of(cell, cells)) is not None
    ]
    if not claims:
        return ""
    best, worst = ends(claims)
    first = f"{options['subject']} has {number(best)} times the speed of {best.who} ({best.where})"
    return first if worst is best else f"{first}, {number(worst)} ({worst.where})"


def _place(cell: Cell, names: str | list[str]) -> str:
    """Return where `cell` stands: on one axis "n=1024" or "device gpu", on several their values."""
    if not isinstance(names, str):
        return rates.words(cell, names)
    value = str(rates.axis(cell, names))
    return f"{names}{'=' if value.isdecimal() else ' '}{value}"


def ladder(cells: list[Cell], options: Json) -> str:
    """Return for the first panels which part of the peak the subject reaches, over which library; the largest step."""
    parts, steps, dtypes = list[str](), list[tuple[float, str, str]](), list[object]()
    for group in panels(cells, options):
        subject = next((c for c in group if c.is_ok and rates.axis(c, "backend") == options["subject"]), None)
        share = None if subject is None else peaks.percent_of_peak(subject, cells)
        if subject is None or share is None:
            continue
        dtypes.append(rates.axis(subject, "dtype"))
        is_named = "problem" in str(options.get("panels")) and dtypes.count(dtypes[-1]) == 1  # once, if it is the same
        words = rates.axis(subject, "problem" if is_named else "semiring")
        with_first = not parts and options.get("over_reference", True)
        gains = _gains(subject, group, with_first=with_first)
        parts.append(f"{share:.0f} %{' of the peak' * (not parts)} over {words}{gains}")
        rungs = rates.rungs(group, options)
        steps += [
            (rates.step(cell, below).estimate, cell.contender, below.contender)
            for cell, below in zip(rungs, rates.steps_below(rungs), strict=True)
            if cell.is_ok and below is not None
        ]
    if not parts:
        return ""
    first = f"{options['subject']} reaches {' and '.join(parts)}"
    if not steps:
        return first
    gain, who, below = max(steps)
    return f"{first}; largest step: {who} over {below} ({gain:.3g} times)"


def power_of_two(cells: list[Cell], options: Json) -> str:
    """Return which part of its rate the subject keeps where all sizes are a power of two, beside the size below."""
    own = sorted(_of_subject(cells, options), key=lambda cell: rates.axis(cell, "n"))
    if len(own) < 2:
        return ""
    below, at = own[-2:]
    sizes = f"at n = {rates.axis(at, 'n')}", f"at n = {rates.axis(below, 'n')}"
    return f"{options['subject']} has {at.rate / below.rate:.2f} of the rate {sizes[0]} that it has {sizes[1]}"


def _gains(subject: Cell, group: list[Cell], *, with_first: bool) -> str:
    """Return the speed of a rung over the fastest library, and `with_first` or alone over the first rung."""
    peer, slowest = rivals.fastest_peer(subject, group), rates.reference_of(subject, group)
    others = [peer, slowest if with_first or peer is None else None]
    gains = [(rates.step(subject, other).estimate, other.contender) for other in others if other is not None]
    words = [f"{gain:.2f} times {name}" if gain < 10 else f"{gain:.3g} times {name}" for gain, name in gains]
    return f" ({', '.join(words)})" if words else ""


def of_peak(cells: list[Cell], options: Json) -> str:
    """Return which part of the measured peak the subject reaches: in the middle, at least and at most."""
    shares = _shares(cells, options)
    if not shares:
        return ""
    (least, where), (most, _) = min(shares, key=lambda x: x[0]), max(shares, key=lambda x: x[0])
    middle = median([share for share, _ in shares])
    first = f"{options['subject']} reaches {middle:.0f} % of the measured peak"
    place = where_in_words(where) + conditions.weakness(where)
    ends_of = f"(median of {len(shares)}; least {least:.0f} % over {place}; most {most:.0f} %)"
    return first if len(shares) == 1 else f"{first} {ends_of}"


def above_peak(cells: list[Cell], options: Json) -> str:
    """Return why the subject is above its peak, if it is anywhere."""
    is_above = any(round(share) > 100 for share, _ in _shares(cells, options))
    return "Above 100 %: the peak was measured too low" if is_above else ""


def _shares(cells: list[Cell], options: Json) -> list[tuple[float, Cell]]:
    """Return the cells of the subject that have a peak, with the percentage of it that they reach."""
    own = _of_subject(cells, options)
    return [(share, cell) for cell in own if (share := peaks.percent_of_peak(cell, cells)) is not None]


def losses(cells: list[Cell], options: Json) -> str:
    """Return what ragged sizes cost the subject in the middle and at worst, and what another loses at most."""
    if options.get("sweeps"):
        return swept.losses(cells, options)
    x, found = options.get("x", "n"), ragged_sizes.losses(cells, options)
    subject = _row_of(found, options)
    if subject is None:
        return ""
    firm = ragged_sizes.firm_sizes(cells, options)
    middle, at = median([loss for _, loss in found[subject]]), f"{x}=" if x == "n" else f"{x} "
    ends_of = {
        row: ragged_sizes.worst(points, {n for who, n in firm if who == row[0]}) for row, points in found.items()
    }
    n, most_of_subject = ends_of.pop(subject)
    name_of_all, row = options.get("ragged", "Sizes that fit no tile"), in_row(subject)
    price = f"cost {row} {middle:.1f} % of its rate" if middle > 0 else f"cost {row} nothing at the median"
    first = f"{name_of_all} {price}, at worst {_percent_lost(most_of_subject)} ({at}{n})"
    if not ends_of:
        return first
    name, (size, most) = max(ends_of.items(), key=lambda entry: entry[1][1])
    verb = "loses most," if most > most_of_subject else "at most"
    return f"{first}; {in_row(name)} {verb} {_percent_lost(most)} ({at}{size})"


def details_of_losses(cells: list[Cell], options: Json) -> str:
    """Return what a sweep has found besides `losses`."""
    return swept.details(cells, options) if options.get("sweeps") else ""


def _row_of(found: Iterable[tuple[str, str]], options: Json) -> tuple[str, str] | None:
    """Return the first row of the subject."""
    return next((name for name in found if name[0] == options["subject"]), None)


def cost(cells: list[Cell], options: Json) -> str:
    """Return the time of each contender over the reference's: least and most; ``what`` is the subject of all.

    Of the most the dtype is said.
    """
    claims = [
        Claim(rates.time_ratio(cell, reference), cell.contender, where_in_words(cell), cell)
        for cell in rates.contenders(cells)
        if cell.is_ok and (reference := rates.reference_of(cell, cells)) is not None and reference is not cell
    ]
    if not claims:
        return ""
    most, least = ends(claims)
    if "what" in options and least is not most:
        span = f"{least.value.estimate:.2f} ({least.who}) to {most.value.estimate:.2f} times ({most.who})"
        return f"{options['what']} takes {span} as long as {most.cell.reference}"
    dtype = rates.axis(most.cell, "dtype")
    over = f" over {dtype}" if dtype else ""
    first = f"{most.who} takes {number(most)} times as long as {most.cell.reference}{over}"
    return first if least is most else f"{first}; {least.who} takes least, {number(least)} times"


def best(cells: list[Cell], options: Json) -> str:
    """Return the fastest choice of each of the first panels, its gain over the slowest, and how many are as good."""
    sentences = []
    for group, name in named_panels(cells, options):
        done = sorted((cell for cell in group if cell.is_ok), key=lambda cell: -cell.rate)
        if len(done) < 2:
            continue
        as_good = sum(cell.rate >= AS_GOOD * done[0].rate for cell in done) - 1
        gain = done[0].rate / done[-1].rate
        others = f" ({rates.plural(as_good, 'other')} within 5 %)" if as_good else ""
        slowest = f"{gain:.3g} times the speed of {done[-1].contender}"
        sentences.append(f"{name}{done[0].contender} is fastest, {slowest}{others}")
    return "; ".join(sentences)


def cold(cells: list[Cell], options: Json) -> str:
    """Return the part of its rate that the subject loses to cold caches, at the smallest size and the largest."""
    own = [cell for cell in _of_subject(cells, options) if not rates.is_on_device(cell)]
    hot = {_coordinates(cell): cell for cell in own if cell.axes.get("series", HOT) == HOT}
    points = sorted(
        (rates.axis(cell, "n"), 100 * (1 - cell.rate / hot[_coordinates(cell)].rate))
        for cell in own
        if cell.axes.get("series") == COLD and _coordinates(cell) in hot
    )
    if not points:
        return ""
    (n, loss), (largest, last) = points[0], points[-1]
    lost = f"{_percent_lost(loss)} of its rate at n={n}" if loss > 0 else f"nothing at n={n}"
    lost += f", {_percent_lost(last)} at n={largest}" if largest != n else ""
    return f"With operands in main memory {options['subject']} loses {lost}"


def _percent_lost(loss: float) -> str:
    """Return a loss in words; whoever gains, by chance, loses nothing."""
    return f"{loss:.0f} %" if loss > 0 else "nothing"


def extra_work(cells: list[Cell], options: Json) -> str:
    """Return the size from which on padding to the smallest and the largest tile computes little in vain.

    Where that is beyond the sizes of the figure, the largest of these is told.
    """
    last = max((rates.axis(cell, "n") or 0 for cell in cells), default=0)
    if not last:
        return ""
    found = []
    for tile in (min(options["tiles"]), max(options["tiles"])):
        whole = math.ceil(1 / (math.sqrt(1 + LITTLE / 100) - 1)) * tile  # from here on one tile more is little
        costly = [n for n in range(1, whole + 1) if ragged_sizes.extra_work(n, n, tile, tile) > LITTLE]
        first = max(costly, default=0) + 1
        found.append(f"{f'from n={first} on' if first <= last else f'not up to n={last}'} for tiles of {tile} x {tile}")
    return f"Padding to whole tiles adds at most {LITTLE} % of work {', '.join(found)}"


def of_peak_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many shares of `of_peak` have no verdict."""
    own = ((cell, peaks.peak_of(cell, cells)) for cell in _of_subject(cells, options))
    return caveats.of_shares((cell, peak) for cell, peak in own if peak is not None)


def losses_undecided(cells: list[Cell], options: Json) -> Undecided:
    """Return how many of the subject's rates are of too few samples: losses are between sizes, not contenders."""
    return caveats.of_shares((cell, None) for cell in _of_subject(cells, options))


JUDGED: dict[str, Callable[[list[Cell], Json], Undecided]] = {
    "of_peak": of_peak_undecided,
    "losses": losses_undecided,
    "power_of_two": losses_undecided,
}
DETAILS: dict[str, Callable[[list[Cell], Json], str]] = {
    "ladder": above_peak,
    "of_peak": above_peak,
    "losses": details_of_losses,
}
FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {
    "subject_over_reference": subject_over_reference,
    "ladder": ladder,
    "power_of_two": power_of_two,
    "of_peak": of_peak,
    "losses": losses,
    "cost": cost,
    "best": best,
    "cold": cold,
    "extra_work": extra_work,
}


def _of_subject(cells: Iterable[Cell], options: Json) -> list[Cell]:
    return [c for c in rates.contenders(cells) if c.is_ok and rates.axis(c, "backend") == options["subject"]]


def _coordinates(cell: Cell) -> tuple[object, ...]:
    return tuple(rates.axis(cell, name) for name in ("semiring", "dtype", "m", "n", "k", "threads"))
