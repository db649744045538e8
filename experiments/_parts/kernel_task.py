"""A task that times a product by one kernel of a GPU, and records what a block of it takes of a multiprocessor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.gpu._tasks import occupancy
from harness import registry
from harness.run.task import GemmTask, gemm


def product(*, backend: str, notes: Mapping[str, str] | None = None, **arguments: Any) -> GemmTask:
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
    task.known["kernel"] = occupancy.of_product(registry.find(backend), task.plan)
    return task
