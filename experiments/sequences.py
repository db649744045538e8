"""Hidden Markov models of one sequence, on one thread: log-likelihood and best path, against the loops of others."""

from __future__ import annotations

from experiments._parts.gpu import SUBJECT as ON_GPU
from harness.experiment import Budget, Case, Contender, Experiment, Figure
from harness.machine import Machine

TASK = "experiments._parts.sequence_task:sequence"

STATES = {"smoke": (4, 8), "quick": (8, 64), "full": (8, 16, 32, 64, 128, 256, 512)}
STEPS = {"smoke": 50, "quick": 2000, "full": 10_000}
RESULTS = {"forward": "log-likelihood", "viterbi": "best path"}
LABELS = {
    "numpy": "NumPy, loop",
    "harness": "harness",
    "hmmlearn": "hmmlearn",
    "hmmlearn, scaled": "hmmlearn, scaled",
    "jax": "jax.lax.scan",
    "torch": "PyTorch, loop",
}
ON_A_GPU = Contender(f"harness, {ON_GPU}", {"method": "harness", "backend": ON_GPU}, 1, TASK)


def cases(preset: str, machine: Machine) -> list[Case]:
    """Return a case for each result and number of states; a loop of NumPy is the reference."""
    on_gpu = (ON_A_GPU,) if machine.gpu else ()
    return [_case(what, states, STEPS[preset], on_gpu) for what in RESULTS for states in STATES[preset]]


def _case(what: str, states: int, steps: int, on_gpu: tuple[Contender, ...]) -> Case:
    methods = [method for method in LABELS if what == "forward" or method != "hmmlearn, scaled"]
    contenders = (*(Contender(LABELS[method], {"method": method}, 1, TASK) for method in methods), *on_gpu)
    axes = {"n": states, "steps": steps, "result": RESULTS[what], "dtype": "float64"}
    return Case(axes, contenders, {"states": states, "steps": steps, "what": what})


EXPERIMENT = Experiment(
    name="sequences",
    question=(
        "How much faster are hidden Markov models by one call for all steps than by hmmlearn, and by loops of NumPy, "
        "JAX and PyTorch?"
    ),
    cases=cases,
    figures=(
        Figure(
            "sequences",
            "lines",
            "Hidden Markov models on one thread",
            {
                "x": "n",
                "x_label": "states (log scale)",
                "value": "time",
                "y_scale": "log",
                "panels": "result",
                "subject": LABELS["harness"],
                "finding": "speed",
                "place": ["result", "n"],
                "reference_words": "a loop of NumPy",
            },
        ),
    ),
    budget={
        "smoke": Budget(rounds=2, seconds=0.1),
        "quick": Budget(rounds=3, seconds=1),
        "full": Budget(rounds=5, seconds=3, processes=3, precision=0.02),
    },
    order=79,
)
