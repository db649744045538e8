"""alpha, beta and C: as arguments of a kernel that applies them where elements pass, or as passes around a product."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.passes import add_pass
from backends.gpu._program.program import Batch, Matrix, Program
from harness.problem import Problem


class Scalars(NamedTuple):
    """Arguments of a kernel, and the macros HAS_ALPHA, HAS_C and HAS_BETA by which it applies them.

    Attributes
    ----------
    alpha, beta : NumPy scalar
        Zeros of the dtype where there is none.
    defines : Defines
    """

    alpha: Any
    beta: Any
    defines: Defines

    @classmethod
    def of(cls, problem: Problem) -> Scalars:
        """Return those of `problem`."""
        alpha, beta = (_argument(problem, x) for x in (problem.alpha, problem.beta))
        has = {"HAS_ALPHA": problem.alpha is not None, "HAS_BETA": problem.beta is not None}
        return cls(alpha, beta, as_defines({**has, "HAS_C": problem.accumulate}))


def _argument(problem: Problem, x: Any) -> Any:
    """Return a scalar as a kernel takes it, a bool as a byte."""
    value = problem.dtype.type(0 if x is None else x)
    return np.uint8(value) if problem.dtype.kind == "b" else value


def add_start(program: Program, problem: Problem, c: Matrix, out: Matrix) -> None:
    """Add the pass that writes C, times beta, to `out`, to which a product is then added; none without a C.

    None either if C is the output, and is added to as it is.
    """
    if not problem.accumulate or (problem.beta is None and c.place == out.place):
        return
    arguments = problem.beta is not None, Scalars.of(problem).beta, c.place, c.ld, out.place, out.ld
    batch, elements = Batch.of(problem.batch), problem.m * problem.n
    add_pass(program, problem, "begin", elements, *arguments, problem.m, problem.n, batch=batch, moves=(c, out))


def add_constants(program: Program, problem: Problem, c: Matrix, out: Matrix) -> None:
    """Add the pass of a product without terms: C, times beta, or the semiring's zero."""
    add_start(program, problem, c, out)
    if not problem.accumulate:
        batch, sizes = Batch.of(problem.batch), (problem.m, problem.n)
        add_pass(program, problem, "fill", math.prod(sizes), out.place, out.ld, *sizes, batch=batch, moves=(out,))


def scaled(program: Program, problem: Problem, a: Matrix) -> Matrix:
    """Add the pass that multiplies A by alpha, and return it without gaps: every different A of a batch once."""
    m, k = (problem.k, problem.m) if a.by_columns else (problem.m, problem.k)  # rows as they lie
    batch = Batch.of(problem.batch)
    if batch is None:
        copy = Matrix(program.reserve("scaled_a", m * k, problem.dtype), k, by_columns=a.by_columns)
    else:
        outer, inner = (
            n if step else 1 for n, step in zip((batch.count // batch.inner, batch.inner), a.next, strict=True)
        )
        place, batch = program.reserve("scaled_a", outer * inner * m * k, problem.dtype), Batch(outer * inner, inner)
        copy = Matrix(
            place, k, by_columns=a.by_columns, next=(inner * m * k if outer > 1 else 0, m * k if inner > 1 else 0)
        )
    arguments = problem.alpha, a.place, a.ld, copy.place, m, k
    add_pass(program, problem, "scale", m * k, *arguments, batch=batch, moves=(a, copy))
    is_aligned = all(step * problem.dtype.itemsize % copy.alignment == 0 for step in copy.next)
    return copy if is_aligned else copy._replace(alignment=problem.dtype.itemsize)
