"""Strong and weak scaling over ranks of one thread, one process with as many threads beside; the model has its say.

On GPUs, one rank each, a product stays on the devices: operands are drawn there. One GPU computes it whole, so that
efficiency is over its local rate.

The model takes the rate of one rank from the same case, and what it loses beside others, bandwidth and latency from
cases that do little else. On a machine whose cores are busy otherwise it says what they would reach.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments._parts.gpu_ranks import (
    IN_TURN,
    drawn_case,
    drawn_contender,
    fits_gpus,
    gpu_counts,
    gpu_link_cases,
    gpus,
)
from experiments._parts.ranks import (
    ONE_PROCESS,
    STRATEGIES,
    SUBJECT,
    declined_contender,
    link_cases,
    one_process,
    or_absent,
    rank_counts,
)
from experiments._parts.ranks import ranks_contender as ranks_of
from experiments.dist_ranks_threads import MANY_CORES
from harness.analysis import ranks, rates
from harness.analysis.findings.sentences import SPEED, Finding, Value
from harness.analysis.ranks.model import decomposition
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Json
from harness.machine import Machine
from harness.problem import Problem
from harness.store.store import Cell

SIZE_STEP = 8  # of the sides of weak scaling
METHODS = (ONE_PROCESS, *STRATEGIES)
FEWEST = (ONE_PROCESS, "dist-2d")  # what the smoke preset has of them, and quick on fewer cores than these
FEW_CORES = 4
# (mode, semiring, sizes m, n, k), of float64.
PRODUCTS = {
    "smoke": (("strong", "plus_times", (256, 256, 256)),),
    "quick": (
        ("strong", "plus_times", (1024, 1024, 1024)),
        ("strong", "min_plus", (1024, 1024, 1024)),
        ("weak", "plus_times", (1024, 1024, 1024)),
    ),
    "full": tuple(
        (mode, semiring, sizes)
        for mode, sizes in (
            *(("strong", (n, n, n)) for n in (1024, 2048, 4096)),
            *(("weak", (n, n, n)) for n in (1024, 2048)),
        )
        for semiring in ("plus_times", "min_plus")
    ),
}
# Larger ones of `quick` where there are many cores, for `FEWEST` alone.
OF_MANY_CORES = (("plus_times", (2048,) * 3), ("min_plus", (2048,) * 3), ("plus_times", (4096,) * 3))
# Shapes of the course reports, on all cores only; `quick` has an eighth and a sixteenth of each side. On many cores it
# has the first as it is and half of each side of the second: calls of a second or two. GPUs compute both.
OF_COURSES = {
    "quick": (("min_plus", (1024, 1024, 256)), ("plus_times", (2304, 1152, 288))),
    "full": (("min_plus", (8192, 8192, 2048)), ("plus_times", (36864, 18432, 4608))),
}
QUICK_ON_MANY_CORES = (("min_plus", (8192, 8192, 2048)), ("plus_times", (18432, 9216, 2304)))
GPU_KINDS = (("plus_times", "float64"), ("plus_times", "float32"), ("min_plus", "float32"))
GPU_SIDES = (4096, 8192, 16384)
# On GPUs: strong scaling of squares, kinds and sides; but for ``smoke`` the shapes of the courses too.
ON_GPUS = {
    "smoke": (GPU_KINDS[:1], GPU_SIDES[:1]),
    "quick": (GPU_KINDS, GPU_SIDES),
    "full": (GPU_KINDS, GPU_SIDES),
}
GPU_MODE = "strong, on GPUs"
# Bytes that a process holds for each byte of operands: its own, those shared with the ranks, their pieces and panels,
# and what the proof generates anew. All of it may take half of the memory.
COPIES, MEMORY_PART = 5, 0.5


def weak(sizes: tuple[int, int, int], ranks: int) -> tuple[int, int, int]:
    """Return cubic sizes with `ranks` times the pairs."""
    side = round(sizes[0] * ranks ** (1 / 3) / SIZE_STEP) * SIZE_STEP
    return side, side, side


def contender(method: str, ranks: int, problem: Problem) -> Contender:
    """Return the contender of `method` on so many cores, with a product of its own."""
    label = f"{method}, {ranks} thread{'s' * (ranks > 1)}"
    made = one_process(ranks, label) if method == ONE_PROCESS else ranks_of(method, ranks)
    return Contender(made.label, {**made.arguments, "problem": problem.to_json()}, ranks, made.task)


def fits(problem: Problem, machine: Machine, processes: int = 1) -> bool:
    """Return whether `processes` contenders can hold `problem` at the same time."""
    return not machine.memory or processes * COPIES * problem.bytes_moved <= MEMORY_PART * machine.memory


def _has_many(preset: str, machine: Machine) -> bool:
    """Return whether `quick` measures many cores."""
    return preset == "quick" and machine.cores >= MANY_CORES


def _counts(preset: str, machine: Machine) -> list[int]:
    """Return numbers of ranks; `quick` on many cores has powers of two and all cores: a third of the time less."""
    counts = rank_counts(machine.cores)
    powers = [count for count in counts if count == machine.cores or count.bit_count() == 1]
    return powers if _has_many(preset, machine) else counts


def _cases(preset: str, machine: Machine) -> Iterator[Case]:
    counts = _counts(preset, machine)
    asked = [(*product, _methods(preset, machine)) for product in _products(preset, machine)]
    larger = OF_MANY_CORES if _has_many(preset, machine) else ()
    asked += [("strong", *product, FEWEST) for product in larger]
    for mode, semiring, sizes, methods in asked:
        for method in methods:
            problems = {p: Problem(*(sizes if mode == "strong" else weak(sizes, p)), semiring) for p in counts}
            able = [contender(method, p, problem) for p, problem in problems.items() if fits(problem, machine)]
            if able:
                axes = {"mode": mode, "method": method, **dict(zip("mnk", sizes, strict=True))}
                yield Case({**axes, "semiring": semiring, "dtype": "float64"}, tuple(able), {"seed": 1})


def _is_little(preset: str, machine: Machine) -> bool:
    """Return whether little is measured: in smoke, and in quick where few cores decide little."""
    return preset == "smoke" or (preset == "quick" and machine.cores < FEW_CORES)


def _methods(preset: str, machine: Machine) -> tuple[str, ...]:
    """Return who computes the products of a mode."""
    return FEWEST if _is_little(preset, machine) else METHODS


def _products(preset: str, machine: Machine) -> list[tuple[str, str, tuple[int, int, int]]]:
    """Return the mode, semiring and sizes of products: one semiring where little is measured."""
    return [x for x in PRODUCTS[preset] if x[1] == "plus_times" or not _is_little(preset, machine)]


def _course_cases(preset: str, machine: Machine) -> Iterator[Case]:
    """Return the products of the course reports: of all methods in one case if memory allows, else pair by pair.

    Where two processes cannot hold one, a case declines it.
    """
    for semiring, sizes in QUICK_ON_MANY_CORES if _has_many(preset, machine) else OF_COURSES.get(preset, ()):
        problem = Problem(*sizes, semiring)
        pairs = {strategy: (ONE_PROCESS, strategy) for strategy in STRATEGIES}
        together = {"all": _methods(preset, machine)} if fits(problem, machine, len(METHODS)) else pairs
        axes = {"mode": "all cores", **dict(zip("mnk", sizes, strict=True)), "semiring": semiring, "dtype": "float64"}
        arguments = {"problem": problem.to_json(), "seed": 1}
        if not fits(problem, machine, 2):
            yield Case({**axes, "method": SUBJECT}, (_too_large(SUBJECT, problem, machine),), arguments)
            continue
        for name, methods in together.items():
            contenders = tuple(
                one_process(machine.cores) if method == ONE_PROCESS else ranks_of(method, machine.cores, label=method)
                for method in methods
            )
            yield Case({**axes, "method": name}, contenders, arguments)


def _too_large(label: str, problem: Problem, machine: Machine) -> Contender:
    """Return a contender that is declined because two processes cannot hold `problem`."""
    need, have = 2 * COPIES * problem.bytes_moved / 1e9, MEMORY_PART * machine.memory / 1e9
    return declined_contender(
        label, f"two processes and their ranks need {need:.0f} GB, of {have:.0f} that may be used"
    )


def _gpu_cases(preset: str, machine: Machine) -> Iterator[Case]:
    """Return strong scaling over several GPUs, and the shapes of the courses there."""
    counts, (kinds, sides) = gpu_counts(machine), ON_GPUS[preset]
    asked = [Problem(n, n, n, semiring, dtype) for semiring, dtype in kinds for n in sides]
    asked += [Problem(*sizes, semiring) for semiring, sizes in OF_COURSES["full"] if preset != "smoke"]
    for problem in asked if len(counts) > 1 else ():
        able = [
            drawn_contender(problem, count, **_panels(count)) for count in counts if fits_gpus(problem, machine, count)
        ]
        memory = f"{machine.gpu.get('memory_mib')} MiB"
        reason = f"{gpus(counts[-1])} of {memory} cannot hold {problem.bytes_moved / 1e9:.0f} GB twice"
        yield drawn_case(problem, able or [declined_contender(SUBJECT, reason)], mode=GPU_MODE, method=_size(problem))


def _size(problem: Problem) -> str:
    """Return the size of a product, which names its curve where all are of one strategy."""
    sizes = problem.m, problem.n, problem.k
    return f"n={problem.n}" if len(set(sizes)) == 1 else " x ".join(map(str, sizes))


def _panels(count: int) -> dict[str, int]:
    """Return options of `count` ranks: one gathers nothing, and takes all of k at once."""
    return {"panel": 0, "in_flight": IN_TURN} if count == 1 else {}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return the link, then a case for each mode, product and method, whose contenders are numbers of ranks.

    The link takes seconds, and the model needs it: so a run that is stopped early has measured it.
    """
    semirings = dict.fromkeys(semiring for _, semiring, _ in _products(preset, machine))
    links = link_cases(_counts(preset, machine), semirings)
    found = [*links, *_cases(preset, machine), *_course_cases(preset, machine)]
    on_gpus = [*gpu_link_cases(machine), *_gpu_cases(preset, machine)]
    return or_absent([*found, *on_gpus], mode="strong", method=SUBJECT)


