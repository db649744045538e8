"""A job of ranks that a process starts and commands: ``mpiexec -n P python -m backends.distributed._job.rank``.

The ranks live until this process ends. Each sleeps on a socket of its own while there is nothing to do.
What one of them raises is raised here; the death of one is the death of all. Either way the job is ended as a whole,
and the next product starts another, see `backends.distributed._job.jobs`.

The sockets have a name and no file, since nobody would remove one if this process were killed while ranks start. Each
rank has a second socket, its lifeline. The kernel ends the rank when this side of it is closed, whatever the rank
does. It is closed however this process ends.
"""

from __future__ import annotations

import collections
import contextlib
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge, wait
from pathlib import Path
from typing import Any, NamedTuple, cast

from backends.distributed._job import launcher
from harness.distributed.transport.nccl import ENVIRONMENT
from harness.errors import HarnessError
from harness.surroundings import working_directory

START_S = 60.0  # the most that P processes may take to start
STOP_S = 2.0  # what the launcher is given to end the ranks and to clear up
TAIL = 2000  # bytes of what the ranks printed that go into a message
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS")


class RankFailed(HarnessError):
    """A rank raised an exception or ended; the message says which and why. The job has been ended."""


def _is_of_this_user(connection: Connection) -> bool:
    """Return whether a process of this user has opened a socket: by its name, those of all users can."""
    with socket.socket(fileno=os.dup(connection.fileno())) as peer:
        _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.geteuid())


class Shape(NamedTuple):
    """What a job is started with: another shape is another job.

    Parameters
    ----------
    ranks : int
    threads : int
        Of each rank.
    """

    ranks: int
    threads: int


