"""A large product on several threads: what they all read is packed once for all of them, then parts of C are computed.

    for ranges of columns, and of k, whose panels fit the scratch:
        pack       panels of B, and rows of A that would share cache sets, by slabs that threads claim
        compute    parts of C, each by the five loops, which find their panels ready

Without it each part packs the panels that it needs, as often as there are parts above each other. So parts would be
large, and a thread on a slow core the last to end. A is copied only where it cannot be read in place. Parts would copy
it once for each group of columns.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
from numba import prange, types

from backends.cpu._compile.call_by_address import address_of, call
from backends.cpu._compile.jit import jit
from backends.cpu._compile.scratch import scratch
from backends.cpu._simd.argument_table import Loops, LoopTable, Shape, cut_evenly
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import may_take_dots
from backends.cpu._simd.loops import columns_left, row_bytes
from backends.cpu._simd.macro_kernel import even_split, part_of
from backends.cpu._simd.packing import build_gather
from backends.cpu._simd.part import PANELS_AT_B, Part
from backends.cpu._simd.run_parts import OPERANDS, SCRATCH, entry_point
from backends.cpu._threads.atomics import add
from backends.cpu._threads.limits import limit_threads, restore_threads
from harness.tuning import simd_parts as tuning_parts

SLAB = 16  # rows that are packed together: of B through all panels of a group, whole squares of registers

# A row of the table of slabs: whether it is of A; its sizes; offset and strides of the source; offset of the target;
# for panels rows of the block of k, and rows of it above the slab; for a copy of A the distance of its rows.
_OF_A, _ROWS, _COLUMNS, _SOURCE, _ROW_STRIDE, _COLUMN_STRIDE, _TARGET, _BLOCK_ROWS, _ABOVE, _LDA = range(10)
_SLAB_WORDS = 10


class SharedLoops(Loops):
    """The loops of a product whose packed B all threads share."""

    __slots__ = ()

    def table(self, shape: Shape, accumulate: bool) -> SharedTable:
        """Return the product, complete except for addresses."""
        return SharedTable(self, shape, accumulate)


class _PackedLoops(Loops):
    """The loops of parts whose panels are ready: `b` is their address, and each group of columns has its own."""

    __slots__ = ()

    def _parts(self, shape: Shape, accumulate: bool) -> list[Part]:
        panels = {"rs_b": 0, "cs_b": self.itemsize, "packs_a": False, "packs_b": PANELS_AT_B, "nc": shape.n}
        whole, parts = self.blocked(shape.part(accumulate))._replace(**panels), []
        rows = cut_evenly(shape.m, self.grid[0], self.steps[0])
        for (j, last, begin), (i, end) in itertools.product(_groups(self, shape.n, shape.k), itertools.pairwise(rows)):
            parts.append(
                whole._replace(
                    m=end - i,
                    n=last - j,
                    a=i * shape.strides_a[0],
                    b=begin,
                    c=i * shape.row_stride_out + j * self.itemsize,
                )
            )
        return parts


class _Range(NamedTuple):
    """A range of rows, of columns and of k, which is computed at once."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    terms: tuple[int, int]

    def shape(self, shape: Shape) -> Shape:
        """Return the shape of its product, with the strides of the whole."""
        (i, end), (j, last), (p, stop) = self
        return shape._replace(m=end - i, n=last - j, k=stop - p)


