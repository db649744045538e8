"""A working directory for code that cannot do without one, where the process's own has been removed.

Libraries resolve paths while they are loaded or while they compile, and fail, or end the process, where there is none.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from harness.surroundings.forks import hold_across_forks

_NOWHERE = "/proc/self", "/"  # first where nothing can be written by chance: all threads have the one directory


class _Removed:
    """The removed directory while blocks of any threads have another one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.descriptor: int | None = None
        self.blocks = 0

    def enter(self) -> None:
        """Begin a block: take another directory where there is none, and keep the removed one open."""
        with self.lock:
            if self.blocks == 0 and not _exists():
                self.descriptor = os.open(".", os.O_RDONLY)
                os.chdir(next(folder for folder in _NOWHERE if Path(folder).is_dir()))
                self.taken = Path().stat()
            self.blocks += 1

    def leave(self) -> None:
        """End a block: the last one goes back, unless the program has gone elsewhere meanwhile."""
        with self.lock:
            self.blocks -= 1
            if self.blocks or self.descriptor is None:
                return
            descriptor, self.descriptor = self.descriptor, None
            if _exists() and os.path.samestat(Path().stat(), self.taken):
                os.fchdir(descriptor)
            os.close(descriptor)


@contextlib.contextmanager
def working_directory() -> Iterator[None]:
    """Have a working directory inside the block. Where there is one, nothing changes."""
    _removed.enter()
    try:
        yield
    finally:
        _removed.leave()


def _exists() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


_removed = _Removed()
hold_across_forks("directory", _removed.lock)  # in a child the blocks of other threads never end: it stays where it is
