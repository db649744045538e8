"""The tables that need no script: what every contender of every case reached, an experiment of a machine each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.analysis import rates
from harness.page.recorded import Shown
from harness.report.tables import number
from harness.stats.statistics import Interval

# Contenders stand in columns where these are few, and where this part of the fields is filled: half the size of rows.
MOST_COLUMNS, LEAST_FILLED = 16, 0.6


class Table(NamedTuple):
    """A table as texts."""

    machine: str
    experiment: str
    cells: int
    heads: list[str]
    lines: list[list[str]]


def plain(rows: Sequence[Shown], *, has_intervals: bool) -> list[Table]:
    """Return the tables of `rows`, by machine and experiment."""
    groups = rates.group(rows, lambda row: (row.machine, row.experiment))
    return [
        Table(machine, experiment, len(own), *_table(own, number if has_intervals else estimate))
        for (machine, experiment), own in groups.items()
    ]


def estimate(value: Interval | None) -> str:
    """Return a value without its interval: that is in the data of the page."""
    return "" if value is None else number(Interval(*[value.estimate] * 3))


def _table(rows: Sequence[Shown], text: Callable[[Interval | None], str]) -> tuple[list[str], list[list[str]]]:
    """Return heads and lines: contenders in columns if those are few, else in lines."""
    units = dict.fromkeys(row.unit for row in rows if row.rate)
    unit = next(iter(units)) if len(units) == 1 else ""
    places = {row.on for row in rows}
    cases = rates.group(rows, lambda row: (row.case, row.on if len(places) > 1 else ""))
    columns = list(dict.fromkeys(row.contender for row in rows))
    is_clear = all(len({row.contender for row in own}) == len(own) for own in cases.values())
    if is_clear and len(columns) <= MOST_COLUMNS and len(rows) >= LEAST_FILLED * len(columns) * len(cases):
        heads = [f"case; {unit or 'rate or time'} (over {rows[0].reference})", *columns]
        by_name = [{row.contender: row for row in own} for own in cases.values()]
        wide = [[_with_ratio(own.get(name), unit, text) for name in columns] for own in by_name]
        return heads, [[", ".join(filter(None, place)), *line] for place, line in zip(cases, wide, strict=True)]
    heads = ["case", "contender", unit or "rate or time", f"over {rows[0].reference}"]
    lines = [
        [
            ", ".join(filter(None, place)) if not index else "",
            row.contender,
            _reached(row, unit, text),
            estimate(row.ratio) if row.contender != row.reference else "",
        ]
        for place, own in cases.items()
        for index, row in enumerate(own)
    ]
    return heads, lines


def _with_ratio(row: Shown | None, unit: str, text: Callable[[Interval | None], str]) -> str:
    if row is None:
        return ""
    is_compared = row.ratio is not None and row.contender != row.reference
    return _reached(row, unit, text) + (f" ({estimate(row.ratio)})" if is_compared else "")


def _reached(row: Shown, unit: str, text: Callable[[Interval | None], str]) -> str:
    """Return what a cell reached: its rate, without the unit where a head has it, its time, or its status."""
    if row.rate is not None:
        return text(row.rate) + ("" if unit else f" {row.unit}")
    return f"{text(row.time)} ms" if row.time is not None else row.status
