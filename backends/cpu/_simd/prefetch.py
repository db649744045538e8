"""Prefetches inside a generated loop: how far they bring a line, and which lines of an operand, an iteration each."""

from __future__ import annotations

from typing import NamedTuple

from backends.cpu._vector.code import Value
from harness.operands import CACHE_LINE

INTO_L1, INTO_L2 = 3, 2


class Prefetch(NamedTuple):
    """Prefetches of a loop: each of its first `iterations` fetches the lines at `offsets` from a moving pointer.

    Each of these iterations has `steps` steps of k.
    """

    pointer: Value
    stride: Value
    offsets: tuple[int, ...]
    locality: int
    iterations: Value
    steps: int


def touched_lines(width: int) -> tuple[int, ...]:
    """Return the offsets that touch every cache line of `width` bytes at any alignment."""
    return (*range(0, width, CACHE_LINE), width - 1)
