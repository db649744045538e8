"""y = A x, A symmetric, from one triangle of A: half of the bytes of a product by the whole matrix.

    grid    tiles of the triangle, side x side
    warp    rows of a tile in registers; they add to y by rows and, mirrored, by columns
    parts   two rows of sums a tile in scratch, added up in order by a second launch: the same bits in every run

The lower triangle of a matrix stored by columns is the upper one of its transpose, stored by rows. It is read where it
lies. alpha, beta and C are applied where elements pass: no other pass over A is needed.

Source: Abdelfattah, Keyes, Ltaief, "KBLAS: an optimized library for dense matrix-vector multiplication on GPUs" (2014).
"""

from __future__ import annotations

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._simt.operators import semiring_defines
from backends.gpu._simt.program import Kernel, Matrix, Program, ceil_div
from backends.gpu._simt.rung import GpuBackend
from backends.gpu._simt.scalars import Scalars
from harness.errors import PlanError
from harness.machine import Machine
from harness.plan import Plan, count_tiles
from harness.problem import Problem
from harness.tuning.gpu.streams import symv_tiles

_TOTAL_BLOCK, _TOTAL_ELEMENTS, _LANES, _MOST_ROWS = 256, 32, 32, 32  # as in symv.cu
_LOAD_BYTES = 16


class Symv(GpuBackend):
    """Tiles of one triangle, each of whose elements serves two rows."""

    name = "gpu-symv"
    step = 93
    idea = "a symmetric matrix times a vector from one triangle: each element is read once, and adds to two rows"
    source = "Abdelfattah, Keyes, Ltaief, KBLAS (2014), symv"
    takes = GpuBackend.takes | {"triangle"}
    takes_columns = frozenset({"a", "b", "c", "out"})

    def declines(self, problem: Problem) -> str | None:
        """Decline all but a symmetric matrix times a vector."""
        if problem.triangle != "a" or problem.n != 1:
            return "it multiplies symmetric matrices by vectors: triangle='a', n = 1"
        return super().declines(problem)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose tiles by the size of an element, smaller ones where there would be few."""
        return Plan(problem, 1, None, dict(symv_tiles(problem)))

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches; c precedes out if there is one."""
        problem, program, out = plan.problem, Program(), c_and_out[-1]
        n, dtype = problem.m, problem.dtype
        if n == 0:
            return program
        lane, warps = _tile(plan)
        side = _LANES * lane
        blocks = ceil_div(n, side)
        width = blocks * side
        parts = program.reserve("parts", blocks * width, dtype)
        scalars = Scalars.of(problem)
        tile = {"LANE": lane, "WIDTH": _width(a, lane, dtype.itemsize), "WARPS": warps, "UPPER": a.by_columns}
        defines = semiring_defines(problem.semiring, dtype) + as_defines(tile) + scalars.defines
        count = count_tiles(n, n, side, side, triangle=True)
        tiles = Kernel("symv", defines, (_LANES * warps,), function="tiles")
        program.launch(tiles, count, a.place, a.ld, b.place, b.ld, parts, width, n, scalars.alpha)
        total = Kernel("symv", defines, (_TOTAL_BLOCK,), function="total")
        c = c_and_out[0]
        program.launch(
            total, ceil_div(n, _TOTAL_ELEMENTS), parts, width, blocks, c.place, c.ld, out.place, out.ld, n, scalars.beta
        )
        return program


def _tile(plan: Plan) -> tuple[int, int]:
    """Return the elements of a row that a lane holds, and the warps; raise PlanError if they cut no tile evenly."""
    side, warps = plan.options["side"], plan.options["warps"]
    is_number = all(isinstance(x, int) and x > 0 and x & (x - 1) == 0 for x in (side, warps))
    if is_number:
        assert isinstance(side, int)
        assert isinstance(warps, int)
        if side >= _LANES >= warps and 1 <= side // warps <= _MOST_ROWS:
            return side // _LANES, warps
    raise PlanError(
        "gpu-symv: warps do not cut the tile evenly",
        expected=f"powers of two, side >= {_LANES}, warps <= {_LANES}, side / warps from 1 to {_MOST_ROWS}",
        got=f"side={side!r}, warps={warps!r}",
    )


def _width(a: Matrix, lane: int, itemsize: int) -> int:
    """Return how many of a lane's elements one load may take."""
    width = min(lane, _LOAD_BYTES // itemsize)
    while width > 1 and (a.ld % width or a.alignment % (width * itemsize)):
        width //= 2
    return width
