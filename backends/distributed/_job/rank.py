"""One rank of a job, seen from inside: ``mpiexec -n P python -m backends.distributed._job.rank NAME``.

It answers commands that come over its socket, one at a time. An exception is the answer to its command; the parent then
kills the job, since other ranks may wait for this one. The parent's side is `backends.distributed._job.job`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backends.distributed._job.software import software
from harness.distributed.grid import Decomposition, Rectangle
from harness.distributed.local import device_local, host_local
from harness.distributed.redistribute import at_root
from harness.distributed.share import Share
from harness.distributed.transport import gpus
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.comms import Comms
from harness.distributed.transport.segments import forget_names
from harness.distributed.transport.shared_arrays import SharedForm, attach
from harness.problem import Problem


class Assignment(NamedTuple):
    """A product as the parent describes it to the ranks.

    Parameters
    ----------
    problem : Problem
    sizes : Decomposition
    schedule : Schedule
    base : str
        The backend of local products.
    on_device : bool
        Whether that computes on GPUs, one for each rank, where the pieces lie then.
    threads : int
        Of each rank.
    from_root : bool
        Whether the operands lie on rank 0 and the result ends there, both of which is then timed.
    is_shared : bool
        Whether operands and result pass through shared memory; else nobody but the ranks has them.
    """

    problem: Problem
    sizes: Decomposition
    schedule: Schedule
    base: str
    on_device: bool
    threads: int
    from_root: bool
    is_shared: bool = True

    @property
    def is_in_place(self) -> bool:
        """Whether ranks compute with the operands as they lie in shared memory, and write the result there."""
        return self.is_shared and bool(self.sizes.hosts) and not (self.on_device or self.from_root)


class Held:
    """What this rank holds of one product.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    assignment : Assignment
    shared : dict
        Arrays in shared memory: "a", "b", "d", and "c" if there is one.
    """

    def __init__(self, comm: Any, assignment: Assignment, shared: dict[str, np.ndarray]) -> None:
        problem, sizes = assignment.problem, assignment.sizes
        on_device, comms = assignment.on_device, Comms.cached(comm, sizes.grid)
        if on_device:
            gpus.bind(comm.Get_rank())
            local = device_local(problem, assignment.base)
        else:
            local = host_local(problem, assignment.base, assignment.threads)
        wholes = shared if assignment.is_in_place else None
        self.share = Share(comms, sizes, problem, local, assignment.schedule, on_device=on_device, wholes=wholes)
        self._from_root, self._shared = assignment.from_root, shared
        is_root = self._from_root and self.share.rank == 0
        # what rank 0 alone holds; elsewhere arrays without elements stand for it
        self._whole = {name: np.empty_like(x if is_root else x[:0, :0]) for name, x in shared.items()}
        if not assignment.is_in_place:
            self.load()

    @property
    def _operands(self) -> list[str]:
        """The names of its operands, on all ranks in the same order."""
        return [name for name in "abc" if name in self._shared]

    def load(self) -> None:
        """Take the operands out of shared memory: its pieces, or at the root everything."""
        for name in self._operands:
            if self._from_root:
                whole = self._whole[name]
                whole[...] = self._shared[name][: whole.shape[0], : whole.shape[1]]
            else:
                rectangle = self.share.layout(name)[self.share.rank]
                self.share.arrays.fill(self.share.pieces[name], self._shared[name][rectangle.slices])

    def run(self) -> None:
        """Compute once: from the pieces, or from what the root holds and back to it."""
        self.share.stages.clear()
        if self._from_root:
            for name in self._operands:
                self.share.take(name, self._whole[name], self._at_root(name))
        self.share.multiply()
        if self._from_root:
            self.share.give(self._whole["d"], self._at_root("d"))

    def collect(self) -> None:
        """Write its piece of the result, or at the root all of it, to shared memory."""
        if self._from_root:
            whole = self._whole["d"]
            self._shared["d"][: whole.shape[0], : whole.shape[1]] = whole
        else:
            rectangle = self.share.layout("d")[self.share.rank]
            self._shared["d"][rectangle.slices] = self.share.arrays.to_host(self.share.pieces["d"])

    def _at_root(self, name: str) -> list[Rectangle]:
        rows, columns = self._shared[name].shape
        return at_root(rows, columns, self.share.world.size)


class Rank:
    """Holds the pieces of products by number. Public methods are the commands."""

    def __init__(self, comm: Any) -> None:
        self._comm, self._held = comm, dict[int, Held]()

    def load(self, number: int, assignment: bytes, shared: dict[str, SharedForm]) -> None:
        """Allocate a product and take its operands from shared memory."""
        from numba import cloudpickle

        arrays = {name: attach(form) for name, form in shared.items()}
        self._held[number] = Held(self._comm, cloudpickle.loads(assignment), arrays)

    def upload(self, number: int) -> None:
        """Take the operands from shared memory anew."""
        self._held[number].load()

    def run(self, number: int) -> None:
        """Compute a product once."""
        self._held[number].run()

    def collect(self, number: int) -> None:
        """Write the piece of the result to shared memory."""
        self._held[number].collect()

    def report(self, number: int) -> dict[str, Any]:
        """Return seconds, words and messages by stage of the last run, and the bytes allocated."""
        share = self._held[number].share
        return {**vars(share.stages), "bytes": share.bytes_used, "transport": share.transport, "steals": share.steals}

    def apply(self, number: int, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Return what a function of the caller makes of the pieces of a product."""
        return function(self._held[number].share, **arguments)

    def software(self) -> dict[str, str]:
        """Return the versions of what it sends by: the MPI library, mpi4py, and NCCL where CuPy finds it."""
        return software()

    def free(self, number: int) -> None:
        """Forget a product."""
        if number in self._held:
            self._held.pop(number).share.close()


def main(name: str) -> None:
    """Answer commands until the parent asks to stop, or has gone."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    forget_names()
    key = bytes.fromhex(os.environ.pop("GEMM_HARNESS_JOB_KEY"))
    connection, lifeline = (_connected(name, key, role, comm) for role in ("commands", "lifeline"))
    _end_with(lifeline)
    rank = Rank(comm)
    while True:
        try:
            command, arguments = connection.recv()
        except (EOFError, OSError):
            comm.Abort(1)
        if command == "stop":
            return
        connection.send(_answer(getattr(rank, command), arguments))


def _connected(name: str, key: bytes, role: str, comm: Any) -> Connection:
    """Open a socket to the parent, and say what it is for and who this is, of how many."""
    connection = Client(f"\0{name}", "AF_UNIX", authkey=key)  # a name that is no file, as Linux has
    connection.send((role, comm.Get_rank(), comm.Get_size(), os.getpid()))
    return connection


def _end_with(lifeline: Connection) -> None:
    """Have the kernel end this process by SIGIO when the parent's side of a socket is closed, in whatever way.

    A thread that waits for that would wait for the GIL too, which a kernel may hold for minutes.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline.fileno(), fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(lifeline.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
    if lifeline.poll():  # it was closed before
        os.kill(os.getpid(), signal.SIGIO)


def _answer(method: Callable[..., Any], arguments: dict[str, Any]) -> tuple[str, Any]:
    try:
        return "ok", method(**arguments)
    except BaseException as error:  # noqa: BLE001 whatever it is, the parent says it, and ends the job
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "failed", f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"


if __name__ == "__main__":
    main(sys.argv[1])
