"""Few terms and a C beyond the caches: each row of C passes through once, in one run.

    for i over m:
        for j over n by vectors:   C[i, j] := [C[i, j] (+)] A[i, 0] (x) B[0, j] (+) A[i, 1] (x) B[1, j] ...

So C is one stream, which the processor's prefetchers follow, and the few rows of B stay in L2. The register tile would
meet C in pieces of a few cache lines, in as many rows as it has. A triangle of C takes rows that grow by one element.

Threads share rows of C, by area. Memory bounds these loops: a C that is combined is read and written once.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._cache.key import kernel_builder
from backends.cpu._ir.call_by_address import call_function
from backends.cpu._ir.functions import compile_functions
from backends.cpu._ir.integers import Translated, translated
from backends.cpu._simd.argument_table import Loops, Shape, Stage, cut_evenly
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.matrix_vector import combine_row
from backends.cpu._simd.part import NO_DIAGONAL, Part
from backends.cpu._simd.symmetric import cut_by_area
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.elements import load_factor
from backends.cpu._vector.intrinsics import Emit, word_at
from harness.tuning import simd_parts as tuning_parts

AHEAD = tuning_parts.SIMD_UPDATE_AHEAD


class UpdateLoops(Loops):
    """The loops of a product of few terms; rows of B and of C are contiguous, A has any strides."""

    __slots__ = ()

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return zeros: nothing is packed."""
        return 0, 0

    def stages(self, shape: Shape, accumulate: bool) -> list[Stage]:
        """Return the parts of the rows of C, of about equal area."""
        is_triangle = self.triangle == "d"
        cut = functools.partial(cut_by_area, is_upper=False) if is_triangle else cut_evenly
        whole = shape.part(accumulate)
        parts = [
            whole._replace(
                m=end - i,
                a=i * shape.strides_a[0],
                c=i * shape.row_stride_out,
                diagonal=-i if is_triangle else NO_DIAGONAL,
            )
            for i, end in itertools.pairwise(cut(shape.m, self.grid[0], 1))
        ]
        return [Stage(build_update(), parts, _kernel_table(self.key, shape.k))]


@functools.cache
def _kernel_table(key: KernelKey, terms: int) -> np.ndarray:
    """Compile the function of so many terms, and return its table, of int64."""

    def emit(module: ir.Module) -> list[Any]:
        name = f"update_{terms}" + "_careful" * key.operations.is_careful
        return [v.own_function(module, name, [v.SIZE] * 11, _update_rows(key, terms))]

    return np.array(compile_functions("update", (key, terms, AHEAD), emit, unrolls=True), np.int64)


def _update_rows(key: KernelKey, terms: int) -> Emit:
    """Return the emitter of ``update(rows, n, growth, a, lda, step_a, b, ldb, c, ldc, accumulate)``.

    The first row has n elements, and each other one `growth` more than that before it.
    """
    code = key.code()

    def emit(
        b: Builder, rows: Value, n: Value, growth: Value, a: Value, lda: Value, step_a: Value, first: Value, ldb: Value,
        c: Value, ldc: Value, accumulate: Value,
    ) -> None:  # fmt: skip
        rows_of_b = [b.add(first, b.mul(ldb, v.size(p))) for p in range(terms)]

        def in_form(is_combining: bool) -> None:
            def one(state: list[Value]) -> list[Value]:
                x, y, count = state
                places = [b.inttoptr(b.add(x, b.mul(step_a, v.size(p))), v.POINTER) for p in range(terms)]
                factors = [load_factor(key.operations, code, b, place) for place in places]
                combine_row(key, code, b, count, rows_of_b, factors, y, is_combining=is_combining, ahead_of_y=AHEAD)
                return [b.add(x, lda), b.add(y, ldc), b.add(count, growth)]

            v.loop(b, rows, [a, c, n], one)

        v.in_both_forms(b, accumulate, in_form)

    return emit


@kernel_builder
def build_update() -> Translated:
    """Compile ``product(part)``, with a `diagonal` as `_simd.loops.build_product`; nothing is packed."""

    def product(part: Part) -> None:
        """Stream the rows of C."""
        is_triangle = part.diagonal != NO_DIAGONAL
        first, growth = (1 - part.diagonal, 1) if is_triangle else (part.n, 0)
        of_a, of_b, of_c = (part.a, part.rs_a, part.cs_a), (part.b, part.rs_b), (part.c, part.rs_c)
        call_function(word_at(part.kernel), (part.m, first, growth, *of_a, *of_b, *of_c, part.accumulate))

    return translated(product, Part)
