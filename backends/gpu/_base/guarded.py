"""A product by gpu-tuned that the GPU computes only if a condition on four values in its memory holds."""

from __future__ import annotations

import dataclasses

from backends.gpu._base.tuned_rung import TunedRung
from backends.gpu._cuda.device import planned
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._program.operators import Form
from backends.gpu._program.program import Product, Program, Step
from harness.machine import Machine, detect
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.rungs import tuned_tiles

# The condition of a kernel's fast form on the extremes of A and B, see semiring.cuh.
_CONDITION = "IS_SAFE(low_a, high_a, low_b, high_b)"


class _Guarded(TunedRung):
    """tuned.cu without passes before it, which would run whatever the condition says."""

    name = "gpu-tuned"
    step = 0
    idea = source = ""

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        tiles, options = tuned_tiles(problem, planned())
        return Plan(problem, 1, None, {**options, "edge": "redirected", "shares": 1}, tiles)


def add_product_if(program: Program, problem: Problem, product: Product, condition: str) -> None:
    """Add the launch of ``out := [out (+)] a (x) b``, which returns at once unless `condition` holds.

    Parameters
    ----------
    program : Program
    problem : Problem
        plus_times over floats, or lxor_land: (x) has no other form for some values.
    product : Product
        Its `extremes` is the position of four values.
    condition : str
        C over those values, ``low_a``, ``high_a``, ``low_b`` and ``high_b``.
    """
    alone, rung = Program(), _Guarded()
    rung.multiply(alone, rung.plan(problem, detect()), product._replace(form=Form.FAST))
    for step in alone.steps:
        assert isinstance(step, Step)
        defines = as_defines({**dict(step.kernel.defines), _CONDITION: condition})
        program.steps.append(step._replace(kernel=dataclasses.replace(step.kernel, defines=defines)))
