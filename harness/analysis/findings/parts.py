"""Findings that are parts of something: of the measured peak, of the rate of reading, of the time of a call. Pure."""

from __future__ import annotations

from collections.abc import Callable

from harness.analysis import peaks, ranks, rates, read_rates, rivals, shares
from harness.analysis.findings import ratios
from harness.analysis.findings.sentences import FIRST, MEDIAN, PART, SPEED, SPENDS, Finding, Value
from harness.experiment import Json
from harness.stats.statistics import exact
from harness.store.store import Cell

PEAK = "its measured peak"
ABOVE = "Above 100 %: the peak was measured too low"


def _of_peak(cells: list[Cell], options: Json) -> list[Value]:
    """Return the parts of the peak that the cells of the subject reach."""
    own = (c for c in rates.timed(cells) if rates.axis(c, "backend") == options["subject"])
    found = ((cell, peaks.interval_of_peak(cell, cells), peaks.peak_of(cell, cells)) for cell in own)
    return [Value(share, (cell, peak)) for cell, share, peak in found if share is not None and peak is not None]


def of_peak(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of the measured peak the subject reaches: in the middle, at least and at most."""
    values = _of_peak(cells, options)
    judged, note = _pairs(values), _above(values)
    return Finding(options["subject"], PART, values, PEAK, MEDIAN, judged=judged, note=note) if values else None


def ladder(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of the peak the last rung reaches, by panel, and its speed over the lowest, or a library."""
    values, gains = list[Value](), list[Value]()
    for value in _of_peak(cells, options):
        place = rates.words(value.cell, options["panels"])
        if place not in [known.place for known in values]:
            values.append(value._replace(place=place))
            lowest = rates.reference_of(value.cell, cells) if options.get("over_reference", True) else None
            if other := lowest or rivals.fastest_peer(value.cell, cells):
                gain = rates.step(value.cell, other)
                words = f"{SPEED.write(gain.estimate)} times the speed of {other.contender}"
                gains.append(Value(gain, place=place, words=words))
    others = {"at": gains} if gains else {}
    return (
        Finding(options["subject"], PART, values, PEAK, FIRST, others=others, note=_above(values)) if values else None
    )


def _above(values: list[Value]) -> str:
    return ABOVE if any(round(value.number.estimate) > 100 for value in values) else ""


def _pairs(values: list[Value]) -> list[tuple[Cell, Cell | None]]:
    return [(value.cell, value.cells[1] if len(value.cells) > 1 else None) for value in values]


def of_read(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of the measured rate of reading the subject reaches; of what fits caches its speed instead."""
    own = [cell for cell in rates.timed(cells) if cell.contender == options["subject"]]
    values = [Value(share, (cell,)) for cell in own if (share := read_rates.of_read(cell, cells)) is not None]
    speed = ratios.FINDINGS["speed"](cells, {**options, "over": ratios.LIBRARY})
    if not values:
        return speed
    return Finding(options["subject"], PART, values, "the read rate", MEDIAN, note=speed.range if speed else "")


def stages(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of a warm call each contender spends on the ``stages``, of the first product or the largest."""
    names, found = options.get("stages", ("compute",)), []
    for cell in rates.contenders(cells):
        bar = ranks.warm_stages(cell) if cell.is_ok else {}
        if bar:
            part = 100 * sum(bar.get(name, 0.0) for name in names) / sum(bar.values())
            found.append(Value(exact(part), (cell,)))
    if not found:
        return None
    by_case = rates.group(found, lambda value: value.cell.case).values()
    own = max(by_case, key=lambda own: (len(own) > 1, float(own[0].cell.facts["operations"])))
    best = max(own, key=lambda value: value.number)
    others = {value.cell.contender: [value] for value in own if value is not best}
    over = f"a warm call {options.get('what', 'computing')}"
    return Finding(best.cell.contender, SPENDS, [best], over, others=others, judged=_pairs(found))


def in_products(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of its time the ``algorithm`` spends in products, and which stored parts do not hold."""
    found = [(c, part) for c in rates.timed(cells) if (part := shares.share(c)) is not None]
    values = [Value(exact(100 * part), (cell,)) for cell, part in found]
    note = shares.left_out(cells, options)
    return Finding(options["algorithm"], SPENDS, values, "its time in products", note=note) if values else None


FINDINGS: dict[str, Callable[[list[Cell], Json], Finding | None]] = {
    "of_peak": of_peak,
    "ladder": ladder,
    "of_read": of_read,
    "stages": stages,
    "in_products": in_products,
}
