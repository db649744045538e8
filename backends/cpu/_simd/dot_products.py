"""Dot products of rows of A with one column, generated: both are read along k, in vectors of partial sums.

    for i in range(rows):  y[i] := [y[i] (+)] (+)_p  A[i, p] (x) x[p]

For n = 1 that is the product (`_simd.matrix_vector`). The loops around the micro-kernel also compute the few columns
left after whole vectors in this way, by the functions below. A tile for them would take as long as for a whole vector.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir

from backends.cpu._ir.call_by_address import call_function
from backends.cpu._ir.functions import compile_functions
from backends.cpu._simd.kernel import INTO_L2, KernelKey
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.elements import parts_of_sums, with_swapped
from backends.cpu._vector.intrinsics import Emit, word_at
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.vectors import VectorCode

ROWS, SUMS = 4, 2  # dot products at once, and vectors of partial sums of each: enough to hide the latency of an FMA


def compile_dots(key: KernelKey) -> tuple[int, ...]:
    """Compile `dots_functions`, and return the addresses."""
    parts = key.operations, key.dtype, key.unit
    return compile_functions("dots", parts, lambda module: dots_functions(module, key), unrolls=True)


def dots_functions(module: ir.Module, key: KernelKey) -> list[Any]:
    """Return the functions ``dots(k, a, lda, x, y, rs_y, accumulate)`` of 1 to ROWS rows."""
    name, code = "dots" + "_careful" * key.operations.is_careful, key.code()

    def of_rows(rows: int) -> Emit:
        return functools.partial(emit_dots, key.operations, code, (rows, SUMS))

    return v.numbered_functions(module, name, ROWS, 7, of_rows)


def emit_dots(
    operations: Operations, code: VectorCode, shape: tuple[int, int], b: Builder,
    k: Value, a: Value, lda: Value, x: Value, y: Value, rs_y: Value, accumulate: Value, ahead: int = 0,
) -> None:  # fmt: skip
    """Emit the dot products of a number of rows, each with a number of vectors of partial sums: `shape`.

    What lies `ahead` bytes behind in each row is prefetched into L2; 0: nothing is.
    """
    (rows, count), lanes, zero = shape, code.elements, code.constant(operations.zero)
    x, y = b.inttoptr(x, v.POINTER), b.inttoptr(y, v.POINTER)
    starts = [b.inttoptr(b.add(a, b.mul(lda, v.size(i))), v.POINTER) for i in range(rows)]

    def vectors(number: int, state: list[Value]) -> list[Value]:
        """Extend all sums by so many vectors of k."""
        offset, *sums = state
        for s in range(number):
            at = b.add(offset, v.size(s * code.size_bytes))
            of_x = with_swapped(code, b, code.load(b, v.advance(b, x, at)))
            for i in range(rows):
                place = v.advance(b, starts[i], at)
                if ahead:
                    v.prefetch(b, v.advance(b, place, ahead), INTO_L2)
                of_a = code.load(b, place)
                for total, factor in enumerate(of_x, i * len(of_x)):
                    sums[total * count + s] = operations.extend(code, b, sums[total * count + s], of_a, factor)
        return [b.add(offset, v.size(number * code.size_bytes)), *sums]

    state = [v.size(0), *[zero] * (rows * code.parts * count)]
    state = v.loop(b, b.udiv(k, v.size(count * lanes)), state, lambda s: vectors(count, s))
    left = b.urem(k, v.size(count * lanes))
    offset, *sums = v.loop(b, b.udiv(left, v.size(lanes)), state, lambda s: vectors(1, s)) if count > 1 else state
    left = b.urem(left, v.size(lanes))
    edge, exists = code.edge(b, left), code.first_lanes(b, left)
    of_x, totals = with_swapped(code, b, code.load(b, v.advance(b, x, offset), edge)), []
    for i in range(rows):
        of_a = code.load(b, v.advance(b, starts[i], offset), edge)
        for number, factor in enumerate(of_x, i * len(of_x)):
            term = b.select(exists, operations.term(code, b, of_a, factor), zero)
            total = operations.combine(code, b, sums[number * count], term)
            for s in range(1, count):
                total = operations.combine(code, b, total, sums[number * count + s])
            totals.append(total)
    rows_of_y = [v.advance(b, y, b.mul(rs_y, v.size(i))) for i in range(rows)]
    targets = [v.advance(b, row, part * code.dtype.itemsize) for row in rows_of_y for part in range(code.parts)]
    totals = parts_of_sums(operations, code, b, totals)
    add_totals(b, code, operations, totals, targets, accumulate)


def add_totals(
    b: Builder, code: VectorCode, operations: Operations, sums: list[Value], targets: list[Value], accumulate: Value
) -> None:
    """Combine the lanes of each sum, and store an element for each, combined with y if `accumulate` is not 0.

    Sums are merged two by two: the lanes of one vector then hold partial sums of several rows, so that all of them
    are reduced by one chain of shuffles. Neighbouring lanes come first, however many rows there are: a row has the same
    bits with any others beside it, and so with any number of threads.
    """
    vectors, period = list(sums), 1
    while period < code.lanes:
        if len(vectors) > 1:
            pairs = zip(vectors[::2], [*vectors[1::2], vectors[-1]], strict=False)
            vectors = [_merge(b, code, operations, x, y, period) for x, y in pairs]
        else:
            across = [i ^ period for i in range(code.lanes)]
            vectors = [operations.combine(code, b, x, _shuffle(b, code, x, x, across)) for x in vectors]
        period *= 2

    def store(is_combining: bool) -> None:
        for number, total in enumerate(vectors):
            those = targets[number * period : (number + 1) * period]
            values = total
            if is_combining:
                before = code.constant(operations.zero)
                for lane, target in enumerate(those):
                    element = b.load(target, typ=code.element, align=code.dtype.itemsize)
                    before = b.insert_element(before, element, v.index(lane))
                values = operations.combine(code, b, before, total)
            for lane, target in enumerate(those):
                b.store(b.extract_element(values, v.index(lane)), target, align=code.dtype.itemsize)

    v.in_both_forms(b, accumulate, store)


def _merge(b: Builder, code: VectorCode, operations: Operations, x: Value, y: Value, period: int) -> Value:
    """Return a vector whose lanes are sums of `x` and of `y` in turn, `period` of each, from both halves of a pair."""
    lanes = range(code.lanes)
    is_of_x = [i // period % 2 == 0 for i in lanes]
    low = [i if is_of_x[i] else code.lanes + i - period for i in lanes]
    high = [i + period if is_of_x[i] else code.lanes + i for i in lanes]
    return operations.combine(code, b, _shuffle(b, code, x, y, low), _shuffle(b, code, x, y, high))


def _shuffle(b: Builder, code: VectorCode, x: Value, y: Value, lanes: list[int]) -> Value:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(v.INDEX, code.lanes), lanes))


def multiply_columns(
    functions: int, m: int, n: int, k: int, a: int, lda: int, x: int, ldx: int, c: int, ldc: int, itemsize: int,
    accumulate: int,
) -> None:  # fmt: skip
    """Compute ``c[i, j] := [c[i, j] (+)] (+)_p a[i, p] (x) x[j, p]``, strides in bytes: rows of A by a few columns.

    ROWS rows, which stay in L1, by all columns at a time. `functions` is the address of a table of `dots_functions`.
    """
    for i in range(0, m, ROWS):
        dots = word_at(functions + (min(ROWS, m - i) - 1) * 8)
        for j in range(n):
            target = c + i * ldc + j * itemsize
            call_function(dots, (k, a + i * lda, lda, x + j * ldx, target, ldc, accumulate))
