"""Strong and weak scaling over threads, by the loop that threads share, at whole tiles and at ragged sizes.

Strong: all threads share one product of n x n x n. Weak: a product of as many pairs for each thread. Its sides are
doubled in turn, so all of them stay whole tiles. Ragged sides are five less, which no register tile divides.
Independent products are the most that the machine allows: each thread computes its own, and nothing is shared but
caches, memory and the clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.analysis import rates
from harness.analysis.findings.sentences import FIRST, PART, Finding, Value
from harness.experiment import Budget, Case, Experiment, Figure, Goal, Json, backend_contender
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell


class Method(NamedTuple):
    """A way to compute, and how it is drawn."""

    backend: str
    parameters: dict[str, Any]


LOOPS = ("jc", "ic", "jr", "ir", "ic+jr")
METHODS = {
    **{f"cpu-packed, loop {loop}": Method("cpu-packed", {"parallel_loop": loop}) for loop in LOOPS},
    "cpu-simd": Method("cpu-simd", {}),
    "cpu-numpy": Method("cpu-numpy", {}),
}
INDEPENDENT = "independent products, cpu-simd"
INDEPENDENT_N, INDEPENDENT_PRODUCTS = 512, 4  # of each thread: small enough that no two threads share one

WORK_OF_ALL = {"strong": "one product", "weak": "as much work for each"}
MIN_PLUS, MIN_PLUS_SIZES = "one product over min_plus", (1000, 1500, 2000)
ON = {"strong": "on the same product", "weak": "on as much work"}
WHOLE, RAGGED, MISSING_ROWS = "whole tiles", "ragged", 5
SIZE = {"smoke": 192, "quick": 1024, "full": 1024}
DRAWN = [n - less for n in sorted({*SIZE.values()}) for less in (0, MISSING_ROWS)]
LARGE, CORES_FOR_LARGE = 4096, 8  # the course's size, where there are many cores to share it
OWN_METHODS = ("cpu-packed, loop ic", "cpu-simd")  # of the quick preset, but for whole tiles, strong
FEW_METHODS = (*OWN_METHODS, "cpu-numpy")  # of it where there are many cores to share
METHODS_OF_SMOKE = ("cpu-packed, loop ic", "cpu-numpy")


def counts(cores: int) -> list[int]:
    """Return the numbers of threads: powers of two and the number of cores."""
    return sorted({cores, *(2**i for i in range(cores.bit_length()))} & set(range(1, cores + 1)))


def sides(n: int, threads: int) -> tuple[int, int, int]:
    """Return m, n and k of a product of `threads` times n^3 pairs: prime factors multiply the sides in turn."""
    grown, divisor = [n, n, n], 2
    while threads > 1:
        if threads % divisor:
            divisor += 1
            continue
        smallest = min(range(3), key=lambda side: (grown[side], side))
        grown[smallest] *= divisor
        threads //= divisor
    return grown[0], grown[1], grown[2]


def problem(mode: str, n: int, threads: int, work: str = WHOLE) -> Problem:
    """Return the product that threads share: the same for all if strong, `threads` times the pairs if weak."""
    less = MISSING_ROWS if work == RAGGED else 0
    m, columns, k = sides(n, threads) if mode == "weak" else (n, n, n)
    return Problem(m - less, columns - less, k - less)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each mode, work and method; its contenders are numbers of threads, so speed-ups are paired."""
    if preset == "smoke":
        return [_case("strong", WHOLE, name, SIZE[preset], machine) for name in METHODS_OF_SMOKE]
    few = FEW_METHODS if preset == "quick" else tuple(METHODS)
    own = OWN_METHODS if preset == "quick" else tuple(METHODS)
    asked = {("strong", WHOLE): tuple(METHODS), ("weak", WHOLE): own, ("strong", RAGGED): own}
    asked |= {("weak", RAGGED): own} if preset == "full" else {}
    found = [_case(*how, name, SIZE[preset], machine) for how, names in asked.items() for name in names]
    found.append(_independent(SIZE[preset], machine))
    if preset == "full" and machine.cores > 1:
        found += [_min_plus(n, dtype, machine) for dtype in ("float64", "float32") for n in MIN_PLUS_SIZES]
    if machine.cores >= CORES_FOR_LARGE:
        found += [_case("strong", WHOLE, name, LARGE, machine) for name in few]
        others = [name for name in METHODS if name not in few]  # calls of seconds: no numbers of threads in between
        found += [_case("strong", WHOLE, name, LARGE, machine, (1, machine.cores)) for name in others]
    return found


