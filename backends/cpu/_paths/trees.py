"""Steps of a closure with predecessors that are no products: rows of pivots are closed, and better paths taken.

Source: Floyd (1962), Warshall (1962).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit
from backends.cpu._ladder.operators import operators
from backends.cpu._vector.intrinsics import as_pointer
from harness.operands import data_address
from harness.problem import Problem
from harness.semiring import Semiring
from harness.tuning.paths import PATHS_LEAF

_INT = np.dtype(np.int32)


class TreeSteps:
    """The steps, over C-ordered matrices of values and of predecessors.

    Parameters
    ----------
    problem : Problem
        Of one matrix by itself.
    """

    block = PATHS_LEAF

    def __init__(self, problem: Problem) -> None:
        self._close = build_close_rows(problem.semiring, problem.dtype)
        self._take = build_take(problem.semiring, problem.dtype)

    def close_rows(self, best: np.ndarray, before: np.ndarray, pivots: slice) -> None:
        """Let paths from the pivots to all vertices pass through all pivots."""
        n, size = best.shape[0], pivots.stop - pivots.start
        self._close(data_address(best[pivots]), data_address(before[pivots]), size, pivots.start, n)

    def take(
        self, best: np.ndarray, before: np.ndarray, rows: slice, pivots: slice, terms: np.ndarray, which: np.ndarray
    ) -> None:
        """Take what is better of `terms`, paths from `rows` through the pivots, of which `which` says the one."""
        arrays = (best[rows], before[rows], before[pivots], *map(np.ascontiguousarray, (terms, which)))
        self._take(*map(data_address, arrays), rows.stop - rows.start, best.shape[0])


@kernel_builder
def build_close_rows(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``close_rows(d, before, size, first, n)``: rows of n elements, of the pivots from `first` on."""
    add, multiply, _ = operators(semiring, dtype, reduces=False)
    itemsize = dtype.itemsize

    def close_rows(d: int, before: int, size: int, first: int, n: int) -> None:
        # loop over pivots
        for k in range(size):
            values = carray(as_pointer(d + k * n * itemsize), (n,), dtype)
            through = carray(as_pointer(before + k * n * 4), (n,), _INT)
            for i in range(size):
                if i != k:
                    row = carray(as_pointer(d + i * n * itemsize), (n,), dtype)
                    tree = carray(as_pointer(before + i * n * 4), (n,), _INT)
                    factor = row[first + k]
                    for j in range(n):
                        value = row[j]
                        better = add(value, multiply(factor, values[j]))
                        row[j] = better
                        tree[j] = through[j] if better != value else tree[j]

    return jit(semiring, *[types.intp] * 5, parallel=False)(close_rows)


@kernel_builder
def build_take(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``take(d, before, before_of_pivots, terms, which, m, n)``: rows of n elements."""
    add, _, _ = operators(semiring, dtype, reduces=False)

    def take(d: int, before: int, before_of_pivots: int, terms: int, which: int, m: int, n: int) -> None:
        count = m * n
        values, found = carray(as_pointer(d), (count,), dtype), carray(as_pointer(terms), (count,), dtype)
        trees, through = carray(as_pointer(before), (count,), _INT), carray(as_pointer(which), (count,), _INT)
        start = as_pointer(before_of_pivots)
        for i in range(m):
            for j in range(n):
                at = i * n + j
                better = add(values[at], found[at])
                if better != values[at]:
                    k = through[at]
                    values[at] = better
                    trees[at] = carray(start, (k * n + n,), _INT)[k * n + j]

    return jit(semiring, *[types.intp] * 7, parallel=False)(take)
