"""The launches of a product by several levels of Strassen's recursion, unrolled on the host.

Every level has one set of left operands, right operands and products, which all products of the level above reuse: the
launches of a program follow one another. The parts of the base share their scratch in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from backends._strassen.form import PRODUCTS, SevenOperands, StrassenForm
from backends._strassen.recursion import halved, largest_element
from backends.gpu._base.backend import GpuBackend
from backends.gpu._base.guarded import add_product_if
from backends.gpu._passes.padding import LINE_BYTES
from backends.gpu._program.operators import Form, literal
from backends.gpu._program.program import Matrix, Place, Product, Program, ceil_div
from backends.gpu._strassen import passes
from backends.gpu._strassen.passes import Guard, Scaled
from harness.machine import Machine
from harness.problem import Problem

Sizes = tuple[int, int, int]  # m, n, k
# Scratch for the extremes of A and B, and for those of shares of them.
EXTREMES, SHARES = "strassen_extremes", "strassen_shares"


class Unrolled:
    """The program of a product by `levels` levels, 1 or more.

    Parameters
    ----------
    problem : Problem
    form : StrassenForm
    levels : int
    base : GpuBackend
        Computes the products of the last level.
    machine : Machine
    """

    def __init__(self, problem: Problem, form: StrassenForm, levels: int, base: GpuBackend, machine: Machine) -> None:
        self._problem, self._form, self._levels, self._base = problem, form, levels, base
        self._program = Program()
        m, n, k = (halved(size, levels) for size in (problem.m, problem.n, problem.k))
        self._leaf = base.plan(self._plain(m, n, k), machine)

    def program(self, a: Matrix, b: Matrix, c_and_out: Sequence[Matrix]) -> Program:
        """Return the launches; c precedes out if there is one."""
        problem, out = self._problem, c_and_out[-1]
        sizes = problem.m, problem.n, problem.k
        is_guarded = problem.dtype.kind == "f"
        guard = self._guard() if is_guarded else Guard.none(problem)
        products = self._add_products(1, a, b, sizes)
        whole = self._add_whole(guard, a, b) if is_guarded else out
        scaled = Scaled(problem.alpha, problem.beta, c_and_out[0] if problem.accumulate else None)
        size = problem.m, problem.n
        passes.add_gather(self._program, problem, self._form, products[0], whole, out, size, guard, scaled)
        return self._program

    def _plain(self, m: int, n: int, k: int) -> Problem:
        """Return the product of two matrices of these sizes, over the same ring."""
        return Problem(m, n, k, self._problem.semiring, self._problem.dtype)

    def _add_products(self, level: int, a: Matrix, b: Matrix, sizes: Sizes) -> list[Matrix]:
        """Add the launches of the seven products of a level, and return where they are."""
        m, n, k = sizes
        scanned = [Place(SHARES, 2 * side * passes.SCANNERS) if self._scans(level) else None for side in range(2)]
        lefts = self._add_operands(f"left_{level}", self._form.left, a, (m, k), scanned[0])
        rights = self._add_operands(f"right_{level}", self._form.right, b, (k, n), scanned[1])
        if self._scans(level):
            passes.add_extremes(self._program, self._problem, Place(SHARES), Place(EXTREMES))
        halves = halved(m, 1), halved(n, 1), halved(k, 1)
        products = self._reserve(f"products_{level}", PRODUCTS, *halves[:2])
        for left, right, product in zip(lefts, rights, products, strict=True):
            if level == self._levels:
                self._add_leaf(left, right, product)
            else:
                self._add_inner(level + 1, left, right, product, halves)
        return products

    def _add_inner(self, level: int, a: Matrix, b: Matrix, out: Matrix, sizes: Sizes) -> None:
        """Add the launches of a product of the level above by the seven of `level`."""
        products, guard = self._add_products(level, a, b, sizes), Guard.none(self._problem)
        passes.add_gather(self._program, self._problem, self._form, products[0], out, out, sizes[:2], guard, Scaled())

    def _scans(self, level: int) -> bool:
        """Return whether the passes of a level look at the values: the first, over floats."""
        return level == 1 and self._problem.dtype.kind == "f"

    def _add_operands(
        self, name: str, operands: SevenOperands, x: Matrix, size: tuple[int, int], shares: Place | None
    ) -> list[Matrix]:
        """Add the launch that computes seven operands, and return where they are: of quarters, in `x` if possible."""
        in_place = passes.quarters_in_place(self._problem, x, size)
        stored = [each for each in operands.names if each not in in_place]
        parts = self._reserve(name, PRODUCTS, halved(size[0], 1), halved(size[1], 1))
        passes.add_spread(self._program, self._problem, operands, stored, x, size, parts[0], shares)
        places = in_place | dict(zip(stored, parts, strict=False))
        return [places[each] for each in operands.names]

    def _add_leaf(self, a: Matrix, b: Matrix, out: Matrix) -> None:
        """Add the launches of the base for one product of the last level."""
        leaf = self._base.program(self._leaf, a, b, out)
        self._program.share(leaf)
        self._program.steps += leaf.steps

    def _guard(self) -> Guard:
        """Return the guard, by extremes in scratch that no base has."""
        room = 4 * passes.SCANNERS
        self._program.reserve(SHARES, room, self._problem.dtype)
        extremes = self._program.reserve(EXTREMES, 4, self._problem.dtype)
        return Guard(extremes, largest_element(self._problem, self._levels, self._form))

    def _add_whole(self, guard: Guard, a: Matrix, b: Matrix) -> Matrix:
        """Add the whole product for values that do not fit, and return where it is.

        It lies where the products of the first level are; alpha A lies where its left operands are.
        """
        problem = self._problem
        m, n, k = problem.m, problem.n, problem.k
        if problem.alpha is not None:
            (scaled,) = self._reserve("left_1", 1, m, k)
            passes.add_scale(self._program, problem, self._form, guard, a, (m, k), scaled)
            a = scaled
        (whole,) = self._reserve("products_1", 1, m, n)
        largest = literal(guard.largest, problem.dtype)
        bounds = (f"-{largest} <= ({end}_{x}) && ({end}_{x}) <= {largest}" for end in ("low", "high") for x in "ab")
        assert isinstance(guard.extremes, Place)
        product = Product(a, b, whole, m, n, k, Form.FAST, False, guard.extremes)
        add_product_if(self._program, self._plain(m, n, k), product, f"(!({' && '.join(bounds)}))")
        return whole

    def _reserve(self, name: str, count: int, rows: int, columns: int) -> list[Matrix]:
        """Return so many matrices of aligned rows, one after the other in a scratch buffer, which may be in use."""
        line, buffer, scratch = LINE_BYTES // self._problem.dtype.itemsize, _own(name), self._program.scratch
        ld = ceil_div(columns, line) * line
        dtype = self._problem.dtype
        scratch[buffer] = max(count * rows * ld, scratch.get(buffer, (0, dtype))[0]), dtype
        return [Matrix(Place(buffer, number * rows * ld), ld) for number in range(count)]


def _own(name: str) -> str:
    """Return the name of a scratch buffer, which no base has."""
    return f"strassen_{name}"
