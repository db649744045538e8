"""A large product on several threads: B is packed once for all of them, then parts of C read its panels.

    for ranges of columns whose panels fit the scratch:
        pack       panels of B, all of k, by slabs of few rows: a slab is read along its rows
        compute    parts of C, each by the five loops, which find their panels ready

Without it each part packs the panels that it needs, as often as there are parts above each other. So parts would be
large, and a thread on a slow core the last to end.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._compile.call_by_address import address_of, call
from backends.cpu._compile.scratch import scratch
from backends.cpu._ladder.jit import jit
from backends.cpu._simd.argument_table import Loops, LoopTable, Shape, cut_evenly
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import may_take_dots
from backends.cpu._simd.loops import NO_DIAGONAL, PACKED, columns_left
from backends.cpu._simd.macro_kernel import even_split, part_of
from backends.cpu._simd.packing import build_gather
from backends.cpu._simd.run_parts import OPERANDS, SCRATCH, entry_point
from backends.cpu._threads.atomics import add
from backends.cpu._threads.limits import limit_threads, restore_threads
from harness.tuning import simd as tuning_simd

SLAB = 16  # rows of B that are packed together, through all panels of a group: whole squares of registers

# A row of the table of slabs: rows, columns; offsets and strides of the source; offset of the target, rows of the block
# of k, and rows of it above the slab
_SLAB_COLUMNS = 8


class SharedLoops(Loops):
    """The loops of a product whose packed B all threads share."""

    __slots__ = ()

    def table(self, shape: Shape, accumulate: bool) -> SharedTable:
        """Return the product, complete except for addresses."""
        return SharedTable(self, shape, accumulate)


class _PackedLoops(Loops):
    """The loops of parts whose panels are ready: `b` is their address, and each group of columns has its own."""

    __slots__ = ()

    def _parts(self, shape: Shape, accumulate: bool) -> list[tuple[int, ...]]:
        blocking, itemsize, parts = self.blocking, np.dtype(self.key.dtype).itemsize, []
        rows = cut_evenly(shape.m, self.grid[0], self.steps[0])
        size_a, groups = self.scratch_bytes(shape.m, shape.n, shape.k)[0], _groups(self, shape.n, shape.k)
        for (j, last, begin), (i, end) in itertools.product(groups, itertools.pairwise(rows)):
            parts.append((
                end - i, last - j, shape.k, i * shape.strides_a[0], *shape.strides_a, begin, 0, itemsize,
                i * shape.row_stride_out + j * itemsize, shape.row_stride_out, accumulate, 0, 0,
                blocking.mc, shape.n, blocking.kc, self.packs_a, PACKED, 0, size_a, NO_DIAGONAL,
            ))  # fmt: skip
        return parts


class SharedTable:
    """``out := [out (+)] a (x) b``: what `LoopTable` is, with panels that all parts share.

    Parameters
    ----------
    loops : SharedLoops
    shape : Shape
    accumulate : bool

    Attributes
    ----------
    addresses : (5,) array of int64
        As of `LoopTable`.
    """

    def __init__(self, loops: SharedLoops, shape: Shape, accumulate: bool) -> None:
        itemsize, nr = np.dtype(loops.key.dtype).itemsize, loops.blocking.nr
        self.addresses = np.zeros(len(OPERANDS) + 1, np.int64)
        self._size, left = 0, columns_beside(loops.key, shape)
        whole = shape.n - left
        limit = tuning_simd.SIMD_MOST_SHARED_BYTES // (shape.k * itemsize)
        ranges = itertools.pairwise(cut_evenly(whole, -(-whole // max(limit, nr)), nr))
        self._stages = [self._prepare(loops, shape, accumulate, j, end) for j, end in ranges]
        gather, key, taken = address_of(build_gather(loops.key)), loops.key, np.zeros(1, np.int64)
        pack = entry_point(_build_pack_slabs())
        self._pack = functools.partial(pack, gather, key.lanes, key.nv, itemsize, taken, loops.threads)
        self._left: list[tuple[int, int, LoopTable]] = []
        if left:  # dot products, as without shared panels: not even the last bit depends on the number of threads
            beside = Loops(*loops._replace(grid=(loops.threads, 1)))
            table = LoopTable(beside, shape._replace(n=left), accumulate)
            self._left.append((whole * shape.strides_b[1], whole * itemsize, table))

    def _prepare(
        self, loops: SharedLoops, shape: Shape, accumulate: bool, j: int, end: int
    ) -> tuple[int, int, np.ndarray, LoopTable]:
        """Return a range of columns: where it begins in B and in C [bytes], its slabs, and its parts."""
        rows, across = loops.grid
        across, parts = max(across * (end - j) // shape.n, 1), rows * across
        grid = max(min(parts // across, shape.m // (tuning_simd.SIMD_SHARED_STRIPS * loops.key.mr)), 1), across
        of_range, inner = shape._replace(n=end - j), _PackedLoops(*loops._replace(packs_b=False, grid=grid))
        slabs, size = _slabs(inner, of_range)
        self._size = max(self._size, size)
        itemsize = np.dtype(loops.key.dtype).itemsize
        return j * shape.strides_b[1], j * itemsize, slabs, LoopTable(inner, of_range, accumulate)

    def run(self) -> None:
        """Compute with the operands whose addresses are set."""
        memory = scratch(self._size, "shared panels")
        a, b, out, *_ = self.addresses.tolist()
        for from_b, from_out, slabs, table in self._stages:
            self._pack(slabs, b + from_b, memory.address)
            table.addresses[:SCRATCH] = a, memory.address, out + from_out, 0
            table.run()
        for from_b, from_out, table in self._left:
            table.addresses[:SCRATCH] = a, b + from_b, out + from_out, 0
            table.run()


def columns_beside(key: KernelKey, shape: Shape) -> int:
    """Return the number of columns after whole vectors that are dot products."""
    return columns_left(shape.n, shape.k, key.lanes) if may_take_dots(key) else 0


def _groups(loops: Loops, n: int, k: int) -> list[tuple[int, int, int]]:
    """Return the columns of each group of panels, and where they begin [bytes]."""
    groups, begin, itemsize = [], 0, np.dtype(loops.key.dtype).itemsize
    for j, end in itertools.pairwise(cut_evenly(n, loops.grid[1], loops.steps[1])):
        groups.append((j, end, begin))
        begin += _row_bytes(loops, end - j, itemsize) * k
    return groups


def _row_bytes(loops: Loops, columns: int, itemsize: int) -> int:
    """Return the bytes of one row of k in all panels of a group: whole vectors."""
    return -(-columns // loops.key.lanes) * loops.key.lanes * itemsize


def _slabs(loops: Loops, shape: Shape) -> tuple[np.ndarray, int]:
    """Return the table of slabs, and the bytes of all panels."""
    k, kc, itemsize, tables, size = shape.k, loops.blocking.kc, np.dtype(loops.key.dtype).itemsize, [], 0
    block, above = np.divmod(np.arange(0, k), kc)
    first = np.flatnonzero(above % SLAB == 0)
    in_block = np.minimum(kc, k - block[first] * kc)
    for j, end, begin in _groups(loops, shape.n, k):
        each = _row_bytes(loops, end - j, itemsize)
        table = np.empty((first.size, _SLAB_COLUMNS), np.int64)
        table[:, 0] = np.minimum(SLAB, in_block - above[first])
        table[:, 1:5] = 0, 0, *shape.strides_b
        table[:, 1], table[:, 2] = end - j, first * shape.strides_b[0] + j * shape.strides_b[1]
        table[:, 5] = begin + block[first] * kc * each
        table[:, 6], table[:, 7] = in_block, above[first]
        tables.append(table)
        size = begin + each * k
    return np.concatenate(tables), size


@functools.cache
def _build_pack_slabs() -> Any:
    """Compile ``pack(gather, lanes, nv, itemsize, taken, threads, slabs, b, panels)``, the same for every kernel."""

    def pack(
        gather: int, lanes: int, nv: int, itemsize: int, taken: np.ndarray, threads: int, slabs: np.ndarray, b: int,
        target: int,
    ) -> None:  # fmt: skip
        taken[0] = 0
        before = limit_threads(threads)
        for _ in prange(threads):
            while True:
                slab = add(taken.ctypes.data, 1)
                if slab >= slabs.shape[0]:
                    break
                rows, columns, begin, rs_b, cs_b, to, k_cur, above = (
                    slabs[slab, 0], slabs[slab, 1], slabs[slab, 2], slabs[slab, 3], slabs[slab, 4], slabs[slab, 5],
                    slabs[slab, 6], slabs[slab, 7],
                )  # fmt: skip
                split = even_split((columns + lanes - 1) // lanes, nv)
                for jp in range(split[0]):
                    first, vectors = part_of(split, jp)
                    j, ldb = first * lanes, vectors * lanes * itemsize
                    panel = target + to + j * itemsize * k_cur + above * ldb
                    call(gather, (
                        rows, min(vectors * lanes, columns - j), b + begin + j * cs_b, rs_b, cs_b, panel, ldb
                    ))  # fmt: skip
        restore_threads(before)

    words = types.Array(types.int64, 1, "C")
    slabs = types.Array(types.int64, 2, "C")
    return jit(None, *[types.intp] * 4, words, types.intp, slabs, types.intp, types.intp)(pack)
