"""Where the arrays of programs lie: on the host, or on a GPU by CuPy. Other memory has the same four methods."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from harness.proof.programs.program import View


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
        return self._cupy.ndarray(view.shape, view.numpy_dtype, placed.data + view.offset, strides=view.strides)

    def fetch(self, array: Any) -> np.ndarray:
        fetched: np.ndarray = array.get()
        return fetched
