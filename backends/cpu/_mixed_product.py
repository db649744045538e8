"""A mixed product of operands of any strides, prepared; by another method where the values ask for it.

The loops want contiguous rows. An output with contiguous columns makes it the transposed product, ``C^T = B^T A^T``; an
operand whose rows are not contiguous is copied in every run, an output through an array of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, types

from backends.cpu._generated_call import prepare_product
from backends.cpu._generated_product import has_contiguous_rows
from backends.cpu._jit import jit
from backends.cpu._mixed_loops import MixedLoops
from backends.cpu._mixed_methods import MixedKey
from backends.cpu._pointers import as_pointer
from harness import tuning
from harness.operands import aligned_empty
from harness.plan import Blocking

MAGNITUDE, LARGEST_SUBNORMAL = 0x7FFF, 0x007F  # bits of a bfloat16


class MixedProduct:
    """``out := [out +] a b``, for m, n, k >= 1.

    Parameters
    ----------
    key : MixedKey
    careful : MixedKey or None
        What computes the product if a or b, then of bfloat16, hold a subnormal number. None: `key` does.
    blocking : Blocking
    threads : int
    a, b : (m, k) and (k, n) array
        Of the key's narrow dtype, any strides.
    out : (m, n) array
        Of the key's dtype of sums, any strides.
    accumulate : bool
    """

    def __init__(
        self,
        key: MixedKey,
        careful: MixedKey | None,
        blocking: Blocking,
        threads: int,
        a: np.ndarray,
        b: np.ndarray,
        out: np.ndarray,
        accumulate: bool,
    ) -> None:
        if not has_contiguous_rows(out) and has_contiguous_rows(out.T):
            a, b, out, blocking = b.T, a.T, out.T, _turned(blocking)
        self._out, self._accumulate = out, accumulate
        self._target = out if has_contiguous_rows(out) else aligned_empty(out.shape, out.dtype)
        rows_of_a, rows_of_b = (x if has_contiguous_rows(x) else aligned_empty(x.shape, x.dtype) for x in (a, b))
        self._copies = [(rows, x) for rows, x in ((rows_of_a, a), (rows_of_b, b)) if rows is not x]
        grid = tuning.thread_grid(a.shape[0], b.shape[1], threads, blocking.mr, blocking.nr)

        def prepare(which: MixedKey) -> Callable[[], Any]:
            loops = MixedLoops(which, blocking, packs_a=True, packs_b=True, grid=grid)  # type: ignore[arg-type]
            return prepare_product(loops, rows_of_a, rows_of_b, self._target, accumulate)

        self._compute = prepare(key)
        if careful is not None:
            self._compute = _by_values(rows_of_a, rows_of_b, self._compute, prepare(careful))

    def run(self) -> None:
        """Compute once."""
        for rows, x in self._copies:
            rows[...] = x
        if self._target is self._out:
            self._compute()
            return
        if self._accumulate:
            self._target[...] = self._out
        self._compute()
        self._out[...] = self._target


def _turned(x: Blocking) -> Blocking:
    """Return the blocking of the transposed product: the cache blocks of m and n have changed places."""
    return Blocking(-(-x.nc // x.mr) * x.mr, -(-x.mc // x.nr) * x.nr, x.kc, x.mr, x.nr)


def _by_values(a: np.ndarray, b: np.ndarray, fast: Callable[[], Any], careful: Callable[[], Any]) -> Callable[[], Any]:
    """Return a product that is careful where a or b holds a subnormal number."""
    look = build_has_subnormal()
    places = [(x.ctypes.data, *x.shape, x.strides[0]) for x in (a, b)]

    def run() -> None:
        (careful if any(look(*place) for place in places) else fast)()

    return run


@functools.cache
def build_has_subnormal() -> Any:
    """Compile ``has_subnormal(address, rows, columns, row_stride)`` of bfloat16 in contiguous rows; stride in bytes."""
    dtype = np.dtype(np.uint16)

    def has_subnormal(address: int, rows: int, columns: int, row_stride: int) -> bool:
        for i in range(rows):
            found = False
            for value in carray(as_pointer(address + i * row_stride), (columns,), dtype):
                magnitude = value & np.uint16(MAGNITUDE)
                found |= (magnitude != 0) & (magnitude <= np.uint16(LARGEST_SUBNORMAL))
            if found:
                return True
        return False

    return jit(None, *[types.intp] * 4, parallel=False, returns=types.boolean)(has_subnormal)
