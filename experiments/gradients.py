"""Products over max_plus and logaddexp_plus with both gradients, by `harness.torch` and by peers, as k grows.

Forward and backward, float32, timed by the host until the device is done.
"""

from __future__ import annotations

from experiments._parts import call_task
from experiments._parts.gpu import DEVICE
from harness.experiment import Budget, Case, Contender, Experiment, Figure, Goal
from harness.machine import Machine
from harness.problem import Problem

TASK = "experiments._parts.gradient_task:gradients"

# Rows and columns of the result, on the CPU and on a GPU, and k.
SIZE = {"smoke": 32, "quick": 256, "full": 512}
GPU_SIZE = {"smoke": 32, "quick": 1024, "full": 1024}
DEPTHS = {"smoke": (4, 16), "quick": (16, 64, 256, 1024), "full": (4, 8, 16, 32, 64, 128, 256, 512, 1024)}
SEMIRINGS = ("max_plus", "logaddexp_plus")
ALONE = "beside the product alone"
LABELS = {"harness": "harness", "broadcast": "PyTorch, broadcast", "einsum": "torch-semiring-einsum"}


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each semiring and k; the harness is the reference."""
    on_gpu = machine.gpu and preset == "full"
    alone = [_beside_product(n) for n in (1024, 2048)] if on_gpu else []
    places = [("cuda", GPU_SIZE[preset], 1)] if machine.gpu else []
    places.append(("cpu", SIZE[preset], machine.cores))
    return alone + [
        _case(semiring, size, k, device, threads)
        for device, size, threads in places
        for semiring in SEMIRINGS
        for k in DEPTHS[preset]
    ]


def _case(semiring: str, size: int, k: int, device: str, threads: int) -> Case:
    contenders = tuple(Contender(label, {"method": method}, threads, TASK) for method, label in LABELS.items())
    sizes = {"m": size, "n": size, "k": k, "semiring": semiring}
    axes = {**sizes, "dtype": "float32", "kind": f"{semiring}, {size} x k x {size}"}
    return Case({**axes, **({"device": "gpu"} if device == "cuda" else {})}, contenders, {**sizes, "device": device})


def _beside_product(n: int) -> Case:
    """Return the case of a product with its gradients on the GPU, beside the product alone."""
    problem = Problem(n, n, n, "max_plus", "float32")
    sizes = {**dict.fromkeys("mnk", n), "semiring": "max_plus"}
    alone = call_task.contender(call_task.GEMM, label=ALONE, problem=problem.to_json(), seed=1, where="gpu")
    both = Contender(LABELS["harness"], {**sizes, "device": "cuda", "method": "harness"}, task=TASK)
    host = Contender("host time", {**both.arguments, "host_time": True}, task=TASK)
    return Case({**sizes, "dtype": "float32", "role": ALONE, **DEVICE}, (alone, both, host))


def _figure(*, on_gpu: bool) -> Figure:
    options = {
        "where": {"device": "gpu" if on_gpu else None, "role": None},
        "x": "k",
        "x_label": "k (logarithmic)",
        "value": "time_ratio",
        "y_scale": "log",
        "panels": "kind",
        "finding": "pays",
        "subject": LABELS["harness"],
        "point": "k = {:g}",
    }
    name, place = f"gradients{'_gpu' * on_gpu}", "on the GPU" if on_gpu else "on the CPU"
    return Figure(name, "lines", f"Products with gradients {place}", options)


EXPERIMENT = Experiment(
    name="gradients",
    question="From which k on are products with gradients faster than those of PyTorch and torch-semiring-einsum?",
    cases=cases,
    figures=(_figure(on_gpu=False), _figure(on_gpu=True)),
    budget=Budget.presets(Budget(rounds=3, seconds=1), Budget(rounds=5, seconds=3, processes=3, precision=0.02)),
    order=78,
    goals=(Goal(LABELS["harness"], 1 / 3, ALONE),),
)
