"""Threads on elements of x add what each contributes to the elements of y, by atomic updates.

    begin    keys := beta (x) C, or the zero
    scatter  thread: one element of x, `rows` elements of y: an atomic update a pair
    end      y := the values of the keys

Not reproducible: the order of the updates differs from run to run, and with it the last bits of sums of floats. Every
other rung gives the same bits every time.

Source: Kirk and Hwu, "Programming Massively Parallel Processors": scatter and gather.
"""

from __future__ import annotations

import numpy as np

from backends.gpu._matrix_vector.product import MatrixVector, matrix_vector_defines
from backends.gpu._matrix_vector.rung import BLOCKS, MatrixVectorRung
from backends.gpu._program.operators import TYPES
from backends.gpu._program.program import Kernel, Program, ceil_div
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu.matrix_vector.rungs import ROWS_OF_SCATTER, THREADS

# The GPU's atomic operations, by (+).
_ATOMIC = {
    "plus": "atomicAdd", "min": "atomicMin", "max": "atomicMax",
    "lor": "atomicOr", "land": "atomicAnd", "lxor": "atomicXor",
}  # fmt: skip
_ORDERING = ("min", "max")
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class MatrixVectorScatter(MatrixVectorRung):
    """Threads on elements of x, atomic sums."""

    name = "gpu-mv-scatter"
    step = 15
    idea = "threads on elements of x scatter what they add to y, by atomic updates; other bits every time"
    source = "Kirk and Hwu, Programming Massively Parallel Processors: scatter and gather"
    defaults = {"threads": THREADS, "rows": ROWS_OF_SCATTER}  # noqa: RUF012 declared in the base class

    def declines(self, problem: Problem) -> str | None:
        """Decline (+) without an atomic operation."""
        add = problem.semiring.add.name
        return super().declines(problem) or (None if add in _ATOMIC else f"the GPU has no atomic {add}")

    def add(self, program: Program, plan: Plan, product: MatrixVector) -> None:
        """Add the three launches."""
        threads, rows = int(plan.choice("threads", BLOCKS)), int(plan.choice("rows", _ROWS))
        key, is_ordered = _key(plan.problem)
        numbers: dict[str, int | str] = {
            "THREADS": threads,
            "ROWS": rows,
            "KEY": TYPES[key.name],
            "IS_ORDERED": is_ordered,
        }
        numbers["ATOMIC"] = _ATOMIC[plan.problem.semiring.add.name]
        defines = matrix_vector_defines(plan.problem, product, **numbers)
        keys = program.reserve("keys", product.count, key)
        arguments = product.arguments(plan.problem)
        beta, steps = arguments[5], tuple(np.int64(x) for x in (product.step_c, product.step_y))
        over_y, over_x = (ceil_div(x, threads) for x in (product.count, product.k))

        def kernel(function: str) -> Kernel:
            return Kernel("mv_scatter", defines, (threads,), function=function)

        program.launch(kernel("mv_scatter_begin"), over_y, product.c, keys, beta, product.count, steps[0])
        if product.k:
            blocks = over_x * ceil_div(product.count, rows)
            program.launch(kernel("mv_scatter"), blocks, *arguments, keys, over_x)
        program.launch(kernel("mv_scatter_end"), over_y, keys, product.y, product.count, steps[1])


def _key(problem: Problem) -> tuple[np.dtype, bool]:
    """Return a dtype that the atomic operations know, and whether it holds floats as integers of the same order."""
    dtype, is_ordering = problem.dtype, problem.semiring.add.name in _ORDERING
    if dtype.kind == "f":
        return (np.dtype(f"u{dtype.itemsize}"), True) if is_ordering else (dtype, False)
    size = max(dtype.itemsize, 4)
    is_signed = is_ordering and (dtype.kind == "i" or dtype.itemsize < size)
    return np.dtype(f"{'i' if is_signed else 'u'}{size}"), False
