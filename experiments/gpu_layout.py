"""Products of matrices stored by rows, by columns or tile by tile: the effect of coalesced access on a GPU.

Two textbook kernels show the effect. Whole backends show what is left of it where loads go through shared memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from experiments._parts.call_task import CONVERTED, CUPY, GEMM, contender
from experiments._parts.gpu import DEVICE, SUBJECT, VENDOR, or_absent
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

PRODUCT, CHANGE = "backends.gpu._tasks.layouts:product", "backends.gpu._tasks.layouts:change"
SIZE = {"smoke": 256, "quick": 4096, "full": 4096}
KIND = {"semiring": "plus_times", "dtype": "float32"}

ON, OWN = {"where": "gpu"}, "a @ a.T"
# Layouts of A and of B, and whether tiles are loaded in memory order.
ORDERS = {
    "A, B by rows": ("rows", "rows", False),
    "A by columns": ("columns", "rows", False),
    "B by columns": ("rows", "columns", False),
    "A, B by columns": ("columns", "columns", False),
    "A, B in tiles": ("tiles", "tiles", False),
}
ALONG = {"A, B by columns, read along": ("columns", "columns", True)}
# The same orders for whole backends, as a layout of A, B and C.
LAYOUTS = {"A, B by rows": "CCC", "A by columns": "FCC", "B by columns": "CFC", "A, B by columns": "FFC"}
CHANGES = {
    "copy, by rows": ("rows", False),
    "to tiles": ("tiles", False),
    "to columns": ("columns", False),
    "to columns, by tiles": ("columns", True),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product by each kernel and backend in every order, and the changes of order."""
    n = SIZE[preset]
    all_cases = []
    for kernel, orders in (("naive", ORDERS), ("tiled", {**ORDERS, **ALONG})):
        contenders = [
            Contender(label, {"kernel": kernel, "a": a, "b": b, "turned": turned}, task=PRODUCT)
            for label, (a, b, turned) in orders.items()
        ]
        axes = {**dict.fromkeys("mnk", n), **KIND, **DEVICE, "role": "product", "kernel": kernel}
        all_cases.append(Case(axes, tuple(contenders), {"n": n}))
    all_cases += [_backend_case(backend, n) for backend in (SUBJECT, VENDOR)]
    changes = [Contender(label, {"to": to, "turned": turned}, task=CHANGE) for label, (to, turned) in CHANGES.items()]
    axes = {**dict.fromkeys("mnk", n), "dtype": KIND["dtype"], **DEVICE, "role": "change", "kernel": "change of order"}
    all_cases.append(Case(axes, tuple(changes), {"n": n}))
    if preset == "full":
        all_cases += [*_transposed(), *_own(), *_converted()]
    return or_absent(all_cases, machine, role="product", kernel="no GPU")


def _transposed() -> Iterator[Case]:
    """Yield whole calls of transposed operands beside CuPy's."""
    for dtype, n in itertools.product(("float32", "float64"), (512, 4096)):
        for form, layout in (("a.T @ b", "FCC"), ("a @ b.T", "CFC"), ("a.T @ b.T", "FFC")):
            yield _called(
                Problem(n, n, n, dtype=dtype, layout=layout), form, [contender(x, **ON) for x in (CUPY, GEMM)]
            )


def _own() -> Iterator[Case]:
    """Yield whole calls of a matrix by its own transpose beside those of two matrices."""
    rivals = [contender(GEMM, label="a @ b.T", **ON), contender(GEMM, label=OWN, own=True, **ON)]
    for n, semiring in itertools.product((1500, 4096), ("min_plus", "max_min")):
        yield _called(Problem(n, n, n, semiring, "float32", layout="CFC"), OWN, rivals)


def _converted() -> Iterator[Case]:
    """Yield products of float32 with sums of float64, beside CuPy's of operands that each call converts."""
    rivals = [contender(CONVERTED, **ON), *map(backend_contender, (VENDOR, "gpu-tensor-core", "gpu-naive"))]
    for sizes in ((1024, 1024, 1024), (4096, 4096, 4096), (2000, 64, 2000)):
        problem = Problem(*sizes, dtype="float64", operand_dtype=np.dtype(np.float32))
        yield _called(problem, "float32 to float64", rivals)


def _called(problem: Problem, form: str, rivals: list[Contender]) -> Case:
    return product_case(problem, rivals, role="call", kernel=form, **DEVICE)


def _backend_case(backend: str, n: int) -> Case:
    """Return the case of one backend, its contenders the orders of A and B: NN, TN, NT and TT in words of BLAS."""
    contenders = tuple(
        backend_contender(backend, label=label, problem=Problem(n, n, n, **KIND, layout=layout))
        for label, layout in LAYOUTS.items()
    )
    axes = {**dict.fromkeys("mnk", n), **KIND, **DEVICE, "role": "product", "kernel": backend}
    return Case(axes, contenders, {"seed": 1})


EXPERIMENT = Experiment(
    name="gpu_layout",
    question="What does it cost a GPU that a matrix is stored in another order than it is read in?",
    cases=cases,
    figures=(
        Figure(
            "gpu_layout",
            "bars",
            "Orders in memory, as two kernels and two backends read them",
            {"panels": "kernel", "peak": False, "where": {"role": "product"}, "finding": "best"},
        ),
        Figure(
            "gpu_layout_change",
            "bars",
            "Another order: what it costs to make",
            {"panels": "kernel", "value": "time", "where": {"role": "change"}, "finding": "time"},
        ),
    ),
    budget=Budget.presets(Budget(rounds=5, seconds=4), Budget(rounds=15, seconds=20, processes=3, precision=0.01)),
    order=67,
    goals=(
        Goal(GEMM, 1.0, CUPY, {"role": ("call",)}),
        Goal(OWN, 1.7, "a @ b.T"),
        Goal(VENDOR, 0.9, CONVERTED),
    ),
)
