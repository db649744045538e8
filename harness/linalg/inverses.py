"""Inverses of many small triangles at once: 32 rows by the array library, then longer ones by doubling.

    [L11      ]^-1     [ L11^-1                           ]
    [L21   L22]     =  [-L22^-1 L21 L11^-1         L22^-1 ]

Source: Higham, "Accuracy and Stability of Numerical Algorithms" (2002), section 14.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.linalg.products import Products

# Rows of the inverses that the array library makes, all at once; longer ones are made by doubling.
FIRST_INVERSE = 32


def inverted(stack: Any, module: Any, *, products: Products | None = None) -> Any:
    """Return the inverses of a stack (..., n, n) of lower triangles, by doubling.

    Parameters
    ----------
    stack : (..., n, n) array of `module`
        Zeros above the diagonals.
    module : module
        NumPy, or CuPy.
    products : Products, optional
        Compute the products; None: matmul of `module`.
    """
    n = stack.shape[-1]
    size = 1 << max(n - 1, 0).bit_length()
    lower = stack
    if n < size:  # triangles are continued by the identity
        lower = module.zeros((*stack.shape[:-2], size, size), stack.dtype)
        lower[..., :n, :n] = stack
        diagonal_blocks(lower[..., n:, n:], 1, module)[..., 0, 0] = 1
    first = min(size, FIRST_INVERSE)
    inverse = module.zeros(lower.shape, stack.dtype)
    diagonal_blocks(inverse, first, module)[...] = _inverted_by_library(diagonal_blocks(lower, first, module), module)
    multiply = module.matmul if products is None else products.multiply
    half = first
    while half < size:
        blocks = diagonal_blocks(inverse, 2 * half, module)
        below = diagonal_blocks(lower, 2 * half, module)[..., half:, :half]
        product = multiply(multiply(blocks[..., half:, half:], below), blocks[..., :half, :half])
        module.negative(product, out=blocks[..., half:, :half])
        half *= 2
    return inverse[..., :n, :n] if n < size else inverse


def _inverted_by_library(stack: Any, module: Any) -> Any:
    """Return the inverses of lower triangles, by LU without exchanges: LAPACK sees upper triangles, whose LU is theirs.

    CuPy passes the matrices row by row, that is transposed, to cuBLAS.
    """
    if module is np:
        return np.tril(np.linalg.inv(stack.swapaxes(-1, -2)).swapaxes(-1, -2))
    return module.linalg.inv(stack)  # zeros above stay zeros


def diagonal_blocks(x: Any, size: int, module: Any) -> Any:
    """Return the diagonal blocks of square matrices x (..., n, n) as a view (..., n // size, size, size)."""
    row, column = x.strides[-2:]
    shape = *x.shape[:-2], x.shape[-1] // size, size, size
    return module.lib.stride_tricks.as_strided(x, shape, (*x.strides[:-2], size * (row + column), row, column))
