"""Rows for columns: B transposed panel by panel, and rows of A that are not contiguous."""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np

from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.numpy_object import fields_of
from backends.cpu._simd.packing import build_gather
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.unit import usable_units
from harness.dtypes import dtype_name


def transpose(b: np.ndarray, panel: np.ndarray) -> None:
    """Write ``panel[j, p] := b[p, j]``: matrices of one dtype, with contiguous rows of `panel`."""
    _build_transpose()(address_of(gather_of(b.dtype)), b, panel)


@functools.cache
def _build_transpose() -> Any:
    def transpose(gather: int, b: Any, panel: Any) -> None:
        """Copy the matrix."""
        source, k, n, row_stride, stride = fields_of(b)
        target, _, _, target_stride, _ = fields_of(panel)
        call(gather, (n, k, source, stride, row_stride, target, target_stride))

    return compiled_for_python(transpose)


@numba.njit
def transpose_in_loops(b: np.ndarray, panel: np.ndarray) -> None:
    """Do the same inside of a loop that Numba compiles."""
    for p in range(b.shape[0]):
        for j in range(b.shape[1]):
            panel[j, p] = b[p, j]


def gather_of(dtype: np.dtype[Any]) -> Any:
    """Return the function that copies a block, as the widest unit has it."""
    unit = usable_units()[0]
    return build_gather(KernelKey(Operations("min", "plus", 0), dtype_name(dtype), unit.name, unit.mr, unit.nv))
