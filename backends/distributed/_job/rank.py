"""One rank of a job, seen from inside: ``mpiexec -n P python -m backends.distributed._job.rank ADDRESS``.

It answers commands that come over its socket, one at a time. An exception is the answer to its command; the parent then
kills the job, since other ranks may wait for this one. The parent's side is `backends.distributed._job.job`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backends.distributed._job.shared import SharedForm, attach
from harness.distributed.grid import Decomposition, Rectangle
from harness.distributed.local import host_local
from harness.distributed.product import Schedule
from harness.distributed.redistribute import at_root
from harness.distributed.share import Share
from harness.distributed.transport.comms import Comms
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
    threads : int
        Of each rank.
    from_root : bool
        Whether the operands lie on rank 0 and the result ends there, both of which is then timed.
    """

    problem: Problem
    sizes: Decomposition
    schedule: Schedule
    base: str
    threads: int
    from_root: bool


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
        local = host_local(problem, assignment.base, assignment.threads)
        comms = Comms.cached(comm, sizes.grid)
        self.share = Share(comms, sizes, problem, local, assignment.schedule)
        self._from_root, self._shared = assignment.from_root, shared
        is_root = self._from_root and self.share.rank == 0
        # what rank 0 alone holds; elsewhere arrays without elements stand for it
        self._whole = {name: np.empty_like(x if is_root else x[:0, :0]) for name, x in shared.items()}

    @property
    def _operands(self) -> list[str]:
        """The names of its operands, on all ranks in the same order."""
        return [name for name in "abc" if name in self._shared]

    def upload(self) -> None:
        """Take the operands out of shared memory: its pieces, or at the root everything."""
        for name in self._operands:
            if self._from_root:
                whole = self._whole[name]
                whole[...] = self._shared[name][: whole.shape[0], : whole.shape[1]]
            else:
                rectangle = self.share.layout(name)[self.share.rank]
                self.share.pieces[name][...] = self._shared[name][rectangle.slices]

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
            self._shared["d"][self.share.layout("d")[self.share.rank].slices] = self.share.pieces["d"]

    def _at_root(self, name: str) -> list[Rectangle]:
        rows, columns = self._shared[name].shape
        return at_root(rows, columns, self.share.world.size)


class Rank:
    """Holds the pieces of products by number. Public methods are the commands."""

    def __init__(self, comm: Any) -> None:
        self._comm, self._held = comm, dict[int, Held]()

    def pid(self) -> int:
        """Return the number of this process in the system."""
        return os.getpid()

    def load(self, number: int, assignment: bytes, shared: dict[str, SharedForm]) -> None:
        """Allocate a product."""
        from numba import cloudpickle

        arrays = {name: attach(form) for name, form in shared.items()}
        self._held[number] = Held(self._comm, cloudpickle.loads(assignment), arrays)

    def upload(self, number: int) -> None:
        """Take the operands from shared memory."""
        self._held[number].upload()

    def run(self, number: int) -> None:
        """Compute a product once."""
        self._held[number].run()

    def collect(self, number: int) -> None:
        """Write the piece of the result to shared memory."""
        self._held[number].collect()

    def report(self, number: int) -> dict[str, Any]:
        """Return seconds, words and messages by stage of the last run, and the bytes allocated."""
        share = self._held[number].share
        return {**vars(share.stages), "bytes": share.bytes_used}

    def free(self, number: int) -> None:
        """Forget a product."""
        self._held.pop(number, None)


def main(address: str) -> None:
    """Answer commands until the parent asks to stop, or has gone."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    connection = Client(address, "AF_UNIX", authkey=bytes.fromhex(os.environ.pop("GEMM_HARNESS_JOB_KEY")))
    connection.send(comm.Get_rank())
    rank = Rank(comm)
    while True:
        try:
            command, arguments = connection.recv()
        except (EOFError, OSError):
            comm.Abort(1)
        if command == "stop":
            return
        connection.send(_answer(getattr(rank, command), arguments))


def _answer(method: Callable[..., Any], arguments: dict[str, Any]) -> tuple[str, Any]:
    try:
        return "ok", method(**arguments)
    except BaseException as error:  # noqa: BLE001 whatever it is, the parent says it, and ends the job
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "failed", f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"


if __name__ == "__main__":
    main(sys.argv[1])
