"""Measured ceilings of a GPU, as tasks: pairs per second out of registers (`peak.cu`), and bytes copied per second.

The form of (x) is that of the fastest kernels. They use plain sums of integers if the values allow them, and two 16-bit
elements a word if an instruction works on both. Kernels may come close to a ceiling. Tensor cores are other
instructions and may exceed it.

Source: Williams, Waterman and Patterson, "Roofline" (2009), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines, load_kernel
from backends.gpu._program.operators import Form, semiring_defines, unsupported
from backends.gpu._simt import pairs as simt_pairs
from backends.gpu._tasks.device_task import DeviceTask, require_gpu
from harness.dtypes import dtype_name
from harness.errors import Declined, VerificationError
from harness.semiring import SEMIRINGS, Semiring
from harness.tuning.device import ASYNC_COPY

# Steps that are unrolled; steps of a call; threads of a block; blocks of a multiprocessor at once.
UNROLLED, STEPS, THREADS, BLOCKS = 8, 4096, 256, 4
_LOCAL_BYTES = 3  # cuda.h, CUfunction_attribute: local memory of a thread


def sums_of(dtype: np.dtype[Any]) -> int:
    """Return how many sums, or words of sums, a thread has: those that 64 registers hold beside the operands."""
    return 8 if dtype.itemsize == 8 else 16


def per_sum(dtype: np.dtype[Any]) -> int:
    """Return how many elements such a sum holds."""
    return simt_pairs.PER_WORD if dtype.itemsize == 2 else 1


def peak_defines(semiring: Semiring, dtype: np.dtype[Any]) -> Defines:
    """Return the macros of `peak.cu`."""
    loop = as_defines({"SUMS": sums_of(dtype), "UNROLLED": UNROLLED, "THREADS": THREADS})
    if per_sum(dtype) > 1:
        return simt_pairs.pair_defines(semiring, dtype) + loop
    return semiring_defines(semiring, dtype, form=Form.FAST if semiring.absorbs(dtype) else Form.ANY) + loop


class RegisterLoop(DeviceTask):
    """The loop of `peak.cu` on every multiprocessor."""

    def __init__(self, semiring: Semiring, dtype: np.dtype[Any]) -> None:
        self._semiring, self._dtype = semiring, dtype
        self._kernel = load_kernel("peak", peak_defines(semiring, dtype), "peak")
        spilled = device.cupy().cuda.driver.funcGetAttribute(_LOCAL_BYTES, self._kernel.ptr)
        if spilled:
            raise Declined("declined", f"the register loop keeps {spilled} bytes in memory here, so it is no ceiling")
        self._blocks = BLOCKS * device.device().multiprocessors
        self._out = device.empty((self._blocks * THREADS,), dtype)
        self._ones = device.upload(np.ones(per_sum(dtype) * (sums_of(dtype) + UNROLLED), dtype))
        self._arguments = *(np.uint64(x.data.ptr) for x in (self._ones, self._out)), np.int32(STEPS)

    def run(self) -> None:
        """Launch the loop."""
        self._kernel((self._blocks,), (THREADS,), self._arguments)

    def spoil(self) -> None:
        """Forget the results."""
        self._out.fill(17)

    def verify(self) -> str:
        """Compare the total of every thread with that of ones."""
        add, multiply = self._semiring.add, self._semiring.multiply
        terms = STEPS * sums_of(self._dtype)
        term = _TERMS.get(multiply.name, 1)
        expected = np.asarray(term * terms if add.name == "plus" else term).astype(self._dtype)
        got = self._out.get()
        if not (got == expected).all():
            raise VerificationError("peak: a total is wrong", expected=str(expected), got=str(got[:4]))
        return "the total of every thread, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        pairs = STEPS * sums_of(self._dtype) * per_sum(self._dtype) * THREADS * self._blocks
        return {"operations": 2 * pairs, "bytes_moved": 0}


# (+) whose totals of equal terms are known exactly, whatever the dtype.
_ADDED = frozenset(("plus", "min", "max"))

# 1 (x) 1, where it is not 1.
_TERMS = {"plus": 2, "absdiff": 0, "sqdiff": 0}


def peak(*, dtype: str, semiring: str, threads: int) -> RegisterLoop:
    """Prepare the register loop of a named semiring.

    Raises
    ------
    Declined
        If there is no GPU, or no such loop.
    """
    require_gpu()
    element, ring = np.dtype(dtype), SEMIRINGS[semiring]
    reason = why_none(ring, element)
    if reason:
        raise Declined("declined", reason)
    return RegisterLoop(ring, element)


def why_none(semiring: Semiring, dtype: np.dtype[Any]) -> str | None:
    """Return why there is no register loop of `semiring` over `dtype` here, or None."""
    is_paired = per_sum(dtype) > 1
    is_known = semiring.add.name in _ADDED and semiring.multiply.name != "pair" and dtype.itemsize >= 2
    without = simt_pairs.unsupported if is_paired else unsupported
    if not is_known or semiring.unsupported(dtype) or without(semiring, dtype):
        return f"no register loop for {semiring.name} over {dtype_name(dtype)}"
    return device.missing(ASYNC_COPY, "two elements a word") if is_paired else None


class Copy(DeviceTask):
    """A copy within the memory of the GPU, of `size_bytes`."""

    def __init__(self, size_bytes: int) -> None:
        self._from = device.upload(np.random.default_rng(1).integers(0, 256, size_bytes, np.uint8))
        self._to = device.empty((size_bytes,), np.dtype(np.uint8))

    def run(self) -> None:
        """Launch it."""
        device.cupy().copyto(self._to, self._from)

    def spoil(self) -> None:
        """Overwrite the result."""
        self._to.fill(0)

    def verify(self) -> str:
        """Compare every byte."""
        if not bool((self._to == self._from).all()):
            raise VerificationError("bandwidth: a byte was not copied")
        return f"all {self._from.size} bytes, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the bytes that are read and written."""
        return {"bytes_moved": 2 * self._from.size}


