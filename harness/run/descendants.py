"""Find and end the processes that a backend has started, however far they have detached themselves.

A worker becomes the parent of every orphan below it, so it sees a daemon that forked twice. It also carries a mark in
its environment, which its descendants inherit: after its death they are found by that. A process stays unseen only if
it was started with an environment of its own after its parents and the worker had died. Both need Linux; elsewhere the
children of a worker end with its process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

MARK = "GEMM_HARNESS_WORKER"
_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_ENDED = ("Z", "X")
# Bound on passes, for a process that cannot be killed. One that forks faster than it is killed takes several passes.
_PASSES, _BETWEEN_PASSES_S = 100, 0.005
_BETWEEN_LOOKS_S = 0.0002
# Processes that had no environment in all passes, and so are not just starting.
_bare: set[int] = set()


def are_seen() -> bool:
    """Return whether the system lists its processes as Linux does: else none below this one is seen."""
    return bool(_numbers())


def adopt_orphans() -> None:
    """Make this process the parent of every orphan below it."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Be the parent of every orphan below this process in the block: only a parent can wait for the end of one.

    Without that they go to the first process of the system, which in a container may wait for nobody.
    """
    adopt_orphans()
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


def prctl(option: int, value: int) -> None:
    """Set an option of this process in the kernel; only Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


def has_children() -> bool:
    """Return whether this process may have a child, running or not yet waited for. Takes less than a microsecond."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def running() -> dict[int, tuple[str, int]]:
    """Return name and process group of each running process below this one, by its number."""
    return {pid: fields[::3] for pid, fields in _below().items()}


def awake() -> list[str]:
    """Return the names of processes below this one that are on a processor or want to be."""
    return [fields[0] for fields in _below().values() if fields[1] == "R"]


def _below() -> dict[int, tuple[str, str, int, int]]:
    """Return name, state, parent and group of each process below this one that has not ended, by its number."""
    if not has_children():
        return {}
    processes = {pid: fields for pid in _numbers() if (fields := _fields(_PROC / str(pid)))}
    below = _below_one(os.getpid(), {pid: fields[2] for pid, fields in processes.items()})
    return {pid: processes[pid] for pid in below if processes[pid][1] not in _ENDED}


def _below_one(ancestor: int, parents: Mapping[int, int]) -> set[int]:
    """Return the processes below `ancestor`, of which `parents` holds the parent of each."""
    below = more = {ancestor}
    while more:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below = below | more
    return below - {ancestor}


def running_threads() -> int:
    """Return the number of other threads of this process that are running or ready to run."""
    threads = [_fields(folder) for folder in (_PROC / "self" / "task").glob("*")]
    return max(0, sum(fields is not None and fields[1] == "R" for fields in threads) - 1)


def wait_until_stopped(pid: int, most_s: float) -> bool:
    """Wait until every thread of the process `pid`, which was sent SIGSTOP, stands; return whether that is so.

    Takes `most_s` seconds at most. A thread that has a processor stands at once; one that waits for a processor must
    get it first.
    """
    end = time.monotonic() + most_s
    while any(fields and fields[1] == "R" for fields in map(_fields, (_PROC / str(pid) / "task").glob("*"))):
        if time.monotonic() >= end:
            return False
        time.sleep(_BETWEEN_LOOKS_S)
    return True


@contextlib.contextmanager
def ending_with(ancestor: int, mark: str) -> Iterator[None]:
    """Kill the processes below `ancestor`, which the block kills, and every one with `mark` in its environment.

    They have ended when the block is left. Those that have become children of this process, which is `adopting`, are
    waited for as a parent does; children that it had before are left to who started them. A process that is just
    starting a program has no environment, but a parent.
    """
    parents = {pid: fields[2] for pid in _numbers() if (fields := _fields(_PROC / str(pid)))}
    own = {pid for pid, parent in parents.items() if parent == os.getpid()}
    below = _below_one(ancestor, parents)
    yield
    _kill_marked(mark, below, own)


def _marked(environments: Mapping[int, bytes | None], mark: str) -> list[int]:
    entry = f"{MARK}={mark}".encode()
    return [pid for pid, text in environments.items() if text and entry in text.split(b"\0")]


def _kill_marked(mark: str, below: set[int], own: set[int]) -> None:
    """Kill processes as long as there are any with `mark`, or that have no environment yet, or have not ended."""
    ending = below
    for _ in range(_PASSES):
        environments = {pid: _environment(pid) for pid in _numbers() if pid not in _bare}
        found = _marked(environments, mark)
        bare = {pid for pid, text in environments.items() if text == b""}
        ending = {pid for pid in ending.union(found) - own if _is_awaited(pid)}
        if not found and not bare and not ending:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_BETWEEN_PASSES_S)
    _bare.update(bare)


def _is_awaited(pid: int) -> bool:
    """Return whether a process has still to end; one that has, and is a child of this process, is waited for."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    fields = _fields(_PROC / str(pid))
    return fields is not None and fields[1] not in _ENDED


def memory_of(marks: Iterable[str]) -> dict[str, int]:
    """Return the bytes that the processes with each mark in their environment hold; a shared page counts in parts."""
    held = dict.fromkeys(marks, 0)
    entries = {f"{MARK}={mark}".encode(): mark for mark in held}
    for pid in _numbers() if held else ():
        for entry in (_environment(pid) or b"").split(b"\0"):
            if entry in entries:
                held[entries[entry]] += _held(pid)
    return held


def _held(pid: int) -> int:
    """Return the bytes that a process holds, its part of what it shares with others included."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


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
    """Return the environment of a process: empty while it starts a program; None if it cannot be read."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
