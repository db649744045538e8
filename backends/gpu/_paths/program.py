"""A closure as a program: the steps of `harness.elimination` as launches, with products by a rung's own kernels.

Everything stays on the device until the end, where the host reads what was found (`paths.cu`). Rows are improved in
place. The columns of the pivots, which a product reads while its rows are written, are copied before. So the result
does not depend on the order of threads.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.mirror import add_mirror
from backends.gpu._passes.passes import add_extremes
from backends.gpu._program.operators import literal, semiring_defines, two_steps
from backends.gpu._program.program import Batch, Kernel, Matrix, Place, Program, ceil_div
from backends.gpu._simt.argk import argk_program
from harness.elimination import Step, steps_of
from harness.problem import Problem
from harness.tuning.gpu.paths import BLOCK, PASS_BLOCKS, PASS_THREADS, PER, TILE, panel_of, sides, width_of

_LINE = 128  # bytes that rows of copies begin at a multiple of
INT = np.dtype(np.int32)
# Returns the program of a product, of its problem and the matrices a, b, c and out.
Multiply = Callable[..., Program]


class ClosureProgram:
    """The launches that close `count` matrices in buffer "d", one after the other in memory.

    Parameters
    ----------
    problem : Problem
        Of one matrix by itself.
    count : int
    block : int or None
        Most vertices that are closed at once; None: as many as is fast.
    multiply : callable
    keeps : bool
        Whether buffer "before" holds their predecessors; else it is not looked at.
    at_once : bool
        Whether `multiply` takes problems of a batch: a launch then does its step of all matrices.
    symmetric : bool
        Whether the matrices are equal to their transposes. Then the results are, without predecessors.
    by_halves : bool
        Whether half of symmetric matrices is computed: `multiply` takes problems of a lower triangle with A by columns.

    Attributes
    ----------
    program : Program
    """

    def __init__(
        self,
        problem: Problem,
        count: int,
        block: int | None,
        multiply: Multiply,
        *,
        keeps: bool,
        at_once: bool = False,
        symmetric: bool = False,
        by_halves: bool = False,
    ) -> None:
        self._problem, self._multiply, self._keeps, self.program = problem, multiply, keeps, Program()
        self._batch = Batch(count, count) if at_once and count > 1 else None
        self._n, itemsize = problem.n, problem.dtype.itemsize
        self._is_one = self._n <= min(sides(itemsize)[-1], block or self._n)  # block of all vertices
        most = self._n if self._is_one else min(block or BLOCK, BLOCK)
        self._side = next(side for side in sides(itemsize) if side >= most)
        columns = self._n * (self._batch.count if self._batch and not self._is_one else 1)
        self._width = width_of(columns, self._side, device.planned().multiprocessors)
        one = problem.semiring.one(problem.dtype)
        assert one is not None
        self._defines = semiring_defines(problem.semiring, problem.dtype) + as_defines(
            {
                "ONE": literal(one, problem.dtype),
                "SIDE": self._side,
                "WIDTH": self._width,
                "PER": PER,
                "PREDECESSORS": keeps,
            }
        )
        self._launch("reset", 1, Place("findings"))
        rows = count * self._n
        self._launch("begin", min(rows, PASS_BLOCKS), Place("d"), self._before(0), rows, self._n, Place("findings"))
        if self._is_one:
            self._launch("close_block", count, Place("d"), self._before(0), self._n, threads=(self._side // PER) ** 2)
        else:
            panel = panel_of(self._n, keeps=keeps)
            steps = () if by_halves else steps_of(self._n, most, panel, joined=True)
            self._reserve(steps, count)
            if by_halves:
                self.program.reserve("strip", panel * self._n, problem.dtype)
            for matrix in range(1 if self._batch else count):
                d = Place("d", matrix * self._n**2)
                if by_halves:
                    self._add_halves(d, panel, most)
                for step in steps:
                    (self._close if step.closes else self._improve)(step, d)
        if symmetric and not keeps:  # sums of the same edges may have been rounded otherwise
            whole = Matrix(Place("d"), self._n)
            add_mirror(self.program, whole, whole, self._n, itemsize, count)
        blocks = min(ceil_div(rows, PASS_THREADS), PASS_BLOCKS)
        self._launch("finish", blocks, Place("d"), rows, self._n, Place("findings"))

    def _launch(
        self, function: str, blocks: int | tuple[int, ...], *arguments: object, threads: int = PASS_THREADS
    ) -> None:
        kernel = Kernel("paths", self._defines, (threads,), function=function, is_chained=True)
        self.program.launch(kernel, blocks, *arguments)

    def _before(self, offset: int) -> Place:
        return Place("before", offset) if self._keeps else Place("d")

    def _reserve(self, steps: tuple[Step, ...], count: int) -> None:
        """Reserve what a block's step leaves for its product, and the copies of other columns."""
        problem, program, n = self._problem, self.program, self._n
        at_once = self._batch.count if self._batch else 1
        self._row = self._whole_lines(n)
        # zeroed, for wide loads reach beyond the pivots, and beyond the ends of rows
        program.reserve("columns", at_once * n * self._side, problem.dtype, is_zeroed=True)
        program.reserve("pivot rows", at_once * self._side * self._row, problem.dtype, is_zeroed=True)
        if self._keeps:
            program.reserve("pivot before", at_once * self._side * n, INT)
        copies = (_size(x.rows) * self._whole_lines(_size(x.pivots)) for x in steps if not x.closes)
        self._panel = max(copies, default=0)
        if self._panel:
            program.reserve("panel", at_once * self._panel, problem.dtype)
        self._is_looked_at = two_steps(problem.semiring, problem.dtype) is not None and count == 1
        if self._is_looked_at:  # once: where edges have the sign that the fast form asks for, so have all paths
            whole = Matrix(Place("d"), self._n)
            add_extremes(program, problem, whole, whole)

    def _add_halves(self, d: Place, panel: int, most: int) -> None:
        """Close panels of rows beside D, and improve its lower triangle by each of them and its transpose."""
        n = self._n
        for first in range(0, n, panel):
            size = min(panel, n - first)
            grid = ceil_div(n, TILE), ceil_div(size, TILE)
            self._launch("take_rows", grid, d, n, first, size, Place("strip"))
            for step in steps_of(size, most, most, joined=True):
                rows, pivots = (slice(first + x.start, first + x.stop) for x in (step.rows, step.pivots))
                self._close(Step(rows, pivots, closes=True), Place("strip", -first * n))
            strip = self._matrix(Place("strip"))
            a, triangle = strip._replace(by_columns=True), self._matrix(d)
            self._take(self._multiply(self._of(n, size, "d"), a, strip, triangle, triangle))

    def _close(self, step: Step, d: Place) -> None:
        """Close the rows of the pivots beside D, and add the product of their columns by them to all rows of the step.

        Row 0 would be at `d`.
        """
        n, (first, size), (along, of_batch) = self._n, (step.pivots.start, _size(step.pivots)), self._of_batch()
        where = Place("columns"), Place("pivot rows"), Place("pivot before" if self._keeps else "d")
        arguments = step.rows.start, _size(step.rows), first, size, n, *where, self._row, *of_batch
        threads, grid = self._side * (self._side + self._width) // PER**2, (ceil_div(n, self._width), *along)
        self._launch("close_rows", grid, d, self._before(d.offset), *arguments, threads=threads)
        a = Matrix(Place("columns"), self._side, next=(0, n * self._side))
        b = Matrix(Place("pivot rows"), self._row, next=(0, self._side * self._row))
        before = Matrix(where[2], n, next=(0, self._side * n))
        self._add_product(step, a, b, self._matrix(d, step.rows.start * n), before)

    def _of_batch(self, *moves: int) -> tuple[tuple[int, ...], tuple[object, ...]]:
        """Return the extents of a grid along y and z, and the arguments of ENTER_MATRIX and after it."""
        batch = self._batch or Batch(1, 1)
        return batch.grid, (batch.count, *map(np.int64, moves))

    def _whole_lines(self, columns: int) -> int:
        """Return the leading dimension of a copy of so many columns."""
        line = _LINE // self._problem.dtype.itemsize
        return ceil_div(columns, line) * line

    def _improve(self, step: Step, at: Place) -> None:
        """Copy what is written meanwhile, and add the product."""
        n, (m, k) = self._n, (_size(step.rows), _size(step.pivots))
        d = self._matrix(at, step.rows.start * n)
        a, b = (
            Matrix(Place("panel"), self._whole_lines(k), next=(0, self._panel)),
            self._matrix(at, step.pivots.start * n),
        )
        columns, (along, of_batch) = Place("d", d.place.offset + step.pivots.start), self._of_batch(n * n, self._panel)
        self._launch("copy_values", (min(m, PASS_BLOCKS), *along), columns, n, m, k, a.place, a.ld, *of_batch)
        self._add_product(step, a, b, d, b._replace(place=self._before(b.place.offset)))

    def _add_product(self, step: Step, a: Matrix, b: Matrix, d: Matrix, before: Matrix) -> None:
        problem = self._of(_size(step.rows), _size(step.pivots))
        if self._keeps:
            self._take(argk_program(problem, a, b, d, d._replace(place=self._before(d.place.offset)), before))
        else:
            self._take(self._multiply(problem, a, b, d, d))

    def _matrix(self, begin: Place, elements: int = 0) -> Matrix:
        """Return what lies so many elements behind `begin`, with rows as long as those of D."""
        place, itemsize = Place(begin.buffer, begin.offset + elements), self._problem.dtype.itemsize
        is_aligned = place.offset * itemsize % 16 == 0 and (self._batch is None or self._n**2 * itemsize % 16 == 0)
        return Matrix(place, self._n, 16 if is_aligned else itemsize, next=(0, self._n**2))

    @functools.cache  # noqa: B019 lives as long as the program is made
    def _of(self, m: int, k: int, triangle: str = "") -> Problem:
        p = self._problem
        batch = (self._batch.count,) if self._batch else ()
        accumulate = not self._keeps
        return Problem(m, p.n, k, p.semiring, p.dtype, accumulate=accumulate, triangle=triangle, batch=batch)

    def _take(self, product: Program) -> None:
        """Append the launches of a product. All products use the same scratch, one after the other."""
        program = self.program
        steps = [step for step in product.steps if not (self._is_looked_at and _stem(step) == "extremes")]
        program.steps += [_chained(step) if _stem(step) == "tuned" else step for step in steps]
        program.share(product)
        program.alike = product.alike


def _stem(step: object) -> str:
    return str(getattr(getattr(step, "kernel", None), "stem", ""))


def _chained(step: Any) -> Any:
    return step._replace(kernel=dataclasses.replace(step.kernel, is_chained=True))


def _size(range_: slice) -> int:
    return int(range_.stop - range_.start)
