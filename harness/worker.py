"""The process in which one contender lives, seen from inside: ``python -m harness.worker FD``.

It answers commands that come over the connection on the inherited descriptor FD, one at a time. What a backend prints
goes to this process's own stdout and stderr, which the parent has pointed at a file. The parent's side is
`harness.isolation`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.errors import Declined, HarnessError
from harness.machine import detect
from harness.measure import ClockSampler
from harness.task import Task
from harness.threads import disagreement, limit, read_back

MEMORY_FRACTION = 0.5
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_PR_SET_PDEATHSIG = 1


class ThreadsChanged(HarnessError):
    """A library does not use the number of threads that it was told to use: its times mean something else."""


class Worker:
    """Holds one task, and does with it what it is told. Its public methods are the commands."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._sampler: ClockSampler | None = None
        self._threads = 1
        self._limit = contextlib.ExitStack()

    def prepare(self, task: str, arguments: Mapping[str, Any], threads: int) -> Any:
        """Make the task with the factory ``"module:function"``; return its facts as plain JSON."""
        self.release()
        module, _, factory = task.partition(":")
        with limit(threads):
            made: Task = getattr(importlib.import_module(module), factory)(threads=threads, **arguments)
        self._limit.enter_context(limit(threads))  # anew: also for the libraries that the task brought along
        self._task, self._threads = made, threads
        self._sampler = ClockSampler(made.run, made.wait)
        return json.loads(json.dumps(dict(made.facts()), default=_plain))

    def prove(self) -> dict[str, Any]:
        """Spoil the last result, run once and verify; return what was ``verified`` and ``elapsed_ns`` of the call."""
        task = self._the_task()
        task.spoil()
        start = time.perf_counter_ns()
        task.run()
        task.wait()
        elapsed_ns = time.perf_counter_ns() - start
        return {"verified": task.verify(), "elapsed_ns": elapsed_ns}

    def verify(self) -> str:
        """Verify the result that the last call left; return what was compared."""
        return self._the_task().verify()

    def sample(self, loops: int, count: int) -> dict[str, Any]:
        """Return ``samples_ns``, and ``threads_read``: the threads in force by library, before and after the same."""
        sampler = self._sampler
        assert sampler is not None
        self._threads_in_force()
        samples_ns = sampler.sample(loops, count)
        return {"samples_ns": samples_ns, "threads_read": self._threads_in_force()}

    def release(self) -> None:
        """Let go of the task and its operands. What was compiled for it stays."""
        self._task = self._sampler = None
        self._limit.close()

    def _the_task(self) -> Task:
        assert self._task is not None
        return self._task

    def _threads_in_force(self) -> dict[str, Any]:
        found = read_back()
        changed = disagreement(found, self._threads)
        if changed:
            raise ThreadsChanged(f"sample rejected: {changed}")
        return found


def main(descriptor: int) -> None:
    """Answer commands until the parent closes the connection or asks to."""
    _die_with_parent()
    _cap_memory()
    os.set_inheritable(descriptor, False)  # or a child of the backend would keep it open when this process dies
    connection = Connection(descriptor)
    worker = Worker()
    with contextlib.suppress(EOFError, ConnectionError):  # the parent has gone, or wants no more
        while True:
            command, arguments = connection.recv()
            connection.send(_answer(worker, command, arguments))


def _answer(worker: Worker, command: str, arguments: Mapping[str, Any]) -> tuple[str, Any]:
    """Return ("ok", value), or ("declined" | "missing" | "failed", reason); "raised" if it was nothing foreseen."""
    try:
        return "ok", getattr(worker, command)(**arguments)
    except Declined as declined:
        return declined.status, str(declined)
    except HarnessError as error:
        return "failed", str(error)
    except MemoryError as error:
        return "failed", f"out of memory: {error}".rstrip(": ")
    except Exception as error:  # noqa: BLE001 a backend may raise anything; it becomes the reason of a failed cell
        return "raised", _unexpected(error)


def _unexpected(error: Exception) -> str:
    """Return what was raised and in which line."""
    message = traceback.format_exception_only(error)[-1].strip()
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{message} ({Path(where.filename).name}:{where.lineno})"


def _plain(value: Any) -> Any:
    """Return a number of NumPy's, or a mapping, as JSON knows it."""
    return value.item() if hasattr(value, "item") else dict(value)


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, however busy it is; only Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _cap_memory() -> None:
    """Make an allocation beyond the cap fail, so that it fails this contender and not the machine.

    The cap counts private writable memory: address space that is only reserved, as CUDA does by the terabyte, is free.
    """
    available = detect().memory
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        available = min(available, int(_CGROUP_LIMIT.read_text()))
    cap = int(available * MEMORY_FRACTION)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or cap < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (cap, cap))


if __name__ == "__main__":
    main(int(sys.argv[1]))
