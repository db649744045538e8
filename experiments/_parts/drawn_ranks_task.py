"""The task of a product by a strategy whose ranks draw their own pieces: on GPUs nothing passes through the host."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.distributed._job.execution import RanksExecution
from experiments._parts import positional
from experiments._parts.drawn_task import Crossing, DrawnTask, within
from experiments._parts.ranks_task import RanksTask, strategy_and_plan
from experiments._parts.stages_clock import StagesClock
from harness.distributed.grid import Decomposition
from harness.distributed.share import Share
from harness.errors import Declined
from harness.plan import Plan
from harness.problem import Problem


def draw(share: Share, seed: int) -> None:
    """Fill the pieces of A and B of a rank."""
    for name in "ab":
        piece, place = share.pieces[name], share.layout(name)[share.rank]
        library = _library(piece)
        positions = functools.partial(library.arange, dtype="int64")
        positional.fill(piece, seed, name, positions, lambda x: x.astype("float64"), place.row, place.column)
        _finish(library)


def poison(share: Share) -> None:
    """Overwrite the piece of D of a rank."""
    share.pieces["d"].fill(np.nan)
    _finish(_library(share.pieces["d"]))


def crossing(share: Share, rows: np.ndarray, columns: np.ndarray) -> Crossing:
    """Return the elements of a rank's piece of D where `rows` and `columns` cross."""
    place = share.layout("d")[share.rank]
    own_rows, own_columns = within(rows, place.row, place.row_end), within(columns, place.column, place.column_end)
    piece = share.pieces["d"]
    at_rows, at_columns = map(_library(piece).asarray, (own_rows - place.row, own_columns - place.column))
    return Crossing(own_rows, own_columns, share.arrays.to_host(piece[at_rows][:, at_columns]))


def _library(x: Any) -> Any:
    """Return the library of an array, NumPy or CuPy."""
    if isinstance(x, np.ndarray):
        return np
    import cupy

    return cupy


def _finish(library: Any) -> None:
    """Return when a GPU has done what was enqueued, and give back the memory that it took."""
    if library is not np:
        library.cuda.get_current_stream().synchronize()
        library.get_default_memory_pool().free_all_blocks()


class RanksDevices:
    """The ranks of a strategy.

    Parameters
    ----------
    ranks : RanksExecution
    """

    def __init__(self, ranks: RanksExecution) -> None:
        self._ranks = ranks

    def draw(self, seed: int) -> None:
        self._ranks.apply(draw, seed=seed)

    def poison(self) -> None:
        self._ranks.apply(poison)

    def multiply(self) -> None:
        self._ranks.run()

    def crossings(self, rows: np.ndarray, columns: np.ndarray) -> list[Crossing]:
        return self._ranks.apply(crossing, rows=rows, columns=columns)


class DrawnRanks(RanksTask, DrawnTask):
    """A product of drawn operands by a strategy.

    Parameters
    ----------
    plan : Plan
    ranks : RanksExecution
    sizes : Decomposition
    seed : int
    """

    def __init__(self, plan: Plan, ranks: RanksExecution, sizes: Decomposition, seed: int) -> None:
        RanksTask.__init__(self, plan, ranks, sizes)
        DrawnTask.__init__(self, plan.problem, RanksDevices(ranks), seed)

    def clock(self) -> StagesClock:
        return RanksTask.clock(self)

    def facts(self) -> dict[str, Any]:
        return {**DrawnTask.facts(self), "plan": self.plan.to_json(), **self.rank_facts()}


def product(
    *,
    problem: Mapping[str, Any],
    backend: str,
    seed: int,
    threads: int,
    parameters: Mapping[str, Any] | None = None,
) -> DrawnRanks:
    """Prepare a product of floats by a strategy that does not begin at rank 0.

    Raises
    ------
    Declined
        If ranks cannot be started here, or the backend declines the problem.
    PlanError
        If a parameter is unknown or has no legal value.
    """
    decoded = Problem.from_json(dict(problem))
    strategy, plan = strategy_and_plan(decoded, backend, threads, parameters or {})
    if strategy.from_root:
        raise Declined("declined", f"{backend}: its operands lie on rank 0, and are not drawn by all ranks")
    sizes = strategy.sizes(plan)
    return DrawnRanks(plan, strategy.prepare_empty(plan), sizes, seed)
