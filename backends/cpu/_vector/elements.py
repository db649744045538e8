"""Elements in vectors of their parts: of real numbers one, of complex ones a real and an imaginary part side by side.

A complex product by a number that all lanes share is two real ones: ``x y = re(x) y + im(x) (i y)``, and i y is y with
its parts in each other's place and the first of them negated. All four products of parts are made and none is skipped,
so that NaN, infinities and signed zeros are those of the definition. Conjugates are other signs of the same terms.
"""

from __future__ import annotations

from llvmlite import ir

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.vectors import VectorCode

Factor = tuple[Value, ...]  # the parts of an element, each in all lanes, with the signs of the terms that it makes
Signs = tuple[int, int]  # of real and of imaginary parts


def load_factor(operations: Operations, code: VectorCode, b: Builder, place: Value) -> Factor:
    """Load one element into all lanes."""
    first = code.broadcast(b, place)
    if code.parts == 1:
        return (first,)
    second = code.broadcast(b, v.advance(b, place, code.dtype.itemsize))
    return tuple(_signed(code, b, x, signs) for x, signs in zip((first, second), _of_rows(operations), strict=True))


def extend(operations: Operations, code: VectorCode, b: Builder, total: Value, x: Factor, y: Value) -> Value:
    """Return ``total (+) (x (x) y)``."""
    total = operations.extend(code, b, total, x[0], y)
    return total if code.parts == 1 else operations.extend(code, b, total, x[1], _swapped(code, b, y))


def extend_beside(operations: Operations, code: VectorCode, b: Builder, total: Value, y: Value, x: Factor) -> Value:
    """Return ``total (+) (y (x) x)``, where (x) need not commute."""
    return operations.extend(code, b, total, y, x[0]) if code.parts == 1 else extend(operations, code, b, total, x, y)


def join_rows(operations: Operations, code: VectorCode, b: Builder, totals: list[Value], vectors: int) -> list[Value]:
    """Return rows ``first + i second`` of pairs of rows of so many vectors: sums of re(x) y, and of im(x) y."""
    rows, (of_first, of_second) = [], _of_rows(operations)
    for number in range(0, len(totals), 2 * vectors):
        pairs = zip(totals[number : number + vectors], totals[number + vectors : number + 2 * vectors], strict=True)
        for first, second in pairs:
            signs, turned = _in_all(code, of_second), _swapped(code, b, second)
            rows.append(code.intrinsic(b, "fmuladd", signs, turned, _signed(code, b, first, of_first)))
    return rows


def with_swapped(code: VectorCode, b: Builder, y: Value) -> Factor:
    """Return a vector, of complex numbers also with its parts swapped: what vectors of the other operand multiply."""
    return (y,) if code.parts == 1 else (y, _swapped(code, b, y))


def parts_of_sums(operations: Operations, code: VectorCode, b: Builder, totals: list[Value]) -> list[Value]:
    """Return vectors whose lanes sum to each part, of sums of ``x y`` and of x by swapped y, in turn for each row."""
    if code.parts == 1:
        return totals
    of_a, of_b = _of_operands(operations)
    signs = (1, -of_a * of_b), (of_b, of_a)
    return [_signed(code, b, total, signs[number % 2]) for number, total in enumerate(totals)]


def real_parts(code: VectorCode) -> ir.Constant:
    """Return a vector of bits: which lanes are real parts."""
    return ir.Constant(ir.VectorType(v.BIT, code.lanes), [lane % 2 == 0 for lane in range(code.lanes)])


def _of_operands(operations: Operations) -> Signs:
    """Return the signs of imaginary parts of x, of A, and of y, of B."""
    return -1 if "a" in operations.conjugates else 1, -1 if "b" in operations.conjugates else 1


def _of_rows(operations: Operations) -> tuple[Signs, Signs]:
    """Return the signs of ``re(x) y``, and of im(x) by swapped y."""
    of_a, of_b = _of_operands(operations)
    return (1, of_b), (-of_a * of_b, of_a)


def _signed(code: VectorCode, b: Builder, x: Value, signs: Signs) -> Value:
    return x if signs == (1, 1) else b.fmul(x, _in_all(code, signs))


def _in_all(code: VectorCode, signs: Signs) -> ir.Constant:
    return ir.Constant(code.vector, [float(sign) for sign in signs] * (code.lanes // 2))


def _swapped(code: VectorCode, b: Builder, x: Value) -> Value:
    """Return a vector with real and imaginary parts in each other's place."""
    lanes = ir.Constant(ir.VectorType(v.INDEX, code.lanes), [i ^ 1 for i in range(code.lanes)])
    return b.shuffle_vector(x, x, lanes)
