"""Find and end the processes that a backend has started, however far they have detached themselves.

A worker becomes the parent of every orphan below it, so it sees a daemon that forked twice. And it carries a mark in
its environment, which everything it starts inherits: what is left when the worker itself has gone is found by that.
Only a process that was started with an environment of its own, after its parents and the worker had died, stays
unseen. Both need Linux; elsewhere a worker's children end with its process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

MARK = "GEMM_HARNESS_WORKER"
_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_ENDED = ("Z", "X")
# A process that forks faster than it is killed is met again; one that cannot be killed is met every time.
_PASSES, _BETWEEN_PASSES_S = 100, 0.005
_BETWEEN_LOOKS_S = 0.001
# Processes that have been without an environment for all passes, and so are not just starting.
_bare: set[int] = set()


def adopt_orphans() -> None:
    """Make this process the parent of whatever below it loses its own."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def has_children() -> bool:
    """Whether this process has any child, running or not yet waited for. Takes less than a microsecond."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def running() -> dict[int, tuple[str, int]]:
    """Return name and process group of each running process below this one, by its number."""
    if not has_children():
        return {}
    found = {pid: fields for pid in _numbers() if (fields := _fields(_PROC / str(pid)))}
    below, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, (_, _, parent, _) in found.items() if parent in below} - below
        below, grown = below | more, bool(more)
    own = below - {os.getpid()}
    return {pid: (name, group) for pid, (name, state, _, group) in found.items() if pid in own and state not in _ENDED}


def running_threads() -> int:
    """Return how many threads of this process, beside the one that asks, are on a processor or want to be."""
    found = [_fields(folder) for folder in (_PROC / "self" / "task").glob("*")]
    return max(0, sum(fields is not None and fields[1] == "R" for fields in found) - 1)


def wait_until_idle(most_s: float) -> bool:
    """Wait until no other thread of this process runs, `most_s` seconds at most; return whether that is so."""
    end = time.monotonic() + most_s
    while running_threads():
        if time.monotonic() >= end:
            return False
        time.sleep(_BETWEEN_LOOKS_S)
    return True


def kill_marked(mark: str) -> None:
    """Kill every process that has `mark` in its environment, and wait for those that are just getting theirs."""
    entry = f"{MARK}={mark}".encode()
    for _ in range(_PASSES):
        environments = {pid: _environment(pid) for pid in _numbers() if pid not in _bare}
        marked = [pid for pid, own in environments.items() if own and entry in own.split(b"\0")]
        bare = {pid for pid, own in environments.items() if own == b""}
        if not marked and not bare:
            return
        for pid in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_BETWEEN_PASSES_S)
    _bare.update(bare)


def _numbers() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()]
    return []


def _fields(folder: Path) -> tuple[str, str, int, int] | None:
    """Return name, state, parent and group of a process or thread, or None if there is none any more."""
    try:
        head, _, rest = (folder / "stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    state, parent, group = rest.split()[:3]
    return head.partition("(")[2], state, int(parent), int(group)


def _environment(pid: int) -> bytes | None:
    """Return the environment of a process: empty while it starts a program; None if there is none to be seen."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
