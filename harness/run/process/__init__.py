"""Supervise a process for each contender: start, command and watch it, and kill it when it fails.

A process runs only while it executes a command. After its answer a signal stops it until the next command, and the
parent waits until all of its threads stand. Idle threads would spin on the cores of the next contender: those of MKL
for 200 ms, those of OpenBLAS for 100 ms, those of OpenMP for some 5 ms. Environment variables could make them sleep at
once, but would change the times.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from harness.errors import Declined
from harness.run import descendants, messages
from harness.run.process.other_trees import WORKER, import_path

# The most of a backend's output that goes into the reason of its failure, in bytes.
TAIL = 600
# The longest reason that is kept, in characters.
LONGEST_REASON = 2000
# Longest wait for all threads of a process to stop [s]. On busy cores it takes a time slice or two.
STOPPING_S = 0.5


class WorkerFailed(Exception):
    """A contender's process failed to answer and has been killed; the message is for the user."""


class WorkerProcess:
    """A process that holds one task at a time; see `harness.run.worker.Worker` for the commands.

    Must be made in the main thread: the kernel kills it when the thread that made it ends.

    Parameters
    ----------
    source : Path, optional
        Folder whose modules the process imports before any others: another state of the source code.
    environment : iterable of (str, str)
        Further variables of its environment.
    """

    def __init__(self, source: Path | None = None, environment: Iterable[tuple[str, str]] = ()) -> None:
        path = import_path(source)  # first: it fails where the working directory is gone, and nothing is open yet
        self.connection, theirs = Pipe()
        self._output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 closed by kill
        # Appending, so that it can be emptied while the process has it open.
        flags = fcntl.fcntl(self._output, fcntl.F_GETFL)
        fcntl.fcntl(self._output, fcntl.F_SETFL, flags | os.O_APPEND)
        self.mark = uuid.uuid4().hex
        self._process = subprocess.Popen(  # noqa: S603 our own interpreter and module
            [sys.executable, "-P", "-m", WORKER, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            env={
                **os.environ,
                **dict(environment),
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": path,
                descendants.MARK: self.mark,
            },
            start_new_session=True,  # a group of its own: killed as a whole, and spared the terminal's Ctrl-C
        )
        theirs.close()
        self._end = _end_of(self._process)
        self._timeout, self._deadline = 0.0, 0.0
        self.is_alive = True

    @property
    def number(self) -> int:
        """The number of the process in the system."""
        return self._process.pid

    @property
    def signs(self) -> list[Any]:
        """The objects to wait for with `multiprocessing.connection.wait`: the process has answered, or it has died.

        Its death alone does not close the connection if a child of the backend has inherited it.
        """
        return [self.connection] if self._end is None else [self.connection, self._end]

    @property
    def seconds_left(self) -> float:
        """Time until the answer to the last command is overdue [s]."""
        return max(0.0, self._deadline - time.monotonic())

    def call(self, command: str, timeout: float, **arguments: Any) -> Any:
        """Execute `command` in the process and return the answer, within `timeout` seconds.

        Raises
        ------
        WorkerFailed
            If it failed, in whatever way. The process and its children have then been killed.
        Declined
            If the task's factory raised it.
        """
        self.begin(command, timeout, **arguments)
        return self.finish()

    def stream(
        self,
        factory: Callable[..., Iterator[Any]],
        patience: float,
        *,
        starts_processes: bool = False,
        **arguments: Any,
    ) -> Iterator[Any]:
        """Yield the items of ``factory(**arguments)`` in the process as plain data, each within `patience` seconds.

        With `starts_processes` the factory may have processes that live on, as a task may.

        Raises
        ------
        WorkerFailed
            If it failed, in whatever way, before the end of the stream.
        """
        name = f"{factory.__module__}:{factory.__qualname__}"
        self.call("stream", patience, factory=name, arguments=arguments, starts_processes=starts_processes)
        while item := self.call("next_item", patience):
            yield item[0]

    def begin(self, command: str, timeout: float, **arguments: Any) -> None:
        """Send `command`; `finish` must follow."""
        os.ftruncate(self._output.fileno(), 0)
        self._timeout, self._deadline = timeout, time.monotonic() + timeout
        with contextlib.suppress(OSError):  # it has died; `finish` tells how
            self._signal(signal.SIGCONT)
            self.connection.send((command, arguments))

    def finish(self) -> Any:
        """Wait for the answer to the last command; return and raise as `call` does."""
        status, answer = self._receive()
        if status in ("ok", "declined", "missing"):
            self._stop()
            if status != "ok":
                raise Declined(status, answer)
            return answer
        if status == "overdue":
            reason = self._death() or f"no answer within {self._timeout:g} s (hang)"
        elif status == "died":
            reason = self._death(patience=5) or "closed its connection"
        elif status == "garbled":
            reason = f"what it sent is no answer: {answer}"
        else:
            reason = str(answer)
        printed = self._printed() if status != "failed" else ""
        self.kill()
        raise WorkerFailed(_clean(f"{reason}; it printed: {printed}" if printed else reason))

    def kill(self) -> None:
        """Kill the process and all that it started."""
        if not self.is_alive:
            return
        self.is_alive = False
        with descendants.ending_with(self.number, self.mark):
            self._signal(signal.SIGKILL)
            self._process.wait()
        if self._end is not None:
            os.close(self._end)
        self.connection.close()
        self._output.close()

    def _receive(self) -> tuple[str, Any]:
        """Return the status of the answer and the answer; without one "overdue", "died" or "garbled"."""
        try:
            if self.connection not in wait(self.signs, self.seconds_left):
                return ("overdue", None) if self._process.poll() is None else ("died", None)
            status, answer = messages.receive(self.connection, self._deadline)
        except TimeoutError:
            return "overdue", None
        except (EOFError, OSError):
            return "died", None
        except (messages.Garbled, TypeError, ValueError) as error:
            return "garbled", error
        return status, answer

    def _stop(self) -> None:
        """Stop the process until the next command, and wait until none of its threads has a processor any more."""
        self._signal(signal.SIGSTOP)
        descendants.wait_until_stopped(self.number, STOPPING_S)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _death(self, patience: float = 0.0) -> str:
        """Return how the process ended, or an empty string if it still runs after `patience` seconds."""
        try:
            status = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return ""
        if status >= 0:
            return f"exited with status {status}"
        hint = " (out of memory?)" if -status == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-status).name}{hint}"

    def _printed(self) -> str:
        """Return the end of the output since the last command, in one line."""
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), TAIL, max(0, size - TAIL)).decode(errors="replace")
        lines = ["".join(c if c.isprintable() else " " for c in line).strip() for line in tail.splitlines()]
        return " | ".join(line for line in lines if line)


