"""Locks held across a fork: else a child could inherit one that another thread holds, and that is never released.

All are taken by one hook, in the order in which a thread takes them that needs several. A hook for each would take them
in the reverse of the order in which modules happen to be imported. Then a fork and an import could wait for each other.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 this and logging hold a lock of their own across forks: see below
import logging  # noqa: F401
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

# A thread that holds a lock of one kind takes only locks of later kinds. "discovery" is held while a plug-in is
# imported, which may compile kernels; "directory" for a few system calls, from within anything.
KINDS = ("discovery", "compiler", "directory")

_locks: dict[str, list[AbstractContextManager[Any]]] = {kind: [] for kind in KINDS}
_forking = threading.local()


def hold_across_forks(kind: str, *locks: AbstractContextManager[Any]) -> None:
    """Hold `locks`, of one of `KINDS`, across every fork from now on; several in the order in which they are taken."""
    _locks[kind].extend(locks)


def _take() -> None:
    _forking.held = []  # what is added later is not given back
    for kind in KINDS:
        for lock in _locks[kind]:  # the list may grow meanwhile: an import that is waited for adds the compiler's locks
            lock.__enter__()
            _forking.held.append(lock)


def _give_back() -> None:
    for lock in reversed(_forking.held):
        lock.__exit__(None, None, None)


def at_fork(**hooks: Callable[[], object]) -> None:
    """Register hooks as `os.register_at_fork` does, where a process can fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


# Hooks of modules that were imported before this one run after it takes its locks. So those of the standard library do:
# whoever imports a plug-in or compiles may log, and submit work, meanwhile.
at_fork(before=_take, after_in_parent=_give_back, after_in_child=_give_back)
