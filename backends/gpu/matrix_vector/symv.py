"""y = A x, A symmetric, from one triangle of A: half of the bytes of a product by the whole matrix.

    grid    strips of the triangle, warps * rows high and ``tiles`` tiles of ``side`` columns long
    warp    ``rows`` rows of a tile in registers; they add to y by rows and, mirrored, by columns
    parts   sums of each strip by rows, and of each row of blocks by columns, in scratch; a second launch adds them up
            in order: the same bits in every run

The lower triangle of a matrix stored by columns is the upper one of its transpose, stored by rows. It is read where it
lies. alpha, beta and C are applied where elements pass: no other pass over A is needed.

Source: Abdelfattah, Keyes, Ltaief, "KBLAS: an optimized library for dense matrix-vector multiplication on GPUs" (2014).
"""

from __future__ import annotations

from backends.gpu._base.backend import GpuBackend
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.scalars import Scalars
from backends.gpu._program.operators import semiring_defines
from backends.gpu._program.program import Kernel, Matrix, Program, ceil_div
from harness.errors import PlanError
from harness.machine import Machine
from harness.plan import Plan, count_tiles
from harness.problem import Problem
from harness.tuning.gpu.streams import Strip, symv_strip

_TOTAL_BLOCK, _TOTAL_ELEMENTS, _LANES = 256, 32, 32  # as in symv.cu
_LOAD_BYTES = 16
_SHARED_BYTES = 48 << 10  # that a kernel may declare


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
        """Choose strips by the size of an element and by n: shorter ones where there would be few."""
        return Plan(problem, 1, None, symv_strip(problem)._asdict())

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches; c precedes out if there is one."""
        problem, program, out = plan.problem, Program(), c_and_out[-1]
        n, dtype = problem.m, problem.dtype
        if n == 0:
            return program
        strip = _strip(plan)
        height, length = strip.warps * strip.rows, strip.tiles * strip.side
        width = ceil_div(n, length) * length
        of_strips = program.reserve("of_strips", width // length * width, dtype)
        of_heights = program.reserve("of_heights", width // height * width, dtype)
        scalars, lane = Scalars.of(problem), strip.side // _LANES
        numbers = {"LANE": lane, "WIDTH": _width(a, lane, dtype.itemsize), "WARPS": strip.warps, "ROWS": strip.rows}
        numbers |= {"TILES": strip.tiles, "RESIDENT": strip.resident, "UPPER": a.by_columns}
        defines = semiring_defines(problem.semiring, dtype) + as_defines(numbers) + scalars.defines
        rows = width if a.by_columns else n  # the upper triangle is a lower one that ends with whole strips
        strips = Kernel("symv", defines, (_LANES * strip.warps,), function="strips")
        program.launch(
            strips, count_tiles(rows, rows, height, length, triangle=True), a.place, a.ld, b.place, b.ld, of_strips,
            of_heights, width, n, scalars.alpha,
        )  # fmt: skip
        total = Kernel("symv", defines, (_TOTAL_BLOCK,), function="total")
        c = c_and_out[0]
        program.launch(
            total, ceil_div(n, _TOTAL_ELEMENTS), of_strips, of_heights, width, c.place, c.ld, out.place, out.ld, n,
            scalars.beta,
        )  # fmt: skip
        return program


def _strip(plan: Plan) -> Strip:
    """Return the numbers of `plan`; raise PlanError if they cut no strip evenly."""
    strip = Strip(*(plan.options[name] for name in Strip._fields))  # type: ignore[arg-type]
    side, warps, rows, tiles, resident = strip
    is_number = all(isinstance(x, int) and x > 0 and x & (x - 1) == 0 for x in (side, warps, rows, tiles))
    if is_number and isinstance(resident, int) and resident >= 0:
        shared = (2 * warps * side + warps * rows + side * tiles) * plan.problem.dtype.itemsize
        is_even = side >= _LANES >= max(warps, rows) and side * tiles >= warps * rows
        if is_even and shared <= _SHARED_BYTES:
            return strip
    raise PlanError(
        "gpu-symv: warps do not cut the strip evenly, or it is too long",
        expected=f"powers of two, side >= {_LANES}, warps and rows <= {_LANES}, side * tiles >= warps * rows, "
        f"2 * warps * side + warps * rows + side * tiles elements in {_SHARED_BYTES} bytes, resident >= 0",
        got=", ".join(f"{name}={x!r}" for name, x in strip._asdict().items()),
    )


def _width(a: Matrix, lane: int, itemsize: int) -> int:
    """Return how many of a lane's elements one load may take."""
    width = min(lane, _LOAD_BYTES // itemsize)
    while width > 1 and (a.ld % width or a.alignment % (width * itemsize)):
        width //= 2
    return width
