"""cpu-simd against every installed library for the same product, at sizes that tiles divide and others.

The result is the ratio to the fastest peer at each size, whose samples alternate with the subject's.
"""

from __future__ import annotations

from experiments._parts.peers import ALL, ONE, SUBJECT, against_peers, defined, fastest_peers, thread_counts
from experiments.ladder import peak_case
from harness.experiment import Budget, Case, Experiment, Figure, Goal, product_case
from harness.machine import Machine
from harness.problem import Problem

# Sizes between 1000 and 2000 of which most were drawn.
BETWEEN = (1000, 1024, 1025, 1117, 1283, 1409, 1500, 1537, 1601, 1733, 1891)
# Sizes of the ordinary product, which every library computes.
ORDINARY = {
    "smoke": (("float64",), (48, 65)),
    "quick": (("float64", "float32"), (257, 512, 1025)),
    "full": (
        ("float64", "float32"),
        (256, 257, 300, 384, 500, 511, 513, 700, *BETWEEN, 2000, 2048, 2049, 4096),
    ),
}
# Sizes of all other products: NumPy's ufuncs, often the only peer, are slow, and larger sizes show the same.
OTHER = (257, 512)
# Exact, modulo 2^bits. Of the larger size: of a smaller one NumPy's own loop takes less time than its ufuncs.
INTEGERS = ("int64", "int8")
COMPLEX = {
    "smoke": ((), ()),
    "quick": (("complex128",), (65, 257, 512)),
    "full": (("complex128", "complex64"), (65, *OTHER, 1117)),
}
OTHERS = {
    "smoke": (),
    "quick": (
        ("min_plus", "float64", OTHER),
        ("max_times", "float64", OTHER[:1]),
        ("plus_times", "int64", OTHER[1:]),
    ),
    "full": (
        *((*pair, OTHER) for pair in defined(("float64", "float32", "int32"))),
        *(("plus_times", dtype, OTHER[1:]) for dtype in INTEGERS),
    ),
}
# Presets that also measure all threads, and their sizes. Most peers of the other products use one thread. A few minutes
# decide nothing where others use the cores, too.
SHARED = {"smoke": (), "quick": (), "full": (300, 500, 513, 700, 1000, 1024, 1025, 1500, 2000, 2048, 2049, 4096)}

LONG = 4096  # a size at which one thread would take minutes for a few samples of all libraries
ALIKE = {"rows": "problem", "colours": "dtype", "markers": "n", "value": "over_fastest", "subject": SUBJECT}


def problems(preset: str) -> list[Problem]:
    """Return the products: the ordinary ones by dtype and size, then those over other semirings and dtypes."""
    dtypes, sizes = ORDINARY[preset]
    asked = [("plus_times", dtype, n) for dtype in dtypes for n in sizes]
    asked += [("plus_times", dtype, n) for dtype in COMPLEX[preset][0] for n in COMPLEX[preset][1]]
    asked += [(name, dtype, n) for name, dtype, some in OTHERS[preset] for n in some]
    return [Problem(n, n, n, name, dtype) for name, dtype, n in dict.fromkeys(asked)]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each product and number of threads; the ordinary product and its peaks come first."""
    ordinary, others = [], []
    for called, threads in thread_counts(machine).items():
        for problem in problems(preset):
            if problem.n < LONG if called == ONE else problem.n in SHARED[preset]:
                rivals = against_peers(threads, machine) if preset == "full" else fastest_peers(machine)
                case = product_case(problem, rivals, threads=threads, shared_by=called)
                (ordinary if problem.semiring.is_ordinary else others).append(case)
        if called == ONE or SHARED[preset]:
            has_wider = {"avx512f", "avx512bw", "avx512vl"} <= set(machine.simd)
            ordinary += [peak_case("plus_times", dtype, threads, narrow=has_wider) for dtype in ORDINARY[preset][0]]
    return ordinary + others


def _figures() -> tuple[Figure, ...]:
    ordinary = {"semiring": "plus_times", "dtype": ["float64", "float32"]}
    panels = ["problem", "threads"]
    by_size = {"x": "n", "panels": panels, "merged": True}
    one = {"shared_by": ONE}
    title = f"{SUBJECT} over the fastest library"
    by_rate = {**by_size, "value": "of_peak", "subject": SUBJECT, "finding": "speed", "over": "library"}
    complex_numbers = {"semiring": "plus_times", "dtype": [*COMPLEX["full"][0]]}
    return (
        Figure(
            "vs_peers_rates",
            "lines",
            "Percent of the measured peak by size, one thread",
            {**by_rate, "where": {**ordinary, **one}},
            prominence=95,
        ),
        Figure(
            "vs_peers_complex",
            "lines",
            "Complex numbers: percent of the measured peak by size, one thread",
            {**by_rate, "named": "plus_times", "where": {**complex_numbers, **one}},
            prominence=70,
        ),
        Figure(
            "vs_peers",
            "lines",
            f"{title}, by size",
            {
                **by_size,
                "value": "over_fastest",
                "subject": SUBJECT,
                "where": ordinary,
                "finding": "speed",
                "over": "library",
            },
        ),
        Figure(
            "vs_peers_semirings",
            "strip",
            f"{title}, other semirings, one thread",
            {
                **ALIKE,
                "merged": True,
                "named": "min_plus",
                "where": {"n": [*OTHER], **one},
                "finding": "speed",
                "over": "library",
            },
            prominence=88,
        ),
        Figure(
            "vs_peers_integers",
            "strip",
            f"{title}, exact products of integers, one thread",
            {
                **ALIKE,
                "merged": True,
                "where": {"semiring": "plus_times", "dtype": [*INTEGERS, "int32"], **one},
                "finding": "speed",
                "over": "library",
            },
            prominence=60,
        ),
    )


def _of(dtype: str) -> dict[str, tuple[str, ...]]:
    return {"semiring": ("plus_times",), "dtype": (dtype,)}


EXPERIMENT = Experiment(
    name="vs_peers",
    question="Is cpu-simd faster than the fastest library that is installed here, at every size?",
    cases=cases,
    figures=_figures(),
    # Level with the fastest library, so processes differ by more than contenders: five of each rather than three.
    budget=Budget.presets(Budget(rounds=30, seconds=4), Budget(rounds=5, seconds=2, processes=5, precision=0.02)),
    order=11,
    goals=(
        *(
            Goal(
                SUBJECT, asked, ("cpu-numpy", "cpu-mkl*"), {**_of(dtype), "n": BETWEEN, "shared_by": (ONE,)}, mean=mean
            )
            for dtype in ORDINARY["full"][0]
            for asked, mean in ((0.97, False), (1.02, True))
        ),
        *(
            Goal(
                SUBJECT,
                asked,
                ("cpu-numpy", "cpu-torch"),
                {**_of(dtype), "n": SHARED["full"], "shared_by": (ALL,)},
                mean=mean,
            )
            for dtype in ORDINARY["full"][0]
            for asked, mean in ((0.93, False), (1.0, True))
        ),
    ),
)
