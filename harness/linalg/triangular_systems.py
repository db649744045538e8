"""``op(A) X = B`` for a triangular A (`harness.linalg.triangles`), and how many rows its diagonal blocks have."""

from __future__ import annotations

from typing import Any

from harness.api.arrays import Arrays
from harness.api.libraries.views import any_library
from harness.errors import ProblemError
from harness.linalg.arguments import check_count, check_flag, check_option, check_rows, check_square, read_matrices
from harness.linalg.products import Products
from harness.linalg.triangles import INVERSES, METHODS, Triangle
from harness.operands import broadcast

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
    a : (..., n, n) array of float32 or float64, on the host of complex64 or complex128 too
        Any strides. The other half is never read, nor with `unit_diagonal` the diagonal.
    b : (..., n, r) or (n,) array of these
        Leading dimensions of a and b broadcast. NaN and infinity spread in their column of X to all rows that are
        solved later, and unless `method` is ``"substitution"`` to the whole of their diagonal block.
    lower : bool
        Whether A, not op(A), is the lower triangle; else the upper.
    transposed : bool
        Whether op(A) is A^T; for A^H pass ``a.conj()``.
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
    arrays, dtype, inputs = read_matrices("trsm", {"a": a, "b": b}, vectors="b", takes_complex=True)
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
        batch = broadcast(a.shape[:-2], matrix.shape[:-2])
    except ValueError:
        raise ProblemError(
            "trsm: the leading dimensions do not broadcast",
            expected="equal leading dimensions, or 1",
            got=f"a {a.shape}, b {b.shape}",
        ) from None
    with Products("trsm", arrays, dtype, backend, threads) as products:
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
