"""Numbers that processes of one host claim: each is given to one of them, once, in order.

A pipe holds them as bytes. The kernel gives each byte to one reader, however many read at the same time. Nothing is
left behind however the processes end.
"""

from __future__ import annotations

import contextlib
import os

MOST = 256  # a number is a byte


class Claims:
    """A queue of numbers.

    Parameters
    ----------
    path : str, optional
        That of a queue which another process has made; without it a new one.

    Attributes
    ----------
    path : str
        By which other processes reach it, as long as its maker has not closed it.
    """

    def __init__(self, path: str = "") -> None:
        self._ends: tuple[int, ...]
        if path:
            self._ends = (os.open(path, os.O_RDONLY | os.O_NONBLOCK),)
        else:
            self._ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.path = path or f"/proc/{os.getpid()}/fd/{self._ends[0]}"

    def put(self, count: int) -> None:
        """Offer the numbers from 0 to `count`, `MOST` at most; only the maker may."""
        os.write(self._ends[1], bytes(range(count)))

    def take(self) -> int | None:
        """Return a number that nobody else gets, or None where none is left."""
        with contextlib.suppress(BlockingIOError):
            byte = os.read(self._ends[0], 1)
            return byte[0] if byte else None
        return None

    def close(self) -> None:
        """Let go of it; others keep what they have opened."""
        for end in self._ends:
            os.close(end)
        self._ends = ()
