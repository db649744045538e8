"""A job of ranks that a process starts and commands: ``mpiexec -n P python -m backends.distributed._job.rank``.

The ranks live until this process ends. Each sleeps on a socket of its own while there is nothing to do.
What one of them raises is raised here; the death of one is the death of all. Either way the job is killed as a whole,
and the next product starts another.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import importlib.util
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from multiprocessing.connection import Connection, Listener, wait
from pathlib import Path
from typing import Any, NamedTuple, cast

from backends.distributed._job.shared import SharedArray
from harness import memory
from harness.errors import HarnessError

START_S = 60.0  # the most that P processes may take to start
STOP_S = 2.0
TAIL = 2000  # bytes of what the ranks printed that go into a message
# Environment of a process that is itself a rank of a job: MPICH and Slurm, Open MPI, Intel MPI.
_OF_A_RANK = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
# Open MPI refuses to run as root, and more ranks than cores, unless it is told; other libraries read none of these.
_PERMISSIONS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_osc": "^ucx",
}
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMBA_NUM_THREADS")


class RankFailed(HarnessError):
    """A rank raised an exception or ended; the message says which and why. The job has been killed."""


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


def missing() -> str | None:
    """Return why no job can be started here, or None."""
    if any(name in os.environ for name in _OF_A_RANK):
        return "this process is a rank of an MPI job itself: call harness.distributed.gemm"
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (make setup MPI=mpich, or MPI=system for an MPI library of your own)"
    return None if launcher() else "no mpiexec in the environment or on PATH (make setup MPI=mpich brings MPICH)"


def launcher() -> str | None:
    """Return the path of ``mpiexec``: the one beside this interpreter, else the first on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


class Product:
    """A product that the ranks of a job hold: their pieces, and the arrays that they share with this process.

    Parameters
    ----------
    running : Job
    number : int
        By which the ranks know it.
    shared : dict
        "a", "b", "d", and "c" if there is one.
    """

    key: Hashable = None

    def __init__(self, running: Job, number: int, shared: dict[str, SharedArray]) -> None:
        self.running, self.number, self.shared = running, number, shared

    def call_all(self, command: str, **arguments: Any) -> list[Any]:
        """Have the ranks execute `command` on it; raises as `Job.call_all`."""
        return self.running.call_all(command, number=self.number, **arguments)


