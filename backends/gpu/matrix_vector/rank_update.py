"""Rank-k updates, D = alpha A B + beta C with a small k: C passes through once, at the rate of memory. ger, syr, axpy.

    grid    tiles of D; of a triangle those below its diagonal
    thread  its columns of B in registers, 16 bytes side by side; it goes down rows of C, four in flight

A column stored without gaps is computed as a row: axpy.

Source: BLAS, ger, syr, axpy; measured on one H200.
"""

from __future__ import annotations

from typing import NamedTuple

from backends.gpu._base.backend import SYMMETRIC, GpuBackend
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.scalars import Scalars, add_constants
from backends.gpu._program.operators import semiring_defines, triangle_defines
from backends.gpu._program.program import Kernel, Matrix, Place, Program
from harness.errors import PlanError
from harness.machine import Machine
from harness.plan import Plan, count_tiles
from harness.problem import Problem
from harness.tuning.gpu.streams import MOST_ELEMENTS, MOST_STEPS, rank_update_tiles

_BLOCK, _LOAD_BYTES = 256, 16  # the first as in rank_update.cu
_OPTIONS = ("across", "rows", "turns", "runs")


class RankUpdate(GpuBackend):
    """C read once and D written once."""

    name = "gpu-rank-update"
    step = 76
    idea = "a small k: rows of B stay in registers while C passes through in loads of 16 bytes, several in flight"
    source = "BLAS ger, syr, axpy; measured on an H200"
    takes = GpuBackend.takes | {"triangle"}

    def declines(self, problem: Problem) -> str | None:
        """Decline a k whose rows of B do not fit the registers, and a symmetric A."""
        if problem.triangle == "a":
            return SYMMETRIC
        if problem.k > MOST_STEPS:
            return f"it keeps rows of B in registers: k of at most {MOST_STEPS}"
        return super().declines(problem)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose how threads of a block are placed, by the shape of D."""
        return Plan(problem, 1, None, dict(rank_update_tiles(problem)))

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launch; c precedes out if there is one."""
        problem, program, c, out = plan.problem, Program(), c_and_out[0], c_and_out[-1]
        if problem.m == 0 or problem.n == 0:
            return program
        if problem.k == 0:
            add_constants(program, problem, c, out)
            return program
        itemsize, scalars = problem.dtype.itemsize, Scalars.of(problem)
        is_swapped = problem.n == 1 and out.ld == c.ld == 1
        view = _swapped(problem, a, b) if is_swapped else _straight(problem, a, b)
        run = _run((c, out), 1 if is_swapped else problem.m, itemsize)
        across, rows, turns, runs = _threads(plan)
        is_wide = view.column == 1 and view.wide.alignment % (run * itemsize) == 0 and (
            problem.k == 1 or view.step % run == 0
        )  # fmt: skip
        macros = {"DEPTH": problem.k, "RUN": run, "RUNS": runs, "ACROSS": across, "DOWN": rows, "TURNS": turns}
        macros |= {"SWAPPED": is_swapped, "WIDE_RUNS": is_wide}
        defines = semiring_defines(problem.semiring, problem.dtype) + triangle_defines(problem)
        kernel = Kernel("rank_update", defines + as_defines(macros) + scalars.defines, (_BLOCK,), function="update")
        bm, bn = _BLOCK // across * rows * turns, across * run * runs
        blocks = count_tiles(view.m, view.n, bm, bn, triangle=problem.triangle == "d" and not is_swapped)
        program.launch(
            kernel, blocks, view.tall, view.row, view.tall_step, view.wide.place, view.step, view.column,
            c.place, c.ld, out.place, out.ld, view.m, view.n, scalars.alpha, scalars.beta,
        )  # fmt: skip
        return program


class _View(NamedTuple):
    """D as m rows of n, its operands along a column and along a row, and the distances of their elements."""

    m: int
    n: int
    tall: Place
    row: int
    tall_step: int
    wide: Matrix
    step: int
    column: int


def _straight(problem: Problem, a: Matrix, b: Matrix) -> _View:
    return _View(problem.m, problem.n, a.place, a.ld, 1, b, b.ld, 1)


def _swapped(problem: Problem, a: Matrix, b: Matrix) -> _View:
    return _View(1, problem.m, b.place, 0, b.ld, a, 1, a.ld)


def _run(stored: tuple[Matrix, Matrix], rows: int, itemsize: int) -> int:
    """Return how many elements of a row of C and of D one load may take."""

    def is_aligned(x: Matrix, run: int) -> bool:
        return x.alignment % (run * itemsize) == 0 and (rows == 1 or x.ld % run == 0)

    run = min(_LOAD_BYTES // itemsize, MOST_ELEMENTS)
    while run > 1 and not all(is_aligned(x, run) for x in stored):
        run //= 2
    return run


def _threads(plan: Plan) -> tuple[int, int, int, int]:
    """Return the options; raise PlanError unless they are powers of two, as tiles of a triangle must be."""
    values = [plan.options[name] for name in _OPTIONS]
    across, rows, turns, runs = (x if isinstance(x, int) and x > 0 and x & (x - 1) == 0 else 0 for x in values)
    if across and rows and turns and runs and across <= _BLOCK:
        return across, rows, turns, runs
    raise PlanError(
        "gpu-rank-update: threads do not cut the tile evenly",
        expected=f"powers of two, across <= {_BLOCK}",
        got=", ".join(f"{name}={x!r}" for name, x in zip(_OPTIONS, values, strict=True)),
    )
