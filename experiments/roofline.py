"""The roof that bounds a product, by the loads of its own loops and by shape; every roof is measured here."""

from __future__ import annotations

from experiments._parts import gpu, roofs
from experiments.ladder import peak_case, steps
from harness.experiment import Budget, Case, Experiment, Figure, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

# (m, n, k): few, some and many operations for each byte. Every rung computes the square.
SHAPES = {
    "smoke": {"matrix-vector": (512, 1, 512), "square": (128, 128, 128)},
    "quick": {"matrix-vector": (3072, 1, 3072), "tall-skinny": (4096, 16, 512), "square": (512, 512, 512)},
    "full": {"matrix-vector": (6144, 1, 6144), "tall-skinny": (16384, 16, 1024), "square": (768, 768, 768)},
}
SEMIRINGS = {"smoke": ("plus_times",), "quick": ("plus_times",), "full": ("plus_times", "min_plus")}

# Rungs of the smoke preset.
FEWEST = ("cpu-packed", "cpu-simd", "cpu-numpy")

# The same on a GPU, over float32, by its rungs.
GPU_SHAPES = {
    "smoke": {"square": (256, 256, 256)},
    "quick": {"matrix-vector": (8192, 1, 8192), "tall-skinny": (65536, 64, 256), "square": (4096, 4096, 4096)},
}
GPU_RUNGS = tuple(f"gpu-{name}" for name in "naive tiled register-tiled warp-tiled pipelined tuned".split())

# What users get, and the libraries beside it.
USED = ("cpu-simd", "cpu-numpy", "gpu-tuned", "gpu-cublas")


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return the roofs, then every step of the ladder on each shape."""
    contenders = [step for step in steps() if preset != "smoke" or step.label in FEWEST]
    products = [
        product_case(Problem(*sizes, name), contenders, role="product", shape=shape)
        for name in SEMIRINGS[preset]
        for shape, sizes in SHAPES[preset].items()
    ]
    peaks = [peak_case(name) for name in SEMIRINGS[preset]]
    return roofs.on_cpu(machine) + peaks + products + (_gpu_cases(preset) if machine.gpu else [])


def _gpu_cases(preset: str) -> list[Case]:
    """Return the roofs of the GPU, then its rungs on each shape."""
    all_cases = [*roofs.on_gpu(), *(gpu.peak_case(name, "float32") for name in SEMIRINGS[preset])]
    for name in SEMIRINGS[preset]:
        rungs = [*GPU_RUNGS, gpu.VENDOR] if name == "plus_times" else GPU_RUNGS
        for shape, sizes in GPU_SHAPES.get(preset, GPU_SHAPES["quick"]).items():
            problem, contenders = Problem(*sizes, name, "float32"), list(map(backend_contender, rungs))
            all_cases.append(product_case(problem, contenders, role="product", shape=shape, **gpu.DEVICE))
    return all_cases


PANELS = {"panels": ["semiring", "device"]}
EXPERIMENT = Experiment(
    name="roofline",
    question="Is a product held back by memory or by arithmetic, and how far below that roof is it?",
    cases=cases,
    figures=(
        Figure(
            "roofline",
            "roofline",
            "Roofline of the rungs: a square product, each at the operations a byte of its own loads",
            {**PANELS, "where": {"shape": "square"}, "subjects": USED, "finding": "own_traffic"},
            prominence=70,
        ),
        Figure(
            "roofline_shapes",
            "roofline",
            "Roofline by shape",
            {**PANELS, "where": {"backend": list(USED)}, "point": "shape", "finding": "roofs"},
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.2),
        "quick": Budget(rounds=3, seconds=5),
        "full": Budget(rounds=3, seconds=8, processes=3),
    },
    order=60,
)
