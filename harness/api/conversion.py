"""Operands with another dtype: float8 by a table of its numbers, and others without what CuPy's conversions lose."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.dtypes import dtype_name, is_complex

# Of a float32: the bits of its exponent and of its fraction, and the least subnormal number.
_EXPONENT, _FRACTION, _LEAST = 0x7F800000, 0x007FFFFF, 2.0**-149
_WIDE = np.dtype(np.float64)


def of_float8(x: Any, bits: Any, dtype: np.dtype[Any], constant: Callable[[np.ndarray], Any]) -> Any:
    """Return `x`, of float8, as `dtype`, by a table of all 256 numbers: ml_dtypes takes four times as long.

    Parameters
    ----------
    x : array
    bits : array of uint8
        The same memory.
    dtype : numpy dtype
    constant : callable
        Returns an array of NumPy where these lie.
    """
    by_columns = x.ndim > 1 and abs(x.strides[-2]) < abs(x.strides[-1])
    wide = constant(_numbers(x.dtype, dtype)).take(bits.swapaxes(-1, -2) if by_columns else bits).view(dtype)
    return wide.swapaxes(-1, -2) if by_columns else wide


def of_cupy(x: Any, dtype: np.dtype[Any], module: Any) -> Any:
    """Return `x`, an array of CuPy, the `module`, as `dtype`: its kernels take subnormal float32 for zeros."""
    if dtype == np.complex128 and x.dtype in (np.float32, np.complex64):
        wide = x.astype(dtype)
        wide.real[...] = of_cupy(x.real, _WIDE, module)
        if is_complex(x.dtype):
            wide.imag[...] = of_cupy(x.imag, _WIDE, module)
        return wide
    if dtype == np.float64 and x.dtype == np.float32:
        wide, bits = x.astype(dtype), x.view(np.int32)
        return module.where(bits & _EXPONENT, wide, module.copysign((bits & _FRACTION) * _LEAST, wide))
    if dtype == np.float32 and dtype_name(x.dtype) == "bfloat16":
        return (x.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(dtype)
    return x.astype(dtype)


@functools.cache
def _numbers(narrow: np.dtype[Any], dtype: np.dtype[Any]) -> np.ndarray:
    """Return all numbers of `narrow` as `dtype`, of which these are the bits."""
    return np.arange(256, dtype=np.uint8).view(narrow).astype(dtype).view(f"u{dtype.itemsize}")
