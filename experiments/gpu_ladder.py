"""The gain by each optimisation of a product on a GPU, from one thread for each element to tensor cores and libraries.

The best CPU backend, on all cores, is measured too, in a case of its own; figures show the GPU alone. CPU samples keep
all cores busy for a quarter of a second: meanwhile the GPU would be idle, and its power unknown.
"""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT, VENDOR, best_of_cpu, gpu_case, or_absent, peak_case
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

RUNGS = (
    backend_contender("gpu-naive", label="gpu-naive uncoalesced", access="uncoalesced"),
    backend_contender("gpu-naive"),
    # Of one column it is far slower than gpu-naive: gpu_ablation has it by columns.
    backend_contender("gpu-row", label="gpu-row, 16 columns", bn=16, tn=16),
    *(backend_contender(f"gpu-{name}") for name in "tiled register-tiled warp-tiled pipelined".split()),
    backend_contender(SUBJECT),
)
LIBRARIES = (backend_contender("gpu-triton"), backend_contender(VENDOR))
TENSOR = backend_contender("gpu-tensor-core")

# Rungs where C is one block, as gpu-naive-block must have it, and the sizes of C.
ONE_BLOCK = [backend_contender(name) for name in ("gpu-naive-block", "gpu-naive", "gpu-row", "gpu-tiled", SUBJECT)]
ONE_BLOCK_SIZES = {"smoke": (8,), "quick": (4, 8, 16, 24, 32), "full": (1, 2, 4, 8, 12, 16, 20, 24, 28, 31, 32)}

SIZES = {"smoke": (256,), "quick": (4096,), "full": (1024, 2048, 4096, 8192)}
KINDS = {
    "smoke": (("plus_times", "float32"),),
    "quick": (
        ("plus_times", "float32"),
        ("plus_times", "float64"),
        ("min_plus", "float32"),
        ("min_plus", "float64"),
        ("min_plus", "int32"),
    ),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product for each kind and size, with its ceiling."""
    kinds, all_cases = KINDS.get(preset, KINDS["quick"]), []
    for semiring, dtype in kinds:
        rungs = [*RUNGS, TENSOR, *LIBRARIES] if semiring == "plus_times" else [*RUNGS, *LIBRARIES[:1]]
        cpu = best_of_cpu(semiring, machine)
        for n in SIZES[preset]:
            all_cases.append(product_case(Problem(n, n, n, semiring, dtype), cpu, role="product"))
            all_cases.append(gpu_case(n, semiring, dtype, rungs, role="product"))
        all_cases.append(peak_case(semiring, dtype))
    all_cases += [gpu_case(n, *kinds[0], ONE_BLOCK, role="one block") for n in ONE_BLOCK_SIZES[preset]]
    return or_absent(all_cases, machine, role="product")


# Tensor cores take another way over float32, and their peak is another in float64.
NOTES = {
    "gpu_ladder": "float32 by gpu-tensor-core: three products of rounded parts on tensor cores, beyond the SIMT peak.",
    "gpu_ladder_others": "float64 by gpu-tensor-core and gpu-cublas is computed on tensor cores, beyond the SIMT peak.",
}


def _figure(name: str, *dtypes: str, prominence: int = 0) -> Figure:
    options = {
        "note": NOTES[name],
        "panels": "problem",
        "labels": "ladder",
        "over_reference": False,
        "where": {"n": [64, 256, 4096], "device": "gpu", "dtype": list(dtypes)},
        "subject": SUBJECT,
        "finding": "ladder",
        "beside": [TENSOR.label, *(library.label for library in LIBRARIES)],
    }
    return Figure(name, "bars", f"The GPU ladder, {' and '.join(dtypes)}: what each step buys", options, prominence)


EXPERIMENT = Experiment(
    name="gpu_ladder",
    question="What does each optimisation of a matrix product buy on a GPU?",
    cases=cases,
    figures=(
        _figure("gpu_ladder", "float32", prominence=93),
        _figure("gpu_ladder_others", "float64", "int32"),
        Figure(
            "gpu_one_block",
            "lines",
            "C of one block: the first kernel of a course, and later rungs",
            {
                "x": "n",
                "panels": "problem",
                "value": "time",
                "where": {"role": "one block"},
                "finding": "best",
                "by": "n",
                "pick": "most",
            },
        ),
    ),
    budget=Budget.presets(
        Budget(rounds=5, seconds=20),
        Budget(rounds=15, seconds=60, processes=3, precision=0.01),
        smoke=Budget(rounds=2, seconds=0.4),
    ),
    order=60,
)
