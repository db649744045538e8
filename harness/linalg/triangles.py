"""Triangles that systems are solved with: the diagonal blocks are inverted once, so that all that remains is products.

With diagonal blocks of nb rows, from the first one on for a lower triangle, from the last one on for an upper one::

    X[j]     :=  D[j]^-1  X[j]                       one product, or substitution row by row
    X[rest]  :=  X[rest] - A[rest, done] X[done]     one product, of one half of the blocks with the other, by recursion

Of n^2 r operations for r right-hand sides, all but n nb r are those of the second line. Long blocks are fast, since
they leave few products, of a long k. They cost accuracy: a row of the inverse multiplies the whole block of X. By
substitution the residual is small whatever the condition of a block; with an inverse it grows with that condition.
docs/linalg.md has the figures. One step of refinement within the block corrects that, by two more products::

    R     :=  X[j] - D[j] Y,  Y = D[j]^-1 X[j]
    X[j]  :=  Y + D[j]^-1 R

Sources: Nath, Tomov and Dongarra, "Accelerating GPU kernels for dense linear algebra" (VECPAR 2010), section 3 (xTRSM).
Accuracy: Higham, "Accuracy and Stability of Numerical Algorithms" (2002), sections 8.1 and 14.2.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from harness.errors import ProblemError
from harness.linalg.arguments import to_host
from harness.linalg.inverses import diagonal_blocks, inverted
from harness.linalg.products import Products

METHODS = ("blocks", "corrected", "substitution")
INVERSES = ("device", "host", "gemm")


class Triangle:
    """A triangle that systems are solved with, any number of times: its diagonal blocks are inverted here.

    What is solved with it holds only if `check` passes. On a device the host reads the diagonal while all else goes on.

    Parameters
    ----------
    a : (..., n, n) array
    products : Products
    lower, unit_diagonal : bool
    method : str
        One of `METHODS`.
    block : int
    inverses : str
        One of `INVERSES`.
    caller : str
        Named in messages.
    """

    def __init__(
        self,
        a: Any,
        products: Products,
        *,
        lower: bool,
        unit_diagonal: bool,
        block: int,
        caller: str,
        method: str = "blocks",
        inverses: str = "device",
    ) -> None:
        self._a, self._products, self._lower, self._is_unit = a, products, lower, unit_diagonal
        self._caller, self._diagonal = caller, None
        if not unit_diagonal:
            self._diagonal = products.arrays.fetch(products.arrays.module.diagonal(a, axis1=-2, axis2=-1))
            if not products.arrays.on_device or inverses == "host":
                self.check()  # before NumPy meets what has no inverse
        n = a.shape[-1]
        self._size = max(1, min(block, n))
        self._blocks = [slice(begin, min(begin + self._size, n)) for begin in range(0, n, self._size)]
        self._is_corrected = method == "corrected"
        self._inverses = self._triangles = None  # the latter are used to correct solutions
        if method != "substitution" and n:
            stack = self._diagonal_blocks()
            self._inverses = self._invert(stack, inverses)  # negated
            if self._is_corrected:
                self._triangles = self._without_other_half(stack)

    def solve(self, x: Any) -> Any:
        """Return ``A^-1 X``, new; x (..., n, r), whose batch that of A broadcasts to, is overwritten."""
        arrays, n = self._products.arrays, self._a.shape[-1]
        a = arrays.module.broadcast_to(self._a, (*x.shape[:-2], n, n)) if x.ndim > 2 else self._a
        negated = arrays.empty(x.shape, x.dtype)
        run = functools.partial(self._solve_blocks, a, x, negated, 0, len(self._blocks))
        if self._inverses is None:
            run()
        elif self._blocks:
            windows = {"a": self._a, "x": x, "negated": negated, "inverses": self._inverses}
            if self._triangles is not None:
                windows["triangles"] = self._triangles
            self._products.taped(("solved", self._size, self._lower, self._is_corrected), windows, run)
        arrays.module.negative(negated, out=negated)
        return negated

    def check(self) -> None:
        """Wait until the host has the diagonal, and raise ProblemError if an element of it has no inverse."""
        if self._diagonal is not None:
            _check_diagonal(self._caller, self._diagonal())

    def _solve_blocks(self, a: Any, x: Any, negated: Any, begin: int, end: int) -> None:
        """Enter the negated solution of diagonal blocks `begin` to `end` - 1 in `negated`, by halves.

        The solution is kept negated, since the updates of the other half then are sums.
        """
        if end - begin <= 1:
            if begin < end:
                self._solve_block(a, x, negated, begin)
            return
        middle = (begin + end) // 2
        halves = (begin, middle), (middle, end)
        first, second = halves if self._lower else halves[::-1]
        self._solve_blocks(a, x, negated, *first)
        known, rest = (slice(self._blocks[h[0]].start, self._blocks[h[1] - 1].stop) for h in (first, second))
        self._products.add(a[..., rest, known], negated[..., known, :], x[..., rest, :])
        self._solve_blocks(a, x, negated, *second)

    def _solve_block(self, a: Any, x: Any, negated: Any, number: int) -> None:
        """Solve with the diagonal block of that number; its rows of x are overwritten."""
        rows, products = self._blocks[number], self._products
        part, target = x[..., rows, :], negated[..., rows, :]
        if self._inverses is None:
            self._substitute(a[..., rows, rows], part)
            target[...] = -part  # NumPy 2.4's negative(x, out=) of columns four elements apart is wrong
            return
        size = rows.stop - rows.start
        inverse = self._inverses[..., number, :size, :size]
        products.multiply(inverse, part, target)
        if self._triangles is not None:
            products.add(self._triangles[..., number, :size, :size], target, part)
            products.add(inverse, part, target)

    def _substitute(self, a: Any, x: Any) -> None:
        """Solve ``A X = X`` in place, row by row."""
        matmul, n = self._products.arrays.module.matmul, a.shape[-1]
        for i in range(n) if self._lower else reversed(range(n)):
            known = slice(0, i) if self._lower else slice(i + 1, n)
            row = x[..., i : i + 1, :]
            if known.start < known.stop:
                row -= matmul(a[..., i : i + 1, known], x[..., known, :])
            if not self._is_unit:
                row /= a[..., i : i + 1, i : i + 1]

    def _diagonal_blocks(self) -> Any:
        """Return the diagonal blocks (..., blocks, size, size), any numbers beside the triangle.

        A last one with fewer rows is continued by the identity.
        """
        arrays, a, size = self._products.arrays, self._a, self._size
        whole, rows = a.shape[-1] // size, self._blocks[-1]
        given, height = diagonal_blocks(a, size, arrays.module), rows.stop - rows.start
        if height == size:
            return given
        stack = arrays.empty((*a.shape[:-2], len(self._blocks), size, size), a.dtype)
        stack[..., :whole, :, :] = given
        stack[..., -1, :, :] = arrays.module.eye(size, dtype=a.dtype)
        stack[..., -1, :height, :height] = a[..., rows, rows]
        return stack

    def _without_other_half(self, stack: Any) -> Any:
        """Return the diagonal blocks with zeros beside the triangle, and ones on a diagonal that is not read."""
        module, size, dtype = self._products.arrays.module, self._size, stack.dtype
        is_inside = module.tri(size, size, -1 if self._is_unit else 0, dtype=bool)
        beside = module.eye(size, dtype=dtype) if self._is_unit else dtype.type(0)
        return module.where(is_inside if self._lower else is_inside.T, stack, beside)

    def _invert(self, stack: Any, inverses: str) -> Any:
        """Return the negated inverses of the diagonal blocks, made in the place of that name."""
        arrays, products = self._products.arrays, self._products
        stack = stack if self._lower else stack.swapaxes(-1, -2)
        options: dict[str, Any] = {"unit_diagonal": self._is_unit, "negated": True}
        if inverses == "host":
            inverse = arrays.module.asarray(inverted(to_host(arrays, stack), np, **options))
        elif inverses == "gemm":
            inverse = inverted(stack, arrays.module, products=products, **options)
        elif arrays.on_device:
            with Products("trsm", arrays, products.dtype, "auto", None) as others:
                inverse = inverted(stack, arrays.module, products=others, **options)
        else:
            inverse = inverted(stack, arrays.module, **options)
        return inverse if self._lower else arrays.module.ascontiguousarray(inverse.swapaxes(-1, -2))


def _check_diagonal(caller: str, diagonal: np.ndarray) -> None:
    """Raise if an element of the diagonals (..., n) is not finite, or has no finite inverse."""
    is_bad = ~(np.isfinite(diagonal) & np.isfinite(1 / diagonal))
    if is_bad.any():
        *matrix, row = (int(i) for i in np.argwhere(is_bad)[0])
        where = f"row {row}" + (f" of matrix {tuple(matrix)}" if matrix else "")
        value = diagonal[(*matrix, row)]
        is_subnormal = diagonal.dtype == np.float32 and value != 0 and np.isfinite(value)
        raise ProblemError(
            f"{caller}: the triangle is singular",
            expected="a diagonal of finite numbers whose inverses are finite",
            got=f"{value} in {where}",
            fix="a.astype('float64')" if is_subnormal else "",
        )
