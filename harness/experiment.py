"""Experiments as data: a question, cases by preset, and figures. Runs nothing, draws nothing.

A *case* is one thing to do and the contenders that do it, measured interleaved; a contender in a case is a *cell*. What
a contender does is a *task*: by default one product, computed by a backend (`harness.run.task`). Everything here turns
into JSON, since cases travel to worker processes and into the store.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import ExperimentError
from harness.machine import Machine
from harness.problem import Problem

# A check that everything runs, and presets whose results are evidence.
SMOKE, EVIDENCE = "smoke", (QUICK := "quick", "full")
# Cores from which on quick asks a machine everything.
MANY = 4
PRESETS = (SMOKE, *EVIDENCE)
# State of the caches when a sample begins: data of the call before, or nothing of use.
SERIES = HOT, COLD = "hot", "cold"
ORDERS = INTERLEAVED, GROUPED = "interleaved", "grouped"
GEMM_TASK = "gemm"
# Multiplies and adds in registers alone: the peak to which a product is compared.
PEAK_TASK = "backends.cpu._ceilings:peak"
# The contender that measures it for AVX2, where vectors may be wider.
NARROW_PEAK = "AVX2 peak"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Budget:
    """Limits on the sampling of one case.

    Parameters
    ----------
    rounds : int
        Rounds in which each contender is sampled twice, in ABBA order; at least this many.
    seconds : float
        Measuring stops after this time, whatever has been reached; at least one round is done.
    sample_ms : float
        A sample repeats a short call until it lasts this long.
    processes : int
        Processes of each contender, one after the other, each with all these rounds and seconds. The interval then
        includes differences between processes (where memory lies, what else runs).
    fresh : bool
        Whether all of them begin with the case and end with it. Else each serves case after case, and only processes
        of equal history are compared.
    precision : float
        Rounds go on until the 95 % interval of each contender's paired ratio to the reference is within this fraction
        of the ratio, half its width: 0.01 is +-1 %. 0: `rounds` are enough.
    order : str
        ``"interleaved"``: a sample of one contender is followed by one of the next. ``"grouped"``: all samples of one
        contender, then all of the next, for contenders that disturb each other.
    """

    rounds: int = 5
    seconds: float = 4.0
    sample_ms: float = 5.0
    processes: int = 1
    precision: float = 0.0
    order: str = INTERLEAVED
    fresh: bool = False

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ExperimentError("no such order of samples", expected=" or ".join(ORDERS), got=self.order)

    @staticmethod
    def presets(quick: Budget, full: Budget, smoke: Budget | None = None) -> dict[str, Budget]:
        """Return the budgets of an experiment; the smoke preset decides nothing, and takes a sample or two of all."""
        return {"smoke": smoke or Budget(rounds=2, seconds=0.1), QUICK: quick, "full": full}


@dataclass(frozen=True)
class Contender:
    """One way to do the task of a case.

    Parameters
    ----------
    label : str
        Its name in figures and in the store; unique within its case.
    arguments : mapping
        JSON object handed to the task's factory beside the case's own: for a product ``backend``, ``parameters``.
    threads : int
    task : str
        ``"module:function"`` of the task's factory. A name alone is a task of the harness itself: ``"gemm"``, a
        product.
    source : Path, optional
        Folder whose modules its processes import before any others: another state of the source code. Where the code
        lies is no part of the case's key.
    environment : mapping
        Environment variables of its processes, beside those of the harness: a library may read them when it is loaded.
    """

    label: str
    arguments: Json = field(default_factory=dict)
    threads: int = 1
    task: str = GEMM_TASK
    source: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One thing to do, and its contenders.

    Parameters
    ----------
    axes : mapping
        Coordinates of the case in the experiment, for figures: ``{"n": 512, "mode": "strong"}``. A series other than
        hot is an axis ``"series"``.
    contenders : tuple of Contender
    arguments : mapping
        JSON object handed to every contender's task: for a product ``{"problem": ..., "seed": ...}``.
    reference : str
        Label of the contender that paired ratios are taken to; the first by default.
    left_out : tuple of str
        Labels of further contenders that are not measured this time: it is a part of the case.
    """

    axes: Json
    contenders: tuple[Contender, ...]
    arguments: Json = field(default_factory=dict)
    reference: str = ""
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        labels = [contender.label for contender in self.contenders]
        if not labels or len(set(labels)) != len(labels):
            raise ExperimentError("contenders of a case need labels of their own", got=str(labels))
        if not self.reference:
            object.__setattr__(self, "reference", labels[0])
        if self.reference not in labels:
            raise ExperimentError("the reference is no contender of its case", expected=str(labels), got=self.reference)
        if self.series not in SERIES:
            raise ExperimentError("no such series of samples", expected=" or ".join(SERIES), got=self.series)

    @property
    def series(self) -> str:
        """State of the caches when a sample begins: ``"hot"`` or ``"cold"``."""
        return str(self.axes.get("series", HOT))

    def cold(self) -> Case:
        """Return this case in the cold series: elsewhere on the axes, with contenders that have other names.

        So it has a key of its own, its times are compared only with one another, and no line of a figure joins the two.
        """
        if self.series == COLD:
            return self
        contenders = tuple(dataclasses.replace(c, label=f"{c.label} ({COLD})") for c in self.contenders)
        return Case({**self.axes, "series": COLD}, contenders, self.arguments, f"{self.reference} ({COLD})")

    def of_contenders(self, is_chosen: Callable[[Contender], bool]) -> Case | None:
        """Return the part of this case with the contenders that are chosen, or None.

        Ratios are to its reference if that is among them, else to the first.
        """
        kept = tuple(c for c in self.contenders if is_chosen(c))
        labels = [c.label for c in kept]
        left_out = tuple(c.label for c in self.contenders if c not in kept)
        reference = self.reference if self.reference in labels else ""
        return dataclasses.replace(self, contenders=kept, reference=reference, left_out=left_out) if kept else None

    @property
    def key(self) -> str:
        """Content hash of the work and its contenders. Of a task its function's name counts: a module may move."""
        return content_hash(
            {
                "axes": self.axes,
                "arguments": self.arguments,
                "contenders": [
                    [
                        c.label,
                        c.arguments,
                        c.threads,
                        c.task.split(":")[-1],
                        *([c.environment] if c.environment else []),
                    ]
                    for c in self.contenders
                ],
            }
        )


