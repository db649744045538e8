"""Copies behind arithmetic: while a tile is computed, cp.async copies the next ones to shared memory.

    grid    tiles of C, bm x bn     walked through in groups of rows, so that blocks share A and B in L2
    loop    p0 over k by bk         starts the copy of the tile stages - 1 ahead; one barrier
    warp    wm x wn                 32 threads that read neighbouring groups of 16 bytes
    thread  tm x tn                 p over bk by 1; the operands of the next step are read while this one is combined

``stages=2`` is the double buffer; more stages hide more latency but take more shared memory. Of one stage a tile is
copied, then combined: only other blocks of the multiprocessor hide the copies. Four options leave one idea out each:

    global_load, shared_load   bytes that a copy of B, and a load from shared memory, take at most: 16, or less
    fragments                  "ahead"; "at step": operands are read at their step, in an unrolled loop, where the
                               compiler may still move the loads up; "rolled": in a loop, where it may not
    past_end                   "guarded": no copy begins past the last tile; "wrapped": those of the first do, by %


Source: CUDA C++ Programming Guide, "Asynchronous Data Copies"; CUTLASS, multistage pipeline.
"""

from __future__ import annotations

from backends.gpu._base.pipelined_rung import PipelinedRung
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.program import Product
from harness.plan import Plan

FRAGMENTS, PAST_END = ("ahead", "at step", "rolled"), ("guarded", "wrapped")  # numbered as in pipelined.cu


class Pipelined(PipelinedRung):
    """A pipeline of asynchronous copies, double-buffered."""

    name = "gpu-pipelined"
    step = 60
    idea = "the next tiles are copied to shared memory while this one is computed, with one barrier a tile"
    source = "CUDA C++ Programming Guide: asynchronous data copies; CUTLASS: multistage pipeline"
    stem = "pipelined"
    fewest_stages = 1

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the macros of the pipeline, and those of ideas that may be left out."""
        fragments, wraps = plan.choice("fragments", FRAGMENTS), plan.choice("past_end", PAST_END)
        ideas = {"FRAGMENTS": FRAGMENTS.index(str(fragments)), "WRAPS": PAST_END.index(str(wraps))}
        return super().tile_defines(plan, product) + as_defines(ideas)