class Job:
    """Ranks that wait for commands, see `backends.distributed._job.rank.Rank`.

    Parameters
    ----------
    shape : Shape

    Raises
    ------
    RankFailed
        If they do not start.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape, self.is_alive = shape, True
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        # Products by number: those in use, and those whose user has gone. A finalizer may run between any two
        # instructions, so it only notes the number, and the next command sees to it.
        self.in_use: dict[int, Product] = {}
        self._returned: collections.deque[int] = collections.deque()
        self._idle: dict[Hashable, Product] = {}
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 closed by kill
        key = secrets.token_bytes(32)
        with (
            tempfile.TemporaryDirectory(prefix="gemm-harness-") as folder,
            Listener(f"{folder}/ranks", "AF_UNIX", backlog=shape.ranks, authkey=key) as listener,
        ):
            self._process = subprocess.Popen(  # noqa: S603 the launcher of the user's MPI and our own module
                [
                    launcher() or "mpiexec",
                    "-n",
                    str(shape.ranks),
                    sys.executable,
                    "-P",
                    "-m",
                    "backends.distributed._job.rank",
                    str(listener.address),
                ],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=self._environment(key),
            )
            try:
                self._ranks = self._accept(listener)
            except BaseException:
                self.kill()
                raise
        self.pids = list(self.call_all("pid"))

    def call_all(self, command: str, **arguments: Any) -> list[Any]:
        """Have every rank execute `command`; return the answers in the order of ranks.

        Raises
        ------
        RankFailed
            If a rank raised an exception, or ended. The job has then been killed.
        """
        with self._lock:
            if not self.is_alive:
                raise RankFailed("the job of ranks has ended", fix="compute again: another is started")
            try:
                for connection in self._ranks:
                    connection.send((command, arguments))
                return self._answers()
            except (OSError, EOFError):
                raise self._ended() from None
            except BaseException:  # interrupted: answers may be on their way that nobody would read
                self.kill()
                raise

    def take(self, key: Hashable, make: Callable[[], Product]) -> Product:
        """Return a product that was loaded under `key` before and is idle now, else the one that `make` returns.

        `make` is to call `load`. The product is in use until `give_back`.
        """
        with self._lock:
            self._sort_returned()
            product = self._idle.pop(key, None) or make()
            product.key = key
            self.in_use[product.number] = product
            return product

    def give_back(self, number: int) -> None:
        """Note that a product is not used any more; may be called at any time, from any thread."""
        self._returned.append(number)

    def load(self, shared: dict[str, SharedArray], assignment: bytes) -> Product:
        """Have the ranks allocate a product whose operands and result are shared arrays."""
        product = Product(self, next(self._numbers), shared)
        product.call_all("load", assignment=assignment, shared={name: array.form for name, array in shared.items()})
        for array in shared.values():
            array.close()
        return product

    def forget_idle(self) -> None:
        """Have the ranks forget the products that nobody uses."""
        with self._lock:
            self._sort_returned()
            self._forget(self._idle.values())

    def _sort_returned(self) -> None:
        """Keep the product that was given back last for the next call, and forget the others."""
        while self._returned:
            product = self.in_use.pop(self._returned.popleft())
            self._forget(self._idle.values())
            self._idle = {product.key: product}

    def _forget(self, products: Iterable[Product]) -> None:
        for product in products:
            with contextlib.suppress(HarnessError):
                product.call_all("free")
        self._idle = {}

    def close(self) -> None:
        """Have the ranks end by themselves, and kill those that do not."""
        if self.is_alive:
            with contextlib.suppress(OSError):
                for connection in self._ranks:
                    connection.send(("stop", {}))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            self.kill()

    def kill(self) -> None:
        """Kill the launcher and all ranks, and remove what they leave."""
        if not self.is_alive:
            return
        self.is_alive = False
        for pid in (*getattr(self, "pids", ()), self._process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        for connection in getattr(self, "_ranks", ()):
            connection.close()
        self._output.close()

    def _environment(self, key: bytes) -> dict[str, str]:
        pools = dict.fromkeys(_POOLS, str(self.shape.threads))
        path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
        return {**_PERMISSIONS, **os.environ, **pools, "PYTHONPATH": path, "GEMM_HARNESS_JOB_KEY": key.hex()}

    def _accept(self, listener: Listener) -> list[Connection]:
        """Return the connection of each rank, by its number."""
        connections: dict[int, Connection] = {}
        deadline = time.monotonic() + START_S
        listening: Any = listener._listener._socket  # type: ignore[attr-defined] # noqa: SLF001 accept has no time-out
        listening.settimeout(0.05)
        while len(connections) < self.shape.ranks:
            try:
                connection = listener.accept()
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise self._ended("did not start") from None
                continue
            connections[connection.recv()] = connection
        return [connections[rank] for rank in range(self.shape.ranks)]

    def _answers(self) -> list[Any]:
        answers: dict[int, Any] = {}
        waiting = {connection: rank for rank, connection in enumerate(self._ranks)}
        while waiting:
            for ready in wait(list(waiting)):
                connection = cast("Connection", ready)
                status, answer = connection.recv()
                rank = waiting.pop(connection)
                if status == "failed":
                    self.kill()
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
        self.kill()
        return RankFailed(f"a rank of {self.shape.ranks} {how}", got=printed)


_jobs: dict[Shape, Job] = {}
_owner = os.getpid()
_jobs_lock = threading.Lock()


def job(shape: Shape) -> Job:
    """Return the live job of that shape in this process, started if there is none.

    Jobs that hold no product in use are ended before another is started: idle ranks hold memory and libraries.
    """
    global _owner  # noqa: PLW0603
    with _jobs_lock:
        if _owner != os.getpid():  # a forked child: the ranks answer to its parent
            _jobs.clear()
            _owner = os.getpid()
        if shape not in _jobs or not _jobs[shape].is_alive:
            for other in [other for other, running in _jobs.items() if not running.in_use]:
                _jobs.pop(other).close()
            _jobs[shape] = Job(shape)
        return _jobs[shape]


def close_all() -> None:
    """End the ranks that this process has started."""
    if _owner == os.getpid():
        for running in _jobs.values():
            running.close()
        _jobs.clear()


atexit.register(close_all)


@memory.on_free
def _free_idle() -> None:
    """Have the ranks forget the products that are kept for the next call."""
    if _owner == os.getpid():
        for running in list(_jobs.values()):
            running.forget_idle()
