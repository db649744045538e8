"""A matrix by a vector, and a vector by a matrix: the matrix is streamed once, in memory order.

    n = 1    i over m     rows of A along k: dot products, in vectors of partial sums
    m = 1    p over k     rows of B along n: they are combined with y, which stays in L1

Long rows are taken ROWS at a time: so many streams bring more of memory at once than one does, and a vector of x, or of
y, is loaded once for all of them. Short rows without gaps are taken one by one, since the matrix is one stream then.
Several rows of it are streams within few pages, which the processor's prefetchers do not follow. Either way what lies
behind is prefetched into L2.

Threads share rows of the matrix, which lie side by side in memory. Rows of B are parts of k, as are columns of an A
with few rows: each part has sums of its own, which `_simd.fold_stage` combines in the order of the parts.

The register tile of the other kernels would be nearly empty: one lane of a vector of B, or one row of a tile. Memory
bounds these loops, so their measure is the share of the bandwidth that they reach.

Source: Goto and van de Geijn (2008), section 2; the matrix-vector variants of lectures on dense matrix algorithms.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._cache.key import kernel_builder
from backends.cpu._ir.call_by_address import address_of, call, call_function
from backends.cpu._ir.functions import compile_functions
from backends.cpu._ir.integers import Translated, translated
from backends.cpu._simd.argument_table import Loops, Shape, Stage, cut_evenly
from backends.cpu._simd.dot_products import emit_dots
from backends.cpu._simd.fold_stage import fold_stage
from backends.cpu._simd.kernel import INTO_L2, KernelKey
from backends.cpu._simd.kernel_table import WORD
from backends.cpu._simd.packing import build_gather
from backends.cpu._simd.part import Part
from backends.cpu._simd.partial_sums import length_of_sums
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.elements import Factor, extend, load_factor
from backends.cpu._vector.intrinsics import Emit, word_at
from backends.cpu._vector.vectors import VectorCode
from harness.operands import CACHE_LINE
from harness.tuning import simd as tuning_simd

ROWS = 8  # of the matrix at once: as many streams as the prefetchers follow
SUMS = 4  # vectors of partial sums of a row that is taken alone: enough to hide the latency of an FMA
BESIDE = 2  # vectors of y at once
SHORTEST = tuning_simd.SIMD_SHORTEST_ALONE  # rows that are taken one by one [bytes]


class VectorLoops(Loops):
    """The loops of a product with n = 1 or m = 1.

    Rows of A for n = 1, rows of B for m = 1, are contiguous; ``packs_b``: copy the vector B, whose elements are not.
    """

    __slots__ = ()

    @property
    def steps(self) -> tuple[int, int]:
        """Whole groups of rows, so that the bits of a result do not depend on the parts; and whole vectors of y."""
        return ROWS, self.key.lanes

    def compile(self) -> Any:
        """Return the compiled loops."""
        return build_vector_product()

    def kernel(self) -> np.ndarray:
        """Return the table of the kernel: NUMBERS, and functions of rows of A and of B."""
        return _kernel_table(self.key)

    @property
    def shares_scratch(self) -> bool:
        """Whether parts of k leave their sums in scratch."""
        return self.parts_of_k > 1

    def stages(self, shape: Shape, accumulate: bool) -> list[Stage]:
        """Return the parts of the grid, or parts of k and a stage that combines their sums."""
        if self.parts_of_k == 1:
            return super().stages(shape, accumulate)
        key, itemsize, elements = self.key, self.key.itemsize, shape.m * shape.n
        bounds = cut_evenly(shape.k, self.parts_of_k, ROWS if shape.n > 1 else SUMS * key.lanes)
        length = length_of_sums(elements, itemsize)
        whole = shape.part()._replace(rs_c=itemsize, packs_a=True)
        parts = [
            whole._replace(k=end - p, a=p * shape.strides_a[1], b=p * shape.strides_b[0], packed_a=number * length)
            for number, (p, end) in enumerate(itertools.pairwise(bounds))
        ]
        last = fold_stage(key, elements, self.threads, lambda _: (0, len(parts)), accumulate)
        return [Stage(self.compile(), parts, self.kernel()), last]

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return the bytes of sums of parts of k, and those of a copy of x."""
        itemsize = self.key.itemsize
        sums = self.parts_of_k * length_of_sums(m * n, itemsize) if self.parts_of_k > 1 else 0
        return sums, k * itemsize if self.packs_b else 0


