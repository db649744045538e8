"""Products with a triangle on the CPU by products of whole matrices (`backends._triangle`): the baseline of symv, syrk.

D = (alpha A B) + (beta C), A symmetric, or of D its lower triangle; any semiring
"""

from __future__ import annotations

import numpy as np

from backends._triangle import Triangle
from harness.interface import Execution, HostExecution
from harness.operands import Operands
from harness.plan import Plan


class CpuTriangle(Triangle):
    """Mirror A, or compute D by rows of blocks, with another backend of the CPU."""

    name = "cpu-triangle"
    takes = Triangle.takes | {"mixed", "complex"}  # a backend of the GPU may take mixed products of some sizes alone

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Have the base prepare every part."""
        parts = self.parts(plan, operands, np)

        def run() -> None:
            for part in parts:
                part()

        return HostExecution(operands, run)
