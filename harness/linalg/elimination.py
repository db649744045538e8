"""LU with partial pivoting by blocks: all work but that of panels is products.

    for each panel of nb columns:
        factor the panel                              on a GPU by cuSOLVER's getrf, on the host by halves
        exchange the same rows of all other columns
        U[j, rest] := L[j, j]^-1 A[j, rest]           one product
        A[rest, rest] -= L[rest, j] U[j, rest]        one product

On a GPU the host waits once for each panel: for its pivots, which say which rows move, and whether one is zero.

Products may round their operands to a narrower dtype: the factors are then those of a matrix near A, which is enough
where residuals in a wider one correct them (`harness.linalg.refinement`).

Source: Golub and van Loan, "Matrix Computations" (2013), section 3.4.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from harness.errors import ProblemError
from harness.linalg.inverses import inverted
from harness.linalg.products import Products
from harness.linalg.triangles import Triangle

# Columns of a panel that are eliminated one by one.
FEWEST_COLUMNS = 8


class LU:
    """The factors ``P A = L U`` of a square matrix, which solve systems with it.

    Parameters
    ----------
    a : (n, n) array
        Overwritten by the factors: L below the diagonal, with ones on it, and U.
    products : Products
        Of its dtype; they solve the triangles.
    updates : Products
        They update what is right of a panel; their operands may be narrower.
    block : int
        Columns of a panel, and rows of the triangles' diagonal blocks.

    Raises
    ------
    ProblemError
        If a pivot, or its inverse, is not finite.
    """

    def __init__(self, a: Any, products: Products, updates: Products, *, block: int) -> None:
        self._arrays, self._products = products.arrays, products
        self.order = np.arange(a.shape[0])  # of the rows of A
        for begin in range(0, a.shape[0], block):
            self._step(a, slice(begin, min(begin + block, a.shape[0])), updates)
        options: dict[str, Any] = {"block": block, "caller": "refine"}
        self._lower = Triangle(a, products, lower=True, unit_diagonal=True, **options)
        self._upper = Triangle(a, products, lower=False, unit_diagonal=False, **options)
        self._upper.check()

    def solve(self, b: Any) -> Any:
        """Return the solution of ``A X = B`` for b (n, r), of the dtype of the factors."""
        x = b[self._arrays.module.asarray(self.order)].astype(self._products.dtype)
        return self._upper.solve(self._lower.solve(x))

    def _step(self, a: Any, columns: slice, updates: Products) -> None:
        arrays, begin, end = self._arrays, columns.start, columns.stop
        panel = a[begin:, columns]
        if arrays.on_device:
            panel, order = _factor_by_library(panel, begin)
        else:
            panel = np.array(panel)
            order = _factor_panel(panel, begin)
        moved = np.flatnonzero(order != np.arange(order.size))
        if moved.size:
            target, source = (arrays.module.asarray(begin + rows) for rows in (moved, order[moved]))
            a[target] = a[source]
            self.order[begin + moved] = self.order[begin + order[moved]]
        a[begin:, columns] = panel
        if end < a.shape[0]:
            self._update(a, columns, updates)

    def _update(self, a: Any, columns: slice, updates: Products) -> None:
        """Compute the rows of U right of a panel, and subtract their product with L from what is below them."""
        module, right = self._arrays.module, a[columns, columns.stop :]
        inverse = inverted(a[columns, columns], module, unit_diagonal=True, negated=True)
        negated = self._products.multiply(inverse, right)
        module.negative(negated, out=right)
        below, narrow = a[columns.stop :, columns], updates.operand_dtype
        if narrow is not None:
            below, negated = below.astype(narrow), negated.astype(narrow)
        updates.add(below, negated, a[columns.stop :, columns.stop :])


def _factor_by_library(panel: Any, first: int) -> tuple[Any, np.ndarray]:
    """Return the factors of a panel (rows >= w) on a GPU, there, and the order of its rows, on the host."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a pivot that is zero, which is an error below
        factors, pivots = importlib.import_module("cupyx.scipy.linalg").lu_factor(panel, check_finite=False)
    for j, pivot in enumerate(factors.diagonal().get()):
        _check_pivot(pivot, first + j)
    order = list(range(panel.shape[0]))
    for j, row in enumerate(pivots.get().tolist()):
        order[j], order[row] = order[row], order[j]
    return factors, np.array(order)


def _check_pivot(pivot: Any, column: int) -> None:
    if not (np.isfinite(pivot) and np.isfinite(1 / pivot)):
        raise ProblemError(
            f"refine: the matrix is singular in {pivot.dtype}",
            expected="pivots that are finite, and whose inverses are",
            got=f"{pivot} in column {column}",
            fix="factor_dtype='float64'" if pivot.dtype != np.float64 else "",
        )


def _factor_panel(panel: np.ndarray, first: int) -> np.ndarray:
    """Factor a panel (rows >= w) in place, by halves, and return the order of its rows.

    `first` is its first column in A. Halves end at a few columns, which are eliminated one by one.
    """
    width = panel.shape[1]
    if width <= FEWEST_COLUMNS:
        return _eliminate_columns(panel, first)
    half = width // 2
    left, right = panel[:, :half], panel[:, half:]
    order = _factor_panel(left, first)
    right[...] = right[order]
    right[:half] = inverted(left[:half], np, unit_diagonal=True) @ right[:half]
    right[half:] -= left[half:] @ right[:half]
    below = _factor_panel(right[half:], first + half)
    left[half:], order[half:] = left[half:][below], order[half:][below]
    return order


def _eliminate_columns(panel: np.ndarray, first: int) -> np.ndarray:
    order = np.arange(panel.shape[0])
    for j in range(panel.shape[1]):
        pivot = j + int(np.argmax(np.abs(panel[j:, j])))
        _check_pivot(panel[pivot, j], first + j)
        if pivot != j:
            panel[[j, pivot]], order[[j, pivot]] = panel[[pivot, j]], order[[pivot, j]]
        panel[j + 1 :, j] /= panel[j, j]
        panel[j + 1 :, j + 1 :] -= panel[j + 1 :, j, None] * panel[j, j + 1 :]
    return order
