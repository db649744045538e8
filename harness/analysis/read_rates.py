"""Rates of products that read a matrix once, in percent of the measured rate of reading; findings about them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.analysis import peaks, rates, rivals
from harness.analysis.places import ends_in_words, enumerated, verb
from harness.experiment import Json
from harness.stats.statistics import Interval
from harness.store.store import Cell

# The level at which a percentage of the rate of reading means something.
MEMORY = "memory"

# The part of its best rate from which on more of anything hardly helps.
KNEE = 0.9


def read_roof(cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """Return the cell that measured how fast memory is read where `cell` computes, by as many threads; or None.

    Of its own case; on a GPU else the fastest of any. The rate of a shared host moves by half within an hour, so one
    that was not measured in turns says nothing: products would read at 140 % of it.
    """
    place = rates.axis(cell, "device"), cell.threads
    roofs = [
        roof
        for roof in cells
        if roof.contender == rates.READ and roof.is_ok and (rates.axis(roof, "device"), roof.threads) == place
    ]
    beside = next((roof for roof in roofs if rates.in_turns(roof, cell)), None)
    alone = (roof for roof in roofs if rates.is_on_device(roof) and roof.axes.get("role") == "bandwidth")
    return beside or max(alone, key=peaks.roof_rate, default=None)


def of_read(cell: Cell, cells: Sequence[Cell]) -> Interval | None:
    """Return the bytes that `cell` has to move in percent of what could be read in that time.

    A rate that was measured in turns with `cell` is paired with it sample by sample: what slows memory down slows both.
    Of any other one the fastest call counts. None for a matrix that fits a cache: it may be read faster than memory, so
    that the percentage means nothing.
    """
    roof = read_roof(cell, cells)
    if roof is None or not cell.is_ok or cell.axes.get("level", MEMORY) != MEMORY or "bytes_moved" not in cell.facts:
        return None
    if rates.in_turns(roof, cell):
        estimate, low, high = rates.time_ratio(cell, roof)
        percent = 100 * float(cell.facts["bytes_moved"]) / float(roof.facts["bytes_moved"])
    else:
        estimate, low, high = rates.time_interval(cell)
        percent = 100 * float(cell.facts["bytes_moved"]) / peaks.roof_rate(roof)
    return Interval(percent / estimate, percent / high, percent / low)


def samples_of_read(cell: Cell, cells: Sequence[Cell]) -> list[float]:
    """Return `of_read` of single samples; none where that means nothing."""
    roof = read_roof(cell, cells)
    if roof is None or of_read(cell, cells) is None:
        return []
    moved = 100 * float(cell.facts["bytes_moved"])
    if rates.in_turns(roof, cell):
        return [moved / float(roof.facts["bytes_moved"]) / ratio for ratio in rates.paired_ratios(cell, roof)]
    return [moved / peaks.roof_rate(roof) / ns for ns in cell.all_samples_ns]


def shares(cells: list[Cell], options: Json) -> str:
    """Return which part of the read rate the subject reaches, and its speed over the fastest library, both ends."""
    shown = [cell for cell in rates.contenders(cells) if cell.is_ok]
    ours = [cell for cell in shown if cell.contender == options["subject"]]
    found = [(share.estimate, cell) for cell in ours if (share := of_read(cell, cells)) is not None]
    sentences = []
    if found:
        sentences.append(f"{options['subject']} reads at {ends_in_words(found, '.0f')} % of the measured rate")
    ratios = [(over.estimate, cell) for cell in ours if (over := rivals.over_fastest(cell, shown)) is not None]
    if ratios:
        verb = "has" if found else f"{options['subject']} has"
        sentences.append(f"{verb} {ends_in_words(ratios, '.2f')} times the speed of {rivals.name_of_fastest(shown)}")
    return " and ".join(sentences)


def speeds(cells: list[Cell], options: Json) -> str:
    """Return the speed of each contender over that of the reference, both ends; those on a device by themselves."""
    ratios = _ratios(cells, lambda cell, base: 1 / rates.time_ratio(cell, base).estimate)
    return _over_references(("has", "have"), "times the speed of", ratios)


Ratio = Callable[[Cell, Cell], float | None]


def _ratios(cells: list[Cell], ratio: Ratio) -> dict[tuple[str, bool], dict[str, list[float]]]:
    """Return the ratios of each contender to its reference, by the name of that and whether it is on a device."""
    found: dict[tuple[str, bool], dict[str, list[float]]] = {}
    for cell in rates.contenders(cells):
        base = rates.reference_of(cell, cells)
        if cell.is_ok and base is not None and base is not cell and (value := ratio(cell, base)) is not None:
            own = found.setdefault((base.contender, rates.is_on_device(base)), {})
            own.setdefault(cell.contender, []).append(value)
    return found


def _over_references(verbs: tuple[str, str], over: str, found: dict[tuple[str, bool], dict[str, list[float]]]) -> str:
    """Return "cpu-simd has 0.71 to 0.80 times the speed of cpu-numpy, LAPACK 3.5; on the GPU gpu-tuned has 1.1 ..."."""
    parts, told = list[str](), list[str]()
    are_on_both = len({is_on_device for _, is_on_device in found}) > 1
    for (reference, is_on_device), every in found.items():
        own = _ends_of(every) if parts else every
        (name, ratios), *others = own.items()
        of = f"{over} {reference}" if reference not in told else "times"
        words = f"{verb(name, *verbs)} {_span(ratios)} {of}"
        place = f"on the {'GPU' if is_on_device else 'CPU'} " if are_on_both else ""
        told.append(reference)
        parts.append(enumerated([f"{place}{name} {words}", *(f"{other} {_span(its)}" for other, its in others)]))
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:] if sentence.startswith("on ") else sentence


def _ends_of(own: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the contenders with the greatest ratio and the least: a title has no room for more of a second place."""
    first, last = max(own, key=lambda name: max(own[name])), min(own, key=lambda name: min(own[name]))
    return {name: own[name] for name in dict.fromkeys((first, last))}