class Job:
    """Ranks that wait for commands, see `backends.distributed._job.rank.Rank`. Threads take turns with it.

    Parameters
    ----------
    shape : Shape

    Raises
    ------
    RankFailed
        If they do not start.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape, self.products = shape, set[int]()
        self._is_open, self._owner = True, os.getpid()
        self._lock = threading.Lock()
        self._unneeded: collections.deque[int] = collections.deque()
        self._ranks: list[Connection] = []
        self._lifelines: list[Connection] = []
        self.pids: list[int] = []
        self._output = os.fdopen(os.memfd_create("gemm-harness-output"), "w+b")  # needs no folder
        name, key = f"gemm-harness-{secrets.token_hex(16)}", secrets.token_bytes(32)
        with Listener(f"\0{name}", "AF_UNIX", backlog=2 * shape.ranks) as listener:
            with working_directory():  # that of the launcher, and of the ranks
                self._process = self._start(name, key)
            try:
                self._accept(listener, key)
            except BaseException:
                self.end()
                raise

    @property
    def is_alive(self) -> bool:
        """Whether this process may command it, and its launcher runs."""
        return self._is_open and self._owner == os.getpid() and self._process.poll() is None

    def call_all(self, command: str, **arguments: Any) -> list[Any]:
        """Have every rank execute `command`; return the answers in the order of ranks.

        Raises
        ------
        RankFailed
            If a rank raised an exception, or ended. The job has then been ended.
        """
        if self._owner != os.getpid():
            raise RankFailed(
                "the ranks that hold this product answer to the process that started them",
                expected=f"process {self._owner}",
                got=f"process {os.getpid()}, forked from it",
                fix="compute the product anew here: this process starts ranks of its own",
            )
        with self._lock:
            answers = self._command(command, arguments)
            while self._unneeded:
                self._command("free", {"number": self._unneeded.popleft()})
            return answers

    def free(self, number: int) -> None:
        """Have the ranks forget a product, now or after the command that they execute now.

        Called where Python frees objects, and so in the midst of anything, `call_all` too: it must not wait.
        """
        self.products.discard(number)
        if not self._is_open or self._owner != os.getpid():
            return
        self._unneeded.append(number)
        if self._lock.acquire(blocking=False):
            try:
                while self._unneeded:
                    self._command("free", {"number": self._unneeded.popleft()})
            except RankFailed:  # they have ended, so nothing is held
                pass
            finally:
                self._lock.release()

    def close(self) -> None:
        """Have the ranks end by themselves, and end those that do not."""
        if not self._is_open:
            return
        with contextlib.suppress(OSError):
            for connection in self._ranks:
                connection.send(("stop", {}))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self.end()

    def end(self) -> None:
        """End all ranks, whatever they do, and the launcher, and remove what they leave.

        The launcher ends by itself when its ranks do, and clears up; one that does not is killed.
        """
        if not self._is_open:
            return
        self._is_open = False
        self.abandon()
        if len(self._lifelines) < self.shape.ranks:  # some ranks have none yet
            self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            for pid in (*self.pids, self._process.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()

    def abandon(self) -> None:
        """Close this process's side of all sockets. In a forked child that has no effect on the ranks."""
        for connection in (*self._ranks, *self._lifelines):
            connection.close()

    def _start(self, name: str, key: bytes) -> subprocess.Popen[bytes]:
        rank = [sys.executable, "-P", "-m", "backends.distributed._job.rank", name]
        pools = dict.fromkeys(_POOLS, str(self.shape.threads))
        path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
        mpiexec = launcher.mpiexec() or "mpiexec"
        environment = {
            **launcher.PERMISSIONS,
            **launcher.library(mpiexec),
            **os.environ,
            **ENVIRONMENT,
            **pools,
            "PYTHONPATH": path,
            "GEMM_HARNESS_JOB_KEY": key.hex(),
        }
        return subprocess.Popen(  # noqa: S603 the launcher of the user's MPI and our own module
            [mpiexec, "-n", str(self.shape.ranks), *rank],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment,
            # of its own group: one that is stopped with this process, and left so when that is killed, never ends
            start_new_session=True,
        )

    def _accept(self, listener: Listener, key: bytes) -> None:
        """Wait until each rank has opened its two sockets, and told who it is."""
        connections: dict[tuple[str, int], Connection] = {}
        deadline = time.monotonic() + START_S
        listening: Any = listener._listener._socket  # type: ignore[attr-defined] # noqa: SLF001 accept has no time-out
        listening.settimeout(0.05)
        pids: dict[int, int] = {}
        while len(connections) < 2 * self.shape.ranks:
            try:
                connection = listener.accept()
                if not _is_of_this_user(connection):
                    connection.close()
                    continue
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise self._ended("did not start") from None
                continue
            except (OSError, EOFError):
                raise self._ended("did not start") from None
            role, rank, size, pids[rank] = connection.recv()
            if size != self.shape.ranks:
                raise self._alone(size)
            connections[role, rank] = connection
        numbers = range(self.shape.ranks)
        self._ranks = [connections["commands", rank] for rank in numbers]
        self._lifelines = [connections["lifeline", rank] for rank in numbers]
        self.pids = [pids[rank] for rank in numbers]

    def _alone(self, size: int) -> RankFailed:
        """Return the exception for programs that do not find each other."""
        self.end()
        return RankFailed(
            "mpiexec and mpi4py belong to different MPI libraries",
            expected=f"{self.shape.ranks} ranks, which {launcher.mpiexec()} has started",
            got=f"a program of {size} rank{'s' * (size != 1)}",
            fix="one MPI library in this environment; or name that of mpiexec: MPI4PY_LIBMPI=/path/to/libmpi.so",
        )

    def _command(self, command: str, arguments: dict[str, Any]) -> list[Any]:
        """Send a command and wait for all answers; who calls it holds the lock."""
        if not self._is_open:
            raise RankFailed("the job of ranks has ended", fix="compute again: another is started")
        try:
            for connection in self._ranks:
                connection.send((command, arguments))
            return self._answers()
        except (OSError, EOFError):
            raise self._ended() from None
        except BaseException:  # interrupted: answers may be on their way that nobody would read
            self.end()
            raise

    def _answers(self) -> list[Any]:
        answers: dict[int, Any] = {}
        waiting = {connection: rank for rank, connection in enumerate(self._ranks)}
        while waiting:
            for ready in wait(list(waiting)):
                connection = cast("Connection", ready)
                status, answer = connection.recv()
                rank = waiting.pop(connection)
                if status == "failed":
                    raise RankFailed(f"rank {rank} of {self.shape.ranks} failed: {answer}")
                answers[rank] = answer
        return [answers[rank] for rank in range(self.shape.ranks)]

    def _ended(self, how: str = "ended") -> RankFailed:
        """Return the exception for ranks that have gone, with what they printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)  # the launcher says which rank it was
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - TAIL))
        printed = " | ".join(line for line in self._output.read().decode(errors="replace").split("\n") if line.strip())
        self.end()
        return RankFailed(f"a rank of {self.shape.ranks} {how}", got=printed)