# The words of a kernel's table: numbers, then functions. Those of rows of A take ROWS at a time, and one by one. Those
# of rows of B take them one by one, and 1 to ROWS at a time.
ITEMSIZE, LONGEST_OF_A, LONGEST_OF_B, GATHER, GROUPS_OF_A, ROWS_OF_A, ROWS_OF_B, COMBINE = range(8)


@functools.cache
def _kernel_table(key: KernelKey) -> np.ndarray:
    """Compile the functions of a kernel, and return its table, of int64."""
    longest_of_a, longest_of_b, ahead = tuning_simd.streams(key.vector_unit.size_bytes)
    functions = compile_functions("vector", (key, ahead), functools.partial(_emit_functions, key, ahead), unrolls=True)
    numbers = key.itemsize, longest_of_a, longest_of_b
    return np.array([*numbers, address_of(build_gather(key)), *functions], np.int64)


def _emit_functions(key: KernelKey, ahead: int, module: ir.Module) -> list[Any]:
    """Write the functions, which prefetch what lies `ahead` bytes behind; 0: nothing.

    Of rows of A: ``multiply(groups, k, a, lda, x, y, rs_y, accumulate)``. Of rows of B, all but the first one:
    ``combine_each(rows, n, b, ldb, x, step_x, y)``; of up to ROWS: ``combine(n, b, ldb, x, step_x, y, accumulate)``.
    """
    code, suffix = key.code(), "_careful" * key.operations.is_careful
    return [
        v.own_function(module, f"groups{suffix}", [v.SIZE] * 8, _groups_of_rows(key, code, (ROWS, 1), ahead)),
        v.own_function(module, f"rows{suffix}", [v.SIZE] * 8, _groups_of_rows(key, code, (1, SUMS), ahead)),
        v.own_function(module, f"combine_each{suffix}", [v.SIZE] * 7, _combine_each(key, code, ahead)),
        *v.numbered_functions(module, f"combine{suffix}", ROWS, 7, functools.partial(_combine_rows, key, code, ahead)),
    ]


