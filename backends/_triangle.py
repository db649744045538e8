"""Products with a triangle by a backend that knows none: the matrix is mirrored, or D is computed by rows of blocks.

    A symmetric          mirror the triangle of A into a whole matrix; one product by the base (Hermitian: conjugated)
    triangle of D        for each block of rows i:  D[i, :i] by one product, in place
                                                    D[i, i] by one product into scratch, then its triangle copied

Both are correct over every semiring. The mirror costs a pass that reads half of A and writes all of it. The blocks on
the diagonal compute twice what is wanted: with t blocks D costs 1/2 + 1/(2 t) of a whole product.

Source: block rows of a triangle: Dongarra et al., "A Set of Level 3 Basic Linear Algebra Subprograms" (1990).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from harness.composite import Composite
from harness.errors import PlanError
from harness.interface import Prepared
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.scalars import as_count
from harness.tuning.static_order import AUTO_FIRST

# Blocks of rows that a triangle of D is cut into by default, the fewest rows of one, and rows mirrored at once.
BLOCKS, FEWEST_ROWS, MIRRORED_ROWS = 16, 64, 64


class Triangle(Composite):
    """Mirror A, or compute D by rows of blocks. A subclass says where operands lie, and makes the execution.

    Attributes
    ----------
    bases : tuple of str
        Backends to prefer as a base, best first: those that ``backend="auto"`` tries first.
    fewest_rows : int
        Fewest rows of a block of D.
    """

    bases: ClassVar[tuple[str, ...]] = AUTO_FIRST
    fewest_rows: ClassVar[int] = FEWEST_ROWS
    takes = frozenset({"triangle"})
    step = 2
    idea = "a triangle by products of whole matrices: A mirrored first, or D by rows of blocks, around another backend"
    source = "block rows of a triangle: Dongarra et al., level 3 BLAS (1990)"

    def declines(self, problem: Problem) -> str | None:
        """Decline whole matrices, and what no backend here computes."""
        if not problem.triangle:
            return "it computes products with a triangle alone"
        return None if self._able(_whole(problem)) else "no backend here computes the whole products"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the base, and the rows of a block of D."""
        whole = _whole(problem)
        options: dict[str, int | str] = {"base": self.choose_base(whole, self.bases)}
        if problem.triangle == "d":
            options["block"] = max(-(-problem.m // BLOCKS), self.fewest_rows)
        return Plan(problem, machine.threads, None, options)

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return that of the base; operands may be whole, of which a triangle of A is a part."""
        return self.part_error(plan, _whole(plan.problem), operands)

    def loosens(self, problem: Problem) -> bool:
        """Return False: a base is as accurate as ordinary sums, unless it is named."""
        return False

    def parts(self, plan: Plan, operands: Operands, arrays: Any) -> list[Callable[[], object]]:
        """Return the calls that compute the product, to be made in this order.

        Parameters
        ----------
        plan : Plan
        operands : Operands
            Where the base computes.
        arrays : module
            NumPy or CuPy, of whose arrays `operands` are.
        """
        if plan.problem.triangle == "d":
            return self._rows_of_blocks(plan, operands, arrays)
        whole = self.room(operands.a, arrays)
        product = self._product(plan, dataclasses.replace(operands, a=whole))
        conjugate = arrays.conjugate if plan.problem.triangle == "h" else None
        return [self.mirror(operands.a, whole, arrays, conjugate), product.run_once]

    def room(self, x: Any, arrays: Any) -> Any:
        """Return an uninitialised array of the shape and the elements of `x`."""
        return arrays.empty(x.shape, x.dtype)

    def mirror(
        self, x: Any, whole: Any, arrays: Any, conjugate: Callable[[Any], Any] | None = None
    ) -> Callable[[], object]:
        """Return a call that writes to `whole` the symmetric, or Hermitian, matrix whose triangle is that of `x`."""
        return lambda: mirror_triangle(x, whole, arrays, conjugate)

    def _rows_of_blocks(self, plan: Plan, operands: Operands, arrays: Any) -> list[Callable[[], object]]:
        calls: list[Callable[[], object]] = []
        for begin in range(0, plan.problem.m, _block(plan)):
            rows = slice(begin, min(begin + _block(plan), plan.problem.m))
            if begin:
                calls.append(self._product(plan, _part(operands, rows, slice(0, begin))).run_once)
            out = operands.out[rows, rows]
            square = dataclasses.replace(_part(operands, rows, rows), out=arrays.empty(out.shape, out.dtype))
            calls += [self._product(plan, square).run_once, _copy_triangle(square.out, out, arrays)]
        return calls

    def _product(self, plan: Plan, operands: Operands) -> Prepared:
        m, n = operands.out.shape
        problem = dataclasses.replace(_whole(plan.problem), m=m, n=n, k=operands.a.shape[1])
        return self.prepare_part(plan, problem, operands)


def _whole(problem: Problem) -> Problem:
    return dataclasses.replace(problem, triangle="")


def _block(plan: Plan) -> int:
    block = as_count(plan.options["block"])
    if block is not None:
        return block
    got = f"block={plan.options['block']!r}"
    raise PlanError("block is no number of rows", expected="an integer, 1 or more", got=got)


def _part(operands: Operands, rows: slice, columns: slice) -> Operands:
    """Return the operands of a part of D, as views."""
    c = None if operands.c is None else operands.c[rows, columns]
    return Operands(operands.a[rows], operands.b[:, columns], c, operands.out[rows, columns])


def _copy_triangle(x: Any, out: Any, arrays: Any) -> Callable[[], object]:
    """Return a call that copies the elements on and below the diagonal of `x` to `out`."""
    below = arrays.tri(x.shape[0], dtype=arrays.bool_)

    def copy() -> None:
        arrays.copyto(out, x, where=below)

    return copy


def mirror_triangle(x: Any, whole: Any, arrays: Any, conjugate: Callable[[Any], Any] | None = None) -> None:
    """Write to `whole` the symmetric matrix whose triangle is that of `x`, by blocks that stay in a cache.

    `whole` may be `x`. With `conjugate` it is Hermitian.
    """
    turned = conjugate or (lambda block: block)
    for begin in range(0, x.shape[0], MIRRORED_ROWS):
        rows, left = slice(begin, begin + MIRRORED_ROWS), slice(0, begin)
        square = x[rows, rows]
        whole[rows, left] = x[rows, left]
        whole[left, rows] = turned(x[rows, left].T)
        whole[rows, rows] = arrays.where(arrays.tri(square.shape[0], dtype=arrays.bool_), square, turned(square.T))
    if conjugate:
        diagonal = arrays.arange(x.shape[0])
        whole[diagonal, diagonal] = whole[diagonal, diagonal].real
