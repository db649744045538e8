"""Compiled functions that compute rows of a table of arguments: the only one, or all by threads that claim them.

    row     loops   operands   the fields of a `Part`, with offsets for addresses of operands and scratch
            (address of the loops; address where those of `OPERANDS` and of the scratch begin)

Each thread has its own scratch and computes the next part that no thread has taken, until none is left. A late or slow
thread computes fewer. They are the same for every kernel.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import prange, types
from numba.core import cgutils

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.call_by_address import call
from backends.cpu._compile.jit import jit
from backends.cpu._simd.part import PART, Part
from backends.cpu._threads.claims import claim, first_part, next_run
from backends.cpu._threads.limits import limit_threads, restore_threads
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import emits

OPERANDS = ("a", "b", "c", "block")  # the fields that are addresses of operands
PACKED, SCRATCH = ("packed_a", "packed_b"), len(OPERANDS)  # addresses in scratch; index of the scratch itself


@functools.cache  # the look-up compares keys in Python: where a signal handler raises meanwhile, it ends in a KeyError
def entry_point(compiled: Any) -> Any:
    """Return the function behind a dispatcher with one signature, to save a look-up in every call."""
    (result,) = compiled.overloads.values()
    return result.entry_point


LOOPS_AND_PART = types.Tuple((types.intp, PART))


def read_row(b: Builder, row: Value) -> tuple[Value, Value, dict[str, Value]]:
    """Emit loads of the row at an address; return the loops, the address of those of the operands, and the part."""
    start = b.inttoptr(row, v.POINTER)
    loops, addresses, *fields = (b.load(v.advance(b, start, 8 * i), typ=v.SIZE) for i in range(2 + len(Part._fields)))
    return loops, addresses, dict(zip(Part._fields, fields, strict=True))


def loops_and_part(b: Builder, loops: Value, part: dict[str, Value], begins: dict[str, Value]) -> Value:
    """Emit a value of `LOOPS_AND_PART`, with addresses for offsets: each begins at that of its name in `begins`."""
    fields = [b.add(x, begins[name]) if name in begins else x for name, x in part.items()]
    return cgutils.pack_struct(b, [loops, cgutils.pack_array(b, fields)])


@emits(LOOPS_AND_PART, types.intp, types.intp)
def row_at(b: Builder, address: Value, offset: Value) -> Value:
    """Return one row of the table: the loops, and the part. Scratch begins `offset` bytes behind its address."""
    loops, addresses, part = read_row(b, address)
    beginnings = b.inttoptr(addresses, v.POINTER)
    begins = {name: b.load(v.advance(b, beginnings, 8 * i), typ=v.SIZE) for i, name in enumerate(OPERANDS)}
    scratch = b.add(b.load(v.advance(b, beginnings, 8 * SCRATCH), typ=v.SIZE), offset)
    return loops_and_part(b, loops, part, begins | dict.fromkeys(PACKED, scratch))


@kernel_builder
def build_run_part(releases_gil: bool) -> Any:
    """Compile ``run_part(row)``: compute the only part, whose row begins at an address. The same for every kernel."""

    def run_part(row: int) -> None:
        loops, part = row_at(row, 0)
        call(loops, (part,))

    return jit(None, types.intp, parallel=False, releases_gil=releases_gil)(run_part)


@kernel_builder
def build_run_parts() -> Any:
    """Compile ``run_parts(table, claims, threads, size)``: compute every part, by threads that claim them.

    Each thread has `size` bytes of the scratch.
    """

    def run_parts(table: np.ndarray, claims: np.ndarray, threads: int, size: int) -> None:
        of_run, before = next_run(claims), limit_threads(threads)
        for thread in prange(threads):
            parts = table.shape[0]
            number = first_part(parts, threads, np.intp(thread))
            for _ in range(parts):
                if claim(claims, number, of_run):
                    loops, part = row_at(table[number].ctypes.data, np.intp(thread) * size)
                    call(loops, (part,))
                number = number + 1 if number + 1 < parts else 0
        restore_threads(before)

    words = types.Array(types.int64, 1, "C")
    return jit(None, types.Array(types.int64, 2, "C"), words, types.intp, types.intp)(run_parts)
