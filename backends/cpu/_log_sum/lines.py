"""Lines of matrices, as instructions: loops over elements, and copies between any strides and contiguous memory.

A line is a row, or the part of one that lies in one strip of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backends.cpu._log_sum.exp_log import Elementary, exp_scale
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.scalar import ScalarCode

# Rows that one thread takes at a time; bytes of one row of a strip of columns. Eight cache lines amortise the loop
# around them, and k rows of a strip stay in L2.
ROWS, LINE_BYTES = 8, 512

# The table of a product, which its functions read: sizes; addresses of the operands, and their strides in bytes; then
# addresses of work arrays, contiguous (`_log_sum.product.LogSumExp`). The last word is written: whether a line is in
# doubt.
WORDS = """
    m n k a rs_a cs_a b rs_b cs_b c rs_c cs_c accumulate
    scale x y sums row_shifts row_limits row_singles column_shifts column_limits singles single_terms counts lines doubt
    is_any_in_doubt
""".split()


class Code(Elementary, ScalarCode):
    """Instructions on the lines of one product: loads and stores, beside those of `Elementary` and `ScalarCode`."""

    def __init__(self, builder: Builder, dtype: np.dtype[Any]) -> None:
        Elementary.__init__(self, builder, dtype)
        ScalarCode.__init__(self, builder)
        self.size, self.width = dtype.itemsize, LINE_BYTES // dtype.itemsize

    def words(self, table: Value, names: Sequence[str] = WORDS) -> Any:
        """Return the words of the table at an address."""
        return super().words(table, names)

    def load(self, pointer: Value, index: Value, stride: Value | None = None) -> Value:
        """Load an element of a line."""
        return self.b.load(self._place(pointer, index, stride), typ=self.element, align=self.size)

    def store(self, value: Value, pointer: Value, index: Value, stride: Value | None = None) -> None:
        """Store an element of a line."""
        self.b.store(value, self._place(pointer, index, stride), align=self.size)

    def _place(self, pointer: Value, index: Value, stride: Value | None) -> Value:
        if stride is None:
            return self.b.gep(pointer, [index], source_etype=self.element)
        return v.advance(self.b, pointer, self.b.mul(index, stride))

    def function(self, name: str, emit: Callable[..., Value | None], *arguments: Value, result: Any = v.VOID) -> Value:
        """Call the function of the module that ``emit(code, *arguments)`` writes, at its first call."""
        return self.b.call(self._function(name, emit, arguments, result), arguments)

    def on_lines(self, name: str, emit: Callable[..., Value | None], *arguments: Value, result: Any = v.VOID) -> Value:
        """Call a `function` of lines of a strip: most are whole vectors, so it takes the widest ones."""
        function = self._function(name, emit, arguments, result)
        v.prefer_widest_vectors(function)
        return self.b.call(function, arguments)

    def _function(self, name: str, emit: Callable[..., Value | None], arguments: Sequence[Value], result: Any) -> Any:
        kinds, dtype = [x.type for x in arguments], self.dtype
        return v.own_function(self.b.module, name, kinds, lambda b, *x: emit(Code(b, dtype), *x), result)

    def copy_line(self, count: Value, source: Value, source_stride: Value, target: Value, target_stride: Value) -> None:
        """Copy a line of any stride, in bytes, to another."""
        self.function("copy_line", _copy_line, count, source, source_stride, target, target_stride)

    def copy_lines(
        self, rows: Value, count: Value, source: Value, row_stride: Value, stride: Value, target: Value, to: Value
    ) -> None:
        """Copy a few lines of any strides, in the order in which they lie, to contiguous ones, `to` bytes apart."""
        self.function("copy_lines", _copy_lines, rows, count, source, row_stride, stride, target, to)

    def add_line(self, count: Value, line: Value, work: Value, out: Value, stride: Value, accumulate: Value) -> None:
        """Compute ``out := [out (+)] line``, (+) being logaddexp; `line` and `work` are contiguous and written to."""
        self.function("add_line", _add_line, count, line, work, out, stride, accumulate)


def _copy_line(
    code: Code, count: Value, source: Value, source_stride: Value, target: Value, target_stride: Value
) -> None:
    b, from_, to, size = code.b, code.pointer(source), code.pointer(target), v.size(code.size)
    of_source, of_target = (b.icmp_signed("==", stride, size) for stride in (source_stride, target_stride))
    # The same loop twice: LLVM vectorises it only where it knows both strides
    with b.if_else(b.and_(of_source, of_target)) as (contiguous, strided):
        with contiguous:
            code.for_each(count, (), lambda j: code.store(code.load(from_, j), to, j))
        with strided:
            code.for_each(count, (), lambda j: code.store(code.load(from_, j, source_stride), to, j, target_stride))


def _copy_lines(
    code: Code, rows: Value, count: Value, source: Value, row_stride: Value, stride: Value, target: Value, to: Value
) -> None:
    b, size = code.b, v.size(code.size)
    along, across = (b.select(b.icmp_signed("<", x, v.size(0)), b.neg(x), x) for x in (stride, row_stride))

    def copy_column(j: Value) -> None:
        from_, into = code.pointer(code.at(source, (j, stride))), code.pointer(code.at(target, (j, code.size)))
        code.for_each(rows, (), lambda i: code.store(code.load(from_, i, row_stride), into, i, to))

    with b.if_else(b.icmp_signed("<=", along, across)) as (by_rows, by_columns):
        with by_rows:
            code.for_each(
                rows, (), lambda i: code.copy_line(
                    count, code.at(source, (i, row_stride)), stride, code.at(target, (i, to)), size
                )
            )  # fmt: skip
        with by_columns:
            code.for_each(count, (), copy_column)


def _add_line(code: Code, count: Value, line: Value, work: Value, out: Value, stride: Value, accumulate: Value) -> None:
    b, size = code.b, v.size(code.size)
    with b.if_then(b.icmp_signed("!=", accumulate, v.size(0))):
        code.copy_line(count, out, stride, work, size)
        code.on_lines("logaddexp", _logaddexp, count, line, work)
    code.copy_line(count, line, size, out, stride)


def _logaddexp(code: Code, count: Value, line: Value, work: Value) -> None:
    b, of_line, of_work = code.b, code.pointer(line), code.pointer(work)
    zero, one = code.number(0), code.number(1)
    scale, floor = map(code.number, exp_scale(code.dtype, 0))

    def one_element(j: Value) -> None:
        x, y = code.load(of_line, j), code.load(of_work, j)
        apart = b.fneg(code.absolute(b.fsub(x, y)))
        ratio = code.exp(b.select(b.fcmp_ordered("==", x, y), zero, apart), scale, floor)  # equal may be infinite
        total = b.fadd(one, ratio)
        lost = b.fsub(ratio, b.fsub(total, one))  # rounding error of the addition; the whole ratio, if it is small
        rest = b.fadd(code.log(total, zero), b.fdiv(lost, total))
        code.store(b.fadd(code.maximum(x, y), rest), of_line, j)

    code.for_each(count, (), one_element)
