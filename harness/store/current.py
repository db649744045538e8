"""Select current cells: the most recent batch for each point of an experiment. Pure.

A *batch* is what one run measured of one case, interleaved, on one machine, with one state of the code. Samples are
comparable within a batch only. Cells of two batches are never shown as one case, even if the run that wrote them was
interrupted. Nothing here depends on the order of the lines: files of several machines can be joined in any order, with
duplicates.

A run replaces nothing that it did not measure. At a point that it measured, its batch is current, and other points keep
theirs. A batch of some contenders of a case, of ``run --only``, is *partial*: it cannot stand for the case, and is
current only where no whole batch is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from harness.experiment import content_hash
from harness.store.schema import Record


class IndexEntry(NamedTuple):
    """One recorded cell, without its samples. Times are text, and sort by time."""

    run: str  # when the run began
    appended: str  # when its batch was appended
    time: str  # when the cell was recorded
    point: str  # content hash of where the case stands on the axes
    batch: tuple[str, str, str]  # machine, case and digest of the source: with `run`, what belongs together
    contender: str
    is_of_part: bool  # the batch is partial: the run left out other contenders of the case
    position: int  # among the cells that were appended together
    offset: int  # of the record in its file [bytes]

    @classmethod
    def of(cls, record: Record, offset: int) -> IndexEntry:
        """Return the entry of the cell `record`, which begins at `offset`."""
        return cls(
            run=record["run"],
            appended=record["appended"],
            time=record["time"],
            point=content_hash(record["axes"]),
            batch=(record["machine"], record["case"], str(record.get("source", ""))),
            contender=record["contender"],
            is_of_part=bool(record["left_out"]),
            position=record["position"],
            offset=offset,
        )


def of_each_run(entries: Iterable[IndexEntry]) -> list[IndexEntry]:
    """Return each cell once for each run: for each point the last batch of the run, a whole one if there is any."""
    return _last_batches(entries, lambda entry: (entry.run, entry.point))


def current(entries: Iterable[IndexEntry], completed: str) -> list[IndexEntry]:
    """Return the last batch of each point: the last whole one, where there is any.

    Parameters
    ----------
    entries : iterable of IndexEntry
        Of one experiment.
    completed : str
        The last run that recorded all cases of the experiment, or empty. Older cells are superseded, also at points
        that this run no longer has. So are cells that it measured with other code, before it was interrupted and
        resumed.
    """
    entries = [entry for entry in entries if entry.run >= completed]
    finished = max((entry for entry in entries if entry.run == completed), key=_age, default=None)
    return _last_batches(
        (entry for entry in entries if finished is None or entry.run > completed or _code(entry) == _code(finished)),
        lambda entry: entry.point,
    )


def _last_batches(entries: Iterable[IndexEntry], scope: Callable[[IndexEntry], Hashable]) -> list[IndexEntry]:
    """Return the cells of the last batch of each scope, a whole one if there is any.

    Scopes come in the order of their first batch, cells by position.
    """
    scopes: dict[Hashable, list[IndexEntry]] = {}
    for entry in entries:
        scopes.setdefault(scope(entry), []).append(entry)
    ordered = sorted(scopes.values(), key=lambda group: min((e.run, e.appended, e.position) for e in group))
    return [entry for group in ordered for entry in _last_batch([e for e in group if not e.is_of_part] or group)]


def _last_batch(entries: list[IndexEntry]) -> list[IndexEntry]:
    """Return the cells of the last batch, each contender once.

    A contender that occurs twice was measured again, because the append of the whole case had been cut off. Then only
    the last append counts.
    """
    newest = max(entries, key=_age)
    batch = {(e.contender, e.appended, e.time): e for e in entries if (e.run, e.batch) == (newest.run, newest.batch)}
    together = sorted(batch.values(), key=lambda entry: (entry.appended, entry.position, entry.time))
    if len(together) > len({entry.contender for entry in together}):
        together = [entry for entry in together if entry.appended == newest.appended]
    return list({entry.contender: entry for entry in together}.values())


def _age(entry: IndexEntry) -> tuple[object, ...]:
    return entry.run, entry.appended, entry.time, entry.batch


def _code(entry: IndexEntry) -> str:
    return entry.batch[2]
