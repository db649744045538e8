"""`tune`: find block sizes of cpu-simd that are better here than the model's, by measuring, and store them.

Coordinate descent from the model's choice, a parameter at a time. The contenders of a parameter are the plans that the
backend makes with each of its values. `harness.timing.measure` races them by successive halving, with a longer last
heat against the value in force. A value is taken only if it is better by more than noise: else the model's stays.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from harness.autotune.candidates import Stage, stages
from harness.autotune.race import Race, Racer, Samples
from harness.experiment import Budget, Case, Contender
from harness.interface import Backend
from harness.machine import Machine, detect
from harness.plan import Plan
from harness.problem import Problem
from harness.run import provenance
from harness.run.runner import Observer
from harness.semiring import as_semiring
from harness.stats import statistics
from harness.stats.statistics import Interval
from harness.tuning import simd as tuning_simd
from harness.tuning import stored as tuning_stored

BACKEND = "cpu-simd"

# Dtypes and semirings that are measured, as representatives of their kinds (`tuning_simd.simd_kind`).
PRODUCTS = (("float64", "plus_times"), ("float32", "plus_times"), ("float64", "min_plus"), ("float32", "min_plus"))

# Time for all stages [s]. Time that a stage leaves over goes to the later ones.
SECONDS = 280.0

# A value is taken if the lower end of the interval of its gain is above MARGIN, and no product is slower than WORST.
MARGIN, WORST = 1.01, 0.98

# Heats: rounds, share of the stage's time, and number of survivors. A gain of HOPELESS or less never survives.
HEATS = ((2, 0.25, 2), (4, 0.25, 1), (10, 0.5, 1))
HOPELESS = 0.985
INCUMBENT = "as it is"
# Above this load for each core, others are computing. A thread that waits for its core makes a product last for
# milliseconds, so that threads never seem to pay.
BUSY = 0.5

_NOTHING = Interval(math.nan, math.nan, math.nan)  # the gain of no value


@dataclass(frozen=True)
class Choice:
    """The result of one stage."""

    kind: str
    name: str
    model: str  # the model's value
    best: str  # the best other value that was tried; empty if none could be
    gain: Interval  # time with the value in force, to time with the best other one: geometric mean over the products
    worst: float  # the least gain in one product
    is_taken: bool  # the best other value is better beyond doubt


@dataclass
class Tuner:
    """The state of one tuning."""

    backend: Backend
    machine: Machine = field(default_factory=detect)
    observer: Observer = field(default_factory=Observer)
    is_stored: bool = True  # values are stored after every stage
    race: Callable[[Race], tuple[Samples, dict[str, str]]] = field(default_factory=lambda: Racer().run)
    seconds: float = SECONDS
    choices: list[Choice] = field(default_factory=list)

    products: ClassVar[Sequence[tuple[str, str]]] = PRODUCTS

    def __post_init__(self) -> None:
        self._is_busy = os.getloadavg()[0] > BUSY * self.machine.cores

    @property
    def owner(self) -> tuning_stored.Owner:
        """The owner of the values."""
        return self.machine

    def tune(self, products: Sequence[tuple[str, str]] | None = None) -> Iterator[Choice]:
        """Yield the choice of each parameter, kind by kind; each is stored before it is yielded.

        Parameters
        ----------
        products : sequence of (str, str)
            Dtype and semiring of the representative of each kind; those of the class by default.

        Raises
        ------
        StoreError
            If a choice cannot be stored.
        KeyboardInterrupt
            As usual. Stored values are kept.
        """
        problems = [
            Problem(8, 8, 8, as_semiring(semiring), np.dtype(dtype)) for dtype, semiring in products or self.products
        ]
        plan = {problem: self._stages(problem) for problem in problems if not self.backend.declines(problem)}
        cases, end = sum(len(stages) for _, stages in plan.values()), time.monotonic() + self.seconds
        values = dict(tuning_stored.read(self.owner).values)
        self.observer.run_started("tune", is_resumed=False, cases=cases, seconds=self.seconds)
        if self._is_busy:
            self.observer.notice("this machine is busy: better tune an idle one; what threads are worth is left out")
        left, each = cases, self.seconds / max(cases, 1)
        for problem, (kind, stages_of_kind) in plan.items():
            self.observer.experiment_started(kind, len(stages_of_kind))
            changed: dict[str, int] = {}
            for stage in stages_of_kind:
                case = _case(problem, stage)
                self.observer.case_started(kind, case)
                share = max(end - time.monotonic(), 0.0) / left
                choice = self._stage(problem, kind, stage, changed, share)
                if choice.is_taken:
                    changed |= stage.candidates[choice.best]
                self.choices.append(choice)
                values[kind] = dict(changed)
                if self.is_stored:
                    choices = [dataclasses.asdict(one) for one in self.choices]
                    evidence = {"findings": choices, "margin": MARGIN, "code": provenance.code()}
                    tuning_stored.write(self.owner, values, evidence)
                left -= 1
                self.observer.case_done(kind, case, was_recorded=False, seconds=each)
                yield choice

    def _stages(self, problem: Problem) -> tuple[str, list[Stage]]:
        """Return the kind that `problem` stands for, and its stages."""
        unit = str(self._plan(problem, "", {}, 1).options["unit"])
        model = tuning_simd.simd_model(problem, self.machine)
        candidates = stages(model, self.machine, unit, problem.dtype.itemsize)
        able = [stage for stage in candidates if stage.threads == 1 or not self._is_busy]
        return tuning_simd.simd_kind(problem, unit), able

    def _stage(self, problem: Problem, kind: str, stage: Stage, changed: Mapping[str, int], seconds: float) -> Choice:
        """Race the candidates of one stage against the values in force: `changed`, and the model's for the rest."""
        rivals = list(stage.candidates)
        gains: dict[str, tuple[Interval, float]] = {}
        for rounds, part, survivors in HEATS:
            if len(rivals) > survivors or survivors == 1:
                budget = Budget(rounds, part * seconds / len(stage.shapes), sample_ms=2.0)
                heat = {INCUMBENT: changed, **{label: {**changed, **stage.candidates[label]} for label in rivals}}
                gains = self._heat(problem, kind, stage, heat, budget)
                rivals = sorted(gains, key=lambda label: gains[label][0].estimate, reverse=True)[:survivors]
                if not rivals or gains[rivals[0]][0].estimate <= HOPELESS:
                    break
        if not rivals:
            return Choice(kind, stage.name, stage.model, "", _NOTHING, math.nan, is_taken=False)
        gain, worst = gains[rivals[0]]
        is_taken = gain.low > MARGIN and worst > WORST
        return Choice(kind, stage.name, stage.model, rivals[0], gain, worst, is_taken)

    def _heat(
        self, problem: Problem, kind: str, stage: Stage, heat: Mapping[str, Mapping[str, int]], budget: Budget
    ) -> dict[str, tuple[Interval, float]]:
        """Return the gain of each rival over all shapes, and in the shape where it is least."""
        measured: list[Samples] = []
        for m, n, k in stage.shapes:
            one = dataclasses.replace(problem, m=m, n=n, k=k)
            plans = {label: self._plan(one, kind, numbers, stage.threads) for label, numbers in heat.items()}
            self.backend.compile(plans.values())
            samples, failures = self.race(Race(self.backend, one, plans, budget, stage.threads))
            for label, reason in failures.items():
                self.observer.cell_failed(kind, _case(one, stage), label, "failed", reason)
            measured.append(samples)
        able = [label for label in heat if all(label in samples for samples in measured)]
        if INCUMBENT not in able:
            return {}
        return {label: _gain(measured, label) for label in able if label != INCUMBENT}

    def _plan(self, problem: Problem, kind: str, numbers: Mapping[str, int], count: int) -> Plan:
        """Return the plan that the backend would make if `numbers` were stored."""
        with tuning_stored.trial(self.owner, {kind: numbers}):
            return self.backend.plan(problem, self.machine.with_threads(count))