def bandwidth(*, size_bytes: int, threads: int) -> Copy:
    """Prepare the copy of a buffer; raise Declined without a GPU."""
    require_gpu()
    return Copy(size_bytes)


# A sum that only reads: threads and loads in flight of each; blocks of a multiprocessor at once.
READERS, READER_LOADS, READER_BLOCKS = 512, 8, 2
READ_DEFINES = as_defines({"THREADS": READERS, "LOADS": READER_LOADS, "BLOCKS": READER_BLOCKS})
_GRANULE = 16


class Read(DeviceTask):
    """A sum of all words of a buffer of `size_bytes` in the memory of the GPU: the roof of what reads a matrix once."""

    def __init__(self, size_bytes: int) -> None:
        cupy, self._granules = device.cupy(), max(size_bytes // _GRANULE, 1)
        self._from = device.empty((self._granules * _GRANULE // 4,), np.dtype(np.uint32))
        self._from[...] = cupy.arange(self._from.size, dtype=np.uint32)
        self._blocks = READER_BLOCKS * device.device().multiprocessors
        self._totals = device.empty((self._blocks * READERS,), np.dtype(np.uint32))
        self._kernel = load_kernel("read", READ_DEFINES, "read")
        addresses = (np.uint64(x.data.ptr) for x in (self._from, self._totals))
        self._arguments = *addresses, np.uint64(self._granules)

    def run(self) -> None:
        """Launch it."""
        self._kernel((self._blocks,), (READERS,), self._arguments)

    def spoil(self) -> None:
        """Forget the totals."""
        self._totals.fill(17)

    def verify(self) -> str:
        """Compare the sum of all totals with that of the words 0, 1, 2 and so on, modulo 2^32."""
        words = self._from.size
        expected, got = words * (words - 1) // 2 % (1 << 32), int(self._totals.get().sum(dtype=np.uint64)) % (1 << 32)
        if got != expected:
            raise VerificationError("read: the sum is wrong", expected=str(expected), got=str(got))
        return f"the sum of {words} words, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the bytes that are read."""
        return {"bytes_moved": self._from.nbytes}


def read_of(*, problem: Mapping[str, Any], seed: int, threads: int) -> Read:
    """Prepare the sum of as many bytes as a matrix has that meets a vector; raise Declined without a GPU."""
    elements = int(problem["m"]) * int(problem["n"]) * int(problem["k"])
    return read(size_bytes=elements * np.dtype(str(problem["dtype"])).itemsize, threads=threads)


def read(*, size_bytes: int, threads: int) -> Read:
    """Prepare the sum of a buffer; raise Declined without a GPU."""
    require_gpu()
    return Read(size_bytes)
