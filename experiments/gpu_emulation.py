"""Products of floats and of complex numbers by int8 tensor cores against native ones, by size and by family of data."""

from __future__ import annotations

from experiments._parts.emulation_task import DRAWS
from experiments._parts.gpu import DEVICE, VENDOR, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure, backend_contender
from harness.machine import Machine
from harness.problem import Problem

SUBJECT, TASK = "gpu-ozaki", "experiments._parts.emulation_task:product"
SIZES = {"smoke": (128,), "quick": (2048, 4096, 8192), "full": (1024, 2048, 4096, 4097, 8192, 16384)}
FAMILY_SIZE = {"smoke": 128, "quick": 4096, "full": 4096}
NORMAL = "normal"
DTYPES = "float64", "complex128", "complex64"


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product of each size over normal data, and one of each other family."""
    products = [(n, NORMAL) for n in SIZES[preset]]
    products += [(FAMILY_SIZE[preset], family) for family in DRAWS if family != NORMAL]
    cases = [_case(n, family, dtype) for dtype in DTYPES for n, family in products]
    return or_absent(cases, machine, family=NORMAL)


def _case(n: int, family: str, dtype: str) -> Case:
    problem = Problem(n, n, n, dtype=dtype)
    contenders = [
        backend_contender(VENDOR, task=TASK),
        backend_contender(SUBJECT, task=TASK),
        backend_contender(SUBJECT, label=f"{SUBJECT}, by statistics", task=TASK, gate="statistic"),
    ]
    if problem.is_complex:
        contenders.append(backend_contender("gpu-four-m", task=TASK))
    else:
        emulated = {"backend": VENDOR, "parameters": {}, "is_vendors_emulation": True}
        contenders += [
            backend_contender(SUBJECT, label=f"{SUBJECT}, 15 moduli", task=TASK, moduli=15),
            Contender("cuBLAS's emulation", emulated, task=TASK),
        ]
    axes = {"m": n, "n": n, "k": n, "semiring": "plus_times", "dtype": dtype, "family": family, **DEVICE}
    return Case(axes, tuple(contenders), {"problem": problem.to_json(), "family": family, "seed": 1})


EXPERIMENT = Experiment(
    name="gpu_emulation",
    question="What do products on int8 tensor cores gain over float64 ones, and for which data?",
    cases=cases,
    figures=(
        Figure(
            "gpu_emulation",
            "lines",
            "float64 products on one GPU, normal data",
            {
                "x": "n",
                "where": {"family": NORMAL, "device": "gpu", "dtype": "float64"},
                "subject": "gpu-ozaki",
                "place": "n",
                "finding": "speed",
            },
            prominence=82,
        ),
        Figure(
            "gpu_emulation_complex",
            "lines",
            "complex products on one GPU, normal data",
            {
                "x": "n",
                "where": {"family": NORMAL, "device": "gpu", "dtype": ["complex128", "complex64"]},
                "panels": ["dtype"],
                "subject": "gpu-ozaki",
                "place": ["dtype", "n"],
                "finding": "speed",
            },
            prominence=80,
        ),
        Figure(
            "gpu_emulation_families",
            "heatmap",
            "float64 products by family of data",
            {
                "where": {"n": 4096, "device": "gpu", "dtype": "float64"},
                "rows": "contender",
                "columns": "family",
                "compares": "family",
                "x_label": "family of data",
                "value": "speed_up",
                "subject": "gpu-ozaki",
                "place": "family",
                "finding": "speed",
            },
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=2), Budget(rounds=15, seconds=10, precision=0.01)),
    order=64,
)
