"""The base class of backends that compute on ranks which they start themselves, on this machine.

The operands go to shared memory, from which every rank takes its pieces before anything is timed, as a GPU's operands
are copied before. A strategy that begins at the root times the scattering and the gathering too.
"""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import numpy as np

from backends.distributed._job import job
from backends.distributed._job.rank import Assignment
from backends.distributed._job.shared import SharedArray
from harness.composite import Composite
from harness.distributed.grid import BLOCKS, Decomposition, Grid, Layout
from harness.distributed.model import check_memory, choose_grid
from harness.distributed.product import Schedule
from harness.distributed.reduction import METHODS
from harness.errors import PlanError
from harness.interface import Execution, HostExecution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.threads import check

AUTO = "auto"


class Strategy(Composite):
    """A distributed product by a job of ranks on this machine.

    Options of its plan: ``base``, the backend of the local products; ``ranks``; ``rank_threads``, of each; ``grid``,
    ``"auto"`` or ``"2x2x1"``; ``panel``, elements of k gathered at a time, 0: all; ``in_flight``, panels in memory at
    once; ``reduction``, ``"exchange"`` or ``"mpi"``; ``memory_cap``, bytes a rank may use, 0: any.

    Attributes
    ----------
    layout : Layout
        How pieces are spread over the grid.
    from_root : bool
        Whether the operands lie on rank 0, and the result ends there.
    flat : str
        The dimensions along which its grid has one rank.
    """

    layout: ClassVar[Layout] = BLOCKS
    from_root: ClassVar[bool] = False
    flat: ClassVar[str] = ""
    starts_processes = True
    takes = frozenset({"mixed", "half"})

    def missing(self) -> str | None:
        """Return why no job can be started here."""
        return job.missing()

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """One rank a thread, each with the best backend of one thread."""
        options: dict[str, int | str] = {
            "base": self.choose_base(problem, ()),
            "ranks": machine.threads,
            "rank_threads": 1,
            "grid": AUTO,
            "panel": 0,
            "in_flight": 1,
            "reduction": METHODS[0],
            "memory_cap": 0,
        }
        return Plan(problem, machine.threads, None, options)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Start the ranks unless they run, and hand them their pieces."""
        self.find_base(plan.options["base"], plan.problem)
        return DistributedExecution(plan, operands, self.sizes(plan), from_root=self.from_root)

    def sizes(self, plan: Plan) -> Decomposition:
        """Return the decomposition of a plan.

        Raises
        ------
        PlanError
            If the grid does not fit the ranks or the strategy, or no grid fits the memory cap.
        """
        problem, options = plan.problem, plan.options
        ranks, panel, in_flight = (_positive(plan, name) for name in ("ranks", "panel", "in_flight"))
        check(_positive(plan, "rank_threads"))
        plan.choice("reduction", METHODS)
        extents, cap = (problem.m, problem.n, problem.k), _positive(plan, "memory_cap")
        word = problem.dtype.itemsize
        if options["grid"] == AUTO:
            grid = choose_grid(
                *extents,
                ranks,
                word,
                layout=self.layout,
                memory_cap=cap,
                panel=panel,
                in_flight=in_flight,
                flat=self.flat,
            )
            return Decomposition(*extents, grid, self.layout)
        sizes = Decomposition(*extents, Grid.parse(str(options["grid"])), self.layout)
        self._check_grid(sizes.grid, ranks)
        check_memory(sizes, word, cap, panel=panel, in_flight=in_flight)
        return sizes

    def _check_grid(self, grid: Grid, ranks: int) -> None:
        if grid.size != ranks:
            raise PlanError(
                f"{self.name}: the grid does not fit the ranks",
                expected=f"{ranks} ranks",
                got=f"{grid}: {grid.size} ranks",
                fix=f"ranks={grid.size}, or another grid",
            )
        sides = zip((grid.pm, grid.pn, grid.pk), "mnk", strict=True)
        if wrong := [name for side, name in sides if name in self.flat and side > 1]:
            raise PlanError(
                f"{self.name}: the grid has several ranks along {', '.join(wrong)}",
                expected=f"one rank along {', '.join(self.flat)}",
                got=str(grid),
                fix="backend 'dist-3d', which takes any grid",
            )


class DistributedExecution(HostExecution):
    """A product that ranks compute.

    Parameters
    ----------
    plan : Plan
    operands : Operands
    sizes : Decomposition
    from_root : bool
    """

    def __init__(self, plan: Plan, operands: Operands, sizes: Decomposition, *, from_root: bool) -> None:
        from numba import cloudpickle  # a user's semiring may be defined in the program itself

        super().__init__(operands)
        options = plan.options
        schedule = Schedule(int(options["panel"]), int(options["in_flight"]), str(options["reduction"]))
        threads = int(options["rank_threads"])
        assignment = Assignment(plan.problem, sizes, schedule, str(options["base"]), threads, from_root)
        running = job.job(job.Shape(int(options["ranks"]), threads))
        self._product = running.take(assignment, lambda: running.load(self._share(), cloudpickle.dumps(assignment)))
        weakref.finalize(self, running.give_back, self._product.number)
        self.upload()

    def run(self) -> None:
        """Compute once, on all ranks."""
        self._product.call_all("run")

    def result(self) -> np.ndarray:
        """Collect the pieces into the output, and return it."""
        self._product.call_all("collect")
        self.operands.out[...] = self._product.shared["d"].array
        return self.operands.out

    def upload(self) -> None:
        """Hand the ranks the operands anew."""
        for name, array in self._operands().items():
            self._product.shared[name].array[...] = array
        self._product.call_all("upload")

    def report(self) -> list[dict[str, Any]]:
        """Return seconds, words, messages and bytes of the last run by stage, rank by rank."""
        return self._product.call_all("report")

    def _operands(self) -> dict[str, np.ndarray]:
        return {name: x for name in "abc" if (x := getattr(self.operands, name)) is not None}

    def _share(self) -> dict[str, SharedArray]:
        """Return shared arrays for the operands and the result."""
        return {name: SharedArray(x.shape, x.dtype) for name, x in {**self._operands(), "d": self.operands.out}.items()}


def _positive(plan: Plan, name: str) -> int:
    """Return an option that is a number, 0 or more."""
    value, least = plan.options[name], int(name not in ("panel", "memory_cap"))
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PlanError(f"{name} has no such value", expected=f"an integer, {least} or more", got=f"{name}={value!r}")
    return value
