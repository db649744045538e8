"""A symmetric matrix by a vector: each stored element is used twice while it is in a register.

    for i over m by ROWS rows, j over the columns on one side of the diagonal:
        y[i] := y[i] (+) A[i, j] (x) x[j]        dot products, in vectors of partial sums
        y[j] := y[j] (+) A[i, j] (x) x[i]        a vector of y for ROWS rows, loaded and stored once

Of a Hermitian A the elements are conjugated for one of the two uses, and imaginary parts on the diagonal count as zero.
The diagonal itself counts once. Its elements, and those between the rows of a group, are lanes of one masked vector.
A is stored by rows: as its lower triangle or, for a matrix by columns, as its upper one.

Rows are shared by area. Each part has a y of its own in scratch, since all of them add to the same elements, and
`_simd.fold_stage` combines these in the order of the parts.

Source: BLAS symv, Dongarra et al. (1988); both uses of an element in one pass as in Goto's kernels.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._cache.key import kernel_builder
from backends.cpu._ir.call_by_address import call_function
from backends.cpu._ir.functions import compile_functions
from backends.cpu._ir.integers import Translated, translated
from backends.cpu._simd.argument_table import Loops, Shape, Stage
from backends.cpu._simd.dot_products import add_totals
from backends.cpu._simd.fold_stage import fold_stage
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import WORD
from backends.cpu._simd.part import Part
from backends.cpu._simd.partial_sums import fill_function, length_of_sums
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.elements import extend_beside, load_factor, parts_of_sums, real_parts, with_swapped
from backends.cpu._vector.intrinsics import Emit, word_at
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.vectors import VectorCode

ROWS = 4  # at once, but no more than lanes: the elements between them are lanes of one vector


class SymmetricLoops(Loops):
    """The loops of a symmetric A by a vector; rows of A, x and y are contiguous."""

    __slots__ = ()

    @property
    def shares_scratch(self) -> bool:
        """Whether all threads work in one scratch: each part has a y of its own there."""
        return True

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return the bytes of all parts of y."""
        return self.grid[0] * length_of_sums(m, self.key.itemsize), 0

    def stages(self, shape: Shape, accumulate: bool) -> list[Stage]:
        """Return parts of about equal area, and the stage that combines their sums."""
        m, itemsize = shape.m, self.key.itemsize
        bounds = cut_by_area(m, self.grid[0], rows_at_once(self.key), self.is_upper)
        length = length_of_sums(m, itemsize)
        whole = shape.part()._replace(rs_c=itemsize, packs_a=self.is_upper)
        parts = [
            whole._replace(m=end - i, a=i * shape.strides_a[0], packed_a=number * length, diagonal=i)
            for number, (i, end) in enumerate(itertools.pairwise(bounds))
        ]

        def rows_of(element: int) -> tuple[int, int]:
            """Return the parts that have a sum for every element of a range; its others are zeros."""
            return 0, len(parts)

        last = fold_stage(self.key, m, self.threads, rows_of, accumulate)
        return [Stage(build_symmetric(), parts, _kernel_table(self.key)), last]


def rows_at_once(key: KernelKey) -> int:
    """Return the number of rows of a group."""
    return min(ROWS, key.lanes)


