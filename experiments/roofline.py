"""The roof that bounds a product, by the loads of its own loops and by shape; every roof is measured here."""

from __future__ import annotations

from experiments._parts import gpu, roofs
from experiments.ladder import peak_case, steps
from harness.analysis import rates
from harness.analysis.findings.sentences import FIRST, LEAST, PART, SPEED, Finding, Value
from harness.analysis.traffic import model
from harness.experiment import Budget, Case, Experiment, Figure, Json, backend_contender, product_case
from harness.machine import Machine
from harness.problem import Problem
from harness.stats.statistics import exact
from harness.store.store import Cell

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


ABOVE = "Above 100 %: the roof was measured too low, or fewer bytes passed than the loops load"


def saved(cells: list[Cell], options: Json) -> Finding | None:
    """Return the speed of what users get over the first rung of its device, and how much less it loads."""
    values, notes, names = [], [], []
    for group in rates.group(rates.contenders(cells), lambda cell: rates.axis(cell, "device")).values():
        known = [(cell, p) for cell in group if cell.is_ok and (p := model.predict(cell, cells)) is not None]
        subject = next((cell for cell, _ in known if cell.contender in options["subjects"]), None)
        if subject is None or known[0][0] is subject:
            continue
        first, bound = known[0]
        of_first, of_subject = (model.bytes_from(cell, cells) for cell in (first, subject))
        values.append(Value(exact(subject.rate / first.rate), (subject, first)))
        names.append((subject.contender, first.contender))
        by_level = {level: of_first[level] / of_subject[level] for level in of_first if level in of_subject}
        back = {bound.level: " (which holds it back)"}
        parts = [f"{times:.3g} from {level.in_words}{back.get(level, '')}" for level, times in by_level.items()]
        notes.append(f"{first.contender} loads times the bytes of {subject.contender}: {', '.join(parts)}")
    if not values:
        return None
    (who, over), *others = names
    rest = {f"{own} over {first}": [value] for (own, first), value in zip(others, values[1:], strict=True)}
    judged = [(value.cell, value.rival) for value in values]
    return Finding(who, SPEED, values[:1], over, FIRST, others=rest, judged=judged, note="; ".join(notes))


def of_roof(cells: list[Cell], options: Json) -> Finding | None:
    """Return which part of its roof the fastest kernel of each shape reaches."""
    products = rates.group(rates.timed(cells), lambda cell: (cell.case, cell.run)).values()
    fastest = [max(own, key=lambda cell: cell.rate) for own in products]
    values = [
        Value(exact(100 * cell.rate / roof.rate), (cell,), place=f"{cell.contender}, {_shape(cell)}, by {roof.bound}")
        for cell in fastest
        if (roof := model.roof_of(cell, cells)) is not None
    ]
    note = ABOVE if any(round(value.number.estimate) > 100 for value in values) else ""
    judged = [(value.cell, None) for value in values]
    return Finding("The fastest kernel", PART, values, "its roof", LEAST, judged=judged, note=note) if values else None


def _shape(cell: Cell) -> str:
    return f"{rates.axis(cell, 'semiring')}, {cell.axes.get('shape', rates.size(cell))}"


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
            {**PANELS, "where": {"shape": "square"}, "subjects": USED, "finding": saved},
            prominence=70,
        ),
        Figure(
            "roofline_shapes",
            "roofline",
            "Roofline by shape",
            {**PANELS, "where": {"backend": list(USED)}, "point": "shape", "finding": of_roof},
        ),
    ),
    budget=Budget.presets(Budget(rounds=3, seconds=4), Budget(rounds=3, seconds=8, processes=3)),
    order=60,
)
