"""Inverses of many small triangles at once: 8 rows by the array library, then longer ones by doubling.

On a GPU the first ones have 64 rows, and one kernel makes all: a thread substitutes one column of the identity.

    [L11      ]^-1     [ L11^-1                           ]          [ N11                ]
    [L21   L22]     =  [-L22^-1 L21 L11^-1         L22^-1 ]   =   -  [ N22 L21 N11    N22 ]

They are made negated, N: so two products are all of a step.

Source: Higham, "Accuracy and Stability of Numerical Algorithms" (2002), section 14.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.api.gemm import gemm
from harness.linalg.products import Products

# Options of NVRTC that say which dtype REAL is, in kernels.
REAL = {"float32": "-DREAL=float", "float64": "-DREAL=double"}

# Rows of the inverses that the array library makes, all at once; longer ones are made by doubling. And on a GPU.
# LAPACK takes general matrices, one by one. Sixteen blocks of 64 rows (64 blocks) from first ones of 4, 8, 16, 32, 64
# rows in float64: 0.44, 0.44, 0.69, 1.14, 2.0 ms (1.46, 1.57, 2.07, 4.1, 8.8), with like residuals of solutions.
# Measured 2026-11-23, one thread, on the Xeon of docs/lab/2026-11-23-matrix-vector.md.
FIRST_INVERSE, FIRST_ON_DEVICE = 8, 64

SOURCE = r"""
#define FIRST 64
// a, out: C-ordered triangles of `size` rows; each block inverts `first` rows on their diagonals, and negates
extern "C" __global__ void invert(const REAL* a, REAL* out, int size, int first, int is_unit) {
    __shared__ REAL x[FIRST][FIRST];
    int each = size / first, step = first * (size + 1);
    long long begin = (long long)(blockIdx.x / each) * size * size + (long long)(blockIdx.x % each) * step;
    a += begin, out += begin;
    for (int j = threadIdx.x; j < first; j += blockDim.x) {
        for (int i = 0; i < first; ++i) {
            REAL sum = i == j;
            for (int k = j; k < i; ++k) sum -= a[i * size + k] * x[k][j];
            x[i][j] = i < j ? 0 : is_unit ? sum : sum / a[i * size + i];
            out[i * size + j] = -x[i][j];
        }
    }
}
"""


def inverted(
    stack: Any,
    module: Any,
    *,
    products: Products | None = None,
    unit_diagonal: bool = False,
    negated: bool = False,
) -> Any:
    """Return the inverses of a stack (..., n, n) of lower triangles; what is above their diagonals is not read.

    Parameters
    ----------
    stack : (..., n, n) array of `module`
    module : module
        NumPy, or CuPy.
    products : Products, optional
        Compute the products; None: matmul of NumPy, or on a GPU `gemm`, each level as one batch.
    unit_diagonal : bool
        Whether the diagonals are all ones, and not read.
    negated : bool
        Whether the inverses come negated, which spares a step.
    """
    n = stack.shape[-1]
    size = 1 << max(n - 1, 0).bit_length()
    if n < size:  # triangles are continued by the identity
        lower = module.zeros((*stack.shape[:-2], size, size), stack.dtype)
        lower[..., :n, :n] = stack
        diagonal_blocks(lower[..., n:, n:], 1, module)[..., 0, 0] = 1
    else:
        lower = module.ascontiguousarray(stack)
    inverse = module.zeros(lower.shape, stack.dtype)
    first = min(size, FIRST_INVERSE if module is np else FIRST_ON_DEVICE)
    (_invert_first if module is np else _invert_first_on_device)(lower, inverse, first, module, unit_diagonal)
    between = module.empty(lower.size // 4, stack.dtype)
    if products is not None:
        arrays = {"lower": lower, "inverse": inverse, "between": between}
        products.taped(
            ("inverted", first), arrays, functools.partial(_double, arrays, first, module, products.multiply)
        )
    else:
        multiply = module.matmul if module is np else gemm  # CuPy's matmul of a batch takes the host ten times as long
        _double({"lower": lower, "inverse": inverse, "between": between}, first, module, multiply)
    if not negated:
        module.negative(inverse, out=inverse)
    return inverse[..., :n, :n] if n < size else inverse


def _double(arrays: dict[str, Any], half: int, module: Any, multiply: Callable[..., Any]) -> None:
    """Make the negated inverses longer, from `half` rows on the diagonal to all; `multiply` takes a, b and out=."""
    lower, inverse, between = arrays["lower"], arrays["inverse"], arrays["between"]
    while half < lower.shape[-1]:
        blocks = diagonal_blocks(inverse, 2 * half, module)
        below = diagonal_blocks(lower, 2 * half, module)[..., half:, :half]
        product = between[: below.size].reshape(below.shape)
        multiply(blocks[..., half:, half:], below, out=product)
        multiply(product, blocks[..., :half, :half], out=blocks[..., half:, :half])
        half *= 2


def _invert_first(lower: Any, inverse: Any, size: int, module: Any, unit_diagonal: bool) -> None:
    """Enter the inverses of the diagonal blocks, by LU without exchanges: LAPACK sees upper triangles, their own LU."""
    blocks = module.tril(diagonal_blocks(lower, size, module), -1 if unit_diagonal else 0)
    if unit_diagonal:
        blocks += module.eye(size, dtype=lower.dtype)
    try:
        found = module.linalg.inv(blocks.swapaxes(-1, -2)).swapaxes(-1, -2)
    except module.linalg.LinAlgError:  # of T, where reflectors overflowed; trsm has reported a zero on the diagonal
        found = module.full_like(blocks, np.nan)
    diagonal_blocks(inverse, size, module)[...] = -module.tril(found)


def _invert_first_on_device(lower: Any, inverse: Any, size: int, module: Any, unit_diagonal: bool) -> None:
    if lower.size == 0:
        return
    rows = lower.shape[-1]
    count = lower.size // rows // size
    scalars = np.int32(rows), np.int32(size), np.int32(unit_diagonal)
    _kernel(module, lower.dtype.name)((count,), (size,), (lower, inverse, *scalars))


@functools.cache
def _kernel(module: Any, dtype: str) -> Any:
    return module.RawKernel(SOURCE, "invert", (REAL[dtype],))


def diagonal_blocks(x: Any, size: int, module: Any) -> Any:
    """Return the diagonal blocks of square matrices x (..., n, n) as a view (..., n // size, size, size)."""
    row, column = x.strides[-2:]
    shape = *x.shape[:-2], x.shape[-1] // size, size, size
    return module.lib.stride_tricks.as_strided(x, shape, (*x.strides[:-2], size * (row + column), row, column))
