"""Compiled functions that compute rows of a table of arguments: the only one, or all by threads that claim them.

    row     loops   operands   ARGUMENTS of the loops, with offsets for addresses of operands and scratch
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

from backends.cpu._compile.call_by_address import call
from backends.cpu._compile.jit import jit
from backends.cpu._simd.loops import ARGUMENTS
from backends.cpu._threads.claims import claim, first_part, next_run
from backends.cpu._threads.limits import limit_threads, restore_threads
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import emits

OPERANDS = ("a", "b", "c", "block")  # the arguments that are addresses of operands
PACKED, SCRATCH = ("packed_a", "packed_b"), len(OPERANDS)  # addresses in scratch; index of the scratch itself


def entry_point(compiled: Any) -> Any:
    """Return the function behind a dispatcher with one signature, to save a look-up in every call."""
    (result,) = compiled.overloads.values()
    return result.entry_point


@emits(types.UniTuple(types.intp, 1 + len(ARGUMENTS)), types.intp, types.intp)
def _row_at(b: Builder, address: Value, offset: Value) -> Value:
    """Return one row of the table as a tuple: the loops, and their arguments with addresses for offsets.

    Scratch begins `offset` bytes behind its address.
    """
    row = b.inttoptr(address, v.POINTER)
    loops, addresses, *arguments = (b.load(v.advance(b, row, 8 * i), typ=v.SIZE) for i in range(2 + len(ARGUMENTS)))
    beginnings = b.inttoptr(addresses, v.POINTER)
    for number, name in enumerate(OPERANDS):
        i, begin = ARGUMENTS.index(name), b.load(v.advance(b, beginnings, 8 * number), typ=v.SIZE)
        arguments[i] = b.add(arguments[i], begin)
    scratch = b.add(b.load(v.advance(b, beginnings, 8 * SCRATCH), typ=v.SIZE), offset)
    for name in PACKED:
        i = ARGUMENTS.index(name)
        arguments[i] = b.add(arguments[i], scratch)
    return cgutils.pack_array(b, [loops, *arguments])


@functools.cache
def build_run_part(releases_gil: bool) -> Any:
    """Compile ``run_part(row)``: compute the only part, whose row begins at an address. The same for every kernel."""

    def run_part(row: int) -> None:
        arguments = _row_at(row, 0)
        call(arguments[0], arguments[1:])

    return jit(None, types.intp, parallel=False, releases_gil=releases_gil)(run_part)


@functools.cache
def build_run_parts() -> Any:
    """Compile ``run_parts(table, claims, threads, size)``: compute every part, by threads that claim them.

    Each thread has `size` bytes of the scratch.
    """

    def run_parts(table: np.ndarray, claims: np.ndarray, threads: int, size: int) -> None:
        number, before = next_run(claims), limit_threads(threads)
        for thread in prange(threads):
            parts = table.shape[0]
            part = first_part(parts, threads, np.intp(thread))
            for _ in range(parts):
                if claim(claims, part, number):
                    arguments = _row_at(table[part].ctypes.data, np.intp(thread) * size)
                    call(arguments[0], arguments[1:])
                part = part + 1 if part + 1 < parts else 0
        restore_threads(before)

    words = types.Array(types.int64, 1, "C")
    return jit(None, types.Array(types.int64, 2, "C"), words, types.intp, types.intp)(run_parts)
