"""A closure by products of any backend, step by step, for backends that do not close matrices by themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from harness.api import argk, gemm, predecessors
from harness.api.arrays import Arrays
from harness.elimination import Step, steps_of
from harness.interface import Findings
from harness.problem import Problem


class ByProducts:
    """Close matrices by `gemm`, or with predecessors by `gemm_argk`.

    Parameters
    ----------
    arrays : Arrays
    problem : Problem
        The product of one matrix by itself.
    block : int
        Most vertices that are closed at once. 0: all are one block, ``D := D (x) D`` until nothing changes.
    backend, threads
        As in `harness.gemm`.
    close_block : callable or None
        As `Backend.close_block` returns it.
    """

    def __init__(
        self,
        arrays: Arrays,
        problem: Problem,
        block: int,
        backend: str,
        threads: int | None,
        close_block: Callable[[Any], None] | None,
    ) -> None:
        self._close_block = close_block
        self._module, self._add, self._block = arrays.module, problem.semiring.add.ufunc, block
        self._zero, self._one = problem.semiring.zero(problem.dtype), problem.semiring.one(problem.dtype)
        self._arrays, self._n = arrays, problem.n
        options: dict[str, Any] = {"semiring": problem.semiring, "backend": backend, "threads": threads}
        self._gemm: Callable[..., Any] = functools.partial(gemm.gemm, **options)
        self._gemm_argk: Callable[..., tuple[Any, Any]] = functools.partial(argk.gemm_argk, **options)

    def __call__(self, best: Any, before: Any) -> Findings:
        """Close the matrices of `best`, and make `before`, if it is there, their predecessors."""
        n, module = self._n, self._module
        nan = module.flatnonzero(best != best)  # noqa: PLR0124
        for i, matrix in enumerate(best.reshape(-1, n, n)):
            diagonal = matrix.reshape(-1)[:: n + 1]  # a view
            self._add(diagonal, self._one, out=diagonal)
            if before is not None:
                before.reshape(-1, n, n)[i][...] = predecessors.of_edges(self._arrays, matrix, self._zero)
        betters = before is not None and bool((self._add(best, self._one) != self._one).any())
        for i, matrix in enumerate(best.reshape(-1, n, n)):
            self._close(matrix, None if before is None else before.reshape(-1, n, n)[i])
        rows = module.flatnonzero(best.reshape(-1, n, n).diagonal(axis1=1, axis2=2) != self._one)
        return Findings(int(nan[0]) if nan.size else -1, betters, int(rows[0]) if rows.size else -1)

    def _close(self, best: Any, before: Any) -> None:
        if self._block == 0:
            self._square(Step(slice(0, self._n), slice(0, self._n)), best, before)
            return
        for step in steps_of(self._n, self._block, self._n):
            if step.closes and before is None and self._close_block is not None:
                block = best[step.rows, step.pivots].copy()
                self._close_block(block)
                best[step.rows, step.pivots] = block
            elif step.closes:
                self._square(step, best, before)
            elif before is None:
                self._improve_in_place(step, best)
            elif step.rows != step.pivots:
                self._improve(step, slice(None), best, before)

    def _square(self, step: Step, best: Any, before: Any) -> None:
        """Follow paths of up to twice as many edges inside the pivots, until nothing changes.

        Paths have up to b - 1 edges. Up to b are followed, so that a cycle through all vertices shows on the diagonal.
        With predecessors whole rows are improved: else a vertex of the block would hang on one of another, whose own
        path is not yet as good, and trees of ties might close to a circle.
        """
        columns = step.pivots if before is None else slice(None)
        for _ in range((step.rows.stop - step.rows.start - 1).bit_length()):
            if not self._improve(step, columns, best, before):
                break

    def _improve_in_place(self, step: Step, best: Any) -> None:
        """Improve the rows by a product that is written over them; only what it would overwrite is copied before."""
        target, a, b = best[step.rows], best[step.rows, step.pivots].copy(), best[step.pivots]
        self._gemm(a, b.copy() if step.rows == step.pivots else b, target, out=target)

    def _improve(self, step: Step, columns: slice, best: Any, before: Any) -> bool:
        """Improve those columns of the rows, and return whether anything changed."""
        target, a, b = best[step.rows, columns], best[step.rows, step.pivots], best[step.pivots, columns]
        if before is None:
            improved = self._gemm(a, b, target)
            has_changed = not self._module.array_equal(improved, target)
        else:
            terms, which = self._gemm_argk(a, b)
            improved = self._add(target, terms)
            better = improved != target
            predecessors.follow(before[:, columns], step.rows, step.pivots, better, which)
            has_changed = bool(better.any())
        target[...] = improved
        return has_changed
