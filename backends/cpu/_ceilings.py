"""Measured ceilings of this machine: pairs per second out of registers, bytes per second out of each level of memory.

`peak` runs the arithmetic of the micro-kernel without its loads (`_simd.register_loop`): only its units bound it.
`bandwidth` sums an array of a given size again and again; the size decides which cache it comes from. Either can be
timed in turns with a product, so that what slows the machine down slows both. The sums are of
integers: an addition of floats takes several cycles, and some processors load more from L1 meanwhile. Both are tasks
(`harness.run.task`), measured and stored like any product. Figures take the machine's roofs from them, not from a
vendor's table.

Source: Williams, Waterman and Patterson, "Roofline" (2009), section 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._cache.cache import compile_kernel
from backends.cpu._simd.bits import WORD, WORD_BITS
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.register_loop import register_loop
from backends.cpu._vector.operators import operations
from backends.cpu._vector.unit import find_unit, usable_units
from harness.dtypes import is_bool, parts_dtype
from harness.errors import Declined, VerificationError
from harness.operands import CACHE_LINE, aligned_empty
from harness.semiring import SEMIRINGS

STEPS = 1 << 15  # times each accumulator is extended in one call; even, and few enough for exact sums in float32
BYTES_PER_CALL = 1 << 26  # read in one call of `bandwidth`, whatever the size of the array


class Ceiling:
    """A loop as a task, whose results are known in advance.

    Parameters
    ----------
    name : str
    result : str
        Name of one result, in messages.
    loop : callable
        ``loop()`` fills `results`.
    results, expected : array, and scalar
        Every result has the same value.
    facts : mapping
        The work of one call.
    """

    def __init__(
        self, name: str, result: str, loop: Callable[[], Any], results: np.ndarray, expected: Any, facts: dict[str, int]
    ) -> None:
        self._name, self._result, self._facts = name, result, facts
        self._loop, self._results, self._expected = loop, results, expected

    def run(self) -> None:
        """Compute every result once."""
        self._loop()

    def wait(self) -> None:
        """Return: the loop has returned."""

    def spoil(self) -> None:
        """Forget the results."""
        self._results.fill(17)

    def verify(self) -> str:
        """Compare every result with the expected value."""
        if not (self._results == self._expected).all():
            article = "an" if self._result[0] in "aeiou" else "a"
            message = f"{self._name}: {article} {self._result} is wrong"
            raise VerificationError(message, expected=str(self._expected), got=str(self._results))
        return f"every {self._result}, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        return self._facts


# x (x) y of ones, where it is not one.
_TERM = {"plus": 2, "absdiff": 0, "sqdiff": 0}


def peak(*, dtype: str, semiring: str, threads: int, unit: str = "", steps: int = STEPS) -> Ceiling:
    """Prepare the register loop of a named semiring; for logaddexp_plus, that of plus_times; of complex numbers, parts.

    Of the widest vector unit, or of the one called `unit`.

    On each thread the vectors of the unit's `chains` are extended `steps` times, an even number, by x (x) y of ones.
    A result is lane 0 of all of them together.

    Raises
    ------
    Declined
        If there is no vector code for an operation.
    PlanError
        If this processor does not have `unit`.
    """
    element, found = parts_dtype(np.dtype(dtype)), find_unit(unit) if unit else usable_units()[0]
    computed = SEMIRINGS["plus_times" if semiring == "logaddexp_plus" else semiring]
    ops = operations(computed, element) if SEMIRINGS[semiring].unsupported(element) is None else None
    if ops is None:
        raise Declined("declined", f"no vector code for {semiring} over {dtype}")
    word, bits, one = (WORD, WORD_BITS, -1) if is_bool(element) else (element, 1, 1)
    key = KernelKey(ops, word.name, found.name, *found.chains)
    results, number = np.empty(threads, word), word.type(one)
    loop = functools.partial(register_loop(key, threads), steps, number, number, results)
    term, terms = _TERM.get(ops.multiply, one), steps * math.prod(found.chains)
    sums = {"plus": term * terms, "times": term**terms, "lxor": term if terms % 2 else 0}
    expected = np.asarray(sums.get(ops.add, term)).astype(word)
    pairs = terms * key.lanes * bits * threads
    facts = {"operations": 2 * pairs, "bytes_moved": 0, "lanes": key.lanes}
    return Ceiling("peak", "accumulator", loop, results, expected, facts)


def peak_of(*, problem: Mapping[str, Any], seed: int, threads: int) -> Ceiling:
    """Prepare the register loop of a product's semiring and dtype, to be timed alternately with the product."""
    return peak(dtype=str(problem["dtype"]), semiring=str(problem["semiring"]), threads=threads)


def bandwidth(*, size_bytes: int, threads: int, capacity_bytes: int = 0) -> Ceiling:
    """Prepare sums of an array of `size_bytes`, shared by the threads, until BYTES_PER_CALL are read.

    `capacity_bytes` is what the memory holds that it lies in; 0: not known, or main memory. It is kept with the result.
    """
    line = CACHE_LINE // 8
    share = -(-size_bytes // 8 // threads // line) * line or line
    passes = max(BYTES_PER_CALL // size_bytes, 1)
    array = aligned_empty((threads, share), np.dtype(np.int64))
    array.fill(1)
    sums = np.zeros(threads, np.int64)
    loop = functools.partial(build_read_repeatedly(), array, passes, sums)
    facts = {"operations": 0, "bytes_moved": array.nbytes * passes, "capacity_bytes": capacity_bytes}
    return Ceiling("bandwidth", "sum", loop, sums, share * passes, facts)


def read_of(*, problem: Mapping[str, Any], seed: int, threads: int) -> Ceiling:
    """Prepare sums of as many bytes as a matrix has that meets a vector, to be timed alternately with their product."""
    elements = int(problem["m"]) * int(problem["n"]) * int(problem["k"])
    return bandwidth(size_bytes=elements * np.dtype(str(problem["dtype"])).itemsize, threads=threads)


@functools.cache
def build_read_repeatedly() -> Any:
    """Compile `read_repeatedly`, when it is first needed: a process that measures a peak alone has no use for it."""
    signature = types.void(types.Array(types.int64, 2, "C"), types.intp, types.Array(types.int64, 1, "C"))
    return compile_kernel(read_repeatedly, signature, {"parallel": True})


def read_repeatedly(array: np.ndarray, passes: int, sums: np.ndarray) -> None:
    """Sum row i of `array` `passes` times into ``sums[i]``, a row a thread."""
    for thread in prange(array.shape[0]):
        row, total = array[thread], 0
        for _ in range(passes):
            part = 0
            for i in range(row.size):
                part += row[i]
            total += part
        sums[thread] = total
