"""Dot products of rows of A with one column, generated: both are read along k, in vectors of partial sums.

    for i in range(rows):  y[i] := [y[i] (+)] (+)_p  A[i, p] (x) x[p]

For n = 1 that is the product (`_simd.matrix_vector`). The loops around the micro-kernel also compute the few columns
left after whole vectors in this way. A tile for them would take as long as for a whole vector.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from backends.cpu._ladder.jit import jit
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value, VectorCode
from backends.cpu._vector.intrinsics import Emit, switch_intrinsic

ROWS, SUMS = 4, 2  # dot products at once, and vectors of partial sums of each: enough to hide the latency of an FMA


def dots_intrinsic(key: KernelKey) -> Any:
    """Return the intrinsic ``dots((rows, k, a, lda, x, y, rs_y, accumulate))``, for 1 to ROWS rows."""
    name = "dots" + "_careful" * key.operations.is_careful
    return switch_intrinsic(8, name, ROWS, functools.partial(_dots, key, key.code()))


def _dots(key: KernelKey, code: VectorCode, rows: int) -> Emit:
    """Return the emitter of `rows` dot products."""
    operations, lanes, zero = key.operations, code.lanes, code.constant(key.operations.zero)

    def emit(b: Builder, k: Value, a: Value, lda: Value, x: Value, y: Value, rs_y: Value, accumulate: Value) -> None:
        x, y = b.inttoptr(x, v.POINTER), b.inttoptr(y, v.POINTER)
        starts = [b.inttoptr(b.add(a, b.mul(lda, v.size(i))), v.POINTER) for i in range(rows)]

        def vectors(count: int, state: list[Value]) -> list[Value]:
            """Extend all sums by `count` vectors of k."""
            offset, *sums = state
            for s in range(count):
                at = b.add(offset, v.size(s * code.size_bytes))
                of_x = code.load(b, v.advance(b, x, at))
                for i in range(rows):
                    of_a = code.load(b, v.advance(b, starts[i], at))
                    sums[i * SUMS + s] = operations.extend(code, b, sums[i * SUMS + s], of_a, of_x)
            return [b.add(offset, v.size(count * code.size_bytes)), *sums]

        state = [v.size(0), *[zero] * (rows * SUMS)]
        state = v.loop(b, b.udiv(k, v.size(SUMS * lanes)), state, lambda s: vectors(SUMS, s))
        left = b.urem(k, v.size(SUMS * lanes))
        offset, *sums = v.loop(b, b.udiv(left, v.size(lanes)), state, lambda s: vectors(1, s))
        left = b.urem(left, v.size(lanes))
        edge, exists = code.edge(b, left), code.first_lanes(b, left)
        of_x = code.load(b, v.advance(b, x, offset), edge)
        for i in range(rows):
            term = operations.term(code, b, code.load(b, v.advance(b, starts[i], offset), edge), of_x)
            total = operations.combine(code, b, sums[i * SUMS], b.select(exists, term, zero))
            for s in range(1, SUMS):
                total = operations.combine(code, b, total, sums[i * SUMS + s])
            _store(b, code, operations, total, v.advance(b, y, b.mul(rs_y, v.size(i))), accumulate)

    return emit


def _store(b: Builder, code: VectorCode, operations: Any, total: Value, target: Value, accumulate: Value) -> None:
    """Combine the lanes of `total`, and store one element, combined with y if `accumulate` is not 0."""
    half = code.lanes // 2
    while half:
        rotated = ir.Constant(ir.VectorType(v.INDEX, code.lanes), [(i + half) % code.lanes for i in range(code.lanes)])
        total = operations.combine(code, b, total, b.shuffle_vector(total, total, rotated))
        half //= 2

    def store(is_combining: bool) -> None:
        value = operations.combine(code, b, code.broadcast(b, target), total) if is_combining else total
        b.store(b.extract_element(value, v.index(0)), target, align=code.dtype.itemsize)

    v.in_both_forms(b, accumulate, store)


@functools.cache
def build_dots(key: KernelKey) -> Any:
    """Compile ``dots(m, n, k, a, lda, x, ldx, c, ldc, accumulate)``, strides in bytes: rows of A by columns of B.

    ``c[i, j] := [c[i, j] (+)] (+)_p a[i, p] (x) x[j, p]``, for a few columns, each contiguous.
    """
    dots_of_rows, rows, itemsize = dots_intrinsic(key), ROWS, np.dtype(key.dtype).itemsize

    def dots(m: int, n: int, k: int, a: int, lda: int, x: int, ldx: int, c: int, ldc: int, accumulate: int) -> None:
        """Multiply ROWS rows, which stay in L1, by all columns at a time."""
        for i in range(0, m, rows):
            for j in range(n):
                target = c + i * ldc + j * itemsize
                dots_of_rows((min(rows, m - i), k, a + i * lda, lda, x + j * ldx, target, ldc, accumulate))

    return jit(None, *[types.intp] * 10, parallel=False)(dots)
