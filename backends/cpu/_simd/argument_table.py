"""A product by the generated loops, ready to run: a call passes one address of its arguments.

With threads, m and n are cut into parts, and no part waits for another. A `Part` is one row of the table of arguments;
`_simd.run_parts` has the compiled functions that compute rows. The addresses of the four operands are separate, and a
row has offsets from them. So other operands change four numbers, not the table. The address of the scratch, which is
allocated for each run, stands beside them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backends.cpu._compile.scratch import scratch
from backends.cpu._ir.call_by_address import address_of
from backends.cpu._simd.block_tracker import BLOCK_BYTES
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import kernel_table
from backends.cpu._simd.loops import (
    build_product,
    packed_a_bytes,
    packed_b_bytes,
    tile_bytes,
)
from backends.cpu._simd.part import NO_DIAGONAL, Part
from backends.cpu._simd.run_parts import OPERANDS, SCRATCH, build_run_part, build_run_parts
from backends.cpu._threads.claims import new_claims
from harness.operands import data_address
from harness.plan import Blocking
from harness.tuning import simd as tuning_simd
from harness.tuning import simd_parts as tuning_parts

Run = Callable[[], Any]  # computes a prepared product once


class Loops(NamedTuple):
    """Choices of the loops for one product.

    Attributes
    ----------
    key : KernelKey
    blocking : Blocking
    packs_a, packs_b : bool
        Whether blocks of A, and micro-panels of B, are copied first; else they are read in place, which takes
        contiguous rows.
    grid : (int, int)
        Parts of m and of n.
    threads : int
        Threads that compute the parts.
    triangle : str
        ``"d"``: what is above the diagonal of D is left out. ``"a"``: A is symmetric, and one triangle of it is read.
    parts_of_k : int
        Of a product with a vector: parts of k, each with sums of its own. They are combined in their order.
    is_upper : bool
        Whether the triangle of A is the upper one.
    """

    key: KernelKey
    blocking: Blocking
    packs_a: bool
    packs_b: bool
    grid: tuple[int, int]
    threads: int = 1
    triangle: str = ""
    parts_of_k: int = 1
    is_upper: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.key.itemsize

    @property
    def steps(self) -> tuple[int, int]:
        """Of parts, rows and columns are multiples of these: of a triangle whole tiles."""
        if self.triangle:
            return self.key.mr, self.key.lanes * self.key.nv
        return tuning_parts.SIMD_ROW_STEP, self.key.lanes

    @property
    def shares_scratch(self) -> bool:
        """Whether all threads work in one scratch, in which each part has a place; else each thread has its own."""
        return False

    def stages(self, shape: Shape, accumulate: bool) -> list[Stage]:
        """Return the parts of the product: those of a stage are independent, and a stage begins after the one before.

        Addresses among the arguments are offsets from operands and from scratch.
        """
        return [Stage(self.compile(), self._parts(shape, accumulate), self.kernel())]

    def table(self, shape: Shape, accumulate: bool) -> Any:
        """Return the product, complete except for addresses: `run` and `addresses` as of `LoopTable`."""
        return LoopTable(self, shape, accumulate)

    def compile(self) -> Any:
        """Return the compiled loops."""
        return build_product()

    def kernel(self) -> np.ndarray:
        """Return the table of the kernel that the loops are given."""
        return kernel_table(self.key)

    def whole(self, shape: Shape, accumulate: bool, packed_b: int = 0) -> Part:
        """Return the whole product as a part, with the cache blocks of the loops, and whether they pack."""
        x = self.blocking
        return shape.part(accumulate, x.mc, x.nc, x.kc, self.packs_a, self.packs_b, 0, packed_b)

    def _parts(self, shape: Shape, accumulate: bool) -> list[Part]:
        """Return each part of the grid that is not above the diagonal, the largest first."""
        panels = self.scratch_bytes(shape.m, shape.n, shape.k)[0] + self._cut_tile_bytes()
        whole = self.whole(shape, accumulate, panels)
        if self.grid == (1, 1) and not self.triangle:
            return [whole]
        (row_step, column_step), row_of_c, itemsize = self.steps, shape.row_stride_out, self.itemsize
        rows = itertools.pairwise(cut_evenly(shape.m, self.grid[0], row_step))
        columns = itertools.pairwise(cut_evenly(shape.n, self.grid[1], column_step))
        parts = []
        for (i, end), (j, last) in itertools.product(rows, columns):
            m, n = end - i, (min(last, end) if self.triangle == "d" else last) - j
            if n > 0:
                c, block = i * row_of_c + j * itemsize, i * shape.row_stride_block + j * BLOCK_BYTES
                diagonal = j - i if self.triangle == "d" else NO_DIAGONAL
                parts.append(whole.cut(m, n, i * shape.strides_a[0], j * shape.strides_b[1], c, block, diagonal))
        return sorted(parts, key=lambda part: -part.m * part.n) if self.triangle else parts

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return the sizes of a packed block of A, and of packed panels of B, in bytes."""
        x, cut_tile = self.blocking, self._cut_tile_bytes() if self.triangle else 0
        kc = min(x.kc, k)
        of_a = packed_a_bytes(min(x.mc, m), kc, self.key.itemsize) if self.packs_a else 0
        return of_a, cut_tile + (packed_b_bytes(min(x.nc, n), kc, self.key) if self.packs_b else 0)

    def _cut_tile_bytes(self) -> int:
        """Return the bytes before the packed panels of B, for a tile that the diagonal cuts."""
        return tile_bytes(self.key) if self.triangle == "d" else 0