def _span(ratios: Sequence[float]) -> str:
    """Return "0.71 to 0.80", or one number where both ends are written alike."""
    return " to ".join(dict.fromkeys(f"{end:.2f}" if end < 10 else f"{end:.3g}" for end in (min(ratios), max(ratios))))


def knees(cells: list[Cell], options: Json) -> str:
    """Return for each contender the fewest threads, on the axis ``x``, with which it has `KNEE` of its best rate."""
    found: list[str] = []
    for name, own in rates.group(rates.contenders(cells), lambda cell: cell.contender).items():
        done = sorted((c for c in own if c.is_ok), key=lambda c: float(rates.axis(c, options["x"])))
        if len(done) > 1:
            most = max(cell.rate for cell in done)
            knee = next(cell for cell in done if cell.rate >= KNEE * most)
            found.append(f"{rates.axis(knee, options['x']):,}{' threads' * (not found)} with {name}")
    return f"{100 * KNEE:.0f} % of the best rate needs {', '.join(found)}" if found else ""


def crossings(cells: list[Cell], options: Json) -> str:
    """Return the place on the axis ``x`` from which on the reference is faster, by contender: the first and the last.

    Options ``subject`` (``who`` in a title) and ``point`` say what the reference is, and how a place is written:
    ``"{:g} %"``.
    """
    found: dict[str, list[tuple[float, float, str]]] = {}
    series = rates.group(rates.contenders(cells), lambda cell: (rates.words(cell, options["panels"]), cell.contender))
    panels = [panel.split(", ") for panel, _ in series]
    shared = {word for word in panels[0] if all(word in words for words in panels)} if panels else set()
    for (words, name), own in series.items():
        panel = ", ".join(word for word in words.split(", ") if word not in shared)
        pairs = [(float(rates.axis(c, options["x"])), c, rates.reference_of(c, cells)) for c in own if c.is_ok]
        ratios = sorted(
            (x, rates.time_ratio(c, ref).estimate) for x, c, ref in pairs if ref is not None and ref is not c
        )
        if ratios:
            slower = [x for x, ratio in ratios if ratio <= 1]
            beyond = [x for x, _ in ratios if not slower or x > max(slower)]
            found.setdefault(name, []).append((min(beyond, default=math.inf), ratios[-1][0], panel))
    said = (f"than {name} {_crossing(own, options['point'].format)}" for name, own in found.items())
    return f"{options.get('who', options['subject'])} is faster {'; '.join(said)}" if found else ""


def _crossing(found: Sequence[tuple[float, float, str]], point: Callable[[float], str]) -> str:
    """Return "from 20 % on (rows)", "from 20 % on (rows), at the latest from 40 % (band)" or "nowhere up to 50 %"."""
    (first, most, where), (last, end, there) = min(found), max(found)
    if first == last:
        place = f"nowhere up to {point(most)}" if math.isinf(first) else f"from {point(first)} on"
        return f"{place}{f' ({where})' if where and len(found) == 1 else ''}"
    latest = f"nowhere up to {point(end)}" if math.isinf(last) else f"at the latest from {point(last)}"
    return f"from {point(first)} on ({where}), {latest} ({there})"


def residuals(cells: list[Cell], options: Json) -> str:
    """Return the largest residual of each contender over that of the reference, and where."""
    found = _ratios(cells, _residual_over)
    worst = {place: {name: [max(times)] for name, times in own.items()} for place, own in found.items()}
    return _over_references(("leaves up to", "leave up to"), "times the residual of", worst)


def _residual_over(cell: Cell, base: Cell) -> float | None:
    residual, of_base = cell.facts.get("residual"), base.facts.get("residual")
    return residual / of_base if residual is not None and of_base else None


FINDINGS: dict[str, Callable[[list[Cell], Json], str]] = {
    "read_shares": shares,
    "speeds": speeds,
    "knees": knees,
    "crossings": crossings,
    "residuals": residuals,
}