LARGEST = {"largest": "n", "within": "semiring"}
SIZES_OF_ALL = {"n": [256, 1024, 2048]}  # larger ones take so long that samples are few


def scaling(cells: list[Cell], options: Json) -> Finding | None:
    """Return the speed of the most ranks over one, by product and strategy, and that of as many threads."""
    last = [(title, p[-1]) for title, own in ranks.products(cells).items() for p in ranks.curves(own).values()]
    of_ranks = [(title, point) for title, point in last if decomposition(point.cell) is not None and point.ranks > 1]
    if not of_ranks:
        return None
    most = max(point.ranks for _, point in of_ranks)
    values = [
        Value(point.measured, (point.cell,), place=f"{rates.axis(point.cell, 'method')}, {title}")
        for title, point in of_ranks
        if point.ranks == most
    ]
    threads = [
        Value(point.measured, (point.cell,), place=title)
        for title, point in last
        if decomposition(point.cell) is None and point.ranks == most
    ]
    others = {f"{most} threads": threads} if threads else {}
    noun = "GPUs" if rates.is_on_device(of_ranks[0][1].cell) else "ranks"
    return Finding(f"{most} {noun}", SPEED, values, "one", others=others)


EXPERIMENT = Experiment(
    name="dist_scaling",
    question="How much faster do more ranks make a product, beside threads, the model and what rank 0 allows?",
    cases=cases,
    figures=(
        Figure(
            "dist_strong_scaling",
            "ranks",
            "More ranks for the same product",
            {"where": {"mode": "strong", **SIZES_OF_ALL}, **LARGEST, "finding": scaling},
            prominence=72,
        ),
        Figure(
            "dist_weak_scaling",
            "ranks",
            "More ranks, the same work for each",
            {"where": {"mode": "weak", **SIZES_OF_ALL}, **LARGEST, "finding": scaling},
        ),
        Figure(
            "dist_gpu_scaling",
            "ranks",
            "More GPUs for the same product",
            {"where": {"mode": GPU_MODE}, "finding": scaling},
            prominence=73,
        ),
        Figure(
            "dist_courses",
            "dots",
            "Shapes of the course reports, all cores",
            {
                "where": {"mode": "all cores"},
                "panels": ["semiring", "method"],
                "value": "speed_up",
                "finding": "speed",
                "reference_words": "one process",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=1), Budget(rounds=15, seconds=30, precision=0.02)),
    order=42,
)
