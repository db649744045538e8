"""Work memory on huge pages, kept between products.

Panels are read again and again in an order of their own; on 4 KiB pages that costs misses of the TLB. The system gives
2 MiB pages where it can. One block serves all products that a thread of Python prepares, which it runs one after the
other. Threads do not share one: a parallel kernel gives up the GIL, so that products of several run at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading

HUGE_PAGE = 2 << 20


class Scratch:
    """A block of memory that begins on a 2 MiB boundary; it lives as long as an execution refers to it.

    Attributes
    ----------
    address : int
    size_bytes : int
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = -(-size_bytes // HUGE_PAGE) * HUGE_PAGE
        self._memory = mmap.mmap(-1, self.size_bytes + HUGE_PAGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without transparent huge pages: slower, and right
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.address = -(-begin // HUGE_PAGE) * HUGE_PAGE
        ctypes.memset(self.address, 0, self.size_bytes)  # every page is there before anything is timed


_latest = threading.local()


def scratch(size_bytes: int) -> Scratch:
    """Return a block of at least `size_bytes`: the one of this thread's earlier products if it is large enough."""
    block: Scratch | None = getattr(_latest, "block", None)
    if block is None or block.size_bytes < size_bytes:
        block = _latest.block = Scratch(size_bytes)
    return block
