"""The copies that give a kernel contiguous rows of A and of B transposed, made in every call: they depend on values."""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.cpu._ladder.packing import build_transpose
from harness.operands import Operands, aligned_empty


class RowsKernel:
    """A kernel that reads rows of A and rows of B transposed, behind the copies that give it contiguous ones.

    Parameters
    ----------
    kernel : callable
        ``kernel(a, bt, out, accumulate, *extra)`` with a (m, k) and bt (n, k), both C-contiguous.
    operands : Operands
        For shapes and layout; the copies are made again in every call, since they depend on values.
    extra : tuple
        Further arguments of the kernel.
    """

    def __init__(self, kernel: Any, operands: Operands, extra: tuple[Any, ...] = ()) -> None:
        dtype = operands.a.dtype
        self._kernel, self._extra = kernel, extra
        self._transpose = build_transpose(dtype)
        self._bt = None if operands.b.T.flags.c_contiguous else aligned_empty(operands.b.shape[::-1], dtype)
        self._rows_of_a = None if operands.a.flags.c_contiguous else aligned_empty(operands.a.shape, dtype)

    def __call__(self, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        """Compute ``out := [out (+)] a (x) b``."""
        self._kernel(self._in_rows(a, self._rows_of_a), self._in_rows(b.T, self._bt), out, accumulate, *self._extra)

    def _in_rows(self, x: np.ndarray, copy: np.ndarray | None) -> np.ndarray:
        """Return `x` with contiguous rows: itself, or `copy` filled from it."""
        if x.flags.c_contiguous or copy is None:
            return x
        self._transpose(x.T, copy)
        return copy
