"""Where the arrays of programs lie: on the host, or on a GPU by CuPy. Other memory has the same four methods."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from harness.dtypes import carrier
from harness.proof import fences
from harness.proof.programs.program import Program, View


class Memory(Protocol):
    """Buffers of bytes, and arrays of a library in them."""

    on_device: bool

    def place(self, buffer: np.ndarray) -> Any:
        """Return new memory that holds these bytes."""

    def store(self, placed: Any, buffer: np.ndarray) -> None:
        """Write as many bytes to memory that `place` has returned."""

    def view(self, placed: Any, view: View) -> Any:
        """Return the library's array of a view of that memory."""

    def fetch(self, array: Any) -> np.ndarray:
        """Return a copy on the host of an array of the library, or of placed memory, when all work on it is done."""


class HostMemory:
    """Arrays of NumPy, each buffer an array of its own."""

    on_device = False

    def place(self, buffer: np.ndarray) -> np.ndarray:
        return buffer.copy()

    def store(self, placed: np.ndarray, buffer: np.ndarray) -> None:
        placed[...] = buffer

    def view(self, placed: np.ndarray, view: View) -> np.ndarray:
        array = view.of(placed)
        array.flags.writeable = view.is_writable
        return array

    def fetch(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)


class FencedMemory(HostMemory):
    """Arrays of NumPy beside memory that may not be touched, on a side that the bytes decide: for `tight` programs."""

    def place(self, buffer: np.ndarray) -> np.ndarray:
        return fences.fenced(buffer, fences.SIDES[zlib.crc32(buffer.tobytes()) % 2], "a buffer")


def tight(program: Program) -> Program:
    """Return the program with buffers that begin and end with what lies in them."""
    views = [*program.operands.values(), *program.out]
    spans = [[view.span for view in views if view.buffer == number] for number in range(len(program.buffers))]
    bounds = [(min(low for low, _ in some), max(end for _, end in some)) if some else (0, 0) for some in spans]
    moved = [replace(view, offset=view.offset - bounds[view.buffer][0]) for view in views]
    count = len(program.operands)
    operands = dict(zip(program.operands, moved[:count], strict=True))
    return replace(
        program, operands=operands, out=tuple(moved[count:]), buffers=tuple(end - low for low, end in bounds)
    )


class CupyMemory:
    """Arrays of the module `cupy` on the current GPU, each buffer an allocation of its own. None is read-only."""

    on_device = True

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def place(self, buffer: np.ndarray) -> Any:
        return self._cupy.asarray(buffer)

    def store(self, placed: Any, buffer: np.ndarray) -> None:
        placed.set(buffer)

    def view(self, placed: Any, view: View) -> Any:
        dtype, begin = view.numpy_dtype, placed.data + view.offset
        array = self._cupy.ndarray(view.shape, carrier(dtype), begin, strides=view.strides)
        return array if array.dtype == dtype else array.view(dtype)

    def fetch(self, array: Any) -> np.ndarray:
        fetched: np.ndarray = array.get()
        return fetched
