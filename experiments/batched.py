"""Batches of small products: whole calls of gemm beside NumPy's, CuPy's and PyTorch's."""

from __future__ import annotations

import dataclasses

from experiments._parts.call_task import CUPY, GEMM, MIN_PLUS, NUMPY, TORCH, contender
from experiments._parts.gpu import DEVICE
from experiments._parts.peers import installed, thread_counts
from harness.dtypes import mixed_dtypes
from harness.experiment import Budget, Case, Experiment, Figure, Goal, product_case
from harness.machine import Machine
from harness.problem import Problem

# Batches of narrow operands on a GPU, by dtypes of operands and sums, and the libraries' name for these.
NARROW = (("float16", "float32"), ("bfloat16", "float32"))
NARROW_BATCHES = {"smoke": (), "quick": (), "full": ((512, 32), (4096, 16), (64, 128), (500, 31))}
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
# Who takes part, the reference first, by where; over min_plus beside a library's plus_times.
ON_HOST = (NUMPY, GEMM, TORCH)
ON_GPU_ASKED = ("512 of 32 x 32 x 32", "4,096 of 16 x 16 x 16")
ON_GPU = {"gpu": (CUPY, GEMM, TORCH), "gpu, min_plus": (CUPY, MIN_PLUS)}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return each batch by every library, on the host with one thread and with all, and on the GPU."""
    all_cases = []
    for products, sizes in BATCHES[preset]:
        shape = f"{products:,} of {' x '.join(map(str, sizes))}"
        for dtype in DTYPES[preset]:
            problem = Problem(*sizes, dtype=dtype, batch=(products,))
            for name, threads in thread_counts(machine).items():
                contenders = [contender(x, threads) for x in installed(ON_HOST)]
                axes = {"shape": shape, "setting": f"{dtype}, {name}", "place": "host"}
                all_cases.append(product_case(problem, contenders, **axes))
            for place, names in ON_GPU.items() if machine.gpu else ():
                contenders = [contender(x) for x in installed(names)]
                axes = {"shape": shape, "setting": dtype, "place": place, **DEVICE}
                case = product_case(problem, contenders, **axes)
                all_cases.append(dataclasses.replace(case, arguments={**case.arguments, "where": "gpu"}))
    return all_cases + (_narrow(preset) if machine.gpu else [])


def _narrow(preset: str) -> list[Case]:
    """Return batches of narrow operands on the GPU, beside PyTorch's, whose results are narrow too."""
    narrow = {dtype.name: dtype for dtype, _ in mixed_dtypes()}
    found = []
    for operands, sums in NARROW:
        for products, n in NARROW_BATCHES[preset] if operands in narrow else ():
            problem = Problem(n, n, n, dtype=sums, operand_dtype=narrow[operands], batch=(products,))
            contenders = [contender(name) for name in installed((GEMM, TORCH))]
            axes = {"shape": f"{products:,} of {n} x {n} x {n}", "setting": operands, "place": "gpu, narrow", **DEVICE}
            case = product_case(problem, contenders, **axes)
            if operands == "float16":
                tropical = Problem(n, n, n, "min_plus", operands, batch=(products,))
                also = contender(GEMM, label=MIN_PLUS, problem=tropical.to_json())
                case = dataclasses.replace(case, contenders=(*case.contenders, also))
            found.append(dataclasses.replace(case, arguments={**case.arguments, "where": "gpu"}))
    return found


def _figure(name: str, title: str, where: str, subject: str, **options: str | list[str]) -> Figure:
    """Return a row for each batch: the speed of `subject` over the fastest library's."""
    rows = {"rows": ["setting", "shape"], "where": {"place": where}, "subject": subject, "value": "over_fastest"}
    return Figure(name, "strip", title, {**rows, **options})


EXPERIMENT = Experiment(
    name="batched",
    question="How fast are batches of small products, against the libraries that loop over them?",
    cases=cases,
    figures=(
        _figure("batched", "Batches, a call each", "host", "gemm", finding="speed", over="library"),
        _figure("batched_gpu", "Batches on the GPU, a call each", "gpu", "gemm", finding="speed", over="library"),
        _figure(
            "batched_min_plus",
            "Batches over min_plus on the GPU, over plus_times by CuPy",
            "gpu, min_plus",
            "gemm, min_plus",
            value="speed_up",
            place=["setting", "shape"],
            finding="speed",
        ),
    ),
    budget=Budget.presets(
        Budget(rounds=7, seconds=0.5, sample_ms=2),
        Budget(rounds=8, seconds=1, sample_ms=2, processes=3, precision=0.02),
    ),
    order=17,
    goals=(
        *(
            Goal(GEMM, asked, NUMPY, {"shape": shapes, "place": ("host",)})
            for asked, shapes in (
                (1.0, ("512 of 8 x 8 x 8",)),
                (1.2, ("512 of 32 x 32 x 32", "64 of 128 x 128 x 128")),
            )
        ),
        Goal(GEMM, 1.0, CUPY, {"shape": ON_GPU_ASKED}),
        Goal(MIN_PLUS, 0.4, CUPY, {"shape": ON_GPU_ASKED}),
    ),
)
