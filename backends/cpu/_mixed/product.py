"""A mixed product of operands of any strides, prepared; by a slower method where a value is subnormal.

The loops need contiguous rows. If the output has contiguous columns, they compute the transposed product, ``C^T = B^T
A^T``. An operand without contiguous rows is copied in every run; such an output is copied from another array.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from backends.cpu._mixed import subnormals
from backends.cpu._mixed.amx_product import TileLoops, prepare_tiles
from backends.cpu._mixed.loops import MixedLoops
from backends.cpu._mixed.methods import MixedKey
from backends.cpu._mixed.transposed_copy import prepare_transposed_copy
from backends.cpu._simd.argument_table import Run, prepare_product
from backends.cpu._simd.product import guarded, has_contiguous_rows, through
from harness.operands import Operands, aligned_empty
from harness.plan import Blocking, Plan
from harness.tuning import amx as tuning_amx
from harness.tuning import simd as tuning_simd


def prepare_mixed(key: MixedKey, careful: MixedKey | None, plan: Plan, operands: Operands) -> Run:
    """Return ``run()``, which computes ``out := [out +] a b``, for m, n, k >= 1 and any strides.

    Parameters
    ----------
    key : MixedKey
    careful : MixedKey or None
        Kernel for operands that hold a subnormal number which `key` would lose. None: `key` loses none.
    plan : Plan
        Its register tile is that of `key`.
    operands : Operands
    """
    a, b, out, blocking, accumulate = operands.a, operands.b, operands.out, plan.blocking, plan.problem.accumulate
    assert blocking is not None
    if not has_contiguous_rows(out) and has_contiguous_rows(out.T):
        a, b, out, blocking = b.T, a.T, out.T, _transposed(blocking)
    target = out if has_contiguous_rows(out) else aligned_empty(out.shape, out.dtype)
    rows_of_a, rows_of_b = (x if has_contiguous_rows(x) else aligned_empty(x.shape, x.dtype) for x in (a, b))
    copies = [_copy(rows, x) for rows, x in ((rows_of_a, a), (rows_of_b, b)) if rows is not x]
    grid = tuning_simd.thread_grid(a.shape[0], b.shape[1], plan.threads, blocking.mr, blocking.nr)
    lost = np.zeros(1, np.uint8)  # set by loops that look for subnormal numbers themselves
    looks_inside = key.method.is_tiled and not accumulate  # a second run would add to C once more

    def prepare(kernel: MixedKey) -> Run:
        around, arrays = _around(blocking, kernel), (rows_of_a, rows_of_b, target, accumulate)
        if not kernel.method.is_tiled:
            loops: Any = MixedLoops(kernel, around, packs_a=True, packs_b=True, grid=grid)  # type: ignore[arg-type]
            return prepare_product(loops, *arrays)
        packs_a = not tuning_amx.amx_reads_in_place(rows_of_a.ctypes.data, rows_of_a.strides[0], rows_of_a.shape[0])
        flag = lost.ctypes.data if looks_inside else 0
        return prepare_tiles(TileLoops(kernel, around, packs_a, grid, flag), *arrays)

    product = prepare(key)
    if careful is not None and looks_inside:
        product = _again_if_lost(lost, product, prepare(careful))
    elif careful is not None:
        look = subnormals.build_has_subnormal(key.method.operands)
        layouts = [(x.ctypes.data, *x.shape, x.strides[0]) for x in (rows_of_a, rows_of_b)]
        product = guarded(lambda: not any(look(*layout) for layout in layouts), product, prepare(careful))

    def compute() -> None:
        for copy in copies:
            copy()
        product()

    compute.refers_to = a, b  # type: ignore[attr-defined] # copies know them by address alone
    return through(target, out, accumulate, compute if copies else product)


def _copy(rows: np.ndarray, x: np.ndarray) -> Run:
    """Return ``copy()``, which copies `x` to `rows`, an array of contiguous rows."""
    return prepare_transposed_copy(rows, x) if has_contiguous_rows(x.T) else functools.partial(np.copyto, rows, x)


def _transposed(x: Blocking) -> Blocking:
    """Return the blocking of the transposed product: the cache blocks of m and n are exchanged."""
    return Blocking(-(-x.nc // x.mr) * x.mr, -(-x.mc // x.nr) * x.nr, x.kc, x.mr, x.nr)


def _around(x: Blocking, key: MixedKey) -> Blocking:
    """Return the blocking around the register tile of `key`: the cache blocks grow to whole tiles."""
    mr, nr = key.mr, key.nv * key.lanes
    return Blocking(-(-x.mc // mr) * mr, -(-x.nc // nr) * nr, x.kc, mr, nr)


def _again_if_lost(lost: np.ndarray, fast: Run, careful: Run) -> Run:
    """Return a product by `fast`, computed again by `careful` if the fast loops met a subnormal number."""

    def run() -> None:
        lost[0] = 0
        fast()
        if lost[0]:
            careful()

    return run