def call_all(
    workers: Mapping[str, WorkerProcess],
    command: str,
    timeout: float,
    arguments: Mapping[str, Mapping[str, Any]],
    at_once: int,
) -> dict[str, Any]:
    """Execute `command` in all `workers`, `at_once` at a time; return by label the answer, or the exception."""
    waiting, running, answers = list(workers), dict[str, WorkerProcess](), dict[str, Any]()
    while waiting or running:
        while waiting and len(running) < at_once:
            label = waiting.pop(0)
            workers[label].begin(command, timeout, **arguments.get(label, {}))
            running[label] = workers[label]
        soonest = min(worker.seconds_left for worker in running.values())
        ready = wait([sign for worker in running.values() for sign in worker.signs], soonest)
        for label, worker in list(running.items()):
            if not worker.seconds_left or any(sign in ready for sign in worker.signs):
                del running[label]
                try:
                    answers[label] = worker.finish()
                except (WorkerFailed, Declined) as outcome:
                    answers[label] = outcome
    return answers


def _end_of(process: subprocess.Popen[bytes]) -> int | None:
    """Return a descriptor that is readable when `process` has ended, or None where the system has none."""
    try:
        return os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return None


def _clean(reason: str) -> str:
    """Return `reason` fit for a file: not too long, and without lone surrogates."""
    short = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]} ..."
    return short.encode(errors="replace").decode()