class _Stage(NamedTuple):
    """The work of one range: offsets of A, B and C [bytes], slabs, the place of the copy of A or -1, and parts of C."""

    offsets: tuple[int, int, int]
    slabs: np.ndarray
    copy_of_a: int
    parts: LoopTable


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
        itemsize = np.dtype(loops.key.dtype).itemsize
        self.addresses = np.zeros(len(OPERANDS) + 1, np.int64)
        self._size, left = 0, columns_beside(loops.key, shape)
        whole = shape.n - left
        self._stages = [self._prepare(loops, shape, accumulate, x) for x in _ranges(loops, shape._replace(n=whole))]
        gather, key, taken = address_of(build_gather(loops.key)), loops.key, np.zeros(1, np.int64)
        pack = entry_point(_build_pack_slabs())
        self._pack = functools.partial(pack, gather, key.lanes, key.nv, itemsize, taken, loops.threads)
        self._left: list[tuple[int, int, LoopTable]] = []
        if left:  # dot products, as without shared panels: not even the last bit depends on the number of threads
            beside = Loops(*loops._replace(grid=(loops.threads, 1)))
            table = LoopTable(beside, shape._replace(n=left), accumulate)
            self._left.append((whole * shape.strides_b[1], whole * itemsize, table))

    def _prepare(self, loops: SharedLoops, shape: Shape, accumulate: bool, of: _Range) -> _Stage:
        """Return the work of a range."""
        (i, _), (j, last), (p, _) = of
        rows, across = loops.grid
        across, parts = max(across * (last - j) // shape.n, 1), rows * across
        strips = (of.rows[1] - i) // (tuning_parts.SIMD_SHARED_STRIPS * loops.key.mr)
        grid = max(min(parts // across, strips), 1), across
        inner, itemsize = _PackedLoops(*loops._replace(packs_b=False, packs_a=False, grid=grid)), loops.itemsize
        of_range, slabs, copy_of_a = of.shape(shape), [], -1
        of_b, size = _slabs_of_b(inner, of_range)
        if i == 0:
            slabs.append(of_b)
        if loops.packs_a:
            copy_of_a, lda = size, row_bytes(of_range.k, itemsize)
            slabs.append(_slabs_of_a(of_range, size, lda))
            size += of_range.m * lda
            of_range = of_range._replace(strides_a=(lda, itemsize))
        self._size = max(self._size, size)
        offsets = (
            i * shape.strides_a[0] + p * shape.strides_a[1],
            p * shape.strides_b[0] + j * shape.strides_b[1],
            i * shape.row_stride_out + j * itemsize,
        )
        table = np.concatenate(slabs) if slabs else np.empty((0, _SLAB_WORDS), np.int64)
        return _Stage(offsets, table, copy_of_a, LoopTable(inner, of_range, accumulate or p > 0))

    def run(self) -> None:
        """Compute with the operands whose addresses are set."""
        memory = scratch(self._size, "shared panels")
        a, b, out, *_ = self.addresses.tolist()
        for (from_a, from_b, from_out), slabs, copy_of_a, table in self._stages:
            self._pack(slabs, a + from_a, b + from_b, memory.address)
            of_a = a + from_a if copy_of_a < 0 else memory.address + copy_of_a
            table.addresses[:SCRATCH] = of_a, memory.address, out + from_out, 0
            table.run()
        for from_b, from_out, table in self._left:
            table.addresses[:SCRATCH] = a, b + from_b, out + from_out, 0
            table.run()


def columns_beside(key: KernelKey, shape: Shape) -> int:
    """Return the number of columns after whole vectors that are dot products."""
    return columns_left(shape.n, shape.k, key.lanes) if may_take_dots(key) else 0


def _ranges(loops: Loops, shape: Shape) -> list[_Range]:
    """Return the ranges whose panels, and copies of A, fit the scratch: of k if that suffices, else of columns too.

    Ranges of k are whole blocks. So the sums are those of the loops that take all of k.
    """
    m, n, k, kc, nr = shape.m, shape.n, shape.k, min(loops.blocking.kc, shape.k), loops.blocking.nr
    most, copied = tuning_parts.most_shared_bytes(loops.threads) // loops.itemsize, m if loops.packs_a else 0
    widest, highest = max(most // kc // (2 if copied else 1), nr), max(most // kc // 2, loops.key.mr)
    columns = cut_evenly(n, -(-n // widest), nr)
    rows = cut_evenly(m, -(-copied // highest) or 1, loops.key.mr)
    blocks = max(most // ((min(n, widest) + min(copied, highest)) * kc), 1)
    terms = cut_evenly(k, -(-k // (blocks * kc)), kc)
    by_columns = itertools.product(itertools.pairwise(columns), itertools.pairwise(terms), itertools.pairwise(rows))
    return [_Range(i, j, p) for j, p, i in by_columns]


def _groups(loops: Loops, n: int, k: int) -> list[tuple[int, int, int]]:
    """Return the columns of each group of panels, and where they begin [bytes]."""
    groups, begin = [], 0
    for j, end in itertools.pairwise(cut_evenly(n, loops.grid[1], loops.steps[1])):
        groups.append((j, end, begin))
        begin += _row_bytes(loops, end - j) * k
    return groups


def _row_bytes(loops: Loops, columns: int) -> int:
    """Return the bytes of one row of k in all panels of a group: whole vectors."""
    return -(-columns // loops.key.lanes) * loops.key.vector_unit.size_bytes


def _slabs_of_b(loops: Loops, shape: Shape) -> tuple[np.ndarray, int]:
    """Return the table of slabs of B, and the bytes of all panels."""
    k, kc, tables, size = shape.k, loops.blocking.kc, [], 0
    block, above = np.divmod(np.arange(0, k), kc)
    first = np.flatnonzero(above % SLAB == 0)
    in_block = np.minimum(kc, k - block[first] * kc)
    for j, end, begin in _groups(loops, shape.n, k):
        each = _row_bytes(loops, end - j)
        table = np.zeros((first.size, _SLAB_WORDS), np.int64)
        table[:, _ROWS], table[:, _COLUMNS] = np.minimum(SLAB, in_block - above[first]), end - j
        table[:, _SOURCE] = first * shape.strides_b[0] + j * shape.strides_b[1]
        table[:, _ROW_STRIDE], table[:, _COLUMN_STRIDE] = shape.strides_b
        table[:, _TARGET] = begin + block[first] * kc * each
        table[:, _BLOCK_ROWS], table[:, _ABOVE] = in_block, above[first]
        tables.append(table)
        size = begin + each * k
    return np.concatenate(tables), size


def _slabs_of_a(shape: Shape, begin: int, lda: int) -> np.ndarray:
    """Return the table of slabs of rows of A, copied to rows `lda` bytes apart."""
    first = np.arange(0, shape.m, SLAB)
    table = np.zeros((first.size, _SLAB_WORDS), np.int64)
    table[:, _OF_A], table[:, _ROWS], table[:, _COLUMNS] = 1, np.minimum(SLAB, shape.m - first), shape.k
    table[:, _SOURCE] = first * shape.strides_a[0]
    table[:, _ROW_STRIDE], table[:, _COLUMN_STRIDE] = shape.strides_a
    table[:, _TARGET], table[:, _LDA] = begin + first * lda, lda
    return table


@functools.cache
def _build_pack_slabs() -> Any:
    """Compile ``pack(gather, lanes, nv, itemsize, taken, threads, slabs, a, b, target)``, the same for every kernel."""

    def pack(
        gather: int, lanes: int, nv: int, itemsize: int, taken: np.ndarray, threads: int, slabs: np.ndarray, a: int,
        b: int, target: int,
    ) -> None:  # fmt: skip
        taken[0] = 0
        before = limit_threads(threads)
        for _ in prange(threads):
            while True:
                slab = add(taken.ctypes.data, 1)
                if slab >= slabs.shape[0]:
                    break
                rows, columns = slabs[slab, _ROWS], slabs[slab, _COLUMNS]
                rs, cs = slabs[slab, _ROW_STRIDE], slabs[slab, _COLUMN_STRIDE]
                source, to = (a if slabs[slab, _OF_A] else b) + slabs[slab, _SOURCE], target + slabs[slab, _TARGET]
                k_cur, above, lda = slabs[slab, _BLOCK_ROWS], slabs[slab, _ABOVE], slabs[slab, _LDA]
                if lda:
                    call(gather, (rows, columns, source, rs, cs, to, lda))
                    continue
                split = even_split((columns + lanes - 1) // lanes, nv)
                for jp in range(split[0]):
                    first, vectors = part_of(split, jp)
                    j, ldb = first * lanes, vectors * lanes * itemsize
                    panel = to + j * itemsize * k_cur + above * ldb
                    call(gather, (rows, min(vectors * lanes, columns - j), source + j * cs, rs, cs, panel, ldb))
        restore_threads(before)

    words = types.Array(types.int64, 1, "C")
    slabs = types.Array(types.int64, 2, "C")
    return jit(None, *[types.intp] * 4, words, types.intp, slabs, *[types.intp] * 3)(pack)
