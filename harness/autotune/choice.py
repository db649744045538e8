"""`tune --auto`: race the backends that ``backend="auto"`` may take, class by class and size by size, and store times.

A contender is a whole call of `gemm` with that backend named, as a user's is: its checks, its plan and its launches
are part of the time. All contenders of a product are sampled in turns, on the same operands, after their results have
been compared. Products come by falling importance, so that an early end leaves the rest to the model.

`gemm` stands above this wing, so the command line gives it (`RacedCall`).
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from harness import machine
from harness.dtypes import float_limits, is_complex, is_float8
from harness.errors import HarnessError, VerificationError
from harness.experiment import Budget
from harness.interface import Backend, make_plan, prepare
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.run import provenance
from harness.run.runner import Observer
from harness.stats.statistics import median
from harness.timing.clock import Clock, CpuClock
from harness.timing.device_clock import CudaEventClock
from harness.timing.measure import measure
from harness.timing.sampler import ClockSampler
from harness.tuning import stored
from harness.tuning.choice import orders
from harness.tuning.choice.classes import Sizes, class_of
from harness.tuning.choice.contenders import contenders

# Rounds of samples of a product, the most time for all of them [s], and the time of a sample [ms].
BUDGET = Budget(rounds=3, seconds=0.4, sample_ms=0.5)
# A contender this many times slower than the fastest is not sampled. If its call takes so long [ns], it is no longer
# called at products of the class with as many operations. Small ones say nothing: a call's overhead is not a product's.
HOPELESS, LONG = 3.0, 10e6
# Products whose kernels for a GPU are compiled together, by worker processes.
TOGETHER = 500
SEED = 1
Calls = dict[str, Callable[[], None]]


class RacedArrays(Protocol):
    """The kind of operands.

    Attributes
    ----------
    module : module
        Their library, which names things as NumPy does.
    on_device : bool
        Whether they lie on a GPU.
    """

    module: ModuleType
    on_device: bool

    def in_force(self) -> AbstractContextManager[Any]:
        """Return a context in which new arrays are made where these lie."""


class RacedCall(NamedTuple):
    """The public call whose backends are raced, and the kind of arrays that it is given."""

    gemm: Callable[..., Any]
    arrays: RacedArrays


@dataclass
class Processor:
    """Where products are raced: on the host, or on the current GPU.

    Attributes
    ----------
    owner : Machine or Chip
        Whom the times belong to.
    call : RacedCall
    threads : int or None
        That the host computes with; None on a GPU.
    limit : int or None
        The argument `threads` of each call; None: a call without it, as most are.
    clock : callable
        Returns the clock that times calls.
    wait : callable
        Returns when every call is done.
    """

    owner: machine.Machine | stored.Chip
    call: RacedCall
    threads: int | None
    limit: int | None = None
    clock: Callable[[], Clock] = CpuClock
    wait: Callable[[], None] = lambda: None

    @classmethod
    def gpu(cls, backend: Backend, call: RacedCall) -> Processor:
        """Return the current GPU, on which `backend` computes."""
        small = Problem(8, 8, 8)
        made = prepare(backend, make_plan(backend, small, machine.detect()), Operands.generate(small, SEED))
        queue = made.queue
        assert queue is not None
        chip = stored.Chip(backend.architecture(), machine.detect().gpu)
        return cls(chip, call, None, None, functools.partial(CudaEventClock, queue), queue.synchronize)


@dataclass
class Contest:
    """Races products on one processor, one after the other, until its time is up.

    Attributes
    ----------
    processor : Processor
    seconds : float
        For all products.
    has_optional : bool
        Whether libraries that are installed beside the harness take part: for the user's own table alone.
    """

    processor: Processor
    seconds: float = 240.0
    has_optional: bool = True
    observer: Observer = field(default_factory=Observer)
    race: Callable[[Processor, Problem, list[str]], dict[str, float]] = field(default_factory=lambda: race)
    times: dict[str, dict[str, int]] = field(default_factory=dict)
    _hopeless: dict[tuple[str, str], float] = field(default_factory=dict)  # from so many operations on

    def run(self, problems: Iterable[Problem]) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield each class with its sizes, and times in thousandths of the fastest's."""
        end, left = time.monotonic() + self.seconds, iter(problems)
        while some := list(itertools.islice(left, TOGETHER)):
            self._compile(some)
            for problem in some:
                if time.monotonic() >= end:
                    return
                if times := self._times(problem):
                    entry = f"{class_of(problem, self.processor.threads)}: {Sizes.of(problem)}"
                    self.times[entry] = times
                    yield entry, times

    def _times(self, problem: Problem) -> dict[str, int]:
        """Return the times of all contenders; none if there is no choice, or no result to trust."""
        of_class = class_of(problem, self.processor.threads)
        names = [
            backend.name
            for backend in self._able(problem)
            if problem.operations < self._hopeless.get((of_class, backend.name), math.inf)
        ]
        try:
            found = self.race(self.processor, problem, names) if len(names) > 1 else {}
        except (HarnessError, MemoryError) as error:
            self.observer.notice(f"{problem} is left out: {str(error).splitlines()[0]}")
            return {}
        fastest = min(found.values(), default=math.inf)
        for name, ns in found.items():
            if ns > max(HOPELESS * fastest, LONG):
                self._hopeless[of_class, name] = (
                    problem.operations
                )  # fewer than of any before, or it had not been called
        in_order = sorted(found.items(), key=lambda item: item[1])
        return {name: round(orders.UNIT * ns / fastest) for name, ns in in_order}

    def _compile(self, problems: Iterable[Problem]) -> None:
        """Have the backends of a GPU compile what they need, all together."""
        plans: dict[Backend, list[Plan]] = {}
        for problem in problems if self.processor.call.arrays.on_device else ():
            for backend in self._able(problem):
                whole = problem if "batch" in backend.takes and not backend.refuses(problem) else problem.of_one()
                plans.setdefault(backend, []).append(make_plan(backend, whole, machine.detect()))
        for backend, of_backend in plans.items():
            backend.compile(of_backend)

    def store(self) -> Any:
        """Write the times, with earlier ones of other products, as the user's own table; return its file."""
        owner = orders.AutoOwner(self.processor.owner)
        values = {**stored.read(owner).values, **self.times}
        how = "whole calls of gemm, sampled in turns, medians; thousandths of the fastest's time"
        path = stored.write(owner, values, {"how": how, "code": provenance.code()})
        orders.forget_tables()
        return path

    def _able(self, problem: Problem) -> list[Backend]:
        able = contenders(problem.of_one(), on_device=self.processor.call.arrays.on_device)
        return [backend for backend in able if self.has_optional or not backend.is_optional]