def cut_by_area(m: int, parts: int, step: int, is_upper: bool) -> list[int]:
    """Return boundaries of rows, multiples of `step`, between which about as many elements of the triangle lie."""
    bounds = [round(m * math.sqrt(part / parts) / step) * step for part in range(1, parts)]
    if is_upper:
        bounds = [(m - bound) // step * step for bound in bounds]
    return sorted({0, m, *(bound for bound in bounds if 0 < bound < m)})


# The words of a kernel's table: numbers, the function that fills y, then those of groups of 1 to `rows_at_once` rows.
ITEMSIZE, LANES, GROUP, FILL = range(4)


@functools.cache
def _kernel_table(key: KernelKey) -> np.ndarray:
    """Compile the functions of a kernel, and return its table, of int64."""
    functions = compile_functions("symmetric", key, functools.partial(_emit_functions, key), unrolls=True)
    return np.array([key.itemsize, key.lanes, rows_at_once(key), *functions], np.int64)


def _emit_functions(key: KernelKey, module: ir.Module) -> list[Any]:
    """Write the functions; the arguments of those of rows are those of `_symmetric_rows`."""
    name, emitter = "symmetric" + "_careful" * key.operations.is_careful, functools.partial(_symmetric_rows, key.code())
    rows = functools.partial(emitter, key)
    return [fill_function(module, key), *v.numbered_functions(module, name, rows_at_once(key), 13, rows)]


def _symmetric_rows(code: VectorCode, key: KernelKey, rows: int) -> Emit:
    """Return the emitter of a group of `rows` rows.

    Its arguments: the number of columns of the rectangle beside the diagonal; addresses of the first row's, x's and y's
    elements there; the distance of rows; the address of the row, of x and of y at the vector that the diagonal crosses;
    the number of its lanes that lie before the matrix, and the end of its lanes in the first row; whether the triangle
    is the upper one; and addresses of x and y at the group's rows.
    """
    operations, zero, itemsize = key.operations, code.constant(key.operations.zero), key.itemsize
    parts, in_sums, in_rows = range(code.parts), *(_kept(operations, operand) for operand in "ab")

    def emit(
        b: Builder, n: Value, a: Value, x: Value, y: Value, lda: Value, a_across: Value, x_across: Value,
        y_across: Value, before: Value, end: Value, is_upper: Value, x_rows: Value, y_rows: Value,
    ) -> None:  # fmt: skip
        def pointers(address: Value, step: Value, count: int) -> list[Value]:
            return [b.inttoptr(b.add(address, b.mul(step, v.size(r))), v.POINTER) for r in range(count)]

        factors = [load_factor(in_rows, code, b, x) for x in pointers(x_rows, v.size(itemsize), rows)]
        starts, (of_x, of_y) = pointers(a, lda, rows), (b.inttoptr(x, v.POINTER), b.inttoptr(y, v.POINTER))

        def both(elements: list[Value], vector: Value, target: Value, sums: list[Value]) -> tuple[Value, list[Value]]:
            """Use a vector of each row twice, and return the vector of y and the sums."""
            others = with_swapped(code, b, vector)
            for r, element in enumerate(elements):
                target = extend_beside(operations, code, b, target, element, factors[r])
                for part in parts:
                    number = r * code.parts + part
                    sums[number] = operations.extend(code, b, sums[number], element, others[part])
            return target, sums

        def beside(state: list[Value]) -> list[Value]:
            offset, *sums = state
            elements = [code.load(b, v.advance(b, start, offset)) for start in starts]
            place = v.advance(b, of_y, offset)
            total, sums = both(elements, code.load(b, v.advance(b, of_x, offset)), code.load(b, place), sums)
            code.store(b, total, place)
            return [b.add(offset, v.size(code.size_bytes)), *sums]

        whole, left = b.udiv(n, v.size(code.elements)), b.urem(n, v.size(code.elements))
        offset, *sums = v.loop(b, whole, [v.size(0), *[zero] * (rows * code.parts)], beside)

        def some_lanes(places: tuple[list[Value], Value, Value], sums: list[Value], masks: Any) -> list[Value]:
            """Use the lanes of `masks`: for each row those of its sum, those of y, and those of all rows together."""
            of_rows, vector, target = places
            in_sum, in_y, in_any = masks
            others, total = (
                with_swapped(code, b, code.load_lanes(b, vector, in_any)),
                code.load_lanes(b, target, in_any),
            )
            for r in range(rows):
                element = code.load_lanes(b, of_rows[r], in_sum[r])
                if operations.conjugates:  # no lane but that of the diagonal is in the sum and not in y
                    element = b.select(b.or_(in_y[r], real_parts(code)), element, zero)
                for part in parts:
                    number = r * code.parts + part
                    term = b.select(in_sum[r], operations.term(code, b, element, others[part]), zero)
                    sums[number] = operations.combine(code, b, sums[number], term)
                for factor, values in zip(factors[r], with_swapped(code, b, element), strict=True):
                    term = b.select(in_y[r], operations.term(code, b, values, factor), zero)
                    total = operations.combine(code, b, total, term)
            code.store_lanes(b, total, target, in_any)
            return sums

        lanes = code.first_lanes(b, left)
        edge = [v.advance(b, start, offset) for start in starts], v.advance(b, of_x, offset), v.advance(b, of_y, offset)
        sums = some_lanes(edge, sums, ([lanes] * rows, [lanes] * rows, lanes))
        across = pointers(a_across, lda, rows), *(b.inttoptr(z, v.POINTER) for z in (x_across, y_across))
        sums = some_lanes(across, sums, _lanes_across(b, code, rows, before, end, is_upper))
        rows_of_y = pointers(y_rows, v.size(itemsize), rows)
        targets = [v.advance(b, row, part * code.dtype.itemsize) for row in rows_of_y for part in parts]
        add_totals(b, code, operations, parts_of_sums(in_sums, code, b, sums), targets, v.size(1))

    return emit


def _kept(operations: Operations, operand: str) -> Operations:
    """Return `operations` that conjugate at most `operand`: a row is A in the sums, and B in what is added to y."""
    return operations._replace(conjugates=operand if operand in operations.conjugates else "")


def _lanes_across(b: Builder, code: VectorCode, rows: int, before: Value, end: Value, is_upper: Value) -> Any:
    """Return the masks of the vector that the diagonal crosses, for `some_lanes`.

    Of a lower triangle the diagonal of row r is element ``elements - rows + r``, the last that exists. Of an upper one
    it is element r, the first.
    """
    shift = b.select(b.icmp_signed("!=", is_upper, v.size(0)), v.size(0), v.size(code.elements - rows))
    in_sum, in_y = [], []
    for r in range(rows):
        diagonal = b.add(shift, v.size(r))
        first = b.select(b.icmp_signed("!=", is_upper, v.size(0)), diagonal, before)
        last = b.select(b.icmp_signed("!=", is_upper, v.size(0)), end, b.add(diagonal, v.size(1)))
        until, through = code.first_lanes(b, diagonal), code.first_lanes(b, b.add(diagonal, v.size(1)))
        in_sum.append(b.and_(code.first_lanes(b, last), b.not_(code.first_lanes(b, first))))
        in_y.append(b.and_(in_sum[-1], b.not_(b.and_(through, b.not_(until)))))
    in_any = in_sum[0]
    for lanes in in_sum[1:]:
        in_any = b.or_(in_any, lanes)
    return in_sum, in_y, in_any


@kernel_builder
def build_symmetric() -> Translated:
    """Compile ``product(part)`` for rows from `diagonal` on: the sums of these m rows of k go to `packed_a`.

    ``packs_a``: the triangle is the upper one. c is not used.
    """

    def product(part: Part) -> None:
        """Stream the triangle."""
        kernel, m, k, x, y = part.kernel, part.m, part.k, part.b, part.packed_a
        itemsize, lanes = word_at(kernel + ITEMSIZE * WORD), word_at(kernel + LANES * WORD)
        group = word_at(kernel + GROUP * WORD)
        call_function(word_at(kernel + FILL * WORD), (k, y))
        for r in range(0, m, group):
            i, rows = part.diagonal + r, min(group, m - r)
            row = part.a + r * part.rs_a
            if part.packs_a:
                across, begin, end, before = i, i + lanes, k, 0
            else:
                across, begin, end, before = i + rows - lanes, 0, i + rows - lanes, max(lanes - i - rows, 0)
            call_function(word_at(kernel + (FILL + rows) * WORD), (
                max(end - begin, 0), row + begin * itemsize, x + begin * itemsize, y + begin * itemsize,
                part.rs_a, row + across * itemsize, x + across * itemsize, y + across * itemsize,
                before, min(lanes, k - i), part.packs_a, x + i * itemsize, y + i * itemsize,
            ))  # fmt: skip

    return translated(product, Part)
