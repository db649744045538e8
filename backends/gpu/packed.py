"""Two 16-bit elements a word: one instruction of DPX adds and compares both.

    c := min(c, a + b) in both halves of a word    viaddmin.s16x2; the halves are the even and the odd steps of k

So A is made of such words as it lies, if its rows are even and aligned, B becomes so by interleaving two rows each, and
an element of C is the lesser half of a sum.

Right where no element is the semiring's zero and no sum can pass an extreme: A and B are looked at on the GPU, and
where they are not so, the kernel of 16-bit elements, which saturates, does the work.

Source: NVIDIA, DPX instructions (CUDA Math API, SIMD intrinsics); the pipeline is that of gpu-pipelined.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from backends.gpu._operators import TYPES, Form, semiring_defines
from backends.gpu._pipelined_rung import PipelinedRung
from backends.gpu._program import Kernel, Matrix, Place, Program, ceil_div
from backends.gpu._raw_kernel import as_defines
from backends.gpu._tiled_rung import Product
from harness.machine import Machine
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import SEMIRINGS, highest, lowest
from harness.tuning_gpu import tuned_tiles

_PER_WORD = 2
_WORD = np.dtype(np.uint32)
_PASS_BLOCK, _PASS_ROWS = 256, 1024

# Columns of words are filled up to vectors of so many.
_VECTOR = 4

_INSTRUCTIONS = {
    ("min_plus", "int16"): "__viaddmin_s16x2",
    ("max_plus", "int16"): "__viaddmax_s16x2",
    ("min_plus", "uint16"): "__viaddmin_u16x2",
}
_CHOOSE = {"min_plus": "smaller", "max_plus": "greater"}


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
        """Choose the tiles: those of 4-byte integers, bk in words."""
        tiles, options = tuned_tiles(_words(problem), can_share=False)
        return Plan(problem, 1, options={**options, "edge": "redirected"}, launch=tiles)

    def multiply(
        self, program: Program, plan: Plan, form: Form, a: Matrix, b: Matrix, out: Matrix, found: Place
    ) -> None:
        """Add the packed product, or that of single elements for values that it is wrong for."""
        if form is not Form.FAST:
            super().multiply(program, plan, form, a, b, out, found)
            return
        problem = plan.problem
        m, n, k = problem.m, problem.n, problem.k
        defines = semiring_defines(problem.semiring, problem.dtype)
        steps, columns = ceil_div(k, _PER_WORD), ceil_div(n, _VECTOR) * _VECTOR
        if k % _PER_WORD or a.ld % _PER_WORD or a.alignment % _WORD.itemsize:
            joined = Matrix(program.reserve("joined", m * steps, _WORD), steps)
            join = Kernel("pack_pairs", defines, (_PASS_BLOCK,), function="join")
            program.launch(join, _pass_grid(steps, m), a.place, a.ld, m, k, joined.place)
        else:
            joined = Matrix(a.place, a.ld // _PER_WORD, a.alignment)
        interleaved = Matrix(program.reserve("interleaved", steps * columns, _WORD), columns)
        interleave = Kernel("pack_pairs", defines, (_PASS_BLOCK,), function="interleave")
        program.launch(interleave, _pass_grid(columns, steps), b.place, b.ld, k, n, interleaved.place, columns)
        words = dataclasses.replace(plan, problem=_words(problem))
        self._add_words(
            program, words, problem, Product(joined, interleaved, out, m, n, steps, "redirected", False), found
        )

    def _add_words(self, program: Program, words: Plan, problem: Problem, product: Product, found: Place) -> None:
        """Add the kernel of words."""
        launch = self.prepare_launch(words)
        semiring = dict(semiring_defines(SEMIRINGS["min_plus"], _WORD, form=Form.FAST, accumulate=problem.accumulate))
        redirected = {"EDGE": 1}  # REDIRECTED of edges.cuh
        defines = as_defines({**semiring, **_macros(problem), **redirected}) + self.tile_defines(words, product)
        kernel = Kernel("pipelined", defines, (launch.threads,), self.shared_bytes(launch, _WORD.itemsize))
        blocks = ceil_div(product.m, launch.bm) * ceil_div(product.n, launch.bn)
        a, b, out = product.a, product.b, product.out
        sizes = product.m, product.n, product.k
        program.launch(kernel, blocks, a.place, b.place, out.place, *sizes, a.ld, b.ld, out.ld, found)


def _pass_grid(width: int, rows: int) -> tuple[int, int]:
    """Return the blocks of a pass over `rows` of `width` words."""
    return ceil_div(width, _PASS_BLOCK), min(rows, _PASS_ROWS)


def _words(problem: Problem) -> Problem:
    """Return the product of words that does the work of `problem`."""
    return Problem(problem.m, problem.n, ceil_div(problem.k, _PER_WORD), SEMIRINGS["min_plus"], _WORD)


def _macros(problem: Problem) -> dict[str, str | int]:
    """Return the operators on pairs, what becomes of a sum, and when that is right."""
    dtype, name = problem.dtype, problem.semiring.name
    zero, low, high = (int(x) for x in (problem.semiring.zero(dtype), lowest(dtype), highest(dtype)))
    ends = ", ".join(f"(int)({end})" for end in "low_a high_a low_b high_b".split())
    element, choose = TYPES[dtype.name], _CHOOSE[name]
    return {
        "ZERO": f"{zero % (1 << 16) * 0x10001}u",
        "COMBINE(c, a, b)": f"c = {_INSTRUCTIONS[name, dtype.name]}(a, b, c)",
        "RESULT": element,
        "FINISHED(x)": f"({choose}<{element}>(({element})(x), ({element})((x) >> 16)))",
        "ADD(c, t)": f"({choose}<{element}>(c, t))",
        "FOUND": element,
        "IS_SAFE(low_a, high_a, low_b, high_b)": f"(sums_fit<int>({ends}, {zero}, {low}, {high}))",
        "FORM": Form.FAST.value,
    }
