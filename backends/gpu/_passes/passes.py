"""Passes around a product: alpha, beta and copies (passes.cu), and the extremes of values (extremes.cu)."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import Defines
from backends.gpu._program.operators import batch_defines, semiring_defines, triangle_defines
from backends.gpu._program.program import Batch, Kernel, Matrix, Place, Program, ceil_div
from harness.problem import Problem

# Threads of a block, and blocks enough for any GPU.
_PASS_BLOCK, _PASS_BLOCKS = 256, 4096


def add_pass(
    program: Program,
    problem: Problem,
    function: str,
    elements: int,
    *arguments: object,
    batch: Batch | None = None,
    moves: tuple[Matrix, ...] = (),
) -> None:
    """Add a pass over `elements` elements, of each product of a batch in which `moves` move; bools are bytes there."""
    defines = semiring_defines(problem.semiring, problem.dtype) + triangle_defines(problem) + batch_defines(batch)
    of_batch = batch.arguments(*moves) if batch else ()
    scalars = [np.uint8(x) if isinstance(x, np.bool_) else x for x in (*arguments, *of_batch)]
    kernel, blocks = Kernel("passes", defines, (_PASS_BLOCK,), function=function), ceil_div(elements, _PASS_BLOCK)
    program.launch(kernel, (min(blocks, _PASS_BLOCKS), *(batch.grid if batch else ())), *scalars)


def add_extremes(program: Program, problem: Problem, a: Matrix, b: Matrix, defines: Defines | None = None) -> Place:
    """Add the launches that find the extremes of A and B, and return the position of the four.

    Parameters
    ----------
    program : Program
    problem : Problem
    a, b : Matrix
    defines : Defines, optional
        Macros of the semiring that compare values other than the elements. None: the elements themselves.
    """
    defines = defines or semiring_defines(problem.semiring, problem.dtype)
    blocks = min(max(problem.m, problem.k), _PASS_BLOCKS // 4)
    shares = program.reserve("shares", 4 * blocks, problem.dtype)
    extremes = program.reserve("extremes", 4, problem.dtype)
    of_shares, of_all = (
        Kernel("extremes", defines, (_PASS_BLOCK,), function=f"extremes_of_{name}") for name in ("shares", "all")
    )
    lines = (*_lines(a, problem.m, problem.k), *_lines(b, problem.k, problem.n))
    program.launch(of_shares, (blocks, 2), *lines, shares)
    program.launch(of_all, 2, shares, blocks, extremes)
    return extremes


def _lines(x: Matrix, rows: int, columns: int) -> tuple[Place, int, int, int]:
    """Return a matrix, its leading dimension, and how many lines of how many elements lie in memory."""
    return (x.place, x.ld, *((columns, rows) if x.by_columns else (rows, columns)))
