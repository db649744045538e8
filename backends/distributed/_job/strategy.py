"""The base class of backends that compute on ranks which they start themselves, on this machine.

The operands go to shared memory, from which every rank takes its pieces before anything is timed, as a GPU's operands
are copied before. A strategy that begins at the root times the scattering and the gathering too.
"""

from __future__ import annotations

from typing import Any, ClassVar

from backends.distributed._job import job, launcher
from backends.distributed._job.execution import DistributedExecution, RanksExecution
from backends.distributed._job.rank import Assignment
from harness import registry
from harness.composite import Composite
from harness.distributed.choice.model import check_memory, choose_grid, rates_of, room_of
from harness.distributed.grid import BLOCKS, Decomposition, Grid, Layout
from harness.distributed.reduction import METHODS
from harness.distributed.transport import gpus
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.choice import ENGINES, hosts_of
from harness.distributed.transport.shared_arrays import memory_domain
from harness.dtypes import carrier
from harness.errors import Declined, PlanError
from harness.interface import Backend, Execution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.scalars import as_count
from harness.threads import check
from harness.tuning.static_order import AUTO_FIRST

AUTO = "auto"
ON_GPUS = "gpu-"  # what the name of a base begins with that has ranks compute on GPUs


class Strategy(Composite):
    """A distributed product by a job of ranks on this machine.

    Options of its plan: ``base``, the backend of the local products; ``ranks``, ``"auto"``: one a thread;
    ``rank_threads``, of each; ``grid``, ``"auto"`` or ``"2x2x1"``; ``panel``, elements of k gathered at a time, 0: all,
    and ``in_flight``, panels in memory at once, both ``"auto"`` by default; ``reduction``, ``"exchange"`` or ``"mpi"``;
    ``memory_cap``, bytes a rank may use, 0: any.

    ``transport`` is ``"shared"`` memory, which is what ``"auto"`` takes, or ``"mpi"``. ``steal``, ``"auto"``, 0 or
    1: whether ranks that are done compute parts of others.

    A base of the family ``gpu-`` has each rank compute on a GPU, where its pieces lie; ``ranks="auto"`` is one a GPU
    then, and ``transport`` names the engine between GPUs: ``"auto"``, ``"copy"``, ``"nccl"`` or ``"staged"``.
    ``share_gpu=1`` lets ranks share a GPU, which is for tests.

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
    takes = frozenset({"mixed", "half", "complex"})

    def missing(self) -> str | None:
        """Return why no job can be started here."""
        return launcher.missing()

    def _able(self, problem: Problem) -> dict[str, Backend]:
        """Return the possible bases: composites of the host too, which start no ranks, if as accurate as sums are."""
        return {
            backend.name: backend
            for backend in registry.able(problem, on_device=False)
            if backend.name.startswith(self.base_family) and not backend.loosens(problem)
        }

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """One rank a thread, each with the best backend of one thread, or one a GPU where that is the base."""
        options: dict[str, int | str] = {
            "base": self.choose_base(problem, AUTO_FIRST),
            "ranks": AUTO,
            "rank_threads": 1,
            "grid": AUTO,
            "panel": AUTO,
            "in_flight": AUTO,
            "reduction": METHODS[0],
            "memory_cap": 0,
            "transport": ENGINES[0],
            "share_gpu": 0,
            "steal": AUTO,
        }
        return Plan(problem, machine.threads, None, options)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Start the ranks unless they run, and hand them their pieces."""
        return DistributedExecution(self.shape(plan), self.assignment(plan), operands)

    def prepare_empty(self, plan: Plan) -> RanksExecution:
        """Start the ranks unless they run, and have them allocate pieces, which `RanksExecution.apply` may fill."""
        return RanksExecution(self.shape(plan), self.assignment(plan)._replace(is_shared=False))

    def shape(self, plan: Plan) -> job.Shape:
        """Return the shape of the job that a plan needs; raises as `sizes` does."""
        return job.Shape(rank_count(plan), _positive(plan, "rank_threads"))

    def assignment(self, plan: Plan) -> Assignment:
        """Return the product of a plan as ranks are told it; raises as `sizes` and `find_base` do."""
        base = str(plan.options["base"])
        self.find_base(base, plan.problem)
        on_gpus, threads = is_on_gpus(base), _positive(plan, "rank_threads")
        schedule = schedule_of(plan)
        return Assignment(plan.problem, self.sizes(plan), schedule, base, on_gpus, threads, self.from_root)

    def find_base(self, name: int | str, problem: Problem) -> Backend:
        """Return the backend called `name`, on processors or on GPUs; raises as `Composite.find_base` does.

        Raises
        ------
        Declined
            If it is one on GPUs, and there is none, or it declines `problem`, or A and B are of ml_dtypes.
        """
        if not is_on_gpus(name):
            return super().find_base(name, problem)
        dtype = problem.input_dtype
        if dtype != carrier(dtype):
            raise Declined(
                "declined",
                f"{self.name}: pieces on GPUs are not {dtype.name}: float16 operands, or a base on processors",
            )
        return registry.admit(str(name), problem)

    def sizes(self, plan: Plan) -> Decomposition:
        """Return the decomposition of a plan.

        Raises
        ------
        PlanError
            If the grid does not fit the ranks or the strategy, or no grid fits the memory cap.
        """
        problem, options, room = plan.problem, plan.options, self.room(plan)
        ranks, on_gpus = rank_count(plan), is_on_gpus(options["base"])
        hosts = hosts_of([memory_domain()] * ranks, schedule_of(plan).transport, on_device=on_gpus)
        check(_positive(plan, "rank_threads"))
        extents, cap = (problem.m, problem.n, problem.k), _positive(plan, "memory_cap")
        if options["grid"] == AUTO:
            grid = choose_grid(
                *extents,
                ranks,
                rates=rates_of(on_device=on_gpus),
                layout=self.layout,
                hosts=hosts,
                memory_cap=cap,
                flat=self.flat,
                **room,
            )
            return Decomposition(*extents, grid, self.layout, hosts)
        sizes = Decomposition(*extents, Grid.parse(str(options["grid"])), self.layout, hosts)
        self._check_grid(sizes.grid, ranks)
        check_memory(sizes, memory_cap=cap, **room)
        return sizes

    def room(self, plan: Plan) -> dict[str, Any]:
        """Return the arguments of `harness.distributed.choice.model.memory_bytes`, beside sizes, for a plan."""
        base, schedule = plan.options["base"], schedule_of(plan)
        in_place, on_device = self.find_base(base, plan.problem).accumulates_in_place, is_on_gpus(base)
        return room_of(plan.problem, schedule.panel, schedule.in_flight, in_place=in_place, on_device=on_device)

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


