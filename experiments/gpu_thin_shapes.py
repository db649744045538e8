"""Products on a GPU with few tiles of C, where blocks share the steps of k, or with few steps of k.

A factorisation updates what lies beside a panel of 64 columns by a product with k = 64, of odd sizes if the matrix has
one: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), table 1, has n = 1001 to 10001.
"""

from __future__ import annotations

from experiments._parts.gpu import DEVICE, SUBJECT, VENDOR, or_absent
from experiments._parts.peers import installed
from harness.dtypes import mixed_dtypes
from harness.experiment import Budget, Case, Experiment, Figure, Goal, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem

PANEL = "ragged panel"
OF_DOUBLE = (PANEL,)  # shapes that are measured over float64 too
# Name of each shape, and m, n, k.
SHAPES = {
    "smoke": (("long k", (64, 64, 1024)),),
    "quick": (
        ("long k", (256, 256, 65536)),
        ("small square", (512, 512, 512)),
        ("few rows", (128, 8192, 8192)),
        ("tall-skinny", (256_000, 4, 100)),
        ("tall-skinny", (100_000, 20, 100)),
        ("tall-skinny", (65536, 64, 64)),
        ("small k", (4096, 4096, 64)),
        *((PANEL, (n, n, 64)) for n in (1001, 4001, 8001)),
    ),
    "full": (
        ("long k", (64, 64, 65536)),
        ("long k", (65, 65, 4096)),
        ("long k", (256, 256, 65536)),
        ("small square", (256, 256, 256)),
        ("small square", (512, 512, 512)),
        ("small square", (768, 768, 768)),
        ("few rows", (16, 8192, 8192)),
        ("few rows", (128, 8192, 8192)),
        ("tall-skinny", (256_000, 4, 100)),
        ("tall-skinny", (100_000, 20, 100)),
        ("tall-skinny", (40_000, 20, 301)),
        ("tall-skinny", (65536, 16, 512)),
        ("tall-skinny", (65536, 64, 64)),
        ("small k", (4096, 4096, 16)),
        ("small k", (4096, 4096, 64)),
        *((PANEL, (n, n, 64)) for n in range(1001, 10_002, 1000)),
        *((PANEL, (n, n - 64, 64)) for n in (1001, 4001, 8001)),
    ),
}
DTYPES = ("float32", "float64")
# Shapes with a narrow side, a short or a long k, of which a rate is asked; tall ones of few columns were drawn.
THIN, TALL = "narrow side", "tall C"
ASKED = """5000x31x5000 31x5000x5000 100000x96x96 300x7000x500 64x64x50000 2000x2000x20 10000x10000x16 65536x64x64
256x256x65536 128x8192x8192 16x8192x8192 65536x16x512 65x65x4096 4096x4096x64 100x100x100000 20000x33x1000
33x20000x1000 8x10000x10000 10000x8x10000 1000x50x30000 3x5000x5000 5000x2x5000 200000x10x50 7000x300x500 1023x65x8191
8000x8000x33 500000x32x8 17x23x300000 32x5000x5000 5000x32x5000 512x512x20000 48x48x48000 3000x100x3000 100x3001x3000
50000x128x128 8192x64x8192 24x6000x3000 6001x40x2500 77x77x20001 12000x60x60 400x400x8000 30x30x3000 3001x3001x25
150x150x30000 20x40000x300 40000x20x301"""
ASKED_TALL = """3187x9x45 4021x37x512 5203x3x97 6737x22x8 8009x47x163 9973x5x301 12487x14x24 15101x41x77 19001x2x590
23003x29x13 31013x11x211 40009x48x36 52009x7x129 66011x18x5 83003x33x402 104003x4x61 133999x25x18 170003x13x94
219001x44x253 290011x6x31"""
OWN = {
    "float32": ("gpu-tuned", "gpu-rank-update"),
    "float64": ("gpu-tensor-core", "gpu-tuned", "gpu-rank-update"),
    "bfloat16": ("gpu-tensor-core",),
}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a product of each shape."""
    contenders = [
        backend_contender(VENDOR),
        backend_contender(SUBJECT),
        backend_contender(SUBJECT, label=f"{SUBJECT}, k not shared", shares=1),
        backend_contender("gpu-tensor-core"),
    ]
    all_cases = [
        product_case(
            Problem(*sizes, "plus_times", dtype), contenders, shape=shape, size=" x ".join(map(str, sizes)), **DEVICE
        )
        for dtype in DTYPES
        for shape, sizes in SHAPES[preset]
        if dtype == "float32" or shape in OF_DOUBLE
    ]
    for dtype in installed(OWN) if preset == "full" else ():
        all_cases += [_asked(dtype, THIN, text) for text in ASKED.split()]
        all_cases += [_asked(dtype, TALL, text) for text in ASKED_TALL.split() if dtype != "float64"]
    return or_absent(all_cases, machine, shape="small square", size="64 x 64 x 64")


def _asked(dtype: str, shape: str, text: str) -> Case:
    """Return the product of one shape, as ``"5000x31x5000"``, by our kernels and by the library."""
    narrow = {x.name: (x, wide) for x, wide in mixed_dtypes()}
    operands, sums = narrow[dtype] if dtype == "bfloat16" else (None, dtype)
    problem = Problem(*map(int, text.split("x")), dtype=sums, operand_dtype=operands)
    contenders = [backend_contender(name) for name in (VENDOR, *OWN[dtype])]
    return product_case(problem, contenders, shape=shape, size=text.replace("x", " x "), operands=dtype, **DEVICE)


EXPERIMENT = Experiment(
    name="gpu_thin_shapes",
    question="How fast are products on a GPU that have few tiles, or few steps of k?",
    cases=cases,
    figures=(
        Figure(
            "gpu_thin_shapes",
            "heatmap",
            f"Over {VENDOR} on thin and small shapes",
            {
                "where": {"operands": None},
                "rows": ["shape", "size", "dtype"],
                "columns": "contender",
                "x_label": "backend",
                "subject": SUBJECT,
                "place": ["size", "dtype"],
                "finding": "speed",
            },
            prominence=77,
        ),
    ),
    budget=Budget.presets(
        Budget(rounds=3, seconds=0.5, sample_ms=2), Budget(rounds=15, seconds=4, processes=3, precision=0.01)
    ),
    order=65,
    goals=(
        *(Goal(OWN[dtype], 0.9, VENDOR, {"shape": (THIN,), "operands": (dtype,)}) for dtype in OWN),
        *(Goal(OWN[dtype], 1.0, VENDOR, {"shape": (THIN,), "operands": (dtype,)}, mean=True) for dtype in OWN),
        *(Goal(OWN[x], 1.2, VENDOR, {"shape": (TALL,), "operands": (x,)}, mean=True) for x in ("float32", "bfloat16")),
    ),
)
