"""Ctrl-C waits where it would leave something half done: a compiler's objects, a module half imported."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hear a Ctrl-C that is pressed inside the block at its end.

    Python delivers it to the main thread, between any two of its steps. Numba and LLVM free an object twice, or lose
    one, where that is among theirs. Other threads, and programs that hear Ctrl-C by other means, are as ever.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    heard: list[tuple[int, object]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if heard:
            handler(*heard[-1])  # type: ignore[arg-type] # what it was called with
