"""Two 16-bit elements a word: one instruction works on both.

    c := c (+) a (x) b in both halves of a word; the halves are the even and the odd steps of k      (`pairs`)

Rows of A are such words in place if they are even and aligned. B becomes words by interleaving pairs of rows. (+) of
the two halves of a sum is an element of C.

Over integers it is right if no element is the semiring's zero and no sum can exceed an extreme. The extremes of A and
B, found on the GPU, decide; otherwise the saturating kernel of 16-bit elements does the work.

Source: NVIDIA, DPX instructions (CUDA Math API, SIMD intrinsics); the kernel is that of gpu-tuned.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from backends.gpu._base.tuned_rung import TunedRung, launch_tuned
from backends.gpu._cuda.device import planned
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div
from backends.gpu._simt import pairs
from backends.gpu._simt.pairs import PER_WORD, WORD
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from harness.tuning.gpu.rungs import paired_tiles

_PASS_BLOCK, _PASS_ROWS = 256, 1024

# Columns of words are padded to a multiple of this.
_VECTOR = 4


class Paired(TunedRung):
    """16-bit elements, two by two."""

    name = "gpu-paired"
    step = 75
    idea = "two 16-bit elements share a word, and one instruction works on both"
    source = "NVIDIA CUDA Math API: DPX instructions; PTX ISA: half precision instructions"
    takes = TunedRung.takes | {"half"}
    most_dimensions = 0  # words are made product by product

    def declines(self, problem: Problem) -> str | None:
        """Decline operations without an instruction on two elements at once."""
        return pairs.unsupported(problem.semiring, problem.dtype)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the tiles: those of 4-byte elements, bk in words."""
        tiles, options = paired_tiles(_words(problem), planned())
        return Plan(problem, 1, options={**options, "edge": "redirected"}, launch=tiles)

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return none: words are made of rows."""
        return frozenset()

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the product of words, or that of single elements for values that it cannot compute."""
        problem, a, b = plan.problem, product.a, product.b
        if product.form is not pairs.form_of(problem.dtype):
            super().multiply(program, plan, product)
            return
        m, n, k = product.m, product.n, product.k
        steps, columns = ceil_div(k, PER_WORD), ceil_div(n, _VECTOR) * _VECTOR
        if k % PER_WORD or a.ld % PER_WORD or a.alignment % WORD.itemsize:
            joined = Matrix(program.reserve("joined", m * steps, WORD), steps)
            join = Kernel("pack_pairs", (), (_PASS_BLOCK,), function="join")
            program.launch(join, _pass_grid(steps, m), a.place, a.ld, m, k, joined.place)
        else:
            joined = Matrix(a.place, a.ld // PER_WORD, a.alignment, line=steps)
        interleaved = Matrix(program.reserve("interleaved", steps * columns, WORD), columns)
        interleave = Kernel("pack_pairs", (), (_PASS_BLOCK,), function="interleave")
        program.launch(interleave, _pass_grid(columns, steps), b.place, b.ld, k, n, interleaved.place, columns)
        of_words = product._replace(a=joined, b=interleaved, k=steps)
        semiring = pairs.pair_defines(problem.semiring, problem.dtype, accumulate=product.accumulate)
        kernel = self.word_kernel(dataclasses.replace(plan, problem=_words(problem)), of_words, semiring)
        launch_tuned(program, kernel, plan, of_words)  # shares of k are stored, and added up, as single elements


def _pass_grid(width: int, rows: int) -> tuple[int, int]:
    """Return the blocks of a pass over `rows` of `width` words."""
    return ceil_div(width, _PASS_BLOCK), min(rows, _PASS_ROWS)


def _words(problem: Problem) -> Problem:
    """Return the product of words that does the work of `problem`: over floats for float16, whose words are as wide."""
    dtype = np.dtype(np.float32) if problem.dtype.kind == "f" else WORD
    return Problem(problem.m, problem.n, ceil_div(problem.k, PER_WORD), SEMIRINGS["min_plus"], dtype)
