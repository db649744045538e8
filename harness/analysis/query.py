"""Which of the recorded cells are meant: by machine, preset, experiment, run, contender, status and axes. Streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.analysis import rates
from harness.errors import StoreError
from harness.store import store
from harness.store.store import Cell, Store


@dataclass(frozen=True)
class Selection:
    """What is asked for; an empty collection asks for all.

    Parameters
    ----------
    machines, presets, experiments : collection of str
        Names of folders and files.
    runs, statuses : collection of str
    contenders : collection of str
        Labels or backends.
    where : mapping of str to collection of str
        Values by axis, as text: ``{"n": ["512", "1024"]}``.
    is_current : bool
        Only cells that nothing recorded later has superseded.
    """

    machines: Collection[str] = ()
    presets: Collection[str] = ()
    experiments: Collection[str] = ()
    runs: Collection[str] = ()
    statuses: Collection[str] = ()
    contenders: Collection[str] = ()
    where: Mapping[str, Collection[str]] = field(default_factory=dict)
    is_current: bool = False

    def cells(self, results: Path, notify: Callable[[str], object] | None = None) -> Iterator[tuple[str, Cell]]:
        """Yield the slug of a machine and one of its cells, of the results below `results`, for each that is meant.

        `notify` is told what reading had to leave out.

        Raises
        ------
        StoreError
            If there are no results, or none of a machine or experiment that is asked for.
        """
        found = [
            (slug, Store(results / slug / preset))
            for slug in store.machines(results)
            for preset in store.presets(results, slug)
            if slug in (self.machines or [slug]) and preset in (self.presets or [preset])
        ]
        _require(self.machines, store.machines(results), f"{results}: no such machine")
        _require(self.experiments, {name for _, own in found for name in own.experiments()}, f"{results}: not recorded")
        if not found:
            raise StoreError(f"{results}: no results", fix="make experiments, or --results FOLDER")
        for slug, own in found:
            for name in own.experiments():
                if name in (self.experiments or [name]):
                    yield from ((slug, cell) for cell in own.every_cell(name) if self.accepts(cell))
            for notice in own.notices:
                if notify:
                    notify(notice)

    def accepts(self, cell: Cell) -> bool:
        """Whether `cell` is meant, wherever it was recorded."""
        names = {cell.contender, cell.arguments.get("backend")}
        return (
            (cell.is_current or not self.is_current)
            and cell.run in (self.runs or [cell.run])
            and cell.status in (self.statuses or [cell.status])
            and not (self.contenders and names.isdisjoint(self.contenders))
            and all(str(rates.axis(cell, axis)) in values for axis, values in self.where.items())
        )


def _require(names: Collection[str], known: Collection[str], what: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise StoreError(what, expected=", ".join(sorted(known)), got=", ".join(unknown))
