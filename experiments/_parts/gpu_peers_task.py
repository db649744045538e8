"""Tasks of products by other systems that spread arrays over the GPUs of a host; their results are proven.

    dtensor   PyTorch's DTensor: a process each GPU, blocks of A and B on a plane of them, all-gathered by NCCL
    jax       JAX's NamedSharding: one process for all GPUs, blocks on a plane of them

As with a strategy's ranks, operands are drawn on the GPUs, and the result stays there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments._parts import positional
from experiments._parts.computed import require
from experiments._parts.drawn_task import Crossing, Devices, DrawnTask, within
from experiments._parts.dtensor_ranks import TensorRanks
from experiments._parts.peers_task import plane
from experiments._parts.ranks_task import OthersClock
from harness.distributed.grid import Grid
from harness.distributed.transport.nccl import ENVIRONMENT
from harness.errors import Declined
from harness.problem import Problem


class TorchOnGpus:
    """Tensors of PyTorch, spread over processes with a GPU each.

    Parameters
    ----------
    problem : Problem
    grid : Grid
        A plane, which divides all sizes.

    Raises
    ------
    Declined
        If there are fewer GPUs.
    """

    def __init__(self, problem: Problem, grid: Grid) -> None:
        import torch

        if torch.cuda.device_count() < grid.size:
            raise Declined("missing", f"PyTorch finds {torch.cuda.device_count()} of {grid.size} GPUs")
        self._problem, self._ranks = problem, TensorRanks(grid, "cuda")
        self.software: dict[str, str] = self._ranks.call_all("software")[0]

    def draw(self, seed: int) -> None:
        problem = self._problem
        self._ranks.call_all("draw", seed, problem.m, problem.n, problem.k, problem.dtype.name)

    def poison(self) -> None:
        self._ranks.call_all("poison")

    def multiply(self) -> None:
        self._ranks.call_all("multiply")

    def crossings(self, rows: np.ndarray, columns: np.ndarray) -> list[Crossing]:
        return self._ranks.call_all("crossing", rows, columns)


class JaxOnGpus:
    """Arrays of JAX, sharded over a mesh of GPUs.

    Parameters
    ----------
    problem : Problem
    grid : Grid
        A plane, which divides all sizes.

    Raises
    ------
    Declined
        If there are fewer GPUs.
    """

    def __init__(self, problem: Problem, grid: Grid) -> None:
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        import jax

        jax.config.update("jax_enable_x64", True)
        try:
            gpus = jax.devices("gpu")
        except RuntimeError:
            gpus = []
        if len(gpus) < grid.size:
            raise Declined("missing", f"JAX finds {len(gpus)} of {grid.size} GPUs")
        self.software = {"jax": jax.__version__}
        self._jax, self._problem, self._d = jax, problem, None
        self._make(gpus[: grid.size], grid)

    def _make(self, devices: list[Any], grid: Grid) -> None:
        """Make the functions that draw and multiply."""
        jax, problem = self._jax, self._problem
        mesh = jax.sharding.Mesh(np.array(devices).reshape(grid.pm, grid.pn), ("m", "n"))
        blocks = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("m", "n"))

        def drawn(first: Any, seed: int, name: str, height: int, width: int) -> Any:
            rows = jax.numpy.arange(height, dtype="int64")[:, None] + first  # an argument: all else would be constants
            columns = jax.numpy.arange(width, dtype="int64")[None, :]
            return positional.values(seed, name, rows, columns, lambda x: x.astype("float64")).astype(problem.dtype)

        self._drawn = jax.jit(drawn, static_argnums=(1, 2, 3, 4), out_shardings=blocks)
        self._product = jax.jit(
            lambda a, b: jax.numpy.matmul(a, b, precision="highest"),
            in_shardings=(blocks, blocks),
            out_shardings=blocks,
        )

    def draw(self, seed: int) -> None:
        problem = self._problem
        a, b = self._drawn(0, seed, "a", problem.m, problem.k), self._drawn(0, seed, "b", problem.k, problem.n)
        self._a, self._b = a.block_until_ready(), b.block_until_ready()

    def poison(self) -> None:
        self._d = None  # arrays of JAX cannot be written to

    def multiply(self) -> None:
        self._d = self._product(self._a, self._b).block_until_ready()

    def crossings(self, rows: np.ndarray, columns: np.ndarray) -> list[Crossing]:
        found = []
        for shard in [] if self._d is None else self._d.addressable_shards:
            (row, row_end, _), (column, column_end, _) = (
                part.indices(size) for part, size in zip(shard.index, self._d.shape, strict=True)
            )
            own_rows, own_columns = within(rows, row, row_end), within(columns, column, column_end)
            part = shard.data[own_rows - row][:, own_columns - column]
            found.append(Crossing(own_rows, own_columns, np.asarray(part)))
        return found


# By the name of the package that has to be installed.
SYSTEMS: dict[str, Callable[[Problem, Grid], Any]] = {"torch": TorchOnGpus, "jax": JaxOnGpus}


class DrawnPeer(DrawnTask):
    """A product of drawn operands by another system."""

    def __init__(self, problem: Problem, devices: Devices, grid: Grid, software: Mapping[str, str], seed: int) -> None:
        super().__init__(problem, devices, seed)
        self._grid, self._software = grid, software

    def clock(self) -> OthersClock:
        """Return the clock of the host."""
        return OthersClock()

    def facts(self) -> Mapping[str, Any]:
        return {**super().facts(), "plan": {"grid": str(self._grid)}, "software": dict(self._software)}


def product(*, problem: Mapping[str, Any], package: str, seed: int, threads: int) -> DrawnPeer:
    """Prepare a product by the system of `package`, on `threads` GPUs.

    Raises
    ------
    Declined
        If the package is not installed, finds too few GPUs, or the plane of GPUs does not divide the sizes.
    """
    require(package)
    decoded, grid = Problem.from_json(dict(problem)), plane(threads)
    if any(size % side for size in (decoded.m, decoded.n, decoded.k) for side in (grid.pm, grid.pn)):
        raise Declined("declined", f"{package} is measured on blocks of one shape: {grid} does not divide the sizes")
    os.environ.update(ENVIRONMENT)
    devices = SYSTEMS[package](decoded, grid)
    return DrawnPeer(decoded, devices, grid, devices.software, seed)
