"""Thirty-two bools a word: one LOP3 instruction is 32 ands and 32 ors.

    C words (m, n / 32)     c := c | (a & b)     A: a word of zeros or ones for each element; B: words along n

The kernel of gpu-tuned on words. `gpu-tensor-core` packs along k instead, and counts bits.

Source: bit-parallel Boolean matrix products; the kernel is that of gpu-tuned.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from backends.gpu._base.tuned_rung import TunedRung
from backends.gpu._cuda.device import planned
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import is_aligned
from backends.gpu._program.operators import Form, semiring_defines
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div
from backends.gpu._tensor.bit_product import pack_defines
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from harness.tuning.gpu.rungs import tuned_tiles

_PER_WORD, _WORD = 32, np.dtype(np.uint32)
_VECTOR = 4  # words of a vector; rows are padded to whole vectors
_PASS_BLOCK, _PASS_BLOCKS = 256, 4096
_COMBINE = {"lor_land": "c |= (a) & (b)", "lxor_land": "c ^= (a) & (b)"}
_FILL = 1  # K_TAIL of edges.cuh: zeros, which add nothing

# The argument `how` of `unpack`: store, or combine with the former value of C.
_STORE = 0
_ADD = {"lor_land": 1, "lxor_land": 3}


class Bits(TunedRung):
    """Bools as the bits of words."""

    name = "gpu-bits"
    step = 76
    idea = "32 bools share a word, and one LOP3 instruction does 32 ands and 32 ors"
    source = "bit-parallel Boolean matrix products; PTX ISA, lop3"
    most_dimensions = 0  # words are made product by product

    def declines(self, problem: Problem) -> str | None:
        """Decline all but or-and and xor-and."""
        is_known = problem.semiring.is_named and problem.semiring.name in _COMBINE
        return None if is_known else "words of bits compute or-and and xor-and of bools only"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the tiles, in words."""
        tiles, options = tuned_tiles(_word_problem(problem), planned(), can_share=False)
        return Plan(problem, 1, options={"edge": "redirected", **options}, launch=tiles)

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return none: words are made of rows."""
        return frozenset()

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the packing, the product of words, and the unpacking."""
        a, b, out, semiring = product.a, product.b, product.out, plan.problem.semiring.name
        m, n, k = product.m, product.n, product.k
        words = dataclasses.replace(plan, problem=_word_problem(plan.problem))
        columns, steps = words.problem.n, ceil_div(k, _VECTOR) * _VECTOR
        masks, bits, sums = (
            program.reserve(buffer, size, _WORD)
            for buffer, size in (("masks", m * steps), ("bits", k * columns), ("words", m * columns))
        )
        spread, pack, unpack = (
            Kernel("pack_bits", pack_defines(is_aligned=is_aligned(x, 1)), (_PASS_BLOCK,), function=name)
            for name, x in (("spread", a), ("pack_rows", b), ("unpack", out))
        )
        program.launch(spread, min(m, _PASS_BLOCKS), a.place, a.ld, m, k, masks, steps)
        program.launch(pack, min(k, _PASS_BLOCKS), b.place, b.ld, k, n, bits, columns)
        defines = semiring_defines(words.problem.semiring, _WORD, form=Form.ANY, accumulate=False)
        macros: dict[str, str | int] = {
            "ZERO": "0u",
            "COMBINE(c, a, b)": _COMBINE[semiring],
            "K_TAIL": _FILL,
            "IS_LONG": 0,  # one instruction, unlike the careful sum of words
            "IS_SPLIT": 0,  # words of k are not shared
        }
        operands = Matrix(masks, steps), Matrix(bits, columns), Matrix(sums, columns)
        of_words = Product(*operands, m, columns, k, Form.ANY, accumulate=False, extremes=masks)
        kernel = self.word_kernel(words, of_words, as_defines({**dict(defines), **macros}))
        program.launch(kernel, of_words.tiles(plan.launch.bm, plan.launch.bn), *of_words.arguments)
        how = _ADD[semiring] if product.accumulate else _STORE
        program.launch(unpack, min(m, _PASS_BLOCKS), sums, columns, out.place, out.ld, m, n, how)


def _word_problem(problem: Problem) -> Problem:
    """Return the product of words that does the work of `problem`, by whose dtype tiles are chosen."""
    columns = ceil_div(problem.n, _PER_WORD * _VECTOR) * _VECTOR
    return Problem(problem.m, columns, problem.k, SEMIRINGS["min_plus"], _WORD)
