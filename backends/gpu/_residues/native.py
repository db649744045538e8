"""The native product, computed by the GPU unless the gate has found a number of moduli."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from backends.gpu._base.guarded import add_product_if
from backends.gpu._complex.planes import ComplexProduct, add_join, real_problem
from backends.gpu._cuda.device import planned
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import is_aligned
from backends.gpu._program.operators import TYPES, Form
from backends.gpu._program.program import Kernel, Matrix, Place, Product, Program, ceil_div
from backends.gpu._residues.shape import ResidueProduct, padded
from backends.gpu._tensor.row_product import add_double_product
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu import tensor_cores

_THREADS, _SIDE, _BLOCKS = 256, 32, 8  # native.cu, and blocks of a multiprocessor
# A guarded product reads four floats at `moduli`; 0 is 0 as a float too, and no other number is.
_NO_MODULI = "((low_a) == 0)"


class Copies(NamedTuple):
    """Places of the number of moduli, and of copies of A and B, which the GPU makes if that is 0."""

    moduli: Place
    a: Place
    b: Place


def add_native(program: Program, plan: Plan, product: ResidueProduct, copies: Copies) -> None:
    """Add the native kernel, and copies of operands that it cannot take as they are."""
    problem, (m, n, k), out = product.problem, product[-3:], product.out
    one = problem.dtype.type(1)
    alpha = one if problem.alpha is None else problem.alpha
    a = _operand(program, problem, product.a, copies.moduli, copies.a, (m, k), alpha)
    b = _operand(program, problem, product.b, copies.moduli, copies.b, (k, n), one)
    if problem.accumulate:
        _add_begin(program, product, copies.moduli)
    whole = Product(a, b, out, m, n, k, Form.FAST, problem.accumulate, copies.moduli)
    if problem.dtype.itemsize == _DOUBLE:
        native = Plan(problem, 1, None, plan.options, tensor_cores.HOPPER_TILES["float64"])
        add_double_product(program, native, whole, tensor_cores.HOPPER_DEPTH, unless=copies.moduli)
    else:
        add_product_if(program, plan.problem, whole, _NO_MODULI)


_DOUBLE = 8


def add_native_complex(program: Program, plan: Plan, product: ResidueProduct, copies: Copies, products: Place) -> None:
    """Add the native product of planes, left at `products`, and the launch that joins its parts."""
    problem = product.problem.laid_out(product.problem.layout, m=product.m, n=product.n)
    real, out = real_problem(problem), Matrix(products, 2 * product.n)
    a, b = (x._replace(ld=x.ld // 2) for x in (product.a, product.b))
    of_planes = ResidueProduct(real, a, b, out, out, real.m, real.n, real.k)
    add_native(program, dataclasses.replace(plan, problem=real), of_planes, copies)
    whole = ComplexProduct(problem, product.a, product.b, product.c, product.out)
    add_join(program, whole, products, copies.moduli)


def add_start(program: Program, product: ResidueProduct) -> None:
    """Add the launch of a product without terms: beta C, or zeros."""
    _add_begin(program, product, np.uint64(0))


def _add_begin(program: Program, product: ResidueProduct, unless: Place | np.uint64) -> None:
    problem, (m, n, _), out = product.problem, product[-3:], product.out
    beta = problem.dtype.type(1 if problem.beta is None else problem.beta)
    c = product.c.place, *map(np.int64, product.c.steps)
    kernel = _kernel(problem, "begin", has_c=problem.accumulate)
    program.launch(kernel, min(m, _BLOCKS * planned().multiprocessors), unless, beta, *c, out.place, out.ld, m, n)


def _kernel(problem: Problem, function: str, *, has_c: bool = False) -> Kernel:
    defines = as_defines({"T": TYPES[problem.dtype.name], "HAS_C": has_c})
    return Kernel("native", defines, (_THREADS,), function=function, is_chained=True)


def _operand(
    program: Program,
    problem: Problem,
    x: Matrix,
    unless: Place,
    to: Place,
    size: tuple[int, int],
    alpha: np.generic,
) -> Matrix:
    """Return `x` by aligned rows, times alpha: itself, or a copy that is made unless the product is emulated."""
    if not x.by_columns and is_aligned(x, problem.dtype.itemsize) and alpha == 1:
        return x
    ld = padded(size[1], problem.dtype)
    blocks = min(ceil_div(size[0], _SIDE) * ceil_div(ld, _SIDE), _BLOCKS * planned().multiprocessors)
    arguments = x.place, x.ld, int(x.by_columns), *size, to, ld
    program.launch(_kernel(problem, "copy_rows"), blocks, unless, alpha, *arguments)
    return Matrix(to, ld)
