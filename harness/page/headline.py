"""The number of a card: a value with its interval, and what it is, for those findings that have one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from harness.analysis import answers, peaks, ragged_sizes, rates, rivals
from harness.experiment import Figure, Json
from harness.report.tables import number
from harness.stats import statistics
from harness.stats.statistics import Interval
from harness.store.store import Cell


class Number(NamedTuple):
    """A number that a finding rests on."""

    value: Interval
    meaning: str
    where: str


Numbers = Callable[[Sequence[Cell], Json], Iterator[Number]]
Measure = Callable[[Cell, Sequence[Cell]], Interval | None]


def headline(figure: Figure, shown: answers.Shown) -> tuple[str, str]:
    """Return the number of a finding with its interval, and what it is: of several the middle one. Else empty texts."""
    find = NUMBERS.get(str(figure.options.get("finding")))
    found = list(find([*shown.cells, *shown.peaks], figure.options)) if find else []
    if not found:
        return "", ""
    middle = sorted(found, key=lambda entry: entry.value.estimate)[(len(found) - 1) // 2]
    among = f"the middle one of {len(found)}: " if len(found) > 1 else ""
    return number(middle.value), f"{middle.meaning} ({among}{middle.where})"


def _each(measure: Measure, meaning: str) -> Numbers:
    """Return the function that measures each cell of the subject, or every cell where there is none."""

    def numbers(cells: Sequence[Cell], options: Json) -> Iterator[Number]:
        subject, timed = options.get("subject"), _timed(cells)
        named = [cell for cell in timed if cell.contender == subject]
        for cell in named or [cell for cell in timed if subject in (None, rates.axis(cell, "backend"))]:
            value = measure(cell, cells)
            if value is not None:
                yield Number(value, meaning.format(own=cell.contender, reference=cell.reference), _where(cell))

    return numbers


def _best(cells: Sequence[Cell], options: Json) -> Iterator[Number]:
    """Yield for each panel the speed of the best choice over the worst."""
    panels = rates.group(_timed(cells), lambda cell: rates.words(cell, options.get("panels", "problem")))
    for own in panels.values():
        best, worst = max(own, key=lambda cell: cell.rate), min(own, key=lambda cell: cell.rate)
        if best is not worst and rates.in_turns(best, worst):
            meaning = f"times the speed of {worst.contender}: {best.contender}"
            yield Number(rates.speed_up(best, worst), meaning, _where(best))


def _fastest(cells: Sequence[Cell], options: Json) -> Iterator[Number]:
    """Yield the speed over the next, for each case in which the one that is fastest most often is the fastest."""
    cases = rates.group(_timed(cells), lambda cell: (cell.run, cell.case)).values()
    orders = [sorted(own, key=lambda cell: cell.median_ns) for own in cases if len(own) > 1]
    by_winner = rates.group(orders, lambda own: own[0].contender)
    for first, second, *_ in max(by_winner.values(), key=len, default=[]):
        meaning = f"times the speed of {second.contender}, the next: {first.contender}"
        yield Number(rates.speed_up(first, second), meaning, _where(first))


def _losses(cells: Sequence[Cell], options: Json) -> Iterator[Number]:
    """Yield the median loss of the subject over its ragged sizes."""
    for (contender, row), points in ragged_sizes.losses(cells, options).items():
        if contender == options["subject"]:
            lost = statistics.median_interval([loss for _, loss in points])
            where = ", ".join(filter(None, [contender, row, rates.plural(len(points), "size")]))
            yield Number(lost, "% of the rate lost at sizes that fit no tile", where)


def _threads(cells: Sequence[Cell], options: Json) -> Iterator[Number]:
    """Yield for each method the speed of the most threads over one."""
    for method, points in rates.scaling(rates.contenders(cells)).items():
        threads, value = points[-1]
        if threads > 1:
            yield Number(value, "times the speed of one thread", f"{method}, {threads} threads")


def _over_reference(cell: Cell, cells: Sequence[Cell]) -> Interval | None:
    reference = rates.reference_of(cell, cells)
    return rates.speed_up(cell, reference) if reference is not None and reference is not cell else None


def _cost(cell: Cell, cells: Sequence[Cell]) -> Interval | None:
    reference = rates.reference_of(cell, cells)
    return rates.time_ratio(cell, reference) if reference is not None and reference is not cell else None


def _timed(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in rates.contenders(cells) if cell.is_ok]


def _where(cell: Cell) -> str:
    return ", ".join(filter(None, [rates.describe([cell]), rates.runs_on([cell])]))


# By the name of the finding. Those without an entry say all in their sentence.
NUMBERS: dict[str, Numbers] = {
    "over_fastest": _each(rivals.over_fastest, "times the speed of the fastest library"),
    "over_other": _each(rivals.over_other, "times the speed of the fastest other kernel"),
    "of_peak": _each(peaks.interval_of_peak, "% of the measured peak"),
    "ladder": _each(peaks.interval_of_peak, "% of the measured peak"),
    "cost": _each(_cost, "times the time of {reference}: {own}"),
    "best": _best,
    "fastest": _fastest,
    "losses": _losses,
    "threads": _threads,
    **dict.fromkeys(
        ("subject_over_reference", "over_reference", "speeds"),
        _each(_over_reference, "times the speed of {reference}: {own}"),
    ),
}