class Shape(NamedTuple):
    """Sizes in elements and strides in bytes: all that the loops need before operands have addresses."""

    m: int
    n: int
    k: int
    strides_a: tuple[int, int]
    strides_b: tuple[int, int]
    row_stride_out: int
    row_stride_block: int = 0

    @classmethod
    def of(cls, a: np.ndarray, b: np.ndarray, out: np.ndarray, block: np.ndarray | None = None) -> Shape:
        """Return the shape of ``out := a (x) b``."""
        strides: Any = a.strides, b.strides, out.strides[0], 0 if block is None else block.strides[0]
        return cls(a.shape[0], b.shape[1], a.shape[1], *strides)

    def part(self, accumulate: bool = False, *others: int) -> Part:
        """Return the whole product as a part, whose operands begin at offset 0; `others`: its fields from `mc` on."""
        m, n, k, (rs_a, cs_a), (rs_b, cs_b), rs_c, rs_block = self
        return Part(m, n, k, 0, rs_a, cs_a, 0, rs_b, cs_b, 0, rs_c, accumulate, 0, rs_block, *others)


class Stage(NamedTuple):
    """Independent parts of a product: a function compiled for a `Part`, and the parts, whose kernel is still to be set.

    `kernel` is a table of numbers and functions that all parts are given by its address.
    """

    function: Any
    parts: list[Part]
    kernel: np.ndarray

    def rows(self, addresses: np.ndarray) -> np.ndarray:
        """Return a row for each part: the function, where the operands' `addresses` begin, and the part."""
        before, kernel = (address_of(self.function), data_address(addresses)), data_address(self.kernel)
        return np.array([(*before, *part[:-1], kernel) for part in self.parts], np.int64)


class LoopTable:
    """The arguments of every part of a product, complete except for the addresses of its operands.

    Parameters
    ----------
    loops : Loops
    shape : Shape
    accumulate : bool

    Attributes
    ----------
    run : callable
        ``run()`` computes ``out := [out (+)] a (x) b``.
    addresses : (5,) array of int64
        Of a, b, out and block (or 0), which must outlive the runs. Set before the first run, and for other operands.
        Then of the scratch, which each run sets.
    """

    run: Run

    def __init__(self, loops: Loops, shape: Shape, accumulate: bool) -> None:
        self._loops, self._shape = loops, shape
        self.addresses = np.zeros(len(OPERANDS) + 1, np.int64)
        self._scratch_bytes = sum(loops.scratch_bytes(shape.m, shape.n, shape.k))
        stages = loops.stages(shape, accumulate)
        tables = [stage.rows(self.addresses) for stage in stages]
        run = self._run(tables)
        run.refers_to = stages, tables, self.addresses  # type: ignore[attr-defined] # it knows them by address
        self.run = run

    def _run(self, tables: list[np.ndarray]) -> Run:
        loops, shape, size = self._loops, self._shape, self._scratch_bytes
        threads = min(loops.threads, max(map(len, tables)))
        each = 0 if loops.shares_scratch else size
        is_long = shape.m * shape.n * shape.k > tuning_simd.SIMD_MOST_PAIRS_WITH_GIL
        stages = [self._run_of(table, threads, each, is_long) for table in tables]
        compute = stages[0] if len(stages) == 1 else functools.partial(_in_turn, stages)
        if size == 0:
            return compute
        needed = max(each * threads, size)
        scratch(needed)  # now, so that the first run need not wait for new pages
        in_scratch = _run_in_scratch if len(stages) == 1 else _run_stages_in_scratch
        return functools.partial(in_scratch, compute, self.addresses, needed)

    def _run_of(self, table: np.ndarray, threads: int, size: int, is_long: bool) -> Run:
        """Return the call that computes the parts of one stage, with `size` bytes of scratch for each thread."""
        if len(table) == 1:
            return functools.partial(build_run_part(is_long), data_address(table))
        return functools.partial(build_run_parts(), table, new_claims(len(table)), threads, size)


def _run_in_scratch(compute: Run, addresses: np.ndarray, size: int) -> None:
    memory = scratch(size)
    addresses[SCRATCH] = memory.address
    compute()


def _run_stages_in_scratch(compute: Run, addresses: np.ndarray, size: int) -> None:
    memory = scratch(size)
    with memory.lock:  # a stage finds the sums of the one before
        addresses[SCRATCH] = memory.address
        compute()


def _in_turn(stages: list[Run]) -> None:
    """Compute stage after stage."""
    for stage in stages:
        stage()


def prepare_product(
    loops: Loops, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool, block: np.ndarray | None = None
) -> Run:
    """Return ``run()``, which computes ``out := [out (+)] a (x) b``.

    Parameters
    ----------
    loops : Loops
    a, b : (m, k) and (k, n) array
        m, n, k >= 1. With any strides where they are packed.
    out : (m, n) array
        Rows contiguous.
    accumulate : bool
    block : (m, n) array of int8, optional
        Rows contiguous. For loops whose kernel tracks blocks of k: receives their numbers.
    """
    table = loops.table(Shape.of(a, b, out, block), accumulate)
    table.addresses[:SCRATCH] = [0 if x is None else data_address(x) for x in (a, b, out, block)]
    run = functools.partial(table.run)
    run.operands = table, a, b, out, block  # type: ignore[attr-defined] # it knows them by address alone
    return run


def cut_evenly(extent: int, parts: int, step: int) -> list[int]:
    """Return the boundaries of `parts` parts of `extent`, each of about as many whole steps."""
    if parts == 1:
        return [0, extent]
    steps = -(-extent // step)
    parts = min(parts, steps)
    return [min(steps * part // parts * step, extent) for part in range(parts + 1)]
