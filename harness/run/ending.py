"""End by SIGTERM or SIGHUP as by Ctrl-C: an exception is raised, so that what was started is ended and awaited first.

By default such a signal ends a process at once. What it has started then ends a moment later, seen by nobody.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harness.surroundings import may_handle

ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """The process was ended by a signal, its `number`."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


def status_of(ended: Terminated | KeyboardInterrupt) -> int:
    """Return the exit status that says which signal it was, as shells have it."""
    return 128 + (ended.number if isinstance(ended, Terminated) else signal.SIGINT)


def raising() -> contextlib.AbstractContextManager[None]:
    """Have SIGTERM and SIGHUP raise `Terminated` in the block. One that is ignored, as under nohup, stays so."""
    return _handled((number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN), _raise)


def delayed() -> contextlib.AbstractContextManager[None]:
    """Ignore further requests to end in the block, Ctrl-C too: it clears up."""
    return _handled((signal.SIGINT, *ENDING), signal.SIG_IGN)


@contextlib.contextmanager
def _handled(numbers: Iterable[signal.Signals], handler: Callable[[int, Any], Any] | signal.Handlers) -> Iterator[None]:
    """Handle the signals called `numbers` by `handler` in the block, unless this thread may not."""
    usual = {number: signal.getsignal(number) for number in numbers}
    handled = [number for number in usual if may_handle(number, handler)]
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, usual[number])


def _raise(number: int, frame: object) -> None:
    raise Terminated(number)
