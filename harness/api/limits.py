"""The number of threads of a call: checked, as a machine to plan for, and as a context to compute in."""

from __future__ import annotations

import contextlib
from typing import Any

from harness import machine, threads
from harness.errors import check_imports
from harness.interface import Backend
from harness.machine import Machine


def check_threads(count: int | None) -> int | None:
    """Return a number of threads as an int, or None for None; raise if it is neither."""
    try:
        return None if count is None else threads.check(count)
    except ImportError:
        check_imports("what is known of this machine")
        raise


def machine_of(count: int | None) -> Machine:
    """Return this machine, with `count` threads unless that is None."""
    here = machine.detect()
    return here if count is None else here.with_threads(count)


def limited_to(count: int | None, backend: Backend) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which `backend` has `count` threads; with None nothing changes."""
    return contextlib.nullcontext() if count is None else threads.limit(count, libraries=backend.calls_libraries)


def enter(stack: contextlib.ExitStack, context: contextlib.AbstractContextManager[Any]) -> None:
    """Enter `context`, which `stack` leaves.

    As ``enter_context``, which imports a module in every call since Python 3.15. That fails while Python ends.
    """
    context.__enter__()
    stack.callback(context.__exit__, None, None, None)
