"""Tasks of products by other systems that spread arrays over ranks, devices or workers; their results are proven.

    dtensor   PyTorch's DTensor: a process each rank, blocks of A and B on a plane of ranks, all-gathered by Gloo
    jax       JAX's NamedSharding: one process, the host as several devices, blocks on a plane of them
    dask      Dask's array: one process, blocks computed by threads

Operands are spread beforehand, as a strategy's pieces are, and the result stays spread; to prove it, it is collected.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from experiments._parts.computed import Computed, require
from experiments._parts.dtensor_ranks import TensorRanks
from experiments._parts.ranks_task import OthersClock
from harness.distributed.choice.volumes import grids
from harness.distributed.grid import Grid
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.verify import verify
from harness.threads import limit


class Spread:
    """A product of spread arrays.

    Parameters
    ----------
    problem : Problem
    operands : Operands
    grid : Grid
        A plane.

    Attributes
    ----------
    package : str
        Of the system.
    """

    package: ClassVar[str]

    def __init__(self, problem: Problem, operands: Operands, grid: Grid) -> None:
        self.problem, self.operands, self.grid = problem, operands, grid

    def multiply(self) -> Any:
        """Compute once, and return the result, spread, when it is done."""
        raise NotImplementedError

    def collect(self, result: Any) -> np.ndarray:
        """Return a result as one array."""
        return np.asarray(result)


class SpreadJax(Spread):
    """A product of two arrays of JAX, sharded over a mesh of the host's devices."""

    package = "jax"

    def __init__(self, problem: Problem, operands: Operands, grid: Grid) -> None:
        super().__init__(problem, operands, grid)
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={grid.size}"
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax

        jax.config.update("jax_enable_x64", True)
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(grid.pm, grid.pn), ("m", "n"))
        blocks = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("m", "n"))
        self._a, self._b = (jax.device_put(x, blocks) for x in (operands.a, operands.b))
        self._product = jax.jit(lambda a, b: a @ b, out_shardings=blocks)

    def multiply(self) -> Any:
        return self._product(self._a, self._b).block_until_ready()


class SpreadDask(Spread):
    """A product of two arrays of Dask in memory, a block of the result for each cell of the plane."""

    package = "dask"

    def __init__(self, problem: Problem, operands: Operands, grid: Grid) -> None:
        super().__init__(problem, operands, grid)
        from dask import array

        rows, columns = -(-problem.m // grid.pm), -(-problem.n // grid.pn)
        a = array.from_array(operands.a, chunks=(rows, problem.k))
        b = array.from_array(operands.b, chunks=(problem.k, columns))
        self._graph = a @ b

    def multiply(self) -> Any:
        with limit(1):  # each of the workers calls a library that has threads of its own
            return self._graph.compute(scheduler="threads", num_workers=self.grid.size)


class SpreadTorch(Spread):
    """A product of two tensors of PyTorch, spread over processes."""

    package = "torch"

    def __init__(self, problem: Problem, operands: Operands, grid: Grid) -> None:
        super().__init__(problem, operands, grid)
        self._ranks = TensorRanks(grid)
        self._ranks.call_all("hold", operands.a, operands.b)

    def multiply(self) -> Any:
        return self._ranks.call_all("multiply")

    def collect(self, result: Any) -> np.ndarray:
        return np.asarray(self._ranks.call_all("collect")[0])


# By the name of the package that has to be installed.
SYSTEMS: dict[str, Callable[[Problem, Operands, Grid], Spread]] = {
    system.package: system for system in (SpreadTorch, SpreadJax, SpreadDask)
}


def product(*, problem: Mapping[str, Any], package: str, seed: int, threads: int) -> Computed:
    """Prepare a product by the system of `package`, on `threads` ranks, devices or workers.

    Raises
    ------
    Declined
        If the package is not installed.
    """
    require(package)
    decoded = Problem.from_json(dict(problem))
    operands, grid = Operands.generate(decoded, seed), plane(threads)
    made = SYSTEMS[package](decoded, operands, grid)
    software = {package: importlib.metadata.version(package)}

    def check(result: Any) -> str:
        operands.out[...] = made.collect(result)
        return verify(decoded, operands, operands.out, seed=seed)

    known = {**decoded.work, "plan": {"grid": str(grid)}, "software": software}
    return Computed(made.multiply, check, known, clock=OthersClock, compiles=False, starts_processes=True)


def plane(ranks: int) -> Grid:
    """Return the plane of so many ranks whose sides differ least."""
    planes = [grid for grid in grids(ranks) if grid.pk == 1]
    return min(planes, key=lambda grid: (abs(grid.pm - grid.pn), grid.pm))
