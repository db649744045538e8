"""Batches of small products: whole calls of gemm beside NumPy's, CuPy's and PyTorch's."""

from __future__ import annotations

import dataclasses

from experiments._parts.batch_task import CUPY, GEMM, MIN_PLUS, NUMPY, TORCH
from experiments._parts.gpu import DEVICE
from experiments._parts.peers import installed, thread_counts
from harness.experiment import Budget, Case, Contender, Experiment, Figure, product_case
from harness.machine import Machine
from harness.problem import Problem

# Number of products, and m, n, k of each.
BATCHES = {
    "smoke": ((16, (8, 8, 8)),),
    "quick": ((512, (8, 8, 8)), (4096, (16, 16, 16)), (512, (32, 32, 32)), (64, (128, 128, 128))),
    "full": (
        (512, (8, 8, 8)),
        (4096, (16, 16, 16)),
        (512, (32, 32, 32)),
        (1000, (30, 31, 33)),
        (64, (128, 128, 128)),
        (8, (512, 512, 512)),
        (20_000, (32, 32, 32)),
    ),
}
DTYPES = {"smoke": ("float64",), "quick": ("float64",), "full": ("float64", "float32")}
TASK = "experiments._parts.batch_task:call"
# Who takes part, the reference first, by where; over min_plus beside a library's plus_times.
ON_HOST = (NUMPY, GEMM, TORCH)
ON_GPU = {"gpu": (CUPY, GEMM, TORCH), "gpu, min_plus": (CUPY, MIN_PLUS)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return each batch by every library, on the host with one thread and with all, and on the GPU."""
    all_cases = []
    for products, sizes in BATCHES[preset]:
        shape = f"{products:,} of {' x '.join(map(str, sizes))}"
        for dtype in DTYPES[preset]:
            problem = Problem(*sizes, dtype=dtype, batch=(products,))
            for name, threads in thread_counts(machine).items():
                contenders = [Contender(x, {"name": x}, threads, TASK) for x in installed(ON_HOST)]
                axes = {"shape": shape, "setting": f"{dtype}, {name}", "place": "host"}
                all_cases.append(product_case(problem, contenders, **axes))
            for place, names in ON_GPU.items() if machine.gpu else ():
                contenders = [Contender(x, {"name": x}, 1, TASK) for x in installed(names)]
                axes = {"shape": shape, "setting": dtype, "place": place, **DEVICE}
                case = product_case(problem, contenders, **axes)
                all_cases.append(dataclasses.replace(case, arguments={**case.arguments, "where": "gpu"}))
    return all_cases


def _figure(name: str, title: str, where: str, subject: str, **options: str | list[str]) -> Figure:
    """Return a row for each batch: the speed of `subject` over the fastest library's."""
    rows = {"rows": ["setting", "shape"], "where": {"place": where}, "subject": subject, "value": "over_fastest"}
    return Figure(name, "strip", title, {**rows, **options})


EXPERIMENT = Experiment(
    name="batched",
    question="How fast are batches of small products, against the libraries that loop over them?",
    cases=cases,
    figures=(
        _figure("batched", "Batches, a call each", "host", "gemm", finding="over_fastest"),
        _figure("batched_gpu", "Batches on the GPU, a call each", "gpu", "gemm", finding="over_fastest"),
        _figure(
            "batched_min_plus",
            "Batches over min_plus on the GPU, over plus_times by CuPy",
            "gpu, min_plus",
            "gemm, min_plus",
            value="speed_up",
            place=["setting", "shape"],
            finding="subject_over_reference",
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1),
        "quick": Budget(rounds=7, seconds=0.5, sample_ms=2),
        "full": Budget(rounds=8, seconds=1, sample_ms=2, processes=3, precision=0.02),
    },
    order=17,
)