@dataclass(frozen=True)
class Figure:
    """A figure to draw from stored results.

    Parameters
    ----------
    name : str
        File name without extension.
    kind : str
        A kind of chart in `harness.report.figures.drawing`, or "module:function" of one's own: from cells and options
        to a `harness.report.figures.chart.Chart`.
    title : str
        What the figure shows: it stands below what its cells have found.
    options : mapping
        Passed to the drawing function, and to the finding that they name.
    prominence : int
        Reports show the figures with the highest, and link to the others. 0: linked always.
    """

    name: str
    kind: str
    title: str
    options: Json = field(default_factory=dict)
    prominence: int = 0


def always(preset: str, machine: Machine) -> bool:
    """Return True: an experiment that decides something on every machine, in every preset."""
    return True


def needs_many_cores(preset: str, machine: Machine) -> bool:
    """Return False for quick on fewer than four cores and no GPU, where it would decide nothing."""
    return preset != QUICK or bool(machine.gpu) or machine.cores >= MANY


@dataclass(frozen=True)
class Goal:
    """What is asked of a contender: a rate over another's in the same case. `compare --goals` judges it.

    Parameters
    ----------
    subject : str or tuple of str
        Labels, in which ``*`` stands for any letters; the fastest contender of them counts.
    asked : float
        The least rate over that of `over`. Of a fact: its greatest value, over that of `over` if that is named.
    over : str or tuple of str
        Labels, as those of `subject`.
    where : mapping
        Values of axes by name, as those of figures: the cases in which it is asked, if they have its contenders.
    mean : bool
        Whether it is asked of the geometric mean over these cases, and not of each.
    per_thread : bool
        Whether rates are divided by numbers of threads.
    fact : str
        A number among the facts of a cell, or numbers by name, whose sum counts. Empty: rates.
    simd : str
        An instruction set without which nothing is asked.
    """

    subject: str | tuple[str, ...]
    asked: float
    over: str | tuple[str, ...] = ()
    where: Json = field(default_factory=dict)
    mean: bool = False
    per_thread: bool = False
    fact: str = ""
    simd: str = ""


@dataclass(frozen=True)
class Experiment:
    """A question, the cases that answer it, and the figures that show the answer.

    Parameters
    ----------
    name : str
        Also the name of its module in `experiments/`.
    question : str
        One sentence, ending in a question mark.
    cases : callable
        ``cases(preset, machine)`` returns the list of `Case`; pure.
    figures : tuple of Figure
    budget : mapping
        Preset to `Budget`.
    order : int
        Place in the report.
    is_asked : callable
        ``is_asked(preset, machine)`` returns whether a run that names no experiment measures this one.
    goals : tuple of Goal
        What is asked of its contenders.
    """

    name: str
    question: str
    cases: Callable[[str, Machine], list[Case]]
    figures: tuple[Figure, ...]
    budget: Mapping[str, Budget]
    order: int = 50
    is_asked: Callable[[str, Machine], bool] = always
    goals: tuple[Goal, ...] = ()

    def of_preset(self, preset: str, machine: Machine) -> list[Case]:
        """Return the cases of `preset`, or raise ExperimentError: it has no budget for them, or cannot list them."""
        if preset not in self.budget:
            raise ExperimentError(f"experiment {self.name}: no budget for preset {preset}", got=", ".join(self.budget))
        try:
            return self.cases(preset, machine)
        except Exception as error:
            raise ExperimentError(
                f"experiment {self.name}: its cases cannot be listed", got=f"{type(error).__name__}: {error}"
            ) from error


def product_case(problem: Problem, contenders: list[Contender], *, seed: int = 1, **axes: Any) -> Case:
    """Return the case in which `contenders` compute `problem`, with its sizes, dtype and semiring among the axes."""
    arguments = {"problem": problem.to_json(), "seed": seed}
    return Case({**product_axes(problem), **axes}, tuple(contenders), arguments)


def product_axes(problem: Problem) -> dict[str, Any]:
    """Return the sizes, dtype and semiring of a product, as axes of its case."""
    record = problem.to_json()
    return {name: record[name] for name in ("m", "n", "k", "dtype", "semiring")}


def backend_contender(
    backend: str,
    *,
    label: str = "",
    threads: int = 1,
    task: str = GEMM_TASK,
    problem: Problem | None = None,
    **parameters: int | str,
) -> Contender:
    """Return the contender that computes with `backend`, its plan overridden by `parameters`.

    With a `problem` it computes that one, whatever others of its case do.
    """
    own = {} if problem is None else {"problem": problem.to_json()}
    return Contender(label or backend, {"backend": backend, "parameters": parameters, **own}, threads, task)


def content_hash(record: Any) -> str:
    """Return 16 hexadecimal digits that name a JSON value by its content."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, default=dict).encode()).hexdigest()[:16]
