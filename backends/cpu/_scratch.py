"""Work memory on huge pages, kept between products.

Panels are read again and again in an order of their own; on 4 KiB pages that costs misses of the TLB. The system gives
2 MiB pages where it can. One block serves all products of a process: kernels run one after the other, under the GIL.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap

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


_latest: list[Scratch] = []


def scratch(size_bytes: int) -> Scratch:
    """Return a block of at least `size_bytes`: the one of earlier products if it is large enough."""
    if not _latest or _latest[0].size_bytes < size_bytes:
        _latest[:] = [Scratch(size_bytes)]
    return _latest[0]
