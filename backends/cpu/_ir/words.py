"""The integers that functions of integers compute with: numbers of Python, words of LLVM, and tuples of them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value

_NO_WRAP = {"flags": ("nsw",)}
# Of an operator: what Python has for constants, the builder's method, and its flags.
OPERATORS: dict[type, tuple[Callable[[int, int], int], str, dict[str, Any]]] = {
    ast.Add: (operator.add, "add", _NO_WRAP),
    ast.Sub: (operator.sub, "sub", _NO_WRAP),
    ast.Mult: (operator.mul, "mul", _NO_WRAP),
    ast.LShift: (operator.lshift, "shl", {}),
    ast.RShift: (operator.rshift, "ashr", {}),
    ast.BitAnd: (operator.and_, "and_", {}),
    ast.BitOr: (operator.or_, "or_", {}),
    ast.BitXor: (operator.xor, "xor", {}),
    ast.FloorDiv: (operator.floordiv, "sdiv", {}),
    ast.Mod: (operator.mod, "srem", {}),
}


def word(b: Builder, value: Any) -> Value:
    """Return an integer as a word: a number, or a bit."""
    if isinstance(value, int):
        return v.size(int(value))
    if not isinstance(value, ir.Value) or value.type not in (v.SIZE, v.BIT):
        raise TypeError(f"{value!r} is no integer")
    return value if value.type == v.SIZE else b.zext(value, v.SIZE)


def mapped(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Return `function` of an integer and of what stands there in `others`, or that of each in a tuple."""
    lengths = {len(x) if isinstance(x, tuple) else None for x in (value, *others)}
    if len(lengths) > 1:
        raise TypeError("a variable holds an integer and a tuple, or tuples of different lengths")
    if not isinstance(value, tuple):
        return function(value, *others)
    parts = [mapped(function, *own) for own in zip(value, *others, strict=True)]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def arithmetic(b: Builder, op: ast.operator, left: Any, right: Any) -> Any:
    """Write an operation of two integers: of two constants it is Python's own."""
    of_constants, method, flags = OPERATORS[type(op)]
    if isinstance(left, int) and isinstance(right, int):
        return of_constants(left, right)
    x, y = word(b, left), word(b, right)
    if not isinstance(op, ast.FloorDiv | ast.Mod):
        return getattr(b, method)(x, y, **flags)
    rest = b.srem(x, y)
    differs = b.icmp_signed("<", b.xor(rest, y), v.size(0))  # of a rest that is not 0, the sign from the divisor's
    is_off = b.and_(b.icmp_signed("!=", rest, v.size(0)), differs)
    if isinstance(op, ast.Mod):
        return b.add(rest, b.select(is_off, y, v.size(0)))
    return b.sub(b.sdiv(x, y), b.zext(is_off, v.SIZE))


def phi(b: Builder, kind: Any, outcomes: Sequence[tuple[Value, Any]]) -> Value:
    """Return which of some values it is: that of the block that control comes from."""
    node = b.phi(kind)
    for value, block in outcomes:
        node.add_incoming(value, block)
    return node
