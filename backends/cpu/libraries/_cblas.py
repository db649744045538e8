"""The C interface of BLAS, called by ctypes: ``cblas_?gemm`` bound to given matrices.

CBLAS takes any matrix with contiguous rows or columns and any gap between them, so most layouts are read in place.
Pointers and sizes are converted once, when the routine is bound.

Source: BLAS Technical Forum Standard (2001), C interface; Dongarra et al., "A set of level 3 basic linear algebra
subprograms" (1990).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.dtypes import TABLE, dtype_name, is_complex, parts_dtype
from harness.operands import data_address

# Names of dtypes, and letters of their routines.
ROUTINES = [(x.name, x.blas) for x in TABLE.values() if x.blas]

ROW_MAJOR, COLUMN_MAJOR, AS_IT_IS, TRANSPOSED = 101, 102, 111, 112


def declare(library: ctypes.CDLL, name: str, dtype: str) -> Any:
    """Return the routine called `name`, a ``cblas_?gemm`` whose alpha and beta are of `dtype`; complex by pointer."""
    routine, of_sums = getattr(library, name), np.dtype(dtype)
    scalar = ctypes.c_void_p if is_complex(of_sums) else np.ctypeslib.as_ctypes_type(of_sums)
    size, pointer = ctypes.c_int, ctypes.c_void_p
    operands = [scalar, pointer, size, pointer, size, scalar, pointer, size]
    routine.argtypes, routine.restype = [size] * 6 + operands, None
    return routine


def bind(
    routines: Mapping[str, Any], alpha: Any, a: np.ndarray, b: np.ndarray, beta: Any, out: np.ndarray
) -> Callable[[], object]:
    """Return ``out := alpha a b + beta out`` as a function without arguments; every matrix has contiguous lines.

    `routines` are by the name of the dtype of A and B.
    """
    order = ROW_MAJOR if _has_contiguous_rows(out) else COLUMN_MAJOR
    (form_a, lda), (form_b, ldb), (_, ldc) = (_describe(x, order) for x in (a, b, out))
    (m, n), k = out.shape, a.shape[1]
    return functools.partial(
        routines[dtype_name(a.dtype)],
        *(order, form_a, form_b, m, n, k),
        *(factor(alpha, out.dtype), data_address(a), lda, data_address(b), ldb),
        *(factor(beta, out.dtype), data_address(out), ldc),
    )


def factor(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return alpha or beta of `dtype` as an object of C: a number, or an array of both parts, which is a pointer."""
    part: Any = np.ctypeslib.as_ctypes_type(parts_dtype(dtype))
    return (part * 2)(value.real, value.imag) if is_complex(dtype) else part(value)


def has_contiguous_lines(x: np.ndarray) -> bool:
    """Return whether CBLAS can take the matrix `x` in place: rows or columns contiguous, in ascending order."""
    return _has_contiguous_rows(x) or _has_contiguous_rows(x.T)


def _has_contiguous_rows(x: np.ndarray) -> bool:
    (rows, columns), (row_stride, column_stride) = x.shape, x.strides
    is_next_further_on = row_stride >= columns * x.itemsize and row_stride % x.itemsize == 0
    return (columns <= 1 or column_stride == x.itemsize) and (rows <= 1 or is_next_further_on)


def _describe(x: np.ndarray, order: int) -> tuple[int, int]:
    """Return the form in which CBLAS reads `x` in `order`, as it is or transposed, and its leading dimension."""
    as_stored = x if order == ROW_MAJOR else x.T
    form = AS_IT_IS if _has_contiguous_rows(as_stored) else TRANSPOSED
    lines = as_stored if form == AS_IT_IS else as_stored.T
    gap = lines.strides[0] // x.itemsize if lines.shape[0] > 1 else lines.shape[1]
    return form, max(gap, 1)
