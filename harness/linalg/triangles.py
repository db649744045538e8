"""Triangular systems ``op(A) X = B``: the diagonal blocks are inverted once, so that all that remains is products.

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

from harness.api.arrays import Arrays
from harness.api.views import any_library
from harness.errors import ProblemError
from harness.linalg.arguments import (
    check_count,
    check_flag,
    check_option,
    check_rows,
    check_square,
    read_matrices,
    to_host,
)
from harness.linalg.inverses import diagonal_blocks, inverted
from harness.linalg.products import Products

METHODS = ("blocks", "corrected", "substitution")
INVERSES = ("device", "host", "gemm")

# Rows in a diagonal block, on the host and on a GPU. Scaled residuals, float32, n = 1024, L of a random LU, by
# substitution 1.5e-9; by blocks of 32, 64, 128, 256, 512 rows 1.9e-9, 5.0e-9, 1.0e-8, 2.9e-8, 8.0e-8. On an H200 blocks
# of 512 take 0.3 to 0.85 of the time of blocks of 128 (n = 4096, 256 and 4096 columns of B). Measured 2026-11-22.
BLOCK, BLOCK_ON_DEVICE = 64, 512

# On a GPU few columns of B are bound by the host, which longer blocks spare launches: up to so many columns, of
# triangles of so many rows or more. ms by blocks of 512 and 1024: float32, n = 4096, 16 columns 0.76, 0.63, 256 columns
# 0.65, 0.62; n = 8192 1.07, 0.58; 0.91, 0.94. float64 0.86, 0.87; 0.72, 1.01; 1.44, 1.19; 1.28, 1.21 (H200,
# 2026-11-24). Residuals by 1024 are 1.5 times those by 512.
LONG_BLOCK_ON_DEVICE, FEW_COLUMNS, MANY_ROWS = 1024, 64, 4096


@any_library("a", "b")
def trsm(
    a: Any,
    b: Any,
    *,
    lower: bool = True,
    transposed: bool = False,
    unit_diagonal: bool = False,
    method: str = "blocks",
    block: int | None = None,
    inverses: str = "device",
    backend: str = "auto",
    threads: int | None = None,
) -> Any:
    """Solve ``op(A) X = B`` for a triangular A, with op(A) = A or A^T.

    ``X A = B`` is ``trsm(a, b.T, transposed=True).T``.

    Parameters
    ----------
    a : (..., n, n) array of float32 or float64
        Any strides. The other half is never read, nor with `unit_diagonal` the diagonal.
    b : (..., n, r) or (n,) array of float32 or float64
        Leading dimensions of a and b broadcast. NaN and infinity spread in their column of X to all rows that are
        solved later, and unless `method` is ``"substitution"`` to the whole of their diagonal block.
    lower : bool
        Whether A, not op(A), is the lower triangle; else the upper.
    transposed : bool
        Whether op(A) is A^T.
    unit_diagonal : bool
        Whether the diagonal is all ones, and not read.
    method : str
        ``"blocks"``: diagonal blocks are inverted. ``"corrected"``: and each solution is refined once, which is as
        accurate as substitution unless a block is nearly singular. ``"substitution"``: they are solved with row by row,
        which is always accurate, and slow.
    block : int, optional
        Rows in a diagonal block. None: 64 on the host; on a GPU 512, or 1024 for up to 64 columns of B and n of 4096
        and more.
    inverses : str
        Where diagonal blocks are inverted. ``"device"``: where the matrices lie, by NumPy's matmul, or by `gemm`.
        ``"host"``: on the host, by NumPy's. ``"gemm"``: by `backend`, but for the first 8 or 64 rows.
    backend, threads
        Of the products, as in `harness.gemm`.

    Returns
    -------
    (..., n, r) or (..., n) array
        X, new, of the common dtype of a and b, where they lie.

    Raises
    ------
    ProblemError
        If shapes, dtypes or options do not fit, or a diagonal element is zero, NaN or infinite, or its inverse is.
    BackendUnavailable
        As in `harness.gemm`.

    Examples
    --------
    >>> import numpy as np
    >>> trsm(np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0]))
    array([1., 2.])
    """
    arrays, dtype, inputs = read_matrices("trsm", {"a": a, "b": b}, vectors="b")
    a, b = inputs["a"], inputs["b"]
    check_square("trsm", a, stacked=True)
    check_rows("trsm", b, a.shape[-1])
    check_option("trsm", "method", method, METHODS)
    check_option("trsm", "inverses", inverses, INVERSES)
    for name, flag in {"lower": lower, "transposed": transposed, "unit_diagonal": unit_diagonal}.items():
        check_flag("trsm", name, flag)
    columns = 1 if b.ndim == 1 else b.shape[-1]
    size = check_count("trsm", "block", default_block(arrays, a.shape[-1], columns) if block is None else block)
    if transposed:
        a, lower = a.swapaxes(-1, -2), not lower
    matrix = b[:, None] if b.ndim == 1 else b
    try:
        batch = np.broadcast_shapes(a.shape[:-2], matrix.shape[:-2])
    except ValueError:
        raise ProblemError(
            "trsm: the leading dimensions do not broadcast",
            expected="equal leading dimensions, or 1",
            got=f"a {a.shape}, b {b.shape}",
        ) from None
    with Products(arrays, dtype, backend, threads) as products:
        x = arrays.empty((*batch, *matrix.shape[-2:]), dtype)
        x[...] = matrix
        triangle = Triangle(
            a, products, lower=lower, unit_diagonal=unit_diagonal, method=method, block=size, inverses=inverses,
            caller="trsm",
        )  # fmt: skip
        x = triangle.solve(x)
        triangle.check()
    return x[..., 0] if b.ndim == 1 else x


def default_block(arrays: Arrays, rows: int, columns: int) -> int:
    """Return how many rows a diagonal block of a triangle has if nobody says, for so many columns of B."""
    if not arrays.on_device:
        return BLOCK
    return LONG_BLOCK_ON_DEVICE if rows >= MANY_ROWS and columns <= FEW_COLUMNS else BLOCK_ON_DEVICE


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
        with np.errstate(all="ignore"):  # infinities of B become NaN, as by the other methods
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
            with Products(arrays, products.dtype, "auto", None) as others:
                inverse = inverted(stack, arrays.module, products=others, **options)
        else:
            inverse = inverted(stack, arrays.module, **options)
        return inverse if self._lower else arrays.module.ascontiguousarray(inverse.swapaxes(-1, -2))


def _check_diagonal(caller: str, diagonal: np.ndarray) -> None:
    """Raise if an element of the diagonals (..., n) is not finite, or has no finite inverse."""
    with np.errstate(all="ignore"):
        is_bad = ~(np.isfinite(diagonal) & np.isfinite(1 / diagonal))
    if is_bad.any():
        *matrix, row = (int(i) for i in np.argwhere(is_bad)[0])
        where = f"row {row}" + (f" of matrix {tuple(matrix)}" if matrix else "")
        raise ProblemError(
            f"{caller}: the triangle is singular",
            expected="a diagonal of finite numbers whose inverses are finite",
            got=f"{diagonal[(*matrix, row)]} in {where}",
        )
