"""Thirty-two bools a word: one LOP3 instruction is 32 ands and 32 ors.

    C words (m, n / 32)     c := c | (a & b)     A: a word of zeros or of ones an element; B: words along n

The kernel of gpu-tuned on words. `gpu-tensor-core` packs along k instead, and counts.

Source: bit-parallel Boolean matrix products; the kernel is that of gpu-tuned.
"""

from __future__ import annotations

from backends.gpu._simt.operators import Form
from backends.gpu._simt.padding import is_aligned
from backends.gpu._simt.program import Kernel, Matrix, Place, Program, ceil_div
from backends.gpu._simt.tuned_rung import TunedRung
from backends.gpu._simt.word_product import (
    PASS_BLOCK,
    PASS_BLOCKS,
    VECTOR,
    WORD,
    add_word_product,
    word_columns,
    word_plan,
)
from backends.gpu._tensor.bit_product import pack_defines
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem

_PER_WORD = 32
_COMBINE = {"lor_land": "c |= (a) & (b)", "lxor_land": "c ^= (a) & (b)"}
_FILL = 1  # K_TAIL of edges.cuh: zeros, which add nothing

# What `unpack` does with what is there.
_STORE = 0
_ADD = {"lor_land": 1, "lxor_land": 3}


class Bits(TunedRung):
    """Bools as the bits of words."""

    name = "gpu-bits"
    step = 76
    idea = "32 bools share a word, and one LOP3 instruction does 32 ands and 32 ors"
    source = "bit-parallel Boolean matrix products; PTX ISA, lop3"

    def declines(self, problem: Problem) -> str | None:
        """Decline all but or-and and xor-and."""
        is_known = problem.semiring.is_named and problem.semiring.name in _COMBINE
        return None if is_known else "words of bits compute or-and and xor-and of bools only"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the tiles, in words."""
        return word_plan(problem, _PER_WORD)

    def multiply(
        self, program: Program, plan: Plan, form: Form, a: Matrix, b: Matrix, out: Matrix, extremes: Place
    ) -> None:
        """Add the packing, the product of words, and the unpacking."""
        problem, semiring = plan.problem, plan.problem.semiring.name
        m, n, k = problem.m, problem.n, problem.k
        columns, steps = word_columns(n, _PER_WORD), ceil_div(k, VECTOR) * VECTOR
        masks, bits, words = (
            program.reserve(buffer, size, WORD)
            for buffer, size in (("masks", m * steps), ("bits", k * columns), ("words", m * columns))
        )
        spread, pack, unpack = (
            Kernel("pack_bits", pack_defines(is_aligned=is_aligned(x, 1)), (PASS_BLOCK,), function=name)
            for name, x in (("spread", a), ("pack_rows", b), ("unpack", out))
        )
        program.launch(spread, min(m, PASS_BLOCKS), a.place, a.ld, m, k, masks, steps)
        program.launch(pack, min(k, PASS_BLOCKS), b.place, b.ld, k, n, bits, columns)
        macros: dict[str, str | int] = {
            "ZERO": "0u",
            "COMBINE(c, a, b)": _COMBINE[semiring],
            "K_TAIL": _FILL,
            "IS_LONG": 0,  # one instruction, unlike the careful sum that it stands for
        }
        operands = Matrix(masks, steps), Matrix(bits, columns), Matrix(words, columns)
        add_word_product(self, program, plan, macros, operands, columns, masks)
        how = _ADD[semiring] if problem.accumulate else _STORE
        program.launch(unpack, min(m, PASS_BLOCKS), words, columns, out.place, out.ld, m, n, how)
