"""A closure by products of any backend, step by step, for backends that do not close matrices by themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from harness.api import argk, gemm
from harness.api.arrays import Arrays
from harness.api.paths import predecessors
from harness.elimination import Step, find_cycle, find_nan, put_one, steps_of
from harness.interface import Findings, TreeSteps
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
    trees : TreeSteps, optional
        As `Backend.tree_steps` returns them.
    """

    def __init__(
        self,
        arrays: Arrays,
        problem: Problem,
        block: int,
        backend: str,
        threads: int | None,
        trees: TreeSteps | None = None,
    ) -> None:
        self._trees = trees
        self._module, self._add, self._block = arrays.module, problem.semiring.add.ufunc, block
        self._semiring, self._dtype = problem.semiring, problem.dtype
        self._arrays, self._n = arrays, problem.n
        options: dict[str, Any] = {"semiring": problem.semiring, "backend": backend, "threads": threads}
        self._gemm: Callable[..., Any] = functools.partial(gemm.gemm, **options)
        self._gemm_argk: Callable[..., tuple[Any, Any]] = functools.partial(argk.gemm_argk, **options)

    def __call__(self, best: Any, before: Any) -> Findings:
        """Close the matrices of `best`, and make `before`, if it is there, their predecessors."""
        n, zero, one = self._n, self._semiring.zero(self._dtype), self._semiring.one(self._dtype)
        matrices = best.reshape(-1, n, n)
        trees = [None] * len(matrices) if before is None else before.reshape(-1, n, n)
        nan = find_nan(matrices)
        put_one(matrices, self._semiring)
        if before is not None:
            for matrix, tree in zip(matrices, trees, strict=True):
                tree[...] = predecessors.of_edges(self._arrays, matrix, zero)
        betters = before is not None and bool((self._add(best, one) != one).any())
        for matrix, tree in zip(matrices, trees, strict=True):
            self._close(matrix, tree)
        return Findings(nan, betters, find_cycle(matrices, self._semiring))

    def _close(self, best: Any, before: Any) -> None:
        if self._block == 0:
            self._square(Step(slice(0, self._n), slice(0, self._n)), best, before)
            return
        for step in steps_of(self._n, self._block, self._n):
            if step.closes and before is not None and self._trees is not None:
                self._trees.close_rows(best, before, step.pivots)
            elif step.closes:
                self._square(step, best, before)
            elif before is None:
                self._improve_in_place(step, best)
            elif step.rows != step.pivots and self._trees is not None:
                terms, which = self._gemm_argk(best[step.rows, step.pivots], best[step.pivots])
                self._trees.take(best, before, step.rows, step.pivots, terms, which)
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
