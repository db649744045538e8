"""A product by the generated loops, ready to run: its arguments lie in memory, so that a call passes one address.

With threads, m and n are cut into as many parts as there are threads, each a product of its own with its own scratch:
no part waits for another. A part is one row of the table of arguments.
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
from backends.cpu._generated_kernel import KernelKey
from backends.cpu._generated_loops import ARGUMENTS, build_product, packed_a_bytes, packed_b_bytes
from backends.cpu._jit import jit
from backends.cpu._scratch import Scratch, scratch
from harness.plan import Blocking


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


class PreparedProduct:
    """``out := [out (+)] a (x) b`` with everything settled but the values.

    Parameters
    ----------
    loops : Loops
    a, b : (m, k) and (k, n) array
        m, n, k >= 1. With any strides where they are packed.
    out : (m, n) array
        Rows contiguous.
    accumulate : bool

    Attributes
    ----------
    run : callable
        ``run()`` computes once.
    """

    run: Callable[[], Any]

    def __init__(self, loops: Loops, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        table, memory = _table(loops, a, b, out, accumulate)
        if len(table) == 1:
            run = functools.partial(_entry_point(build_run_part()), table.ctypes.data)
        else:
            run = functools.partial(_entry_point(build_run_parts()), table)
        run.refers_to = table, memory, a, b, out  # type: ignore[attr-defined] # it knows them by address alone
        self.run = run


def _table(loops: Loops, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> tuple[np.ndarray, Scratch]:
    """Return the arguments of every part, a row each, and the memory that they refer to."""
    key, blocking = loops.key, loops.blocking
    product = address_of(build_product(key))
    (m, k), n = a.shape, b.shape[1]
    itemsize = np.dtype(key.dtype).itemsize
    rows, columns = _cuts(m, loops.grid[0], key.mr), _cuts(n, loops.grid[1], key.lanes * key.nv)
    mc, nc, kc = blocking.mc, blocking.nc, blocking.kc
    sizes = (
        packed_a_bytes(min(mc, m), min(kc, k), itemsize) if loops.packs_a else 0,
        packed_b_bytes(min(nc, n), min(kc, k), key) if loops.packs_b else 0,
    )
    per_part = sum(sizes)
    parts = (len(rows) - 1) * (len(columns) - 1)
    memory = scratch(parts * per_part)
    table = np.empty((parts, 1 + len(ARGUMENTS)), np.int64)
    a_begin, b_begin, c_begin = (x.ctypes.data for x in (a, b, out))
    for part in range(parts):
        i, j = divmod(part, len(columns) - 1)
        ic, jc, here = rows[i], columns[j], memory.address + part * per_part
        table[part] = (
            product, rows[i + 1] - ic, columns[j + 1] - jc, k,
            a_begin + ic * a.strides[0], *a.strides,
            b_begin + jc * b.strides[1], *b.strides,
            c_begin + ic * out.strides[0] + jc * itemsize, out.strides[0],
            accumulate, mc, nc, kc, loops.packs_a, loops.packs_b, here, here + sizes[0],
        )  # fmt: skip
    return table, memory


def _cuts(extent: int, parts: int, step: int) -> list[int]:
    """Return where `extent` is cut into `parts` parts of about as many whole steps."""
    steps = -(-extent // step)
    parts = min(parts, steps)
    return [min(steps * part // parts * step, extent) for part in range(parts + 1)]


def _entry_point(compiled: Any) -> Any:
    """Return what Python calls to run a function that has one signature; the dispatcher would look it up each time."""
    (result,) = compiled.overloads.values()
    return result.entry_point


@intrinsic
def _row_at(typing_context: Any, address: Any) -> Any:
    """Return the integers of one row of the table as a tuple."""
    count = 1 + len(ARGUMENTS)

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        row = builder.inttoptr(values[0], v.POINTER)
        loaded = [builder.load(v.advance(builder, row, 8 * i), typ=v.SIZE) for i in range(count)]
        return cgutils.pack_array(builder, loaded)

    return types.UniTuple(types.intp, count)(types.intp), emit


@functools.cache
def build_run_part() -> Any:
    """Compile ``run_part(row)``: compute the part whose arguments begin at an address. The same for every kernel."""

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
