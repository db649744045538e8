"""The task of a matrix-vector product on a GPU: operands are drawn there, and calls take copies of them in turns.

So a matrix that would fit the last cache comes from memory too, and none has to travel from the host.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.queue import current_queue
from experiments._parts import positional
from experiments._parts.drawn_task import Crossing, DrawnTask
from experiments._parts.vectors import BEYOND_CACHE, GPU_CACHE, MOST_COPIES, matrix_bytes
from harness import machine, registry
from harness.errors import BackendUnavailable, Declined
from harness.interface import Backend
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.timing.device_clock import CudaEventClock


class Copies:
    """Copies of a product's operands on the GPU; each call multiplies another one.

    Parameters
    ----------
    backend : Backend
    plan : Plan
    """

    def __init__(self, backend: Backend, plan: Plan) -> None:
        problem = plan.problem
        count = -(-BEYOND_CACHE * GPU_CACHE // max(matrix_bytes(problem), 1))
        shapes = (problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)
        self._operands = [
            Operands(a, b, None, out)
            for a, b, out in (
                (device.empty(shape, problem.dtype) for shape in shapes) for _ in range(min(count, MOST_COPIES))
            )
        ]
        self._executions = [backend.prepare(plan, operands) for operands in self._operands]
        self._turn = 0

    def draw(self, seed: int) -> None:
        """Fill A and B of all copies."""
        first, *others = self._operands
        for name in "ab":
            matrix = getattr(first, name)
            positions = functools.partial(device.cupy().arange, dtype=np.int64)
            positional.fill(matrix, seed, name, positions, lambda x: x.astype(np.float64))
            for other in others:
                getattr(other, name)[...] = matrix

    def poison(self) -> None:
        """Overwrite all results."""
        for operands in self._operands:
            operands.out.fill(np.nan)

    def multiply(self) -> None:
        """Launch the product of the next copy."""
        self._turn = (self._turn + 1) % len(self._executions)
        self._executions[self._turn].run()

    def crossings(self, rows: np.ndarray, columns: np.ndarray) -> list[Crossing]:
        """Return the elements of the last result."""
        elements = self._operands[self._turn].out.get()[np.ix_(rows, columns)]
        return [Crossing(rows, columns, elements)]

    def __len__(self) -> int:
        return len(self._operands)


class VectorTask(DrawnTask):
    """A product on the GPU, timed by its clock."""

    starts_processes = False

    def __init__(self, plan: Plan, copies: Copies, seed: int) -> None:
        super().__init__(plan.problem, copies, seed)
        self._plan, self._copies = plan, copies

    def wait(self) -> None:
        """Return when the GPU is done."""
        device.synchronize()

    def clock(self) -> CudaEventClock:
        """Return the clock of the GPU."""
        return CudaEventClock(current_queue())

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call, the plan, and how many copies of the operands there are."""
        return {**super().facts(), "plan": self._plan.to_json(), "copies": len(self._copies)}


def product(
    *, problem: Mapping[str, Any], backend: str, seed: int, threads: int, parameters: Mapping[str, Any] | None = None
) -> VectorTask:
    """Prepare one.

    Raises
    ------
    Declined
        If there is no GPU, the backend declines the product, or the memory of the GPU is too small.
    """
    decoded = Problem.from_json(dict(problem))
    chosen = registry.admit(backend, decoded)
    plan = chosen.plan(decoded, machine.detect()).override(parameters or {})
    try:
        return VectorTask(plan, Copies(chosen, plan), seed)
    except BackendUnavailable as error:
        raise Declined("declined", f"out of memory: {error}") from None
