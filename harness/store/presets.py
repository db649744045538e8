"""Choose among the presets of a machine: each point of an experiment from the largest preset that has it.

Preset smoke is no evidence, and never stands beside it. What is made of it has folders of its own, which git ignores.

Where a larger preset asks the same at other sizes, at as many or more, those of a smaller one are left out: one
question would stand there twice. Pure.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness.experiment import EVIDENCE, SMOKE, Json, content_hash
from harness.store import store
from harness.store.store import Cell, Store

# Axes that are numbers and no sizes: a point with others of them is another question.
NO_SIZES = ("threads", "ranks")
# The axis whose words are sizes, and these: the end of "syrk, 2,000 x 50".
SIZE, SIZES = "size", re.compile(r"\d[\d,]*( x \d[\d,]*)+$")


def stores_of(results_root: Path | str, slug: str, preset: str | None = None) -> list[Store]:
    """Return the stores that are shown of a machine, the smallest preset first.

    That of `preset`; without one those of all presets but smoke, or that of smoke if the machine has no others.
    """
    recorded = [preset] if preset else store.presets(results_root, slug)
    shown = [name for name in recorded if name in EVIDENCE] or recorded
    return [Store(Path(results_root) / slug / name) for name in shown]


def folder_of(root: Path, slug: str, cells: Iterable[Cell]) -> Path:
    """Return the folder below `root` of figures or pages of `cells`: the machine's; ``smoke`` in it for those of smoke.

    So what is tried out never replaces what is published.
    """
    return root / slug / (SMOKE if {cell.preset for cell in cells} == {SMOKE} else "")


def cells_of_machine(stores: Sequence[Store], experiments: Iterable[str] | None = None) -> list[Cell]:
    """Return the cells to show of a machine: each point on an experiment's axes from the largest preset that has it.

    A point whose cells have no time anywhere is taken from the largest preset too. A case of which only a part was
    measured stands where no preset has a time of the whole, and is not counted in what follows. Points of a smaller
    preset that differ from those of a larger one in sizes alone are left out, if the larger one has as many.

    Parameters
    ----------
    stores : sequence of Store
        Of one machine, the smallest preset first, as `stores_of` returns them.
    experiments : iterable of str, optional
        Of these alone, which it has recorded; by default of all that it has.
    """
    cells = []
    if experiments is None:
        experiments = (name for records in stores for name in records.experiments())
    for name in sorted({*experiments}):
        by_point: dict[str, list[Cell]] = {}
        asked: dict[str, list[tuple[int, set[str]]]] = {}  # of each preset from the largest on, by question
        for records in reversed([records for records in stores if name in records.experiments()]):
            points = dict[str, list[Cell]]()
            for cell in records.cells(name):
                points.setdefault(content_hash(cell.axes), []).append(cell)
            for point, own in points.items():
                by_point[point] = max(by_point.get(point, own), own, key=_worth)
            for question, found in _by_question(points).items():
                asked.setdefault(question, []).append(found)
        answered = {question: _of_larger_presets(found) for question, found in asked.items()}
        cells += [cell for point, own in by_point.items() for cell in own if point in answered[_question(cell.axes)]]
    return cells


class _Worth(enum.IntEnum):
    """What the cells of a point say."""

    NO_TIME, PART, WHOLE = range(3)


def _worth(own: Sequence[Cell]) -> _Worth:
    if not any(cell.is_ok for cell in own):
        return _Worth.NO_TIME
    return _Worth.PART if own[0].is_of_part else _Worth.WHOLE


def superseded(
    stores: Sequence[Store], cells: Iterable[Cell], text: bytes, accepts: Callable[[Cell], bool]
) -> list[Cell]:
    """Return cells with a time that are none of `cells`: of earlier runs, and of points that a larger preset has too.

    Parameters
    ----------
    stores : sequence of Store
        Of one machine: those of `stores_of`.
    cells : iterable of Cell
        Those to show.
    text : bytes
        What their records contain: others are not parsed.
    accepts : callable
        Says whether a cell is asked for.
    """
    shown = {(cell.run, cell.case, cell.contender) for cell in cells}
    return [
        dataclasses.replace(cell, is_current=False)
        for records in stores
        for cell in records.cells_containing(text)
        if cell.is_ok and accepts(cell) and (cell.run, cell.case, cell.contender) not in shown
    ]


def _by_question(points: Mapping[str, Sequence[Cell]]) -> dict[str, tuple[int, set[str]]]:
    """Return by what they ask, whatever the sizes, how many points have a time of a whole case, and all of them."""
    found: dict[str, tuple[int, set[str]]] = {}
    for point, own in points.items():
        question = _question(own[0].axes)
        timed, alike = found.get(question, (0, set[str]()))
        found[question] = timed + (_worth(own) == _Worth.WHOLE), alike | {point}
    return found


def _of_larger_presets(asked: Sequence[tuple[int, set[str]]]) -> set[str]:
    """Return the points to show of one question: of a smaller preset only where more have a time than of larger ones.

    `asked` are those of each preset, the largest preset first: how many have a time, and all.
    """
    most = max(range(len(asked)), key=lambda place: (asked[place][0], -place))
    return set[str]().union(*(points for _, points in asked[: most + 1]))


def _question(axes: Json) -> str:
    """Return what a point asks, whatever its sizes: its axes that are words, without a size in them."""
    words = {name: value for name, value in axes.items() if name in NO_SIZES or not _is_number(value)}
    return content_hash(
        {
            name: SIZES.sub("", value) if name == SIZE and isinstance(value, str) else value
            for name, value in words.items()
        }
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
