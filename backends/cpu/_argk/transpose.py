"""Rows for columns: B transposed panel by panel, and rows of A that are not contiguous."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, scratch, strided
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.packing import build_gather
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.unit import usable_units
from harness.dtypes import dtype_name


@kernel_builder
def build_transpose(dtype: np.dtype[Any]) -> Any:
    """Return ``transpose(b, panel)``: ``panel[j, p] := b[p, j]``."""
    if numba.config.DISABLE_JIT:
        return _transpose_in_python
    gather = gather_of(dtype)

    def transpose(b: np.ndarray, panel: np.ndarray) -> None:
        (k, n), (row_stride, stride) = b.shape, b.strides
        gather(n, k, b.ctypes.data, stride, row_stride, panel.ctypes.data, panel.strides[0])

    return jit(None, strided(dtype), scratch(dtype, 2), parallel=False)(transpose)


def gather_of(dtype: np.dtype[Any]) -> Any:
    """Return the function that copies a block, as the widest unit has it."""
    unit = usable_units()[0]
    return build_gather(KernelKey(Operations("min", "plus", 0), dtype_name(dtype), unit.name, unit.mr, unit.nv))


def _transpose_in_python(b: np.ndarray, panel: np.ndarray) -> None:
    panel[:, : len(b)] = b.T
