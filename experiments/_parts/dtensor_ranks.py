"""Ranks that hold tensors of PyTorch spread over a plane of processes (DTensor, Gloo), commanded over pipes."""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
import weakref
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from harness.distributed.grid import Grid

STOP_S = 2.0


class TensorRanks:
    """Processes that hold A and B in blocks.

    Parameters
    ----------
    a, b : arrays
        Sent to every rank, which keeps its block.
    grid : Grid
        A plane of ranks.
    """

    def __init__(self, a: np.ndarray, b: np.ndarray, grid: Grid) -> None:
        spawn = multiprocessing.get_context("spawn")
        folder = tempfile.TemporaryDirectory(prefix="gemm-harness-")
        pipes = [spawn.Pipe() for _ in range(grid.size)]
        self._pipes = [ours for ours, _ in pipes]
        processes = [
            spawn.Process(target=_main, args=(theirs, rank, grid, f"{folder.name}/meet"), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()
        self._end = weakref.finalize(self, _stop, self._pipes, processes, folder)
        self.call_all("hold", a, b)

    def call_all(self, command: str, *arguments: Any) -> list[Any]:
        """Have every rank execute `command`; return the answers in the order of ranks.

        Raises
        ------
        RuntimeError
            If a rank raised; the message is its traceback.
        """
        for pipe in self._pipes:
            pipe.send((command, arguments))
        answers = [pipe.recv() for pipe in self._pipes]
        for status, answer in answers:
            if status == "failed":
                raise RuntimeError(answer)
        return [answer for _, answer in answers]


class _Rank:
    """One process, seen from inside."""

    def __init__(self, rank: int, grid: Grid, meet: str) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=grid.size)
        self._rank, self._mesh = rank, init_device_mesh("cpu", (grid.pm, grid.pn))

    def hold(self, a: np.ndarray, b: np.ndarray) -> None:
        """Keep this rank's blocks of A and B."""
        import torch
        from torch.distributed.tensor import Shard, distribute_tensor

        self._blocks = (Shard(0), Shard(1))
        self._a, self._b = (distribute_tensor(torch.from_numpy(x), self._mesh, self._blocks) for x in (a, b))

    def multiply(self) -> None:
        """Compute the block of the result: the rows of A and the columns of B are gathered, as SUMMA does."""
        from torch.distributed.tensor import Replicate, Shard

        a = self._a.redistribute(self._mesh, (Shard(0), Replicate()))
        b = self._b.redistribute(self._mesh, (Replicate(), Shard(1)))
        self._d = (a @ b).redistribute(self._mesh, self._blocks)

    def collect(self) -> np.ndarray | None:
        """Return the whole result; of other ranks than the first None."""
        whole = self._d.full_tensor().numpy()
        return whole if self._rank == 0 else None


def _main(pipe: Connection, rank: int, grid: Grid, meet: str) -> None:
    """Answer commands until the pipe is closed."""
    own = None
    while True:
        try:
            command, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            own = own or _Rank(rank, grid, meet)
            pipe.send(("ok", getattr(own, command)(*arguments)))
        except Exception:  # noqa: BLE001 whatever it is, the parent raises it
            pipe.send(("failed", traceback.format_exc(limit=-2)))


def _stop(pipes: list[Any], processes: list[Any], folder: Any) -> None:
    """End the ranks."""
    for pipe in pipes:
        pipe.close()
    for process in processes:
        process.join(STOP_S)
        process.kill()
    folder.cleanup()
