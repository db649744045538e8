"""LU with partial pivoting by blocks: panels on the host, all other work products and a triangular solve.

    for each panel of nb columns:
        factor the panel on the host                  row by row of U: pivot, exchange, divide, rank-1 update
        exchange the same rows of all other columns
        U[j, rest] := L[j, j]^-1 A[j, rest]           `harness.linalg.triangles`
        A[rest, rest] -= L[rest, j] U[j, rest]        one product

Products may round their operands to a narrower dtype: the factors are then those of a matrix near A, which is enough
where residuals in a wider one correct them (`harness.linalg.refinement`).

Source: Golub and van Loan, "Matrix Computations" (2013), section 3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.errors import ProblemError
from harness.linalg.arguments import to_host
from harness.linalg.products import Products
from harness.linalg.triangles import Triangle


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
        If a pivot is zero or not finite.
    """

    def __init__(self, a: Any, products: Products, updates: Products, *, block: int) -> None:
        self._arrays, self._products = products.arrays, products
        self.order = np.arange(a.shape[0])  # of the rows of A
        for begin in range(0, a.shape[0], block):
            self._step(a, slice(begin, min(begin + block, a.shape[0])), updates)
        options: dict[str, Any] = {"block": block, "caller": "refine"}
        self._lower = Triangle(a, products, lower=True, unit_diagonal=True, **options)
        self._upper = Triangle(a, products, lower=False, unit_diagonal=False, **options)

    def solve(self, b: Any) -> Any:
        """Return the solution of ``A X = B`` for b (n, r), of the dtype of the factors."""
        x = b[self._arrays.module.asarray(self.order)].astype(self._products.dtype)
        self._lower.solve(x)
        self._upper.solve(x)
        return x

    def _step(self, a: Any, columns: slice, updates: Products) -> None:
        arrays, begin, end = self._arrays, columns.start, columns.stop
        panel = np.array(to_host(arrays, a[begin:, columns]))
        order = _factor_panel(panel, begin)
        moved = np.flatnonzero(order != np.arange(order.size))
        if moved.size:
            target, source = (arrays.module.asarray(begin + rows) for rows in (moved, order[moved]))
            a[target] = a[source]
            self.order[begin + moved] = self.order[begin + order[moved]]
        a[begin:, columns] = arrays.module.asarray(panel)
        if end < a.shape[0]:
            below, right = a[end:, columns], a[columns, end:]
            triangle = Triangle(
                a[columns, columns], self._products, lower=True, unit_diagonal=True, block=end - begin, caller="refine"
            )
            triangle.solve(right)
            narrow = a.dtype if updates.operand_dtype is None else updates.operand_dtype
            updates.add((-below).astype(narrow), right.astype(narrow), a[end:, end:])


def _factor_panel(panel: np.ndarray, first: int) -> np.ndarray:
    """Factor a panel (rows >= w) in place, and return the order of its rows; `first` is its first column in A."""
    order = np.arange(panel.shape[0])
    for j in range(panel.shape[1]):
        pivot = j + int(np.argmax(np.abs(panel[j:, j])))
        if not np.isfinite(panel[pivot, j]) or panel[pivot, j] == 0:
            raise ProblemError(
                f"refine: the matrix is singular in {panel.dtype}",
                expected="pivots that are finite and not zero",
                got=f"{panel[pivot, j]} in column {first + j}",
                fix="factor_dtype='float64'" if panel.dtype != np.float64 else "",
            )
        if pivot != j:
            panel[[j, pivot]], order[[j, pivot]] = panel[[pivot, j]], order[[pivot, j]]
        panel[j + 1 :, j] /= panel[j, j]
        panel[j + 1 :, j + 1 :] -= panel[j + 1 :, j, None] * panel[j, j + 1 :]
    return order