def race(processor: Processor, problem: Problem, names: list[str]) -> dict[str, float]:
    """Return the time of a call of each backend [ns]; of those that are far behind, the time of one call.

    Raises
    ------
    VerificationError
        If results differ by more than their errors may.
    """
    with processor.call.arrays.in_force():
        calls, out = _calls(processor, problem, names)
        first, expected = dict[str, float](), None
        for name, call in calls.items():
            try:
                expected = _proven(processor, problem, name, call, out, expected)
                first[name] = _once(processor, call)
            except VerificationError:
                raise
            except (HarnessError, RuntimeError, MemoryError):  # one that cannot do it here is no contender
                continue
        fastest = min(first.values(), default=math.inf)
        able = [name for name, ns in first.items() if ns <= HOPELESS * max(fastest, 50e3)]
        samplers = {name: ClockSampler(calls[name], processor.wait, processor.clock()) for name in able}
        measured = measure(samplers, BUDGET, SEED).samples_ns
    return {**first, **{name: median(samples) for name, samples in measured.items() if samples}}


def _calls(processor: Processor, problem: Problem, names: list[str]) -> tuple[Calls, Any]:
    a, b, out = operands_of(processor.call.arrays.module, problem)
    options = {"semiring": problem.semiring, "out": out, "threads": processor.limit, "triangle": problem.triangle}
    if problem.is_mixed:
        options["dtype"] = problem.dtype
    return {name: functools.partial(processor.call.gemm, a, b, backend=name, **options) for name in names}, out


def _proven(
    processor: Processor, problem: Problem, name: str, call: Callable[[], None], out: Any, expected: Any
) -> Any:
    """Call once, and return the expected result: that of the first backend, with which others are compared."""
    kind = problem.dtype.kind
    out.fill(np.nan if kind in "fc" else kind == "b" or 77)
    call()
    processor.wait()
    result = processor.call.arrays.module.tril(out) if problem.triangle == "d" else out
    if expected is None:
        return result.copy()
    if kind in "fc":
        limits = float_limits(problem.dtype)
        unit = 8 * math.sqrt(problem.k + 1) * float(limits.eps)
        is_right = abs(result - expected).max() <= unit * (1 + abs(expected).max())
    else:
        is_right = (result == expected).all()
    if not bool(is_right):  # NaN is wrong
        raise VerificationError(f"{problem}: {name} computes something else than the backend before it")
    return expected


def _once(processor: Processor, call: Callable[[], None]) -> float:
    return CpuClock().sample(call, processor.wait, 1).ns


def operands_of(module: Any, problem: Problem) -> tuple[Any, Any, Any]:
    """Return A, B and an array for D of a library that names things as NumPy does."""
    a, b = (
        _drawn(module, (*problem.batch, *shape), problem.input_dtype, problem.k, seed)
        for seed, shape in enumerate(((problem.m, problem.k), (problem.k, problem.n)))
    )
    return a, b, module.empty((*problem.batch, problem.m, problem.n), problem.dtype)


def _drawn(module: Any, shape: tuple[int, ...], dtype: np.dtype[Any], k: int, seed: int) -> Any:
    rng = module.random.RandomState(SEED + seed)
    if dtype.kind == "b":
        return rng.random_sample(shape) < 1 / math.sqrt(k + 1)
    if dtype.kind in "iu":
        return rng.randint(0, 8, size=shape).astype(dtype)
    if is_float8(dtype):
        bits = module.asarray(np.arange(-3, 4).astype(dtype).view(np.uint8))
        return bits[rng.randint(0, bits.size, size=shape)].view(dtype)
    if is_complex(dtype):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    drawn = module.empty(shape, np.float32)
    drawn[...] = rng.standard_normal(shape)
    if dtype.name != "bfloat16":
        return drawn.astype(dtype)
    return (drawn.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(dtype)


def of_host(owner: machine.Machine, call: RacedCall) -> Iterator[Processor]:
    """Yield the host with all threads, and with one if there are more."""
    yield Processor(owner, call, owner.threads)
    if owner.threads > 1:
        yield Processor(owner, call, 1, 1)
