"""Square matrices times a vector at every size around 4096 and 8192: rows that begin at odd addresses, one by one."""

from __future__ import annotations

from experiments._parts import vectors
from harness.experiment import Budget, Case, Experiment, Figure, needs_many_cores
from harness.machine import Machine

# Sizes on either side of each power of two, on the CPU and on a GPU.
CENTRES = {"smoke": (512,), "quick": (2048,), "full": (4096, 8192)}
REACH = {"smoke": 1, "quick": 2, "full": 17}
GPU_CENTRES = {"smoke": (512,), "quick": (4096, 8192), "full": (4096, 8192)}
GPU_REACH = {"smoke": 1, "quick": 9, "full": 33}
# Whole tiles further away, whose rows begin at whole cache lines too: how far they differ is no effect of the size.
FURTHER = (-16, 16)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return how fast memory is read, then a product for each size and side."""
    found = vectors.read_cases(machine)
    contenders = [vectors.gpu_contender(name) for name in (vectors.GPU_SUBJECT, vectors.GPU_LIBRARY)]
    for side in vectors.SIDES:
        for n, axes in _sizes(CENTRES[preset], REACH[preset], side):
            problem = vectors.sided(n, n, side, "float32")
            names = (vectors.SUBJECT, *vectors.LIBRARIES)
            found.append(vectors.cpu_case(problem, machine, names, **axes))
        if machine.gpu:
            for n, axes in _sizes(GPU_CENTRES[preset], GPU_REACH[preset], side):
                found.append(vectors.gpu_case(vectors.sided(n, n, side, "float32"), contenders, machine, **axes))
    return found


def _sizes(centres: tuple[int, ...], reach: int, side: str) -> list[tuple[int, dict[str, int | str]]]:
    """Return every size within `reach` of a centre, and a few whole tiles further away, with its axes."""
    return [
        (n, {"side": side, "rows": n, "columns": n, "size": n, "sweep": f"{side}, around {centre}"})
        for centre in centres
        for n in sorted({*range(centre - reach, centre + reach + 1), *(centre + step for step in FURTHER)})
    ]


def _figure(*, on_gpu: bool) -> Figure:
    options = {
        "where": {"device": "gpu" if on_gpu else None},
        "x": "size",
        "every": True,
        "panels": "sweep",
        "sweeps": "sweep",
        "rows": "side",
        "subject": vectors.GPU_SUBJECT if on_gpu else vectors.SUBJECT,
        "finding": "losses",
        "ragged": "sizes beside powers of two",
    }
    place = " on the GPU" if on_gpu else ""
    return Figure(f"mv_sizes{'_gpu' * on_gpu}", "lines", f"Matrix times vector at every size{place}", options)


EXPERIMENT = Experiment(
    name="mv_sizes",
    question="Which sizes of a matrix make its product with a vector slow?",
    cases=cases,
    figures=(_figure(on_gpu=False), _figure(on_gpu=True)),
    budget=Budget.presets(Budget(rounds=5, seconds=0.5), Budget(rounds=10, seconds=2, precision=0.02)),
    order=75,
    is_asked=needs_many_cores,
)
