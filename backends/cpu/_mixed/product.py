"""A mixed product of operands of any strides, prepared; by another method where the values ask for it.

The loops want contiguous rows. An output with contiguous columns makes it the transposed product, ``C^T = B^T A^T``; an
operand whose rows are not contiguous is copied in every run, an output through an array of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._mixed import subnormals
from backends.cpu._mixed.amx_product import TileLoops, prepare_tiles
from backends.cpu._mixed.loops import MixedLoops
from backends.cpu._mixed.methods import MixedKey
from backends.cpu._mixed.transposed_copy import prepare_transposed_copy
from backends.cpu._simd.argument_table import prepare_product
from backends.cpu._simd.product import has_contiguous_rows
from harness.operands import aligned_empty
from harness.plan import Blocking
from harness.tuning import amx as tuning_amx
from harness.tuning import simd as tuning_simd


class MixedProduct:
    """``out := [out +] a b``, for m, n, k >= 1.

    Parameters
    ----------
    key : MixedKey
    careful : MixedKey or None
        Kernel for operands that hold a subnormal number which `key` would lose. None: `key` loses none.
    blocking : Blocking
        Its register tile is that of `key`.
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
            a, b, out, blocking = b.T, a.T, out.T, _transposed(blocking)
        self._out, self._accumulate = out, accumulate
        self._target = out if has_contiguous_rows(out) else aligned_empty(out.shape, out.dtype)
        rows_of_a, rows_of_b = (x if has_contiguous_rows(x) else aligned_empty(x.shape, x.dtype) for x in (a, b))
        self._operands = a, b, rows_of_a, rows_of_b  # copies know them by address alone
        self._copies = [_copy(rows, x) for rows, x in ((rows_of_a, a), (rows_of_b, b)) if rows is not x]
        grid = tuning_simd.thread_grid(a.shape[0], b.shape[1], threads, blocking.mr, blocking.nr)
        lost = np.zeros(1, np.uint8)  # set by loops that look for subnormal numbers themselves
        looks_inside = key.method.is_tiled and not accumulate  # a C that is added to could not be added to again

        def prepare(kernel: MixedKey) -> Callable[[], Any]:
            around, arrays = _around(blocking, kernel), (rows_of_a, rows_of_b, self._target, accumulate)
            if not kernel.method.is_tiled:
                loops: Any = MixedLoops(kernel, around, packs_a=True, packs_b=True, grid=grid)  # type: ignore[arg-type]
                return prepare_product(loops, *arrays)
            packs_a = not tuning_amx.amx_reads_in_place(rows_of_a.ctypes.data, rows_of_a.strides[0], rows_of_a.shape[0])
            flag = lost.ctypes.data if looks_inside else 0
            return prepare_tiles(TileLoops(kernel, around, packs_a, grid, flag), *arrays)

        self._compute = prepare(key)
        if careful is not None and looks_inside:
            self._compute = _again_if_lost(lost, self._compute, prepare(careful))
        elif careful is not None:
            look = subnormals.build_has_subnormal(key.method.operands)
            self._compute = _by_values(look, (rows_of_a, rows_of_b), self._compute, prepare(careful))

    def run(self) -> None:
        """Compute once."""
        for copy in self._copies:
            copy()
        if self._target is self._out:
            self._compute()
            return
        if self._accumulate:
            self._target[...] = self._out
        self._compute()
        self._out[...] = self._target


def _copy(rows: np.ndarray, x: np.ndarray) -> Callable[[], Any]:
    """Return ``copy()``, which copies `x` to `rows`, an array of contiguous rows."""
    return prepare_transposed_copy(rows, x) if has_contiguous_rows(x.T) else functools.partial(np.copyto, rows, x)


def _transposed(x: Blocking) -> Blocking:
    """Return the blocking of the transposed product: the cache blocks of m and n are exchanged."""
    return Blocking(-(-x.nc // x.mr) * x.mr, -(-x.mc // x.nr) * x.nr, x.kc, x.mr, x.nr)


def _around(x: Blocking, key: MixedKey) -> Blocking:
    """Return the blocking around the register tile of `key`: the cache blocks grow to whole tiles."""
    mr, nr = key.mr, key.nv * key.lanes
    return Blocking(-(-x.mc // mr) * mr, -(-x.nc // nr) * nr, x.kc, mr, nr)


def _by_values(
    look: Callable[..., bool], operands: tuple[np.ndarray, ...], fast: Callable[[], Any], careful: Callable[[], Any]
) -> Callable[[], Any]:
    """Return a product that is careful where an operand holds a subnormal number."""
    addresses = [(x.ctypes.data, *x.shape, x.strides[0]) for x in operands]

    def run() -> None:
        (careful if any(look(*address) for address in addresses) else fast)()

    return run


def _again_if_lost(lost: np.ndarray, fast: Callable[[], Any], careful: Callable[[], Any]) -> Callable[[], Any]:
    """Return a product that is computed again, with care, where the fast loops have met a subnormal number."""

    def run() -> None:
        lost[0] = 0
        fast()
        if lost[0]:
            careful()

    return run
