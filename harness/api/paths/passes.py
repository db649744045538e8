"""A graph of the host that is closed on a GPU: all at once where it fits, else in passes of rows.

    for each panel of pivots K, some ranges of rows or all of them
        for each range R of K        X := D[R, :] on the GPU
                                     X := X (+) X[:, K'] (x) P           of K' the ranges of K before R, which are in P
                                     close(X[:, R])
                                     P[R] := X (+) X[:, R] (x) X
                                     P := P (+) P[:, R] (x) P[R]
        D[K, :] := P
        for each other range R       X := D[R, :] on the GPU
                                     X := X (+) X[:, K] (x) P            D[R, :] := X

The GPU holds P, and ranges: one is computed while the next one arrives and the last one leaves. For each panel of w
pivots the whole matrix passes, n^2 values each way, beside w n^2 pairs. So panels are as large as the cap on memory
allows. The host waits for rows that arrive, and for squares that are closed.

Source: Sao, Kannan, Gera and Vuduc, "A supernodal all-pairs shortest path algorithm" (2020), section 5, of panels.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from harness.api.paths.checks import check_found
from harness.api.paths.in_place import Rows
from harness.api.paths.large import LAST, SLOTS, Panels
from harness.api.paths.transfers import Transfer, Transfers
from harness.dtypes import is_bool
from harness.elimination import find_cycle, find_nan
from harness.interface import Findings
from harness.semiring import Semiring


def to_gpu(module: Any, matrices: np.ndarray, transfers: Transfers) -> Any:
    """Return a C-ordered copy on the current GPU, which what is enqueued in the current stream sees."""
    there, stream = module.empty(matrices.shape, matrices.dtype), module.cuda.get_current_stream()
    n = matrices.shape[-1]
    rows = (math.prod(matrices.shape[:-1]), n)
    transfers.up(there.reshape(rows), matrices.reshape(rows), event=stream.record()).before(stream)
    make_bools(module, there)
    return there


def to_host(module: Any, pairs: Iterable[tuple[np.ndarray, Any]], transfers: Transfers) -> None:
    """Copy arrays of the current GPU, as the current stream leaves them, to C-ordered ones of the host."""
    whole = [(x, module.ascontiguousarray(there)) for x, there in pairs]
    event, under_way = module.cuda.get_current_stream().record(), []
    for x, there in whole:
        rows = math.prod(x.shape[:-1]), x.shape[-1]
        under_way.append(transfers.down(x.reshape(rows), there.reshape(rows), event=event))
    for transfer in under_way:
        transfer.wait()


def make_bools(module: Any, x: Any) -> None:
    """Make the bytes of bools on the GPU 0 or 1: any but 0 is true."""
    if is_bool(x.dtype):
        module.not_equal(x.view(np.uint8), 0, out=x)


def begin(module: Any, x: Any, first: int, semiring: Semiring) -> list[Any]:
    """Add empty paths to edges, rows `x` of a matrix from `first` on; of floats return the least one, NaN if one is."""
    make_bools(module, x)
    least = [x.min()] if x.dtype.kind == "f" else []
    diagonal = x.reshape(-1)[first :: x.shape[1] + 1][: len(x)]
    semiring.add.ufunc(diagonal, semiring.one(x.dtype), out=diagonal)
    return least


def is_nan(least: list[Any]) -> bool:
    """Return whether one of some elements on the GPU is NaN; the host waits for them once."""
    if not least:
        return False
    of_all = functools.reduce(np.minimum, least)
    return bool(of_all != of_all)  # noqa: PLR0124


def close_by_panels(
    module: Any,
    matrix: np.ndarray,
    panels: Panels,
    semiring: Semiring,
    rows_of: Callable[[Any], Rows],
    transfers: Transfers,
) -> np.ndarray:
    """Return the closure of a matrix of the host, computed on the current GPU in the current stream.

    Parameters
    ----------
    module : module
        CuPy.
    matrix : (n, n) array
    panels : Panels
    semiring : Semiring
    rows_of : callable
        Returns what is done with rows, by room for columns.
    transfers : Transfers

    Raises
    ------
    ProblemError
        If an edge is NaN, or a cycle betters the empty path.
    """
    passes = _Passes(module, matrix, panels, semiring, rows_of, transfers)
    best = passes.run()
    if passes.has_nan():
        check_found(matrix, semiring, Findings(find_nan(matrix), False, -1))
    check_found(best, semiring, Findings(-1, False, find_cycle(best[None], semiring)))
    return best


class _Load(NamedTuple):
    """A range on its way to the GPU, in a slot."""

    rows: slice
    slot: int
    transfer: Transfer


class _Free(NamedTuple):
    """A slot that may be written to after an event, and after the rows in it have left."""

    slot: int
    event: Any
    after: list[Transfer]


class _Passes:
    """All passes of a matrix: what is on the GPU, and what is on its way."""

    def __init__(
        self,
        module: Any,
        matrix: np.ndarray,
        panels: Panels,
        semiring: Semiring,
        rows_of: Callable[[Any], Rows],
        transfers: Transfers,
    ) -> None:
        n, dtype, (rows, pivots) = len(matrix), matrix.dtype, panels
        self._module, self._semiring, self._transfers = module, semiring, transfers
        self._matrix, self._best = matrix, np.empty((n, n), dtype)
        ranges = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
        count = pivots // rows
        self._pivots = [ranges[first : first + count] for first in range(0, len(ranges), count)]
        # The ranges behind the pivots come first: they are the next pivots.
        self._others = [ranges[first + count :] + ranges[:first] for first in range(0, len(ranges), count)]
        self._loads = deque(
            (number, x) for number, each in enumerate(self._pivots) for x in each + self._others[number]
        )
        self._stream = module.cuda.get_current_stream()
        memory = module.empty((pivots + SLOTS * rows, n), dtype)
        self._panel, self._slots = memory[:pivots], [memory[pivots + i * rows :][:rows] for i in range(SLOTS)]
        self._rows = rows_of(module.empty((pivots * rows,), dtype))
        event = self._stream.record()
        self._free = deque(_Free(slot, event, []) for slot in range(SLOTS))
        self._coming: deque[_Load] = deque()
        self._stored: dict[tuple[int, int], Transfer] = {}  # by pass and first row
        self._least: list[Any] = []  # NaN, if an edge is

    def run(self) -> np.ndarray:
        """Return the closure, when it has arrived."""
        self._load()
        # In the first of several passes the copies clear pages, while products run.
        touched = self._transfers.touch(self._best) if len(self._pivots) == 1 else Transfer([])
        for number, (pivots, others) in enumerate(zip(self._pivots, self._others, strict=True)):
            whole = slice(pivots[0].start, pivots[-1].stop)
            # The rows before are improved by the last pivots at the end, and leave while the next ones are improved.
            last = slice(whole.stop if others else pivots[max(len(pivots) - LAST, 0)].start, whole.stop)
            for place, rows in enumerate(pivots):
                if number:  # the last panel has left this place
                    self._stored[number - 1, self._pivots[number - 1][place].start].wait()
                self._close_range(number, rows, whole.start, last.start)
            # One of the pivots after one of the others, since the slots of others are waited for.
            touched.wait()
            leaving = sorted(pivots, key=lambda rows: rows.start < last.start)
            for rows, pivot in itertools.zip_longest(others, leaving):
                if rows is not None:
                    slot, x = self._arrived(number, rows)
                    self._rows.improve(x, whole, self._part(whole, whole))
                    event = self._stream.record()
                    self._free.append(_Free(slot, event, [self._store(number, rows, x, event)]))
                if pivot is not None:
                    x = self._part(whole, pivot)
                    if pivot.start < last.start:
                        self._rows.improve(x, last, self._part(whole, last))
                    self._store(number, pivot, x, self._stream.record())
                self._load()
        for transfer in self._stored.values():
            transfer.wait()
        return self._best

    def has_nan(self) -> bool:
        """Return whether an edge is NaN."""
        return is_nan(self._least)

    def _close_range(self, number: int, rows: slice, first: int, last: int) -> None:
        """Let paths from `rows` pass through the pivots from `first` to there, and paths from pivots through `rows`.

        The pivots before `last` do without those behind it.
        """
        slot, x = self._arrived(number, rows)
        whole = slice(first, rows.stop)
        before, behind = slice(first, min(rows.start, last)), slice(last, rows.start)
        self._rows.improve(x, before, self._part(whole, before))
        if behind.start < behind.stop:
            self._rows.improve(x, behind, self._part(whole, behind))
        closed = self._part(whole, rows)
        self._rows.close(x, rows, closed)
        self._free.append(_Free(slot, self._stream.record(), []))
        self._load()
        improved = behind if rows.start >= last else before
        self._rows.improve(self._part(whole, improved), rows, closed)

    def _part(self, whole: slice, pivots: slice) -> Any:
        """Return rows of the panel of the pivots `whole`."""
        return self._panel[pivots.start - whole.start : pivots.stop - whole.start]

    def _load(self) -> None:
        """Begin to load ranges, as far as there are slots."""
        while self._free and self._loads:
            number, rows = self._loads[0]
            last = self._stored.get((number - 1, rows.start))
            if number and last is None:
                break
            self._loads.popleft()
            free = self._free.popleft()
            after = free.after + ([last] if last else [])
            source = (self._best if number else self._matrix)[rows]
            target = self._slots[free.slot][: size_of(rows)]
            transfer = self._transfers.up(target, source, event=free.event, after=after)
            self._coming.append(_Load(rows, free.slot, transfer))

    def _arrived(self, number: int, rows: slice) -> tuple[int, Any]:
        """Return the slot of the next range, and its rows; in the first pass with the empty paths."""
        load = self._coming.popleft()
        assert load.rows == rows
        load.transfer.before(self._stream)
        x = self._slots[load.slot][: size_of(rows)]
        if not number:
            self._least += begin(self._module, x, rows.start, self._semiring)
        return load.slot, x

    def _store(self, number: int, rows: slice, x: Any, event: Any) -> Transfer:
        transfer = self._stored[number, rows.start] = self._transfers.down(self._best[rows], x, event=event)
        return transfer


def size_of(range_: slice) -> int:
    """Return the number of rows of a range."""
    return int(range_.stop - range_.start)
