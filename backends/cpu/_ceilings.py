"""Measured ceilings of this machine: pairs per second out of registers, bytes per second out of each level of memory.

`peak` runs independent chains of (x) and (+) on vectors that never leave their registers: no loads, so nothing but the
arithmetic units bounds it. `bandwidth` sums an array of a given size again and again: the size decides which cache it
comes from. Both are tasks (`harness.task`), measured and stored like any product; figures take the machine's roofs from
them, never from a vendor's table.

Source: Williams, Waterman and Patterson, "Roofline" (2009), section 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from harness.errors import Declined, VerificationError
from harness.operands import CACHE_LINE, aligned_empty
from harness.semiring import SEMIRINGS, Semiring

CHAINS = 12  # independent accumulators: more than latency x units anywhere (4 x 2), fewer than 16 registers
STEPS = 1 << 16  # times each chain is extended in one call
BYTES_PER_CALL = 1 << 26  # read in one call of `bandwidth`, whatever the size of the array

Emitter = Callable[[ir.IRBuilder, Any, Any], Any]

# Vector width in bytes by the CPU feature that brings it, widest first.
_WIDTHS = (("avx512f", 64), ("avx", 32), ("sse2", 16), ("neon", 16))


def _select(order: str) -> Emitter:
    return lambda b, x, y: b.select(b.fcmp_ordered(order, x, y), x, y)


_EMITTERS: dict[str, Emitter] = {
    "plus": lambda b, x, y: b.fadd(x, y, flags=("contract",)),  # with times it becomes FMA
    "times": lambda b, x, y: b.fmul(x, y, flags=("contract",)),
    "min": _select("<"),
    "max": _select(">"),
}


class RegisterLoop:
    """`peak` as a task: ``threads`` times STEPS x CHAINS vector pairs.

    Parameters
    ----------
    semiring : Semiring
        Over floats, of plus, times, min and max.
    dtype : numpy dtype
    threads : int
    """

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any], threads: int) -> None:
        self._semiring, self._threads = semiring, threads
        self._lanes = vector_bytes() // dtype.itemsize
        self._kernel = build_register_loop(semiring, dtype, self._lanes)
        self._results = np.zeros(threads, dtype)

    def run(self) -> None:
        """Extend every chain STEPS times on each thread."""
        self._kernel(STEPS, self._results)

    def wait(self) -> None:
        """Return: the loop has returned."""

    def spoil(self) -> None:
        """Forget the results."""
        self._results.fill(np.nan)

    def verify(self) -> str:
        """Compare one lane of every chain's sum with arithmetic on x = y = 1."""
        add, multiply = self._semiring.add.name, self._semiring.multiply.name
        term = {"plus": 2, "times": 1, "min": 1, "max": 1}[multiply]
        expected = term * STEPS * CHAINS if add == "plus" else term
        if not (self._results == expected).all():
            raise VerificationError("peak: a chain is wrong", expected=str(expected), got=str(self._results))
        return "every chain, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        pairs = STEPS * CHAINS * self._lanes * self._threads
        return {"operations": 2 * pairs, "bytes_moved": 0, "lanes": self._lanes}


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
    """Prepare the register loop of a named semiring over float32 or float64.

    Raises
    ------
    Declined
        If there is no vector instruction for an operation here.
    """
    chosen = SEMIRINGS[semiring]
    for op in (chosen.add.name, chosen.multiply.name):
        if op not in _EMITTERS or np.dtype(dtype).kind != "f":
            raise Declined("declined", f"no register loop for {semiring} over {dtype}")
    return RegisterLoop(chosen, np.dtype(dtype), threads)


def bandwidth(*, size_bytes: int, threads: int) -> ReadLoop:
    """Prepare the read loop over `size_bytes` in all."""
    return ReadLoop(size_bytes, threads)


@functools.cache
def vector_bytes() -> int:
    """Return the width of this processor's vectors, in bytes, from LLVM's list of its features."""
    features = llvm.get_host_cpu_features()
    return next((width for name, width in _WIDTHS if features.get(name)), 16)


@functools.cache
def build_register_loop(semiring: Semiring, dtype: np.dtype[Any], lanes: int) -> Any:
    """Compile ``loop(steps, results)``: one result a thread."""
    chains = _chains(semiring, lanes)
    one, zero = dtype.type(1), semiring.zero(dtype)

    @numba.njit(types.void(types.intp, types.Array(numba.from_dtype(dtype), 1, "C")), parallel=True)
    def loop(steps: int, results: np.ndarray) -> None:
        for thread in prange(results.size):
            results[thread] = chains(steps, one, one, zero)

    return loop


def _chains(semiring: Semiring, lanes: int) -> Any:
    """Return ``chains(steps, x, y, zero)``, which extends every chain `steps` times and returns lane 0 of their sum."""
    add, multiply = _EMITTERS[semiring.add.name], _EMITTERS[semiring.multiply.name]
    llvm.initialize_native_asmparser()  # or LLVM aborts the process at the empty assembly below

    @intrinsic
    def chains(typing_context: Any, steps: Any, x: Any, y: Any, zero: Any) -> Any:
        def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            steps, *scalars = args
            vector = ir.VectorType(scalars[0].type, lanes)
            x, y, zero = (_splat(builder, vector, value) for value in scalars)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(CHAINS)]
            with cgutils.for_range(builder, steps):
                for total in sums:
                    # x passes through empty assembly, so that LLVM cannot compute the term once for all
                    term = multiply(builder, _opaque(builder, vector, x), y)
                    builder.store(add(builder, builder.load(total), term), total)
            combined = functools.reduce(lambda c, t: add(builder, c, t), [builder.load(s) for s in sums])
            return builder.extract_element(combined, ir.Constant(ir.IntType(32), 0))

        return zero(types.intp, zero, zero, zero), emit

    return chains


def _splat(builder: ir.IRBuilder, vector: Any, value: Any) -> Any:
    index = ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, index)
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, first, mask)


def _opaque(builder: ir.IRBuilder, vector: Any, value: Any) -> Any:
    constraint = "=w,0" if llvm.get_process_triple().startswith(("aarch64", "arm64")) else "=v,0"
    return builder.asm(ir.FunctionType(vector, [vector]), "", constraint, [value], side_effect=False)


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
