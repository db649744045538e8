"""The pipelined kernel with the tiles, stages and order of products that were measured to be best for its kind.

Source: measured, see `harness/tuning/gpu.py`; the method is that of gpu-pipelined.
"""

from __future__ import annotations

from backends.gpu._simt.log_sum_exp import real_product
from backends.gpu._simt.pipelined_rung import PipelinedRung
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu import tuned_tiles
from harness.tuning.stored_gpu import with_stored


class Tuned(PipelinedRung):
    """The tuned SIMT kernel."""

    name = "gpu-tuned"
    step = 70
    idea = "tiles, stages and the order of products are those measured to be best for semiring, dtype and size"
    source = "measured on the chips of harness/tuning/gpu.py, with the kernel of gpu-pipelined"
    takes_exponentials = True

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose what was measured best: here, by ``tune --gpu``, or on the chips of the table."""
        tiles, options = tuned_tiles(real_product(problem))
        return with_stored(Plan(problem, 1, options=options, launch=tiles), self.architecture())