def _gain(measured: Sequence[Samples], label: str) -> tuple[Interval, float]:
    """Return the gain of `label` by paired ratios of the geometric mean over products, and the least of a product."""
    count = min(len(samples[INCUMBENT]) for samples in measured)
    ratios = [
        statistics.geometric_mean([samples[INCUMBENT][i] / samples[label][i] for samples in measured])
        for i in range(count)
    ]
    worst = min(statistics.paired_ratio(samples[INCUMBENT], samples[label]).estimate for samples in measured)
    return statistics.median_interval(ratios), worst


def _case(problem: Problem, stage: Stage) -> Case:
    """Return the stage as an observer knows cases."""
    axes: dict[str, Any] = {"dtype": problem.dtype.name, "semiring": problem.semiring.name, "tuning": stage.name}
    return Case(axes, tuple(Contender(label) for label in (INCUMBENT, *stage.candidates)))


def table(choices: Sequence[Choice]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows of the choices, for the reader; a value that is not taken has its gain too."""
    heads = ("kind", "parameter", "model", "tuned", "best other", "gain", "interval", "least")
    rows: list[tuple[str, ...]] = []
    for x in choices:
        gain = (f"{x.gain.estimate:.3f}", f"{x.gain.low:.3f} to {x.gain.high:.3f}", f"{x.worst:.3f}") if x.best else ()
        rows.append((x.kind, x.name, x.model, x.best if x.is_taken else x.model, x.best, *(gain or ("", "", ""))))
    return heads, rows
