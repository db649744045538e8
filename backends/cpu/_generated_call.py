"""A product by the generated loops, ready to run: its arguments lie in memory, so that a call passes one address.

With threads, m and n are cut into as many parts as there are threads, each a product of its own with its own scratch:
no part waits for another. A part is one row of the table of arguments. Where operands begin stands apart, four
addresses for all rows, to which those of a part are relative: so other operands are four numbers, not a new table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from backends.cpu import _vector_code as v
from backends.cpu._address import address_of, call
from backends.cpu._block_tracker import BLOCK_BYTES
from backends.cpu._generated_kernel import KernelKey
from backends.cpu._generated_loops import ARGUMENTS, build_product, packed_a_bytes, packed_b_bytes
from backends.cpu._jit import jit
from backends.cpu._scratch import scratch
from harness.plan import Blocking

OPERANDS = ("a", "b", "c", "block")  # the arguments that are addresses of operands


class Loops(NamedTuple):
    """How the loops go about one product.

    Attributes
    ----------
    key : KernelKey
    blocking : Blocking
    packs_a, packs_b : bool
        Whether blocks of A, and micro-panels of B, are copied first; else they are read where they lie, which takes
        contiguous rows.
    grid : (int, int)
        Parts of m and of n; each part runs on a thread of its own.
    """

    key: KernelKey
    blocking: Blocking
    packs_a: bool
    packs_b: bool
    grid: tuple[int, int]

    def compile(self) -> Any:
        """Return the compiled loops."""
        return build_product(self.key)

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return the sizes of a packed block of A, and of packed panels of B, in bytes."""
        mc, nc, kc = min(self.blocking.mc, m), min(self.blocking.nc, n), min(self.blocking.kc, k)
        return (
            packed_a_bytes(mc, kc, np.dtype(self.key.dtype).itemsize) if self.packs_a else 0,
            packed_b_bytes(nc, kc, self.key) if self.packs_b else 0,
        )


class Shape(NamedTuple):
    """Sizes in elements and strides in bytes: all that the loops must know of operands before they have addresses."""

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


class LoopTable:
    """The arguments of every part of a product, ready but for the addresses of its operands.

    Parameters
    ----------
    loops : Loops
    shape : Shape
    accumulate : bool

    Attributes
    ----------
    run : callable
        ``run()`` computes ``out := [out (+)] a (x) b``.
    addresses : (4,) array of int64
        Of a, b, out and block (or 0), which must outlive the runs. Set before the first of them, and whenever the
        operands are others.
    """

    run: Callable[[], Any]

    def __init__(self, loops: Loops, shape: Shape, accumulate: bool) -> None:
        self._loops, self._shape, self._accumulate = loops, shape, accumulate
        self.addresses = np.zeros(len(OPERANDS), np.int64)
        table = self._fill()
        if len(table) == 1:
            run = functools.partial(entry_point(build_run_part()), table.ctypes.data)
        else:
            run = functools.partial(entry_point(build_run_parts()), table)
        run.refers_to = table, self.addresses, self._memory  # type: ignore[attr-defined] # it knows them by address
        self.run = run

    def _fill(self) -> np.ndarray:
        """Return a row for each part: the loops, where operands begin, and arguments, with offsets for addresses."""
        key, blocking, shape, loops = self._loops.key, self._loops.blocking, self._shape, self._loops
        product, itemsize = address_of(loops.compile()), np.dtype(key.dtype).itemsize
        rows = cut_evenly(shape.m, loops.grid[0], key.mr)
        columns = cut_evenly(shape.n, loops.grid[1], key.lanes * key.nv)
        mc, nc, kc = blocking.mc, blocking.nc, blocking.kc
        sizes = loops.scratch_bytes(shape.m, shape.n, shape.k)
        parts = (len(rows) - 1) * (len(columns) - 1)
        self._memory = scratch(parts * sum(sizes))
        table, addresses = np.empty((parts, 2 + len(ARGUMENTS)), np.int64), self.addresses.ctypes.data
        for part in range(parts):
            i, j = divmod(part, len(columns) - 1)
            ic, jc, here = rows[i], columns[j], self._memory.address + part * sum(sizes)
            table[part] = (
                product, addresses, rows[i + 1] - ic, columns[j + 1] - jc, shape.k,
                ic * shape.strides_a[0], *shape.strides_a,
                jc * shape.strides_b[1], *shape.strides_b,
                ic * shape.row_stride_out + jc * itemsize, shape.row_stride_out,
                self._accumulate, ic * shape.row_stride_block + jc * BLOCK_BYTES, shape.row_stride_block,
                mc, nc, kc, loops.packs_a, loops.packs_b, here, here + sizes[0],
            )  # fmt: skip
        return table


def prepare_product(
    loops: Loops, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool, block: np.ndarray | None = None
) -> Callable[[], Any]:
    """Return ``run()``, which computes ``out := [out (+)] a (x) b``.

    Parameters
    ----------
    loops : Loops
    a, b : (m, k) and (k, n) array
        m, n, k >= 1. With any strides where they are packed.
    out : (m, n) array
        Rows contiguous.
    accumulate : bool
    block : (m, n) array of int32, optional
        Rows contiguous. For loops whose kernel tracks blocks of k: takes their numbers.
    """
    table = LoopTable(loops, Shape.of(a, b, out, block), accumulate)
    table.addresses[:] = [0 if x is None else x.ctypes.data for x in (a, b, out, block)]
    table.run.operands = a, b, out, block  # type: ignore[attr-defined] # it knows them by address alone
    return table.run


def cut_evenly(extent: int, parts: int, step: int) -> list[int]:
    """Return where `extent` is cut into `parts` parts of about as many whole steps."""
    steps = -(-extent // step)
    parts = min(parts, steps)
    return [min(steps * part // parts * step, extent) for part in range(parts + 1)]


def entry_point(compiled: Any) -> Any:
    """Return what Python calls to run a function that has one signature; the dispatcher would look it up each time."""
    (result,) = compiled.overloads.values()
    return result.entry_point


@intrinsic
def _row_at(typing_context: Any, address: Any) -> Any:
    """Return one row of the table as a tuple: the loops, and their arguments with the addresses of operands."""
    count = len(ARGUMENTS)
    operands = {ARGUMENTS.index(name): number for number, name in enumerate(OPERANDS)}

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        row = builder.inttoptr(values[0], v.POINTER)
        loops, addresses, *arguments = (
            builder.load(v.advance(builder, row, 8 * i), typ=v.SIZE) for i in range(2 + count)
        )
        beginnings = builder.inttoptr(addresses, v.POINTER)
        for argument, number in operands.items():
            begin = builder.load(v.advance(builder, beginnings, 8 * number), typ=v.SIZE)
            arguments[argument] = builder.add(arguments[argument], begin)
        return cgutils.pack_array(builder, [loops, *arguments])

    return types.UniTuple(types.intp, 1 + count)(types.intp), emit


@functools.cache
def build_run_part() -> Any:
    """Compile ``run_part(row)``: compute the part whose row begins at an address. The same for every kernel."""

    def run_part(row: int) -> None:
        arguments = _row_at(row)
        call(arguments[0], arguments[1:])

    return jit(None, types.intp, parallel=False)(run_part)


@functools.cache
def build_run_parts() -> Any:
    """Compile ``run_parts(table)``: compute every part, each on a thread of its own."""
    run_part = build_run_part()

    def run_parts(table: np.ndarray) -> None:
        for part in prange(table.shape[0]):
            run_part(table[np.intp(part)].ctypes.data)

    return jit(None, types.Array(types.int64, 2, "C"))(run_parts)
