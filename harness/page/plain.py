"""The tables that need no script: what every contender of every case reached, an experiment of a machine each. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from harness.analysis import rates
from harness.page.recorded import ShownRow
from harness.report.tables import number
from harness.stats.statistics import Interval

# Contenders stand in columns where these are few, and where this part of the fields is filled: half the size of rows.
MOST_COLUMNS, LEAST_FILLED = 16, 0.6
SEPARATOR = ", "  # of the words of a case


class Table(NamedTuple):
    """A table as texts."""

    machine: str
    experiment: str
    cells: int
    heads: list[str]
    lines: list[list[str]]


def plain(rows: Sequence[ShownRow], *, has_intervals: bool) -> list[Table]:
    """Return the tables of `rows`, by machine and experiment."""
    groups = rates.group(rows, lambda row: (row.machine, row.experiment))
    return [
        Table(machine, experiment, len(own), *_table(own, number if has_intervals else estimate))
        for (machine, experiment), own in groups.items()
    ]


def estimate(value: Interval | None) -> str:
    """Return a value without its interval: that is in the data of the page."""
    return "" if value is None else number(Interval(*[value.estimate] * 3))


def _table(rows: Sequence[ShownRow], text: Callable[[Interval | None], str]) -> tuple[list[str], list[list[str]]]:
    """Return heads and lines: contenders in columns if those are few, else in lines.

    What all cases share stands in the head of their column, and the unit once a case.
    """
    on = dict.fromkeys(row.on for row in rows)
    cases = rates.group(rows, lambda row: (row.case, row.on if len(on) > 1 else ""))
    units = [_common_unit(own) for own in cases.values()]
    shared, places = _places(
        [[*case.split(SEPARATOR), on, unit] for (case, on), unit in zip(cases, units, strict=True)]
    )
    columns = list(dict.fromkeys(row.contender for row in rows))
    is_clear = all(len({row.contender for row in own}) == len(own) for own in cases.values())
    each, reference = list(zip(places, units, cases.values(), strict=True)), rows[0].reference
    if is_clear and len(columns) <= MOST_COLUMNS and len(rows) >= LEAST_FILLED * len(columns) * len(cases):
        by_name = [(place, unit, {row.contender: row for row in own}) for place, unit, own in each]
        lines = [
            [place, *(_with_ratio(own[name], unit, text) if name in own else "" for name in columns)]
            for place, unit, own in by_name
        ]
        return [f"{shared} (over {reference})", *columns], lines
    lines = [
        [
            place if not index else "",
            row.contender,
            _reached(row, unit, text),
            estimate(row.ratio) if row.contender != row.reference else "",
        ]
        for place, unit, own in each
        for index, row in enumerate(own)
    ]
    return [shared, "contender", "rate or time", f"over {reference}"], lines


def _places(cases: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """Return the words that all cases share, as the head of their column, and those that tell each apart.

    A name that all cases have at one place, as "rows" of "rows 10" and "rows 100", is shared too.
    """
    common = [word for word in cases[0] if all(word in other for other in cases)] if len(cases) > 1 else []
    left = [[word for word in own if word and word not in common] for own in cases]
    if len(cases) > 1 and len({len(own) for own in left}) == 1:
        named = [_shared_name(words) for words in zip(*left, strict=True)]
        left = [[word[len(name) :] for word, name in zip(own, named, strict=True)] for own in left]
        common += [name.rstrip("= ") + " …" for name in named if name]
    return SEPARATOR.join(filter(None, ["case", *common])), [SEPARATOR.join(own) for own in left]


def _shared_name(words: Sequence[str]) -> str:
    """Return the name before the value that all of `words` begin with: "rows ", "n="; empty if they have none."""
    name = re.match(r"[A-Za-z]+[ =]", words[0])
    return name[0] if name and all(word.startswith(name[0]) for word in words) else ""


def _unit(row: ShownRow) -> str:
    return row.unit if row.rate is not None else "ms" if row.time is not None else ""


def _common_unit(rows: Sequence[ShownRow]) -> str:
    """Return the unit of all values of a case; nothing if they differ."""
    units = {unit for row in rows if (unit := _unit(row))}
    return units.pop() if len(units) == 1 else ""


def _with_ratio(row: ShownRow, unit: str, text: Callable[[Interval | None], str]) -> str:
    is_compared = row.ratio is not None and row.contender != row.reference
    return _reached(row, unit, text) + (f" ({estimate(row.ratio)})" if is_compared else "")


def _reached(row: ShownRow, unit: str, text: Callable[[Interval | None], str]) -> str:
    """Return what a cell reached: its rate or its time, with the unit if that of its case is another, or its status."""
    reached = row.rate if row.rate is not None else row.time
    return row.status if reached is None else text(reached) + ("" if unit else f" {_unit(row)}")
