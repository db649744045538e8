"""Rows on a GPU that are closed, and improved by products that are added to them in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.api import choice, gemm, limits
from harness.api.arrays import Arrays, kind_of
from harness.api.remembered.repeats import layout
from harness.interface import Repeat, make_plan, prepare
from harness.operands import Operands
from harness.problem import Problem
from harness.semiring import Semiring


class Rows:
    """What is done with rows on the current GPU, all of it in the current stream.

    Parameters
    ----------
    columns : C-ordered array of one dimension
        Room for the columns of pivots, which a product reads while it writes to their rows.
    semiring : Semiring
    close : callable
        Closes a square in place.
    backend, threads
        As in `harness.gemm`.
    """

    def __init__(
        self, columns: Any, semiring: Semiring, close: Callable[[Any], Any], backend: str, threads: int | None
    ) -> None:
        self._columns, self._semiring, self._close = columns, semiring, close
        self._arrays: Arrays = kind_of("closure", {"matrix": columns})
        self._backend, self._threads = backend, threads
        self._repeats: dict[Any, Repeat | None] = {}

    def close(self, x: Any, pivots: slice, out: Any) -> None:
        """Let paths from the rows `x`, which are those of the pivots, pass through all of them: into `out`."""
        square = self._copied(x[:, pivots])
        self._close(square)
        self._multiply(square, x, x, out)

    def improve(self, x: Any, pivots: slice, panel: Any) -> None:
        """Let paths from the rows `x` pass through pivots, whose rows are `panel`."""
        if len(x) and len(panel):
            self._multiply(self._copied(x[:, pivots]), panel, x, x)

    def _copied(self, columns: Any) -> Any:
        """Return a copy without gaps, until the next one."""
        copy = self._columns[: columns.size].reshape(columns.shape)
        copy[...] = columns
        return copy

    def _multiply(self, a: Any, b: Any, c: Any, out: Any) -> None:
        """Compute ``out := c (+) a (x) b``; `out` may be `c`."""
        key = (c is out, *map(layout, (a, b, c, out)))
        if key not in self._repeats:
            self._repeats[key] = self._first(a, b, c, out)
            return
        repeat = self._repeats[key]
        if repeat is None:
            gemm.gemm(a, b, c, out=out, semiring=self._semiring, backend=self._backend, threads=self._threads)
        else:
            repeat(a, b, c, out)

    def _first(self, a: Any, b: Any, c: Any, out: Any) -> Repeat | None:
        """Compute the same, and return what repeats it for other arrays of these layouts; None: `gemm`."""
        problem = Problem(len(a), b.shape[1], len(b), self._semiring, c.dtype, accumulate=True)
        backend = choice.choose(problem, self._backend, self._arrays, count=self._threads)
        if not backend.accumulates_in_place:
            gemm.gemm(a, b, c, out=out, semiring=self._semiring, backend=self._backend, threads=self._threads)
            return None
        plan = make_plan(backend, problem, limits.machine_of(self._threads))
        prepared = prepare(backend, plan, Operands(a, b, c, out))
        prepared.run_once()
        return prepared.repeat()
