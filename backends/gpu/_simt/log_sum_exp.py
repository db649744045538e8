"""logaddexp_plus as an ordinary product: the running maximum of rows and columns, and a real product of exponentials.

The rung's kernel of (plus, times) does n^3 multiply-adds, where the definition takes an exponential and a logarithm for
every pair. `log_sum_exp.cu` does the passes before and after it, and has the formula.

Underflow: an exponential, or a product of two, below the smallest normal number s may be lost from the real product.
The factor 2^h, as large as k terms allow, makes that rarer. If no finite term of a row and of a column makes a factor
smaller than sqrt(s), nothing is lost. Otherwise the k losses of at most ``4 s 2^h`` are below 4 roundings of elements
that are at least ``k s 2^h / eps``. Other elements are computed pair by pair, which is right but slower.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import WIDE
from backends.gpu._program.operators import Form, batch_defines, semiring_defines, triangle_defines
from backends.gpu._program.program import Kernel, Matrix, Place, Product, Program, ceil_div
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import SEMIRINGS

# Lanes and groups of them in a block, as in the kernels; blocks enough for any GPU.
_LANES, _GROUPS, _MOST_BLOCKS = 32, 8, 1 << 14
# Elements from which on a column is long, and then the threads of a block, and its columns: whole sectors of a line.
LONG_COLUMNS, COLUMN_THREADS = 2048, (1024, 8)
_INDEX = np.dtype(np.int32)

Multiply = Callable[[Program, Plan, Product], None]


def is_log_sum_exp(problem: Problem) -> bool:
    """Return whether `problem` is a product over logaddexp_plus."""
    return (problem.semiring.add.name, problem.semiring.multiply.name) == ("logaddexp", "plus")


def real_product(problem: Problem) -> Problem:
    """Return the product that does the work of `problem`: for logaddexp_plus, of exponentials; else itself."""
    if not is_log_sum_exp(problem):
        return problem
    ordinary = SEMIRINGS["plus_times"]
    sizes = problem.m, problem.n, problem.k
    return Problem(*sizes, ordinary, problem.dtype, triangle=problem.triangle, batch=problem.batch)


def scale(dtype: np.dtype[Any], k: int) -> tuple[int, Any, Any]:
    """Return the scale and the thresholds of the tests: exponent, narrow and limit of `log_sum_exp.cu`."""
    info = np.finfo(dtype)
    h = (int(info.maxexp) - 2 - max(k - 1, 0).bit_length()) // 2
    narrow = (int(info.minexp) // 2 + 1 - h) * math.log(2.0)
    limit = k * math.ldexp(float(info.smallest_normal), h) / float(info.eps)
    return h, dtype.type(narrow), dtype.type(limit)


def add_log_sum_exp(program: Program, plan: Plan, multiply: Multiply, product: Product) -> None:
    """Add the launches of ``out := [out (+)] a (x) b`` over logaddexp_plus, for m, n, k >= 1.

    Parameters
    ----------
    program : Program
    plan : Plan
    multiply : callable
        `Rung.multiply`, for the product of exponentials.
    product : Product
    """
    problem, (a, b, out, m, n, k, *_) = plan.problem, product
    dtype, batch = problem.dtype, product.batch
    defines = semiring_defines(problem.semiring, dtype, accumulate=problem.accumulate) + triangle_defines(problem)
    threads, across = COLUMN_THREADS if k >= LONG_COLUMNS else (_LANES * _GROUPS, _LANES)
    defines += batch_defines(batch) + as_defines({"COLUMN_THREADS": threads, "ACROSS": across})
    exponent, *thresholds = scale(dtype, k)
    x, y, sums, rows, columns = (
        program.reserve(name, size * problem.products, dtype)
        for name, size in (("x", m * k), ("y", k * n), ("sums", m * n), ("row_tops", 2 * m), ("column_tops", 2 * n))
    )
    row_singles, column_singles = (
        program.reserve(f"{of}_singles", size * problem.products, _INDEX) for of, size in (("row", m), ("column", n))
    )

    def grid(blocks: int) -> tuple[int, ...]:
        return product.grid(blocks)

    def moved(*matrices: Matrix) -> tuple[object, ...]:
        return batch.arguments(*matrices) if batch else ()

    def matrix(place: Place, rows: int, columns: int) -> Matrix:
        """Return scratch without gaps, product after product."""
        size = rows * columns
        alignment = WIDE if batch is None or size * dtype.itemsize % WIDE == 0 else dtype.itemsize
        return Matrix(place, columns, alignment, next=(batch.inner * size, size) if batch else (0, 0))

    def kernel(function: str, block: int = _LANES * _GROUPS) -> Kernel:
        return Kernel("log_sum_exp", defines, (block,), function=function)

    lines_of_a, lines_of_b = (x, rows, row_singles), (y, columns, column_singles)
    for made, blocks, operand, extent, lines in (
        (kernel("scale_rows"), ceil_div(m, _GROUPS), a, m, lines_of_a),
        (kernel("scale_columns", threads), ceil_div(n, across), b, n, lines_of_b),
    ):
        numbers = exponent, *thresholds, *moved(operand)
        program.launch(made, grid(blocks), operand.place, operand.ld, extent, k, *lines, *numbers)
    real = dataclasses.replace(plan, problem=real_product(problem))
    operands = matrix(x, m, k), matrix(y, k, n), matrix(sums, m, n)
    shape = {"is_triangle": product.is_triangle, "batch": batch}
    multiply(program, real, Product(*operands, m, n, k, Form.ANY, accumulate=False, extremes=x, **shape))
    blocks = min(ceil_div(m * n, _LANES * _GROUPS), _MOST_BLOCKS)
    lines = rows, row_singles, columns, column_singles
    program.launch(
        kernel("finish"), grid(blocks), a.place, a.ld, b.place, b.ld, sums, *lines, out.place, out.ld, m, n, k,
        exponent, *moved(a, b, out),
    )  # fmt: skip
