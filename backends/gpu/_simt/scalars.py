"""alpha, beta and C: as arguments of a kernel that applies them where elements pass, or as passes around a product."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.passes import add_pass
from backends.gpu._simt.program import Matrix, Program
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
    add_pass(program, problem, "begin", problem.m * problem.n, *arguments, problem.m, problem.n)


def add_constants(program: Program, problem: Problem, c: Matrix, out: Matrix) -> None:
    """Add the pass of a product without terms: C, times beta, or the semiring's zero."""
    add_start(program, problem, c, out)
    if not problem.accumulate:
        add_pass(program, problem, "fill", problem.m * problem.n, out.place, out.ld, problem.m, problem.n)
