"""Products by cpu-strassen with a crossover that makes it recurse, for its tests."""

import numpy as np

from harness import Operands, machine, registry
from harness.operands import poison

BACKEND = registry.find("cpu-strassen")
HERE = machine.detect()


def plan_of(problem, crossover, base="cpu-packed", form="winograd"):
    return BACKEND.plan(problem, HERE).override({"crossover": crossover, "base": base, "form": form})


def compute(problem, operands, crossover, base="cpu-packed", form="winograd"):
    execution = BACKEND.prepare(plan_of(problem, crossover, base, form), operands)
    poison(operands.out)
    execution.run()
    execution.wait()
    return execution.result()


def whole_numbers(problem, seed=1):
    """Return operands whose products and sums are all exact in float32."""
    operands = Operands.generate(problem, seed)
    rng = np.random.default_rng(seed)
    for x in (operands.a, operands.b):
        x[...] = rng.integers(-4, 5, x.shape)
    return operands