def _case(mode: str, work: str, name: str, n: int, machine: Machine, numbers: Sequence[int] = ()) -> Case:
    """Return the case of a method with `numbers` of threads, by default all of `counts`."""
    return _of_threads(
        {"mode": mode, "work": work, "method": name, "n": problem("strong", n, 1, work).n},
        METHODS[name],
        {threads: problem(mode, n, threads, work) for threads in numbers or counts(machine.cores)},
    )


def _independent(n: int, machine: Machine) -> Case:
    """Return the case of products that no two threads share, beside products of `n`."""
    side, each = INDEPENDENT_N, INDEPENDENT_PRODUCTS
    products = {t: Problem(side, side, side, batch=(each * t,)) for t in counts(machine.cores)}
    axes = {"mode": "weak", "work": WHOLE, "method": INDEPENDENT, "n": n}
    return _of_threads(axes, Method("cpu-simd", {}), products)


def _min_plus(n: int, dtype: str, machine: Machine) -> Case:
    """Return the case of one thread and all of them over min_plus."""
    product = Problem(n, n, n, "min_plus", dtype)
    axes = {"mode": "strong", "work": MIN_PLUS, "method": "cpu-simd", "n": n}
    case = _of_threads(axes, METHODS["cpu-simd"], dict.fromkeys((1, machine.cores), product))
    return dataclasses.replace(case, axes={**case.axes, "semiring": "min_plus", "dtype": dtype})


def _of_threads(axes: dict[str, Any], method: Method, problems: dict[int, Problem]) -> Case:
    """Return the case whose contenders are numbers of threads, each with its product."""
    contenders = tuple(
        backend_contender(
            method.backend,
            label=f"{axes['method']}, {threads} thread{'s' * (threads > 1)}",
            threads=threads,
            problem=product,
            **method.parameters,
        )
        for threads, product in problems.items()
    )
    return Case({**axes, "semiring": "plus_times", "dtype": "float64"}, contenders, {"seed": 1})


def kept(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of the rate of one thread each of the most threads keeps, of the subject and of others."""
    own = rates.timed(cells)
    most = max((cell.threads for cell in own), default=1)
    found: dict[str, list[Value]] = {}
    for work, group in rates.group(own, lambda cell: str(cell.axes.get("work"))).items():
        for method, points in rates.scaling(group).items():
            threads, gain = points[-1]
            if threads == most > 1:
                found.setdefault(method, []).append(Value(exact(100 * gain.estimate / most), place=work))
    if len(found) < 2:
        return None
    who = options["subject"] if options["subject"] in found else next(iter(found))
    values = found.pop(who)
    over = f"the rate of one thread {ON[rates.common(own, 'mode')]}"
    return Finding(f"Each of {most} threads of {who}", PART, values, over, FIRST, others=found)


def _figure(name: str, mode: str, sizes: Sequence[int], *, prominence: int = 0) -> Figure:
    title = f"Rate of more threads over that of one alone, {WORK_OF_ALL[mode]}"
    where = {"mode": mode, "work": [WHOLE, RAGGED], "n": sizes}
    options = {"where": where, "subject": "cpu-simd", "finding": kept}
    return Figure(name, "scaling", title, options, prominence=prominence)


EXPERIMENT = Experiment(
    name="thread_scaling",
    question="How much faster do more threads make it, and which loop should they share?",
    cases=cases,
    figures=(
        _figure("thread_scaling", "strong", DRAWN, prominence=58),
        _figure("thread_scaling_weak", "weak", DRAWN),
        _figure("thread_scaling_large", "strong", [LARGE]),  # calls of seconds, so few samples
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=1.2), Budget(rounds=5, seconds=2, processes=5, precision=0.02)),
    order=40,
    goals=(Goal("cpu-simd, * threads", 0.8, "cpu-simd, 1 thread", {"work": (MIN_PLUS,)}, per_thread=True),),
)
