"""The launches of planes.cu: operands as planes of their parts, and D from the real product of planes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.device import planned
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import LINE_BYTES
from backends.gpu._passes.scalars import Scalars
from backends.gpu._program.operators import TYPES
from backends.gpu._program.program import Kernel, Matrix, Place, Program, ceil_div
from harness.dtypes import dtype_name, parts_dtype
from harness.problem import Problem

_THREADS, _SIDE, _BLOCKS = 256, 32, 8  # planes.cu, and blocks of a multiprocessor
_NOWHERE = np.uint64(0)
_SWAPPED = {"": "", "a": "b", "b": "a", "ab": "ab"}


class Planes(NamedTuple):
    """A and B as planes: two lines a vector, a row of A or a column of B, its real parts and its imaginary ones.

    Attributes
    ----------
    a, b : Matrix
        Real, ``(2 m, k)`` by rows and ``(2 k, n)`` by columns; lines begin ``ld`` elements apart, of whole cache lines,
        and end in zeros.
    problem : Problem
        Of the real product, ``(2 m, 2 n, k)``: neither scalars nor a C.
    """

    a: Matrix
    b: Matrix
    problem: Problem


class ComplexProduct(NamedTuple):
    """``out := alpha a b [+ beta c]`` over complex numbers; out is by rows.

    Attributes
    ----------
    problem : Problem
    a, b, c, out : Matrix
        `c` is not read without a C.
    """

    problem: Problem
    a: Matrix
    b: Matrix
    c: Matrix
    out: Matrix

    @classmethod
    def of(cls, problem: Problem, a: Matrix, b: Matrix, c: Matrix, out: Matrix) -> ComplexProduct:
        """Return the product, or the same by its transpose if `out` is by columns."""
        if not out.by_columns:
            return cls(problem, a, b, c, out)
        turned = problem.laid_out(problem.layout, m=problem.n, n=problem.m, conjugate=_SWAPPED[problem.conjugate])
        return cls(turned, *(x._replace(by_columns=not x.by_columns) for x in (b, a, c, out)))


def real_problem(problem: Problem) -> Problem:
    """Return the real product of the planes of a complex one."""
    return problem.laid_out(
        "CFC", m=2 * problem.m, n=2 * problem.n, dtype=parts_dtype(problem.dtype),
        operand_dtype=None, alpha=None, beta=None, accumulate=False, conjugate="",
    )  # fmt: skip


def add_split(program: Program, product: ComplexProduct) -> Planes:
    """Add the launch that writes the planes of A, times alpha, and of B, conjugated where the problem says so."""
    problem, real = product.problem, real_problem(product.problem)
    m, n, k, part = problem.m, problem.n, problem.k, real.dtype
    line = LINE_BYTES // part.itemsize
    width = ceil_div(k, line) * line
    of_a, of_b = (program.reserve(f"planes_{x}", 2 * size * width, part) for x, size in (("a", m), ("b", n)))
    macros = {f"{x.upper()}_SIGN": -1 if x in problem.conjugate else 1 for x in "ab"}
    tiles = ceil_div(width, _SIDE) * max(ceil_div(m, _SIDE), ceil_div(n, _SIDE))
    sides = (
        (product.a.place, product.a.ld, m, int(not product.a.by_columns), of_a),
        (product.b.place, product.b.ld, n, int(product.b.by_columns), of_b),
    )
    alpha = _parts(problem, problem.alpha)
    program.launch(
        _kernel(problem, "split", macros), (min(tiles, _most_blocks()), 2), *sides[0], *sides[1], k, width, *alpha
    )
    return Planes(Matrix(of_a, width), Matrix(of_b, width, by_columns=True), real)


def add_join(
    program: Program, product: ComplexProduct, products: Place | None, unless: Place | np.uint64 = _NOWHERE
) -> None:
    """Add the launch that writes D from the real product of the planes, or beta C, or zeros, where that is None.

    It writes nothing if the int32 at `unless`, in the memory of the GPU, is then another number than 0.
    """
    problem, c, out = product.problem, product.c, product.out
    m, n = problem.m, problem.n
    kernel = _kernel(problem, "join", {"A_SIGN": 1, "B_SIGN": 1}, has_terms=products is not None)
    blocks = min(m * ceil_div(n, _THREADS), _most_blocks())
    of_c = c.place, *map(np.int64, c.steps)
    of_products = _NOWHERE if products is None else products
    program.launch(kernel, blocks, unless, of_products, m, n, *_parts(problem, problem.beta), *of_c, out.place, out.ld)


def add_begin(program: Program, problem: Problem, c: Matrix, out: Matrix) -> None:
    """Add the launch that writes beta C to `out`, or zeros if there are no terms: where no product writes all."""
    is_there = problem.accumulate and problem.beta is None and c.place == out.place
    if not is_there and (problem.accumulate or problem.k == 0):
        add_join(program, ComplexProduct(problem, out, out, c, out), None)


def _kernel(problem: Problem, function: str, macros: dict[str, Any], *, has_terms: bool = True) -> Kernel:
    of_operands, of_sums = (parts_dtype(x) for x in (problem.input_dtype, problem.dtype))
    types = {"FROM": TYPES[dtype_name(of_operands)], "T": TYPES[dtype_name(of_sums)], "HAS_TERMS": has_terms}
    defines = as_defines({**types, **macros}) + Scalars.of(problem).defines
    return Kernel("planes", defines, (_THREADS,), function=function, is_chained=True)


def _parts(problem: Problem, scalar: Any) -> tuple[Any, Any]:
    """Return the parts of a scalar as arguments of a kernel, zeros if there is none."""
    value = problem.dtype.type(0 if scalar is None else scalar)
    return value.real, value.imag


def _most_blocks() -> int:
    return _BLOCKS * planned().multiprocessors
