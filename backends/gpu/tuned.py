"""The double buffer of gpu-pipelined at its fastest, with measured tiles, stages and order of products.

tuned.cu adds three things to gpu-pipelined. It combines two steps of k at once, has a faster form for sums settled in
sign, and splits k of the last tiles among blocks. Of a matrix by its own transpose it computes one triangle, and
mirrors it.

Source: measured, see `harness/tuning/gpu/rungs.py`; shares of k: Osama et al., "Stream-K" (2023).
"""

from __future__ import annotations

import dataclasses

from backends.gpu._base.backend import SYMMETRIC
from backends.gpu._base.tuned_rung import TunedRung
from backends.gpu._cuda import device
from backends.gpu._passes.mirror import add_mirror
from backends.gpu._program.program import Matrix, Program
from backends.gpu._simt.log_sum_exp import real_product
from harness.machine import Machine, detect
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.batches import batched_tiles
from harness.tuning.gpu.rungs import tuned_tiles
from harness.tuning.gpu.stored import with_stored
from harness.tuning.gpu.triangles import is_mirrored


class Tuned(TunedRung):
    """The tuned SIMT kernel."""

    name = "gpu-tuned"
    step = 70
    idea = "measured tiles, stages and order of products; two steps of k at once, and shares of k among blocks"
    source = "measured on the chips of harness/tuning/gpu/rungs.py; Osama et al., Stream-K (2023)"
    takes = TunedRung.takes | {"triangle", "half"}
    takes_exponentials = True

    def declines(self, problem: Problem) -> str | None:
        """Decline operations without a form in CUDA C, and a symmetric A."""
        return super().declines(problem) or (SYMMETRIC if problem.triangle == "a" else None)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the fastest measured plan: of ``tune --gpu`` here, or of the chips in the table."""
        here = device.planned()
        if problem.batch:
            tiles, options = batched_tiles(real_product(problem), here)
            return Plan(problem, 1, options=options, launch=tiles)
        tiles, options = tuned_tiles(real_product(problem), here, by_panels=True)
        return with_stored(Plan(problem, 1, options=options, launch=tiles), self.architecture, here)

    def program_of_self(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program | None:
        """Return the launches of one triangle, and the one that mirrors it; None where (x) does not commute."""
        problem, out = plan.problem, c_and_out[-1]
        if not is_mirrored(problem) or a.by_columns == b.by_columns or a.ld != b.ld:
            return None
        half = dataclasses.replace(problem, triangle="d")
        program = self.program(self.plan(half, detect()), a, b, out)
        add_mirror(program, out, out, problem.m, problem.dtype.itemsize)
        return program
