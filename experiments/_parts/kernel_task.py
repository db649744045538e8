"""A task that times a product by one kernel of a GPU, and records what a block of it takes of a multiprocessor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.gpu._tasks import occupancy
from harness import registry
from harness.run.task import GemmTask, gemm


class KernelTask:
    """A product by one kernel.

    Parameters
    ----------
    task : GemmTask
        The product; everything but `facts` is its own.
    kernel : dict
        What a block of its kernel takes of a multiprocessor.
    """

    def __init__(self, task: GemmTask, kernel: dict[str, int]) -> None:
        self._task, self._kernel = task, kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def facts(self) -> Mapping[str, Any]:
        """Return the facts of the product, and of its kernel."""
        return {**self._task.facts(), "kernel": self._kernel}


def product(*, backend: str, notes: Mapping[str, str] | None = None, **arguments: Any) -> KernelTask:
    """Prepare a product by a rung of the GPU ladder.

    Parameters
    ----------
    backend : str
    notes : mapping, optional
        Words for the table beside a figure, by its columns. Recorded with the arguments, and used nowhere here.
    **arguments
        As of `harness.run.task.gemm`.

    Raises
    ------
    Declined
        If there is no GPU, or the backend declines the product.
    PlanError
        If a parameter is unknown or has no legal value.
    """
    task = gemm(backend=backend, **arguments)
    return KernelTask(task, occupancy.of_product(registry.find(backend), task.plan))
