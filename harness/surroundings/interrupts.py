"""Ctrl-C waits where it would leave something half done: a compiler's objects, a module half imported."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hear a Ctrl-C that is pressed inside the block at its end.

    Python delivers it to the main thread, between any two of its steps. Numba and LLVM free an object twice, or lose
    one, where that is among theirs. Other threads, and programs that hear Ctrl-C by other means, are as ever.
    """
    handler = signal.getsignal(signal.SIGINT)
    heard: list[tuple[int, object]] = []
    is_held = callable(handler) and may_handle(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        if is_held:
            signal.signal(signal.SIGINT, handler)
        if heard and callable(handler):
            handler(*heard[-1])  # type: ignore[arg-type] # what it was called with


def is_to_end(error: BaseException) -> bool:
    """Return whether `error` is to end this process, and is no fault of the code in which it was raised.

    Ctrl-C is, and what is no `Exception` and comes from a signal's handler, as one that calls `sys.exit`. A
    `SystemExit` of the code itself is a fault like any other: it is a script that was meant to be run, not imported.
    """
    if isinstance(error, Exception | KeyboardInterrupt):
        return isinstance(error, KeyboardInterrupt)
    handlers = [getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()]
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code not in handlers:
        step = step.tb_next
    return step is not None


def may_handle(number: int, handler: Callable[[int, Any], Any] | int | signal.Handlers) -> bool:
    """Have a signal handled by `handler`, and return whether it is: only one thread of a process may have it so.

    That is the main thread of the main interpreter. In a subinterpreter another thread counts as the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        signal.signal(number, handler)
    except ValueError:
        return False
    return True
