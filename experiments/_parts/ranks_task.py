"""The task of experiments on ranks: a product by a strategy, the stages of its ranks read with every sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backends.distributed._job import jobs
from backends.distributed._job.execution import RanksExecution
from backends.distributed._job.strategy import schedule_of
from experiments._parts.stages_clock import StagesClock
from harness import machine, registry
from harness.distributed.choice.volumes import lower_bound
from harness.distributed.grid import Decomposition
from harness.distributed.stages import STAGES
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.run.task import GemmTask
from harness.timing.clock import Action, CpuClock, Sample, timed

GATHERS = ("gather A", "gather B")
# The engine that takes panels through the host, and the stages of its copies, which belong to gathering.
STAGED, COPIES = "staged", ("device to host", "host to device")
# What a caller waits for beside products, if gathering goes on in another thread.
EXPOSED = "exposed communication"


def stage_seconds(
    reports: Sequence[Mapping[str, Any]], used: int, total_s: float, *, overlapped: bool
) -> dict[str, float]:
    """Return seconds by stage, the mean over the ranks that compute, and ``rest``, so that all add up to `total_s`.

    Parameters
    ----------
    reports : sequence of mapping
        Of each rank, as `DistributedExecution.report` returns them.
    used : int
        Ranks of the grid: the first ones.
    total_s : float
        Time of the call.
    overlapped : bool
        Whether panels were gathered beside the products. Their stages then are one, the part that was waited for.
    """
    means = {
        stage: sum(report["seconds"].get(stage, 0.0) for report in reports[:used]) / used
        for stage in STAGES
        if any(stage in report["seconds"] for report in reports[:used])
    }
    if overlapped:
        is_staged = any(report.get("transport") == STAGED for report in reports[:used])
        hidden = (*GATHERS, *(COPIES if is_staged else ()))
        means = {stage: seconds for stage, seconds in means.items() if stage not in hidden}
        return {**means, EXPOSED: max(0.0, total_s - sum(means.values()))}
    return {**means, "rest": max(0.0, total_s - sum(means.values()))}


class OthersClock(CpuClock):
    """The host's clock without the processor time of this process: others compute, or threads of unknown number."""

    def sample(self, run: Action, wait: Action, loops: int) -> Sample:
        """Time `loops` calls."""
        return Sample(super().sample(run, wait, loops).ns, {})


class RanksTask:
    """What tasks on ranks have in common: a clock that reads stages, and facts of the grid.

    Parameters
    ----------
    plan : Plan
    ranks : RanksExecution
    sizes : Decomposition
    """

    starts_processes = True

    def __init__(self, plan: Plan, ranks: RanksExecution, sizes: Decomposition) -> None:
        self.plan, self.ranks, self.sizes, self.schedule = plan, ranks, sizes, schedule_of(plan)

    def clock(self) -> StagesClock:
        return StagesClock(self.stages, "ns, mean over the ranks")

    def stages(self, total_s: float) -> dict[str, float]:
        """Return the seconds of the last call by stage, of `total_s` in all."""
        reports, grid = self.ranks.report(), self.sizes.grid
        gathers = grid.pm * grid.pn > 1
        overlapped = gathers and self.schedule.panel > 0 and self.schedule.in_flight > 1
        return stage_seconds(reports, grid.size, total_s, overlapped=overlapped)

    def rank_facts(self) -> dict[str, Any]:
        """Return grid, counted words, how panels travelled, and the versions of what carried them."""
        sizes, used, told = self.sizes, self.sizes.grid.size, self.ranks.report()[0]
        return {
            "grid": str(sizes.grid),
            "layout": sizes.layout.name,
            "words": sizes.most(lambda rank: sum(sizes.words(rank).values())),
            "bound_words": lower_bound(sizes.m, sizes.n, sizes.k, used),
            "panel": self.schedule.panel,
            "in_flight": self.schedule.in_flight,
            "transport": told["transport"],
            "steals": told["steals"],
            "software": self.ranks.software(),
        }


class RanksProduct(RanksTask, GemmTask):
    """A product of operands on the host by a strategy.

    Parameters
    ----------
    plan : Plan
    operands : Operands
    execution : DistributedExecution
    sizes : Decomposition
    seed : int
    extra_error : float
    """

    def __init__(
        self, plan: Plan, operands: Operands, execution: Any, sizes: Decomposition, seed: int, extra_error: float
    ) -> None:
        GemmTask.__init__(self, plan, operands, execution, seed, extra_error, starts_processes=True)
        RanksTask.__init__(self, plan, execution, sizes)
        self.first_call_s = dict[str, float]()

    def facts(self) -> dict[str, Any]:
        first = {"first_call_s": self.first_call_s} if self.first_call_s else {}
        return {**GemmTask.facts(self), **self.rank_facts(), **first}


def strategy_and_plan(problem: Problem, backend: str, threads: int, parameters: Mapping[str, Any]) -> tuple[Any, Plan]:
    """Return a strategy, and its plan with `parameters`; raises as `product` does."""
    strategy: Any = registry.admit(backend, problem)
    return strategy, strategy.plan(problem, machine.detect().with_threads(threads)).override(parameters)


def product(
    *,
    problem: Mapping[str, Any],
    backend: str,
    seed: int,
    threads: int,
    parameters: Mapping[str, Any] | None = None,
    first_call: bool = False,
) -> RanksProduct:
    """Prepare a product by a strategy.

    Parameters
    ----------
    problem : mapping
    backend : str
        A strategy of `backends/distributed/`.
    seed : int
    threads : int
    parameters : mapping, optional
        Of its plan.
    first_call : bool
        Whether ranks that run already are ended, and the first call timed by stage, the start of ranks included.

    Raises
    ------
    Declined
        If ranks cannot be started here, or the backend declines the problem.
    PlanError
        If a parameter is unknown or has no legal value.
    """
    decoded = Problem.from_json(dict(problem))
    strategy, plan = strategy_and_plan(decoded, backend, threads, parameters or {})
    operands = Operands.generate(decoded, seed)
    sizes = strategy.sizes(plan)
    if first_call:
        jobs.close_all()
    spent = dict[str, float]()
    with timed(spent, "start of ranks"):
        jobs.start(strategy.shape(plan))
    with timed(spent, "load"):
        execution = strategy.prepare(plan, operands)
    made = RanksProduct(plan, operands, execution, sizes, seed, strategy.extra_error(plan, operands))
    if first_call:
        made.first_call_s = _first_call(made, spent)
    return made


def _first_call(made: RanksProduct, spent: dict[str, float]) -> dict[str, float]:
    """Return the seconds of the first call by stage, after ranks were started and loaded their pieces."""
    used = made.sizes.grid.size
    allocate_s = sum(report["seconds"].get("allocate", 0.0) for report in made.ranks.report()[:used]) / used
    call = dict[str, float]()
    with timed(call, "run"):
        made.run()
    return {**spent, "load": spent["load"] - allocate_s, "allocate": allocate_s, **made.stages(call["run"])}
