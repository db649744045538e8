"""Triangular solves by products: how long should diagonal blocks be, in time and in accuracy."""

from __future__ import annotations

from experiments._parts.algorithms import GPU, LIBRARIES, algorithm_case, library, solver
from experiments._parts.gpu import DEVICE
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal
from harness.machine import Machine

SIZE = {"smoke": 128, "quick": 512, "full": 2048}
GPU_SIZE = {"smoke": 128, "quick": 4096, "full": 4096}
COLUMNS = {"smoke": (16,), "quick": (128,), "full": (256, 2048)}
GPU_COLUMNS = {**COLUMNS, "full": (256, 2048, 4096)}
BLOCKS = {"smoke": (32, 64), "quick": (32, 64, 128, 256), "full": (32, 64, 128, 256, 512)}
DTYPES = {"smoke": ("float32",), "quick": ("float32",), "full": ("float32", "float64")}
ON_CPU, ON_GPU = "cpu-simd", "gpu-cublas"
METHODS = ("substitution", "blocks", "corrected")


def contenders(backend: str, block: int, threads: int, device: str) -> list[Contender]:
    """Return the methods for one length of blocks, substitution first, and the library's solve."""
    found = [solver(backend, method, threads, method=method, block=block) for method in METHODS]
    if device:
        found.append(solver(backend, "blocks, inverses on the host", method="blocks", block=block, inverses="host"))
    return [*found, library(device, threads)]


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each length of blocks."""
    places = [("", ON_CPU, SIZE[preset], machine.cores, COLUMNS)]
    if machine.gpu:
        places.append(("gpu", ON_GPU, GPU_SIZE[preset], 1, GPU_COLUMNS))
    return [
        algorithm_case(
            "trsm", n, dtype, contenders(backend, block, threads, device), device=device, columns=columns,
            block=block, columns_of_b=columns,
            kind=f"{dtype}, n={n}, {columns} columns{', on the GPU' if device else ''}",
        )
        for device, backend, n, threads, of_b in places
        for dtype in DTYPES[preset]
        for columns in of_b[preset]
        for block in BLOCKS[preset]
    ]  # fmt: skip


def _figure(name: str, title: str, value: str, finding: str, device: str | None) -> Figure:
    """Return a figure of the solves with the most columns."""
    options = {
        "where": {"device": device},
        "largest": "columns_of_b",
        "within": "setting",
        "x": "block",
        "x_label": "rows of a diagonal block (logarithmic)",
        "value": value,
        "y_scale": "log",
        "panels": "kind",
        "finding": finding,
    }
    return Figure(name, "lines", title, options)


# Where a GPU is asked for a rate: blocks are as long as `trsm` makes them.
ASKED = {"columns_of_b": (256, 4096), "block": 512}
ERRORS = "residual", "residual"  # value and finding
EXPERIMENT = Experiment(
    name="trsm_blocks",
    question="How long should the inverted diagonal blocks of a triangular solve be, in time and in accuracy?",
    cases=cases,
    figures=(
        _figure("trsm_blocks", "Triangular solve: time by the length of blocks", "time", "speed", None),
        _figure("trsm_residuals", "Triangular solve: error by the length of blocks", *ERRORS, None),
        _figure("trsm_blocks_gpu", "Triangular solve on the GPU: time by the length of blocks", "time", "speed", "gpu"),
        _figure(
            "trsm_residuals_gpu",
            "Triangular solve on the GPU: error by the length of blocks",
            "residual",
            "residual",
            "gpu",
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=1), Budget(rounds=10, seconds=10, precision=0.02)),
    order=91,
    goals=(
        Goal("blocks", 1.3, LIBRARIES[GPU], {**ASKED, **DEVICE}),
        Goal("blocks", 4.0, "substitution", {**ASKED, **DEVICE}, fact="residual"),
    ),
)
