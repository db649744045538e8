"""Two 16-bit elements a word: one instruction of DPX adds and compares both.

    c := min(c, a + b) in both halves of a word    viaddmin.s16x2; A holds each element twice, B neighbours of a row

Right where no element is the semiring's zero and no sum can pass an extreme: A and B are looked at on the GPU, and
where they are not so, the kernel of 16-bit elements, which saturates, does the work.

Source: NVIDIA, DPX instructions (CUDA Math API, SIMD intrinsics); the pipeline is that of gpu-pipelined.
"""

from __future__ import annotations

from backends.gpu._operators import Form, semiring_defines
from backends.gpu._pipelined_rung import PipelinedRung
from backends.gpu._program import Kernel, Matrix, Place, Program
from backends.gpu._word_product import PASS_BLOCK, PASS_BLOCKS, WORD, add_word_product, word_columns, word_plan
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import highest, lowest

_PER_WORD = 2
_INSTRUCTIONS = {
    ("min_plus", "int16"): "__viaddmin_s16x2",
    ("max_plus", "int16"): "__viaddmax_s16x2",
    ("min_plus", "uint16"): "__viaddmin_u16x2",
}


class Packed(PipelinedRung):
    """16-bit elements, two by two."""

    name = "gpu-packed"
    step = 75
    idea = "two 16-bit elements share a word, and one instruction adds and compares both"
    source = "NVIDIA CUDA Math API: DPX instructions"

    def declines(self, problem: Problem) -> str | None:
        """Decline all but (min, +) and (max, +) over 16-bit integers."""
        if not problem.semiring.is_named or (problem.semiring.name, problem.dtype.name) not in _INSTRUCTIONS:
            return "no instruction works on two elements: " + ", ".join(f"{s} {d} only" for s, d in _INSTRUCTIONS)
        return None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the tiles, in words."""
        return word_plan(problem, _PER_WORD)

    def multiply(
        self, program: Program, plan: Plan, form: Form, a: Matrix, b: Matrix, out: Matrix, found: Place
    ) -> None:
        """Add the packed product, or that of single elements for values that it is wrong for."""
        problem = plan.problem
        if form is not Form.FAST:
            super().multiply(program, plan, form, a, b, out, found)
            return
        m, n, k = problem.m, problem.n, problem.k
        columns = word_columns(n, _PER_WORD)
        twice, pairs, words, wide = (
            program.reserve(name, size, WORD)
            for name, size in (("twice", m * k), ("pairs", k * columns), ("words", m * columns), ("wide", 4))
        )
        defines = semiring_defines(problem.semiring, problem.dtype, form=form, accumulate=problem.accumulate)
        duplicate, pair, widen, separate = (
            Kernel("pack_pairs", defines, (PASS_BLOCK,), function=name)
            for name in ("duplicate", "pair", "widen", "separate")
        )
        program.launch(duplicate, PASS_BLOCKS, a.place, a.ld, m, k, twice)
        program.launch(pair, PASS_BLOCKS, b.place, b.ld, k, n, pairs, columns)
        program.launch(widen, 1, found, wide)
        operands = Matrix(twice, k), Matrix(pairs, columns), Matrix(words, columns)
        add_word_product(self, program, plan, _macros(problem), operands, columns, wide)
        program.launch(separate, PASS_BLOCKS, words, columns, out.place, out.ld, m, n, found)


def _macros(problem: Problem) -> dict[str, str | int]:
    """Return the operators on pairs, and when they are right: a condition on four words that hold single elements."""
    dtype = problem.dtype
    zero, low, high = (int(x) for x in (problem.semiring.zero(dtype), lowest(dtype), highest(dtype)))
    ends = ", ".join(f"(int)({end})" for end in "low_a high_a low_b high_b".split())
    return {
        "ZERO": f"{zero % (1 << 16) * 0x10001}u",
        "COMBINE(c, a, b)": f"c = {_INSTRUCTIONS[problem.semiring.name, dtype.name]}(a, b, c)",
        "IS_SAFE(low_a, high_a, low_b, high_b)": f"(sums_fit<int>({ends}, {zero}, {low}, {high}))",
        "FORM": Form.FAST.value,
    }
