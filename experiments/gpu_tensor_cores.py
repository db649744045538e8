"""Tensor cores against the vendor's library, and against the same products without them, at even and odd sizes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from experiments._parts.gpu import DEVICE, SUBJECT, VENDOR, or_absent
from harness.dtypes import mixed_dtypes
from harness.experiment import Budget, Case, Experiment, Figure, Goal, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

TENSOR, WORDS, PYTORCH = "gpu-tensor-core", "gpu-bits", "gpu-torch"
SIZES = {"smoke": (256,), "quick": (4096, 4097, 8192), "full": (1024, 2048, 4095, 4096, 4097, 8191, 8192, 8193, 16384)}
# Odd sizes beside an even one, where rows of bytes begin anywhere.
ODD = {2048: (2049,), 4096: (4095, 4097), 8192: (8191, 8193), 16384: (16383,)}
# Semiring, dtype of the sums and of the operands, and the other backends that compute it.
KINDS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("plus_times", "float32", "float32", (SUBJECT, VENDOR)),
    ("plus_times", "float64", "float64", (SUBJECT, VENDOR)),
    ("plus_times", "float32", "bfloat16", (VENDOR,)),
    ("plus_times", "float32", "float16", (VENDOR,)),
    ("plus_times", "float32", "float8_e4m3fn", (VENDOR, PYTORCH)),
    ("plus_times", "int32", "int8", (VENDOR,)),
    ("plus_times", "int32", "int32", (SUBJECT,)),
    ("plus_times", "int64", "int64", (SUBJECT,)),
    ("lor_land", "bool", "bool", (WORDS,)),
)
# Bytes lie along k, as all backends multiply them; elsewhere all is by rows.
LAYOUTS = dict.fromkeys(("int8", "float8_e4m3fn"), "CFC")


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product of each kind and size."""
    narrow = {dtype.name: dtype for dtype, _ in mixed_dtypes()}
    all_cases = []
    for semiring, dtype, operands, others in KINDS:
        if operands != dtype and operands not in narrow:
            continue
        contenders = [backend_contender(name) for name in (TENSOR, *others)]
        for n in SIZES[preset]:
            layout, operand_dtype = LAYOUTS.get(operands, "CCC"), None if operands == dtype else narrow[operands]
            problem = Problem(n, n, n, semiring, dtype, layout=layout, operand_dtype=operand_dtype)
            all_cases.append(product_case(problem, contenders, operands=operands, **DEVICE))
    if preset == "full" and "int8" in narrow:
        all_cases += [_beside(even, odd, narrow["int8"]) for even, odds in ODD.items() for odd in odds]
    return or_absent(all_cases, machine, operands="float32")


def _beside(even: int, odd: int, dtype: np.dtype[Any]) -> Case:
    """Return the case whose contenders are products of bytes of the two sizes."""
    sizes = {"even": Problem(even, even, even, dtype="int32", layout=LAYOUTS["int8"], operand_dtype=dtype)}
    sizes["odd"] = dataclasses.replace(sizes["even"], m=odd, n=odd, k=odd)
    contenders = tuple(backend_contender(TENSOR, label=label, problem=problem) for label, problem in sizes.items())
    axes = {**dict.fromkeys("mnk", odd), "semiring": "plus_times", "dtype": "int32", "operands": "int8"}
    return Case({**axes, "role": "odd size", **DEVICE}, contenders, {"seed": 1})


EXPERIMENT = Experiment(
    name="gpu_tensor_cores",
    question="What do tensor cores add to a GPU, for every dtype that they take, and who uses them best?",
    cases=cases,
    figures=(
        Figure(
            "gpu_tensor_cores",
            "strip",
            f"{TENSOR} over the fastest other kernel",
            {
                "where": {"role": None},
                "rows": ["semiring", "operands"],
                "markers": "n",
                "value": "over_other",
                "subject": TENSOR,
                "finding": "speed",
                "over": "kernel",
            },
            prominence=85,
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=3), Budget(rounds=15, seconds=20, processes=3, precision=0.01)),
    order=63,
    goals=(
        *(
            Goal(TENSOR, asked, VENDOR, {"operands": ("int8",), "n": (n,)})
            for n, asked in ((4096, 0.95), (8192, 1.03), (16384, 1.2))
        ),
        *(Goal(TENSOR, 0.95, PYTORCH, {"operands": ("float8_e4m3fn",), "n": (n,)}) for n in (4096, 8192)),
        Goal("odd", 0.85, "even"),
    ),
)
