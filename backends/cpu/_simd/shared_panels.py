"""A large product on several threads: what they all read is packed once for all of them, then parts of C are computed.

    for ranges of columns, and of k, whose panels fit the scratch:
        each thread
            pack       panels of its own columns of B, then rows of A that would share cache sets, then what is left
            compute    parts of C, each by the five loops, as soon as its panels and rows are ready

What is packed is cut into slabs, which threads claim, in groups: the panels of a group of columns, the rows of a strip
of parts. A thread waits for the groups of its part alone, not for all others, and finds the panels of its own columns
in its own cache.

Without it each part packs the panels that it needs, as often as there are parts above each other. So parts would be
large, and a thread on a slow core the last to end. A is copied only where it cannot be read in place. Parts would copy
it once for each group of columns.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np

from backends.cpu._compile.pieces import compiled_for_threads
from backends.cpu._compile.scratch import scratch
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._simd.argument_table import Loops, LoopTable, Run, Shape, cut_evenly
from backends.cpu._simd.loops import columns_beside, row_bytes
from backends.cpu._simd.packing import build_gather
from backends.cpu._simd.part import PANELS_AT_B, Part
from backends.cpu._simd.run_parts import OPERANDS, SCRATCH, row_at
from backends.cpu._simd.slabs import SLAB_BYTES, Columns, pack_slab, slabs_of_a, slabs_of_b
from backends.cpu._threads.atomics import WORD_BYTES, add, load, pause, store, yield_thread
from backends.cpu._threads.claims import claim, first_part, new_claims, next_run
from backends.cpu._threads.pool import for_each
from backends.cpu._vector.intrinsics import word_at, words_at
from harness.operands import data_address
from harness.tuning import simd_parts as tuning_parts

# Words of a group, on cache lines of their own: slabs that threads have taken, and those that are packed.
_TAKEN, _PACKED, _GROUP_BYTES = 0, 64, 128
_LOOKS = 1000  # at a group that is not ready, before a thread lets others run


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
        whole, parts = self.whole(shape, accumulate)._replace(**panels), []
        for group, (i, end) in itertools.product(self.columns(shape), self.strips(shape)):
            parts.append(
                whole._replace(
                    m=end - i,
                    n=group.last - group.first,
                    a=i * shape.strides_a[0],
                    b=group.begin,
                    c=i * shape.row_stride_out + group.first * self.itemsize,
                )
            )
        return parts

    def columns(self, shape: Shape) -> list[Columns]:
        """Return the groups of columns, whose panels lie one behind the other."""
        groups, begin = [], 0
        for first, last in itertools.pairwise(cut_evenly(shape.n, self.grid[1], self.steps[1])):
            vectors = -(-(last - first) // self.key.lanes)
            groups.append(Columns(first, last, begin, vectors * self.key.vector_unit.size_bytes))
            begin += groups[-1].row_bytes * shape.k
        return groups

    def strips(self, shape: Shape) -> list[tuple[int, int]]:
        """Return the rows of each strip of parts."""
        return list(itertools.pairwise(cut_evenly(shape.m, self.grid[0], self.steps[0])))


class _PackedParts(LoopTable):
    """The parts of a range, and what is packed for them.

    Parameters
    ----------
    loops : _PackedLoops
    shape : Shape
    accumulate : bool
    groups : list of tables of slabs
        Those of each group of columns, then of each strip of rows, if A is copied.

    Attributes
    ----------
    sources : (3,) array of int64
        Addresses of A and B of the range, and of the memory for what is packed. Set before a run.
    """

    def __init__(self, loops: _PackedLoops, shape: Shape, accumulate: bool, groups: list[np.ndarray]) -> None:
        self._slabs = np.concatenate(groups)
        self._ends = np.cumsum([0, *map(len, groups)], dtype=np.int64)
        self._counts = len(loops.strips(shape)), len(loops.columns(shape))
        self._progress, self.sources = (
            np.zeros((len(groups), _GROUP_BYTES // WORD_BYTES), np.int64),
            np.zeros(3, np.int64),
        )
        super().__init__(loops, shape, accumulate)

    def _run_of(self, table: np.ndarray, threads: int, size: int, is_long: bool) -> Run:
        key, arrays = self._loops.key, (self._slabs, self._ends, self._progress, self.sources, table)
        claims = new_claims(len(table))
        words = address_of(build_gather(key)), key.lanes, key.nv, key.itemsize
        places = *map(data_address, (*arrays, claims)), table.strides[0], len(table), len(self._progress)
        facts = np.array([*words, *places, *self._counts, threads, size, 0], np.int64)
        self._referred = facts, claims, *arrays  # compiled code knows them by addresses alone
        return functools.partial(_build_packed_parts(), data_address(facts))


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
    """The work of one range: offsets of A, B and C [bytes], the place of the copy of A or -1, and parts of C."""

    offsets: tuple[int, int, int]
    copy_of_a: int
    parts: _PackedParts


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
        self.addresses = np.zeros(len(OPERANDS) + 1, np.int64)
        self._size, left = 0, columns_beside(loops.key, shape.n, shape.k)
        whole = shape.n - left
        self._stages = [self._prepare(loops, shape, accumulate, x) for x in _ranges(loops, shape._replace(n=whole))]
        self._left: list[tuple[int, int, LoopTable]] = []
        if left:  # dot products, as without shared panels: not even the last bit depends on the number of threads
            beside = Loops(*loops._replace(grid=(loops.threads, 1)))
            table = LoopTable(beside, shape._replace(n=left), accumulate)
            self._left.append((whole * shape.strides_b[1], whole * loops.itemsize, table))

    def _prepare(self, loops: SharedLoops, shape: Shape, accumulate: bool, of: _Range) -> _Stage:
        """Return the work of a range."""
        (i, _), (j, last), (p, _) = of
        rows, across = loops.grid
        across, parts = max(across * (last - j) // shape.n, 1), rows * across
        strips = (of.rows[1] - i) // (tuning_parts.SIMD_SHARED_STRIPS * loops.key.mr)
        grid = max(min(parts // across, strips), 1), across
        inner = _PackedLoops(*loops._replace(packs_b=False, packs_a=False, grid=grid))
        of_range, copy_of_a = of.shape(shape), -1
        groups, size = slabs_of_b(inner.columns(of_range), of_range, loops.blocking.kc)
        if i > 0:  # the panels are those of the range above
            groups = [group[:0] for group in groups]
        if loops.packs_a:
            copy_of_a, lda = size, row_bytes(of_range.k, loops.itemsize)
            groups += slabs_of_a(inner.strips(of_range), of_range, size, lda)
            size += of_range.m * lda
            of_range = of_range._replace(strides_a=(lda, loops.itemsize))
        self._size = max(self._size, size)
        offsets = (
            i * shape.strides_a[0] + p * shape.strides_a[1],
            p * shape.strides_b[0] + j * shape.strides_b[1],
            i * shape.row_stride_out + j * loops.itemsize,
        )
        return _Stage(offsets, copy_of_a, _PackedParts(inner, of_range, accumulate or p > 0, groups))

    def run(self) -> None:
        """Compute with the operands whose addresses are set."""
        memory = scratch(self._size, "shared panels")
        a, b, out, *_ = self.addresses.tolist()
        with memory.lock:  # ranges of rows find the panels of those above them
            for (from_a, from_b, from_out), copy_of_a, table in self._stages:
                table.sources[:] = a + from_a, b + from_b, memory.address
                of_a = a + from_a if copy_of_a < 0 else memory.address + copy_of_a
                table.addresses[:SCRATCH] = of_a, memory.address, out + from_out, 0
                table.run()
        for from_b, from_out, table in self._left:
            table.addresses[:SCRATCH] = a, b + from_b, out + from_out, 0
            table.run()


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


# What a run is told: what packs, and lanes, vectors and bytes for it; the slabs, where those of each group end, the
# words of the groups, and what `sources` has; the table of parts and its claims; bytes of a row of it, and rows;
# groups, parts along m, and groups of columns; threads, and bytes of the scratch of each; the number of the run.
_facts_at = words_at(18)
_PROGRESS, _CLAIMS, _PARTS, _GROUPS, _THREADS, _RUN = (WORD_BYTES * i for i in (6, 9, 11, 12, 15, 17))


def pack_and_compute(facts: int, thread: int) -> None:
    """Pack slabs and compute parts that no other thread has claimed."""
    (
        gather, lanes, nv, itemsize, slabs, ends, progress, sources, table, claims, row_bytes, parts, groups, strips,
        columns, threads, size, of_run,
    ) = _facts_at(facts)  # fmt: skip
    a, b, target = word_at(sources), word_at(sources + 8), word_at(sources + 16)
    number, copies = first_part(parts, threads, thread), groups - columns  # strips of rows that are copied
    own = number // strips
    for turn in range(groups):
        # first the own columns, then the rows, which all threads read, then the columns of others
        group = own if turn == 0 else columns + turn - 1 if turn <= copies else (own + turn - copies) % columns
        first, end = word_at(ends + WORD_BYTES * group), word_at(ends + WORD_BYTES * (group + 1))
        words = progress + _GROUP_BYTES * group
        while True:
            slab = first + add(words + _TAKEN, 1)
            if slab >= end:
                break
            pack_slab(slabs + SLAB_BYTES * slab, gather, lanes, nv, itemsize, a, b, target)
            add(words + _PACKED, 1)
    for _ in range(parts):
        if claim(claims, number, of_run):
            _await(progress, ends, number // strips)
            if copies:
                _await(progress, ends, columns + number % strips)
            loops, part = row_at(table + row_bytes * number, thread * size)
            call(loops, (part,))
        number = number + 1 if number + 1 < parts else 0


@functools.cache
def _build_packed_parts() -> Run:
    """Compile ``run(facts)``: it packs all slabs and computes all parts, by threads. The same for every kernel."""

    def run(compute: int, facts: int) -> None:
        """Compute the product."""
        progress = word_at(facts + _PROGRESS)
        for group in range(word_at(facts + _GROUPS)):
            store(progress + _GROUP_BYTES * group + _TAKEN, 0)
            store(progress + _GROUP_BYTES * group + _PACKED, 0)
        store(facts + _RUN, next_run(word_at(facts + _CLAIMS), word_at(facts + _PARTS)))
        for_each(compute, facts, word_at(facts + _THREADS))

    return compiled_for_threads(pack_and_compute, run)


def _await(progress: int, ends: int, group: int) -> None:
    """Return when all slabs of a group are packed: those that are not are being packed by other threads."""
    looks, packed = 0, progress + _GROUP_BYTES * group + _PACKED
    slabs = word_at(ends + WORD_BYTES * (group + 1)) - word_at(ends + WORD_BYTES * group)
    while load(packed) < slabs:
        looks += 1
        if looks % _LOOKS:
            pause()
        else:
            yield_thread()
