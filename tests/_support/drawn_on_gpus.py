"""A program of one rank: operands are drawn on GPUs that do not exist, multiplied by every engine, and proven.

mpiexec -n P python -m mpi4py -m tests._support.drawn_on_gpus fake|newest ENGINE...
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI

from experiments._parts import drawn_ranks_task
from experiments._parts.drawn_task import Crossing, DrawnTask
from harness.distributed.choice.volumes import grids
from harness.distributed.grid import Decomposition
from harness.distributed.share import Share
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.comms import Comms
from harness.problem import Problem
from tests._support import fake_device
from tests._support.gpu_ranks import ByDefinition


class OneRank:
    """The rank of this process, as a task sees all of them."""

    def __init__(self, comm: Any, share: Share) -> None:
        self._comm, self._share = comm, share

    def draw(self, seed: int) -> None:
        drawn_ranks_task.draw(self._share, seed)

    def poison(self) -> None:
        drawn_ranks_task.poison(self._share)

    def multiply(self) -> None:
        self._share.multiply()

    def crossings(self, rows: np.ndarray, columns: np.ndarray) -> list[Crossing]:
        found: list[Crossing] = self._comm.allgather(drawn_ranks_task.crossing(self._share, rows, columns))
        return found


def main(kind: str, engines: list[str]) -> None:
    """Prove a product on each grid by each engine, of two sets of operands."""
    fake_device.install(newest_first=kind == "newest")
    comm, products = MPI.COMM_WORLD, 0
    problem = Problem(70, 90, 64, "min_plus", "float32")
    for grid in grids(comm.Get_size()):
        for engine in engines:
            schedule = Schedule(16, 3, transport=engine, share_gpu=True)
            sizes, local = Decomposition(problem.m, problem.n, problem.k, grid), ByDefinition(problem, in_place=True)
            share = Share(Comms.cached(comm, grid), sizes, problem, local, schedule, on_device=True)
            task = DrawnTask(problem, OneRank(comm, share), 1)
            for _ in range(2):
                task.spoil()
                task.turn()
                task.run()
                task.verify()
                products += 1
            share.close()
    if comm.Get_rank() == 0:
        print(f"{products} products, 0 wrong", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
