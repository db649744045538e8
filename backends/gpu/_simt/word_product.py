"""Products over words of 32 bits that hold several elements: the kernel of gpu-tuned, with operators on whole words."""

from __future__ import annotations

import dataclasses

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._simt.operators import Form, semiring_defines
from backends.gpu._simt.program import Kernel, Matrix, Place, Program, ceil_div
from backends.gpu._simt.tiled_rung import Product, launch_product
from backends.gpu._simt.tuned_rung import TunedRung
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from harness.tuning.gpu import tuned_tiles

WORD = np.dtype(np.uint32)
PASS_BLOCK, PASS_BLOCKS = 256, 4096

# Columns of words are filled up to vectors of so many.
VECTOR = 4


def word_columns(n: int, per_word: int) -> int:
    """Return how many words a row of n elements takes, in whole vectors."""
    return ceil_div(n, per_word * VECTOR) * VECTOR


def word_plan(problem: Problem, per_word: int) -> Plan:
    """Return the tiles and options for a product of words: those of 4-byte integers."""
    words = _word_problem(problem, word_columns(problem.n, per_word))
    tiles, options = tuned_tiles(words, can_share=False)
    return Plan(problem, 1, options={"edge": "redirected", **options}, launch=tiles)


def add_word_product(
    rung: TunedRung,
    program: Program,
    plan: Plan,
    macros: dict[str, str | int],
    operands: tuple[Matrix, Matrix, Matrix],
    columns: int,
    extremes: Place,
) -> None:
    """Add ``words := a (x) b`` over words.

    Parameters
    ----------
    rung : TunedRung
    program : Program
    plan : Plan
        With the tiles, of words.
    macros : dict
        What differs from `min_plus` over unsigned words: ``ZERO``, ``ADD(c, t)``, ``MULTIPLY(a, b)``,
        ``COMBINE(c, a, b)``, ``FORM``, ``IS_SAFE(...)``; ``K_TAIL`` where repeating a step of k would do harm.
    operands : (Matrix, Matrix, Matrix)
        (m, k), (k, columns) and (m, columns) words.
    columns : int
    extremes : Place
        Four words, if the form asks for them.
    """
    a, b, out = operands
    words = dataclasses.replace(plan, problem=_word_problem(plan.problem, columns))
    launch = rung.prepare_launch(words)
    m, k = words.problem.m, words.problem.k
    product = Product(a, b, out, m, columns, k, "redirected", accumulate=False)
    semiring = dict(semiring_defines(words.problem.semiring, WORD, form=Form.ANY, accumulate=False))
    whole = {"EDGE": 1, "IS_SPLIT": 0}  # REDIRECTED of edges.cuh; words of k are not shared
    defines = as_defines({**semiring, **macros, **whole}) + rung.tile_defines(words, product)
    kernel = Kernel("tuned", defines, (launch.threads,), rung.shared_bytes(launch, WORD.itemsize))
    launch_product(program, kernel, product, (launch.bm, launch.bn), extremes)


def _word_problem(problem: Problem, columns: int) -> Problem:
    return Problem(problem.m, columns, problem.k, SEMIRINGS["min_plus"], WORD)
