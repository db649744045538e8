"""Measured ceilings of this machine: pairs per second out of registers, bytes per second out of each level of memory.

`peak` runs the generated micro-kernel without its loads (`_simd.register_loop`): only the arithmetic units bound it.
`bandwidth` sums an array of a given size again and again: the size decides which cache it comes from. Both are tasks
(`harness.run.task`), measured and stored like any product; figures take the machine's roofs from them, never from a
vendor's table.

Source: Williams, Waterman and Patterson, "Roofline" (2009), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
from numba import prange, types

from backends.cpu._simd.bits import WORD, WORD_BITS
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.register_loop import register_loop
from backends.cpu._vector.operators import operations
from backends.cpu._vector.unit import usable_units
from harness.errors import Declined, VerificationError
from harness.operands import CACHE_LINE, aligned_empty
from harness.semiring import SEMIRINGS

STEPS = 1 << 15  # times each accumulator is extended in one call; even, and few enough for exact sums in float32
BYTES_PER_CALL = 1 << 26  # read in one call of `bandwidth`, whatever the size of the array


class RegisterLoop:
    """`peak` as a task: on each thread, STEPS times the mr x nv vectors of a register tile.

    Parameters
    ----------
    key : KernelKey
    pairs_per_lane : int
        1, or the bits of a word.
    threads : int
    """

    def __init__(self, key: KernelKey, pairs_per_lane: int, threads: int) -> None:
        self._key, self._threads, self._pairs_per_lane = key, threads, pairs_per_lane
        self._loop = register_loop(key, threads)
        self._one = np.dtype(key.dtype).type(1 if pairs_per_lane == 1 else -1)
        self._results = np.empty(threads, key.dtype)

    def run(self) -> None:
        """Extend every accumulator STEPS times on each thread."""
        self._loop(STEPS, self._one, self._one, self._results)

    def wait(self) -> None:
        """Return: the loop has returned."""

    def spoil(self) -> None:
        """Forget the results."""
        self._results.fill(17)

    def verify(self) -> str:
        """Compare lane 0 of all accumulators together with arithmetic on x = y = one."""
        operations, terms = self._key.operations, STEPS * self._key.mr * self._key.nv
        term = _TERM.get(operations.multiply, int(self._one))
        sums = {"plus": term * terms, "times": term**terms, "lxor": term if terms % 2 else 0}
        expected = np.asarray(sums.get(operations.add, term)).astype(self._key.dtype)
        if not (self._results == expected).all():
            raise VerificationError("peak: an accumulator is wrong", expected=str(expected), got=str(self._results))
        return "every accumulator, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        lanes = self._key.lanes
        pairs = STEPS * self._key.mr * self._key.nv * lanes * self._pairs_per_lane * self._threads
        return {"operations": 2 * pairs, "bytes_moved": 0, "lanes": lanes}


# x (x) y of ones, where it is not one.
_TERM = {"plus": 2, "absdiff": 0, "sqdiff": 0}


class ReadLoop:
    """`bandwidth` as a task: sums of an array of `size_bytes`, shared by the threads, until BYTES_PER_CALL are read."""

    def __init__(self, size_bytes: int, threads: int) -> None:
        line = CACHE_LINE // 8
        self._share = -(-size_bytes // 8 // threads // line) * line or line
        self._passes = max(BYTES_PER_CALL // size_bytes, 1)
        self._array = aligned_empty((threads, self._share), np.dtype(np.float64))
        self._array.fill(1.0)
        self._sums = np.zeros(threads)

    def run(self) -> None:
        """Read the array `passes` times."""
        read_repeatedly(self._array, self._passes, self._sums)

    def wait(self) -> None:
        """Return: the loop has returned."""

    def spoil(self) -> None:
        """Forget the sums."""
        self._sums.fill(np.nan)

    def verify(self) -> str:
        """Compare every thread's sum of ones."""
        expected = float(self._share * self._passes)
        if not (self._sums == expected).all():
            raise VerificationError("bandwidth: a sum is wrong", expected=str(expected), got=str(self._sums))
        return "every sum, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the traffic of one call."""
        return {"operations": 0, "bytes_moved": self._array.nbytes * self._passes}


def peak(*, dtype: str, semiring: str, threads: int) -> RegisterLoop:
    """Prepare the register loop of a named semiring; of logaddexp_plus that of the real product it becomes.

    Raises
    ------
    Declined
        If there is no vector code for an operation.
    """
    kind, unit = np.dtype(dtype), usable_units()[0]
    computed = SEMIRINGS["plus_times" if semiring == "logaddexp_plus" else semiring]
    ops = operations(computed, kind) if SEMIRINGS[semiring].unsupported(kind) is None else None
    if ops is None:
        raise Declined("declined", f"no vector code for {semiring} over {dtype}")
    word, bits = (WORD, WORD_BITS) if kind.kind == "b" else (kind, 1)
    return RegisterLoop(KernelKey(ops, word.name, unit.name, unit.mr, unit.nv), bits, threads)


def peak_of(*, problem: Mapping[str, Any], seed: int, threads: int) -> RegisterLoop:
    """Prepare the register loop of a product's semiring and dtype, to be timed in turns with the product."""
    return peak(dtype=str(problem["dtype"]), semiring=str(problem["semiring"]), threads=threads)


def bandwidth(*, size_bytes: int, threads: int) -> ReadLoop:
    """Prepare the read loop over `size_bytes` in all."""
    return ReadLoop(size_bytes, threads)


@numba.njit(
    types.void(types.Array(types.float64, 2, "C"), types.intp, types.Array(types.float64, 1, "C")),
    parallel=True,
    fastmath={"reassoc", "nsz"},
)
def read_repeatedly(array: np.ndarray, passes: int, sums: np.ndarray) -> None:
    """Sum row i of `array` `passes` times into ``sums[i]``, a row a thread."""
    for thread in prange(array.shape[0]):
        row, total = array[thread], 0.0
        for _ in range(passes):
            part = 0.0
            for i in range(row.size):
                part += row[i]
            total += part
        sums[thread] = total