def schedule_of(plan: Plan) -> Schedule:
    """Return how panels are gathered by a plan, with a number for each option that is automatic.

    Raises
    ------
    PlanError
        If an option has no legal value.
    """
    options = plan.options
    for option, legal in (
        ("reduction", METHODS),
        ("transport", ENGINES),
        ("share_gpu", (0, 1)),
        ("steal", (AUTO, 0, 1)),
    ):
        plan.choice(option, legal)
    panel, in_flight = (AUTO if options[name] == AUTO else _positive(plan, name) for name in ("panel", "in_flight"))
    return Schedule.of(
        panel,
        in_flight,
        str(options["reduction"]),
        transport=str(options["transport"]),
        share_gpu=options["share_gpu"] == 1,
        steal=0 if options["steal"] == AUTO and _positive(plan, "rank_threads") > 1 else options["steal"],
        k=plan.problem.k,
        on_device=is_on_gpus(options["base"]),
    )


def is_on_gpus(base: int | str) -> bool:
    """Return whether ranks with that base compute on GPUs."""
    return str(base).startswith(ON_GPUS)


def rank_count(plan: Plan) -> int:
    """Return how many ranks a plan has.

    Raises
    ------
    PlanError
        If that is no number, or more than there are GPUs to compute on.
    """
    is_automatic, on_gpus = plan.options["ranks"] == AUTO, is_on_gpus(plan.options["base"])
    if is_automatic:
        return gpus.count() if on_gpus else plan.threads
    ranks = _positive(plan, "ranks")
    if on_gpus and ranks > gpus.count() and not plan.options["share_gpu"]:
        raise PlanError(
            f"{ranks} ranks would share {gpus.count()} GPU{'s' * (gpus.count() != 1)}",
            expected="a GPU for each rank",
            got=f"ranks={ranks}",
            fix=f"ranks={gpus.count()}, or share_gpu=1 if it is meant: nothing is faster then",
        )
    return ranks


def _positive(plan: Plan, name: str) -> int:
    """Return an option that is a number, 0 or more."""
    value, least = plan.options[name], int(name not in ("panel", "memory_cap"))
    count = as_count(value, least=least)
    if count is None:
        raise PlanError(f"{name} has no such value", expected=f"an integer, {least} or more", got=f"{name}={value!r}")
    return count