def _groups_of_rows(key: KernelKey, code: VectorCode, shape: tuple[int, int], ahead: int = 0) -> Emit:
    """Return the emitter of dot products by groups of rows; `shape` and `ahead` as in `emit_dots`."""

    def emit(
        b: Builder, groups: Value, k: Value, a: Value, lda: Value, x: Value, y: Value, rs_y: Value, accumulate: Value
    ) -> None:
        def one(state: list[Value]) -> list[Value]:
            at_once = max(shape[0] // code.parts, 1)  # as many sums for complex numbers
            for first in range(0, shape[0], at_once):
                of_a, of_y = (b.add(z, b.mul(step, v.size(first))) for z, step in zip(state, (lda, rs_y), strict=True))
                rows = at_once, shape[1]
                emit_dots(key.operations, code, rows, b, k, of_a, lda, x, of_y, rs_y, accumulate, ahead)
            return [b.add(z, b.mul(step, v.size(shape[0]))) for z, step in zip(state, (lda, rs_y), strict=True)]

        v.loop(b, groups, [a, y], one)

    return emit


def _combine_each(key: KernelKey, code: VectorCode, ahead: int) -> Emit:
    """Return the emitter of rows one by one: ``y := y (+) x[p] (x) b[p]`` for each p."""

    def emit(b: Builder, rows: Value, n: Value, first: Value, ldb: Value, x: Value, step_x: Value, y: Value) -> None:
        def one(state: list[Value]) -> list[Value]:
            row, factor = state
            scalar = load_factor(key.operations, code, b, b.inttoptr(factor, v.POINTER))
            combine_row(key, code, b, n, [row], [scalar], y, is_combining=True, ahead=ahead)
            return [b.add(row, ldb), b.add(factor, step_x)]

        v.loop(b, rows, [first, x], one)

    return emit


def _combine_rows(key: KernelKey, code: VectorCode, ahead: int, rows: int) -> Emit:
    """Return the emitter of `rows` rows: ``y := [y (+)] x[0] (x) b[0] (+) x[1] (x) b[1] ...``."""

    def emit(
        b: Builder, n: Value, first: Value, ldb: Value, x: Value, step_x: Value, y: Value, accumulate: Value
    ) -> None:
        starts = [b.add(first, b.mul(ldb, v.size(r))) for r in range(rows)]
        places = [b.inttoptr(b.add(x, b.mul(step_x, v.size(r))), v.POINTER) for r in range(rows)]
        factors = [load_factor(key.operations, code, b, place) for place in places]
        v.in_both_forms(
            b,
            accumulate,
            lambda is_combining: combine_row(
                key, code, b, n, starts, factors, y, is_combining=is_combining, ahead=ahead
            ),
        )

    return emit


def combine_row(
    key: KernelKey, code: VectorCode, b: Builder, n: Value, rows: list[Value], factors: list[Factor], y: Value,
    *, is_combining: bool, ahead: int = 0, ahead_of_y: int = 0,
) -> None:  # fmt: skip
    """Emit ``y := [y (+)] factors[0] (x) rows[0] (+) ...`` for rows of n elements.

    What lies `ahead` bytes behind in each row is prefetched into L2, and `ahead_of_y` in y; 0: nothing is.
    """
    operations, zero = key.operations, code.constant(key.operations.zero)
    starts, target = [b.inttoptr(row, v.POINTER) for row in rows], b.inttoptr(y, v.POINTER)

    def some(offset: Value, count: int, edge: Value | None = None) -> Value:
        places = [v.advance(b, target, b.add(offset, v.size(i * code.size_bytes))) for i in range(count)]
        totals = [code.load(b, place, edge) if is_combining else zero for place in places]
        for factor, start in zip(factors, starts, strict=True):
            for i in range(count):
                place = v.advance(b, start, b.add(offset, v.size(i * code.size_bytes)))
                if ahead and edge is None:
                    v.prefetch(b, v.advance(b, place, ahead), INTO_L2)
                element = code.load(b, place, edge)
                totals[i] = extend(operations, code, b, totals[i], factor, element)
        for total, place in zip(totals, places, strict=True):
            if ahead_of_y and edge is None:
                v.prefetch(b, v.advance(b, place, ahead_of_y), INTO_L2)
            code.store(b, total, place, edge)
        return b.add(offset, v.size(count * code.size_bytes))

    pairs, left = b.udiv(n, v.size(BESIDE * code.elements)), b.urem(n, v.size(BESIDE * code.elements))
    state = v.loop(b, pairs, [v.size(0)], lambda state: [some(state[0], BESIDE)])
    (offset,) = v.loop(b, b.udiv(left, v.size(code.elements)), state, lambda state: [some(state[0], 1)])
    left = b.urem(left, v.size(code.elements))
    with b.if_then(b.icmp_signed("!=", left, v.size(0))):
        some(offset, 1, code.edge(b, left))


def _are_alone(row_bytes: int, stride: int, longest: int) -> bool:
    """Return whether rows are taken one by one."""
    return SHORTEST <= row_bytes <= longest and row_bytes <= stride <= row_bytes + CACHE_LINE


@kernel_builder
def build_vector_product() -> Translated:
    """Compile ``product(part)``, with m or n = 1.

    ``packs_a``: the results are sums of a part of k, and go to scratch.
    """

    def product(part: Part) -> None:
        """Stream the matrix."""
        m, n, k, a, rs_a, cs_a, b, rs_b = part.m, part.n, part.k, part.a, part.rs_a, part.cs_a, part.b, part.rs_b
        accumulate, kernel = part.accumulate, part.kernel
        y, rs_y, itemsize = part.packed_a if part.packs_a else part.c, part.rs_c, word_at(kernel + ITEMSIZE * WORD)
        is_dot = n == 1 and cs_a == itemsize and (part.packs_b != 0 or rs_b == itemsize)
        if not is_dot:  # m = 1; even if n = 1 in a part, rows of B may have gaps
            at_once = 1 if _are_alone(n * itemsize, rs_b, word_at(kernel + LONGEST_OF_B * WORD)) else ROWS
            for p in range(0, k if at_once > 1 else 1, at_once):
                combine = word_at(kernel + (COMBINE - 1 + min(at_once, k - p)) * WORD)
                adds = 1 if accumulate != 0 or p > 0 else 0
                call_function(combine, (n, b + p * rs_b, rs_b, a + p * cs_a, cs_a, y, adds))
            if at_once == 1:
                call_function(word_at(kernel + ROWS_OF_B * WORD), (k - 1, n, b + rs_b, rs_b, a + cs_a, cs_a, y))
            return
        x = b
        if part.packs_b:
            call(word_at(kernel + GATHER * WORD), (1, k, b, 0, rs_b, part.packed_b, 0))
            x = part.packed_b
        groups = 0 if _are_alone(k * itemsize, rs_a, word_at(kernel + LONGEST_OF_A * WORD)) else m // ROWS
        call_function(word_at(kernel + GROUPS_OF_A * WORD), (groups, k, a, rs_a, x, y, rs_y, accumulate))
        i = groups * ROWS
        call_function(
            word_at(kernel + ROWS_OF_A * WORD), (m - i, k, a + i * rs_a, rs_a, x, y + i * rs_y, rs_y, accumulate)
        )

    return translated(product, Part)
