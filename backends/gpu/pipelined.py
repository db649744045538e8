"""Copies behind arithmetic: while a tile is computed, cp.async copies the next ones to shared memory.

    grid    tiles of C, bm x bn     walked through in groups of rows, so that blocks share A and B in L2
    loop    p0 over k by bk         starts the copy of the tile stages - 1 ahead; one barrier
    warp    wm x wn                 32 threads that read neighbouring groups of 16 bytes
    thread  tm x tn                 p over bk by 1; the operands of the next step are read while this one is combined

``stages=2`` is the double buffer; more stages hide more latency but take more shared memory.

Source: CUDA C++ Programming Guide, "Asynchronous Data Copies"; CUTLASS, multistage pipeline.
"""

from __future__ import annotations

from backends.gpu._simt.pipelined_rung import PipelinedRung
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu import DEFAULT_EDGE, pipelined_tiles


class Pipelined(PipelinedRung):
    """A pipeline of asynchronous copies, double-buffered."""

    name = "gpu-pipelined"
    step = 60
    idea = "the next tiles are copied to shared memory while this one is computed, with one barrier a tile"
    source = "CUDA C++ Programming Guide: asynchronous data copies; CUTLASS: multistage pipeline"
    stem = "pipelined"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose tiles by the size of an element, and a double buffer."""
        tiles, options = pipelined_tiles(problem)
        return Plan(problem, 1, options={"edge": DEFAULT_EDGE, **options}, launch=tiles)
