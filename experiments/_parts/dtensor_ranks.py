"""Ranks that hold tensors of PyTorch spread over a plane of processes (DTensor), commanded over pipes.

On processors they send by Gloo, on GPUs, one rank each, by NCCL. Operands come from the parent, or are drawn in place.
"""

from __future__ import annotations

import functools
import multiprocessing
import tempfile
import traceback
import weakref
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from experiments._parts import positional
from experiments._parts.drawn_task import Crossing, within
from harness.distributed.grid import Grid

STOP_S = 2.0


class TensorRanks:
    """Processes that hold A and B in blocks.

    Parameters
    ----------
    grid : Grid
        A plane of ranks.
    device : str
        ``"cpu"`` or ``"cuda"``.
    """

    def __init__(self, grid: Grid, device: str = "cpu") -> None:
        spawn = multiprocessing.get_context("spawn")
        folder = tempfile.TemporaryDirectory(prefix="gemm-harness-")
        pipes = [spawn.Pipe() for _ in range(grid.size)]
        self._pipes = [ours for ours, _ in pipes]
        processes = [
            spawn.Process(target=_main, args=(theirs, rank, grid, f"{folder.name}/meet", device), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()
        self._end = weakref.finalize(self, _stop, self._pipes, processes, folder)

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

    def __init__(self, rank: int, grid: Grid, meet: str, device: str) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard

        torch.set_num_threads(1)
        if device == "cuda":
            torch.cuda.set_device(rank)
        backend = {"cpu": "gloo", "cuda": "nccl"}[device]
        dist.init_process_group(backend, init_method=f"file://{meet}", rank=rank, world_size=grid.size)
        self._rank, self._grid, self._device = rank, grid, device
        self._mesh, self._blocks = init_device_mesh(device, (grid.pm, grid.pn)), (Shard(0), Shard(1))

    def hold(self, a: np.ndarray, b: np.ndarray) -> None:
        """Keep this rank's blocks of A and B."""
        import torch
        from torch.distributed.tensor import distribute_tensor

        self._a, self._b = (distribute_tensor(torch.from_numpy(x), self._mesh, self._blocks) for x in (a, b))

    def draw(self, seed: int, m: int, n: int, k: int, dtype: str) -> None:
        """Draw this rank's blocks of A and B, which all have one shape."""
        from torch.distributed.tensor import DTensor

        drawn = (self._drawn(seed, name, *shape, dtype) for name, shape in (("a", (m, k)), ("b", (k, n))))
        self._a, self._b = (DTensor.from_local(x, self._mesh, self._blocks) for x in drawn)

    def _drawn(self, seed: int, name: str, rows: int, columns: int, dtype: str) -> Any:
        """Return this rank's block of a matrix of that shape."""
        import torch

        row, column, height, width = self._place(rows, columns)
        block = torch.empty((height, width), dtype=getattr(torch, dtype), device=self._device)
        positions = functools.partial(torch.arange, device=self._device)
        positional.fill(block, seed, name, positions, lambda x: x.double(), row, column)
        return block

    def _place(self, rows: int, columns: int) -> tuple[int, int, int, int]:
        """Return the first row and column of this rank's block, and how many it has."""
        i, j = divmod(self._rank, self._grid.pn)
        height, width = rows // self._grid.pm, columns // self._grid.pn
        return i * height, j * width, height, width

    def multiply(self) -> None:
        """Compute the block of the result: the rows of A and the columns of B are gathered, as SUMMA does."""
        import torch
        from torch.distributed.tensor import Replicate, Shard

        a = self._a.redistribute(self._mesh, (Shard(0), Replicate()))
        b = self._b.redistribute(self._mesh, (Replicate(), Shard(1)))
        self._d = (a @ b).redistribute(self._mesh, self._blocks)
        if self._device == "cuda":
            torch.cuda.synchronize()

    def poison(self) -> None:
        """Overwrite the result."""
        if hasattr(self, "_d"):
            self._d.to_local().fill_(float("nan"))

    def collect(self) -> np.ndarray | None:
        """Return the whole result; of other ranks than the first None."""
        whole = self._d.full_tensor().numpy()
        return whole if self._rank == 0 else None

    def crossing(self, rows: np.ndarray, columns: np.ndarray) -> Crossing:
        """Return the elements of this rank's block of the result where `rows` and `columns` cross."""
        import torch

        row, column, height, width = self._place(*self._d.shape)
        own_rows, own_columns = within(rows, row, row + height), within(columns, column, column + width)
        at = (torch.from_numpy(x).to(self._device) for x in (own_rows - row, own_columns - column))
        part = self._d.to_local()[next(at)][:, next(at)]
        return Crossing(own_rows, own_columns, part.cpu().numpy())

    def software(self) -> dict[str, str]:
        """Return versions by name."""
        import torch

        nccl = {"nccl": ".".join(map(str, torch.cuda.nccl.version()))} if self._device == "cuda" else {}
        return {"torch": torch.__version__, **nccl}


def _main(pipe: Connection, rank: int, grid: Grid, meet: str, device: str) -> None:
    """Answer commands until the pipe is closed."""
    own = None
    while True:
        try:
            command, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            own = own or _Rank(rank, grid, meet, device)
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
