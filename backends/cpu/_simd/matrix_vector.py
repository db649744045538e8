"""A matrix by a vector, and a vector by a matrix: the matrix is streamed once, in memory order.

    n = 1    i over m by ROWS      rows of A along k: dot products, in vectors of partial sums
    m = 1    p over k by TERMS     rows of B along n: TERMS of them are combined with y at a time, which stays in L1

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
from numba import types

from backends.cpu._compile.call_by_address import address_of, call, call_function
from backends.cpu._compile.functions import compile_functions
from backends.cpu._ladder.jit import jit
from backends.cpu._simd.argument_table import Loops, Shape, Stage, cut_evenly
from backends.cpu._simd.dot_products import ROWS, SUMS, dots_functions, multiply_columns
from backends.cpu._simd.fold_stage import fold_stage
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import WORD
from backends.cpu._simd.loops import ARGUMENTS
from backends.cpu._simd.packing import build_gather
from backends.cpu._simd.partial_sums import length_of_sums
from backends.cpu._simd.row_stream import RowStream
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value, VectorCode
from backends.cpu._vector.intrinsics import Emit, word_at

TERMS = 8  # rows of B at once: as many streams as the prefetchers follow


class VectorLoops(Loops):
    """The loops of a product with n = 1 or m = 1.

    Rows of A for n = 1, rows of B for m = 1, are contiguous; ``packs_b``: copy the vector B, whose elements are not.
    """

    __slots__ = ()

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
        key, itemsize, elements = self.key, np.dtype(self.key.dtype).itemsize, shape.m * shape.n
        bounds = cut_evenly(shape.k, self.parts_of_k, TERMS if shape.n > 1 else SUMS * key.lanes)
        length = length_of_sums(elements, itemsize)
        parts = [
            (
                shape.m, shape.n, end - p,
                p * shape.strides_a[1], *shape.strides_a, p * shape.strides_b[0], *shape.strides_b,
                0, itemsize, False, 0, 0, 0, 0, 0, True, False, number * length, 0, 0,
            )
            for number, (p, end) in enumerate(itertools.pairwise(bounds))
        ]  # fmt: skip
        last = fold_stage(key, elements, self.threads, lambda _: (0, len(parts)), accumulate)
        return [Stage(self.compile(), parts, self.kernel()), last]

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return the bytes of sums of parts of k, and those of a copy of x."""
        itemsize = np.dtype(self.key.dtype).itemsize
        sums = self.parts_of_k * length_of_sums(m * n, itemsize) if self.parts_of_k > 1 else 0
        return sums, k * itemsize if self.packs_b else 0


# The words of a kernel's table: numbers, then `dots_functions` of 1 to ROWS rows, then those of 1 to TERMS rows of B.
ITEMSIZE, GATHER, DOTS, COMBINE = 0, 1, 2, 2 + ROWS


@functools.cache
def _kernel_table(key: KernelKey) -> np.ndarray:
    """Compile the functions of a kernel, and return its table, of int64."""
    functions = compile_functions("vector", key, functools.partial(_emit_functions, key), unrolls=True)
    return np.array([np.dtype(key.dtype).itemsize, address_of(build_gather(key)), *functions], np.int64)


def _emit_functions(key: KernelKey, module: ir.Module) -> list[Any]:
    """Write the functions; those of rows of B are ``combine_rows(n, b, ldb, x, step_x, y, accumulate)``."""
    emitter = functools.partial(_combine_rows, key, key.code())
    return [
        *dots_functions(module, key, is_streamed=True),
        *v.numbered_functions(module, "combine" + "_careful" * key.operations.is_careful, TERMS, 7, emitter),
    ]


def _combine_rows(key: KernelKey, code: VectorCode, rows: int) -> Emit:
    """Return the emitter of `rows` rows: ``y := [y (+)] x[0] (x) b[0] (+) x[1] (x) b[1] ...``."""
    operations, lanes, zero = key.operations, code.lanes, code.constant(key.operations.zero)

    def emit(
        b: Builder, n: Value, first: Value, ldb: Value, x: Value, step_x: Value, y: Value, accumulate: Value
    ) -> None:
        starts = [b.inttoptr(b.add(first, b.mul(ldb, v.size(r))), v.POINTER) for r in range(rows)]
        factors = [code.broadcast(b, b.inttoptr(b.add(x, b.mul(step_x, v.size(r))), v.POINTER)) for r in range(rows)]
        target = b.inttoptr(y, v.POINTER)
        stream = RowStream(b, b.mul(n, v.size(code.dtype.itemsize)), ldb)

        def one(offset: Value, total: Value, edge: Value | None = None) -> Value:
            if edge is None:
                stream.ask(b, starts, offset, code.size_bytes)
            for factor, start in zip(factors, starts, strict=True):
                of_b = code.load(b, v.advance(b, start, offset), edge)
                total = operations.extend(code, b, total, factor, of_b)
            code.store(b, total, v.advance(b, target, offset), edge)
            return b.add(offset, v.size(code.size_bytes))

        def all_of_them(is_combining: bool) -> None:
            def before(offset: Value, edge: Value | None) -> Value:
                return code.load(b, v.advance(b, target, offset), edge) if is_combining else zero

            whole, left = b.udiv(n, v.size(lanes)), b.urem(n, v.size(lanes))
            (offset,) = v.loop(b, whole, [v.size(0)], lambda state: [one(state[0], before(state[0], None))])
            with b.if_then(b.icmp_signed("!=", left, v.size(0))):
                edge = code.edge(b, left)
                one(offset, before(offset, edge), edge)

        v.in_both_forms(b, accumulate, all_of_them)

    return emit


@functools.cache
def build_vector_product() -> Any:
    """Compile the loops; their arguments are those of `_simd.loops.build_product`, with m or n = 1.

    ``packs_a``: the results are sums of a part of k, and go to scratch.
    """

    def product(
        m: int, n: int, k: int, a: int, rs_a: int, cs_a: int, b: int, rs_b: int, cs_b: int, c: int, rs_c: int,
        accumulate: int, block: int, rs_block: int, mc: int, nc: int, kc: int, packs_a: int, packs_b: int,
        packed_a: int, packed_b: int, diagonal: int, kernel: int,
    ) -> None:  # fmt: skip
        """Stream the matrix."""
        y, itemsize = packed_a if packs_a else c, word_at(kernel + ITEMSIZE * WORD)
        is_dot = n == 1 and cs_a == itemsize and (packs_b != 0 or rs_b == itemsize)
        if not is_dot:  # m = 1; even if n = 1 in a part, rows of B may have gaps
            for p in range(0, k, TERMS):
                adds = 1 if accumulate != 0 or p > 0 else 0
                combine_rows = word_at(kernel + (COMBINE - 1 + min(TERMS, k - p)) * WORD)
                call_function(combine_rows, (n, b + p * rs_b, rs_b, a + p * cs_a, cs_a, y, adds))
            return
        x = b
        if packs_b:
            call(word_at(kernel + GATHER * WORD), (1, k, b, 0, rs_b, packed_b, 0))
            x = packed_b
        multiply_columns(kernel + DOTS * WORD, m, 1, k, a, rs_a, x, 0, y, rs_c, itemsize, accumulate)

    return jit(None, *[types.intp] * len(ARGUMENTS), parallel=False)(product)
