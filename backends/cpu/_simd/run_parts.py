"""Compiled functions that compute rows of a table of arguments: the only one, or all by threads that claim them.

    row     loops   operands   the fields of a `Part`, with offsets for addresses of operands and scratch
            (address of the loops; address where those of `OPERANDS` and of the scratch begin)

Each thread has its own scratch and computes the next part that no thread has taken, until none is left. A late or slow
thread computes fewer. They are the same for every kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._compile.pieces import compiled_for_threads
from backends.cpu._ir.call_by_address import call
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._simd.numpy_object import data_of, fields_of
from backends.cpu._simd.part import Part
from backends.cpu._threads.claims import claim, first_part, next_run
from backends.cpu._threads.pool import for_each
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers, on_stack, word_at

OPERANDS = ("a", "b", "c", "block")  # the fields that are addresses of operands
PACKED, SCRATCH = ("packed_a", "packed_b"), len(OPERANDS)  # addresses in scratch; index of the scratch itself


def read_row(b: Builder, row: Value) -> tuple[Value, Value, dict[str, Value]]:
    """Emit loads of the row at an address; return the loops, the address of those of the operands, and the part."""
    start = b.inttoptr(row, v.POINTER)
    loops, addresses, *fields = (b.load(v.advance(b, start, 8 * i), typ=v.SIZE) for i in range(2 + len(Part._fields)))
    return loops, addresses, dict(zip(Part._fields, fields, strict=True))


def part_at(b: Builder, part: dict[str, Value], begins: dict[str, Value]) -> Part:
    """Return a part with addresses for offsets: each begins at that of its name in `begins`."""
    return Part(**{name: b.add(x, begins[name]) if name in begins else x for name, x in part.items()})


@OfIntegers
def row_at(b: Builder, address: Value, offset: Value) -> tuple[Value, Part]:
    """Return one row of the table: the loops, and the part. Scratch begins `offset` bytes behind its address."""
    loops, addresses, part = read_row(b, address)
    beginnings = b.inttoptr(addresses, v.POINTER)
    begins = {name: b.load(v.advance(b, beginnings, 8 * i), typ=v.SIZE) for i, name in enumerate(OPERANDS)}
    scratch = b.add(b.load(v.advance(b, beginnings, 8 * SCRATCH), typ=v.SIZE), offset)
    return loops, part_at(b, part, begins | dict.fromkeys(PACKED, scratch))


@functools.cache
def build_run_part(releases_gil: bool) -> Callable[[int], None]:
    """Compile ``run_part(row)``: compute the only part, whose row begins at an address. The same for every kernel."""

    def run_part(row: int) -> None:
        """Compute the part."""
        loops, part = row_at(row, 0)
        call(loops, (part,))

    return compiled_for_python(run_part, releases_gil=releases_gil)


def compute_parts(run: int, thread: int) -> None:
    """Compute parts that no other thread has claimed, by the words of a run."""
    table, row_bytes, parts, claims = word_at(run), word_at(run + 8), word_at(run + 16), word_at(run + 24)
    of_run, threads, size = word_at(run + 32), word_at(run + 40), word_at(run + 48)
    number = first_part(parts, threads, thread)
    for _ in range(parts):
        if claim(claims, number, of_run):
            loops, part = row_at(table + number * row_bytes, thread * size)
            call(loops, (part,))
        number = number + 1 if number + 1 < parts else 0


@functools.cache
def build_run_parts() -> Callable[[np.ndarray, np.ndarray, int, int], None]:
    """Compile ``run_parts(table, claims, threads, size)``: compute every part, by threads that claim them.

    Each thread has `size` bytes of the scratch.
    """

    def run_parts(compute: int, table: Any, claims: Any, threads: int, size: int) -> None:
        """Compute all parts."""
        address, parts, _, row_bytes, _ = fields_of(table)
        of_claims = data_of(claims)
        number = next_run(of_claims, parts)
        for_each(compute, on_stack((address, row_bytes, parts, of_claims, number, threads, size)), threads)

    return compiled_for_threads(compute_parts, run_parts)
