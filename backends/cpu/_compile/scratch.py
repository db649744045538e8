"""Work memory on huge pages, kept between products.

Packed panels are read many times; on 4 KiB pages that costs TLB misses, so the block uses 2 MiB pages where the system
has them. One block serves all products of a Python thread, which run one after the other. Threads do not share a block:
kernels run without the GIL, so products of several threads run at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import threading
import weakref
from typing import Any

import numpy as np

from harness.machine import detect
from harness.memory import on_free

HUGE_PAGE = 2 << 20


@functools.cache
def most_kept() -> int:
    """Return the bytes of the largest block that a thread keeps.

    A product that needs more takes long enough for new pages not to matter.
    """
    return max(64 << 20, detect().cores * (8 << 20))


# Shared memory gets no huge pages. Windows has no such flags.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


class Scratch:
    """A block of memory that begins on a 2 MiB boundary; it lives as long as an execution refers to it.

    Attributes
    ----------
    address : int
    size_bytes : int
    lock : Lock
        Held by a product that finds later what it has written before: then a signal handler or a finalizer of the same
        thread gets another block.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes, self.lock = -(-size_bytes // HUGE_PAGE) * HUGE_PAGE, threading.Lock()
        self._memory = mmap.mmap(-1, self.size_bytes + HUGE_PAGE, **_PRIVATE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without transparent huge pages is only slower
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.address = -(-begin // HUGE_PAGE) * HUGE_PAGE
        ctypes.memset(self.address, 0, self.size_bytes)  # maps every page before anything is timed

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return the beginning of the block as an array, which keeps it alive."""
        offset = self.address - ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        return np.ndarray(shape, dtype, self._memory, offset)


class _Kept(threading.local):
    """The blocks that a thread keeps, by purpose."""

    def __init__(self) -> None:
        self.blocks = _Blocks()
        _of_all_threads[id(self.blocks)] = self.blocks


class _Blocks(dict[str, Scratch]):
    """A dictionary that weak references can hold."""


_of_all_threads: weakref.WeakValueDictionary[int, _Blocks] = weakref.WeakValueDictionary()
_kept = _Kept()


def scratch(size_bytes: int, purpose: str = "panels") -> Scratch:
    """Return a block of at least `size_bytes`: this thread's block for the purpose if it is large enough.

    Its contents are undefined. Products computed one after the other share it; a running one must refer to it.
    """
    block = _kept.blocks.get(purpose)
    if block is not None and block.lock.locked():
        return Scratch(size_bytes)
    if block is None or block.size_bytes < size_bytes:
        block = Scratch(size_bytes)
        if size_bytes <= most_kept():
            _kept.blocks[purpose] = block
    return block


@on_free
def give_back() -> None:
    """Forget the blocks of all threads; a running product still refers to its own."""
    for reference in _of_all_threads.valuerefs():  # copied in one step: other threads begin and end meanwhile
        blocks = reference()
        if blocks is not None:
            blocks.clear()
