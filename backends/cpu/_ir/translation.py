"""The translation of functions of integers to LLVM IR, word for word.

What such a function calls becomes part of it: other such functions, intrinsics of `_vector.intrinsics`, functions of C
that `types.ExternalFunction` declares, and named tuples.

    statements    assignment, also to a tuple; if; while; for over a range upwards; break, continue, return; calls
    expressions   integers, variables, fields, arithmetic, comparisons, and, or, not, a if c else b, min, max, tuples
    meaning       that of Python, modulo 2^64; a variable holds one integer, or a tuple of one kind

Anything else is a TypeError when it is translated.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from backends.cpu._ir.syntax_trees import parsed
from backends.cpu._ir.words import OPERATORS, arithmetic, mapped, phi, word
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value

_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def body_of(b: Builder, function: Callable[..., Any], arguments: Sequence[Any]) -> Value | None:
    """Write a function's body at the end of a block, and return the word or None that it returns."""
    value = _Body(b, function).written(arguments, {})
    return None if value is None else word(b, value)


class _Body:
    """A function that becomes part of the one that is written: its variables, and where it returns to."""

    def __init__(self, b: Builder, function: Callable[..., Any]) -> None:
        self._b, self._signature = b, inspect.signature(function)
        self._tree, self._names = parsed(function)
        self._variables: dict[str, Any] = {}  # by name: where it lies on the stack; of a tuple, where each integer does
        self._result: Any = None
        self._end: Any = None
        self._loops: list[tuple[Any, Any]] = []  # where each goes on, and where it ends

    def written(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Write the body, and return its result: None, an integer or a tuple."""
        b, bound = self._b, self._signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        before, number = b.block, len(b.function.blocks)
        begin, self._end = b.append_basic_block("begin"), b.append_basic_block("end")
        b.position_at_end(begin)
        for name, value in bound.arguments.items():
            self._assign(ast.Name(name), value)
        self._write(self._tree.body, self._end)
        b.position_at_end(before)
        taken = any(isinstance(x, ir.AllocaInstr) for block in b.function.blocks[number:] for x in block.instructions)
        stack = b.call(v.declare(b, "llvm.stacksave", v.POINTER, []), []) if taken else None
        b.branch(begin)
        b.position_at_end(self._end)
        if stack is not None:  # what it took is given back, as by a function of its own
            b.call(v.declare(b, "llvm.stackrestore", v.VOID, [v.POINTER]), [stack])
        return None if self._result is None else mapped(self._load, self._result)

    def _place(self, _: Any = None) -> Value:
        with self._b.goto_entry_block():
            return self._b.alloca(v.SIZE)

    def _load(self, place: Value) -> Value:
        return self._b.load(place, typ=v.SIZE)

    def _store(self, value: Any, place: Value) -> None:
        self._b.store(word(self._b, value), place)

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                raise self._unknown(target)
            for own, part in zip(target.elts, value, strict=True):
                self._assign(own, part)
        elif isinstance(target, ast.Name):
            if target.id not in self._variables:
                self._variables[target.id] = mapped(self._place, value)
            mapped(self._store, value, self._variables[target.id])
        else:
            raise self._unknown(target)

    def _unknown(self, node: ast.AST) -> TypeError:
        return TypeError(f"{self._tree.name}: not in a function of integers: {ast.unparse(node)}")

    # Statements

    def _write(self, statements: Sequence[ast.stmt], after: Any) -> None:
        """Write statements, and go to the block `after` unless they go elsewhere."""
        for statement in statements:
            match statement:
                case ast.Expr(ast.Constant()) | ast.Pass():  # a docstring
                    pass
                case ast.Expr(value):
                    self._value(value)
                case ast.Assign([target], value):
                    self._assign(target, self._value(value))
                case ast.AugAssign(ast.Name(name) as target, op, value) if type(op) in OPERATORS:
                    self._assign(target, arithmetic(self._b, op, self._value(ast.Name(name)), self._value(value)))
                case ast.If(test, body, orelse):
                    self._if(test, body, orelse)
                case ast.While(test, body, []):
                    self._while(test, body)
                case ast.For(target, ast.Call(ast.Name("range"), bounds, []), body, []):
                    self._for(target, [word(self._b, self._value(bound)) for bound in bounds], body)
                case ast.Return(value):
                    if value is not None:
                        self._return(self._value(value))
                    self._b.branch(self._end)
                    return
                case ast.Break() | ast.Continue():
                    self._b.branch(self._loops[-1][isinstance(statement, ast.Break)])
                    return
                case _:
                    raise self._unknown(statement)
        self._b.branch(after)

    def _return(self, value: Any) -> None:
        if self._result is None:
            self._result = mapped(self._place, value)
        mapped(self._store, value, self._result)

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        bit, (yes, no, after) = self._bit(test), self._blocks("yes", "no", "after")
        self._b.cbranch(bit, yes, no)
        for block, statements, never in ((yes, body, v.NO), (no, orelse, v.YES)):
            self._b.position_at_end(block)
            self._write(() if bit is never else statements, after)  # what no one reaches may be anything
        self._b.position_at_end(after)

    def _while(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        again, inside, after = self._blocks("while", "body", "after")
        self._b.branch(again)
        self._b.position_at_end(again)
        self._b.cbranch(self._bit(test), inside, after)
        self._loop(inside, body, again, after)

    def _for(self, target: ast.expr, bounds: Sequence[Value], body: Sequence[ast.stmt]) -> None:
        begin, end = (v.size(0), *bounds) if len(bounds) == 1 else bounds[:2]
        step, counter = bounds[2] if len(bounds) == 3 else v.size(1), self._place()
        again, inside, on, after = self._blocks("for", "body", "on", "after")
        self._b.store(begin, counter)
        self._b.branch(again)
        self._b.position_at_end(again)
        number = self._load(counter)
        self._b.cbranch(self._b.icmp_signed("<", number, end), inside, after)
        self._b.position_at_end(inside)
        self._assign(target, number)
        self._loop(inside, body, on, after)
        self._b.position_at_end(on)
        self._b.store(self._b.add(number, step, flags=("nsw",)), counter)
        self._b.branch(again)
        self._b.position_at_end(after)

    def _loop(self, inside: Any, body: Sequence[ast.stmt], on: Any, after: Any) -> None:
        """Write the body of a loop, which goes on at the block `on`, and stand at the block `after`."""
        self._b.position_at_end(inside)
        self._loops.append((on, after))
        self._write(body, on)
        self._loops.pop()
        self._b.position_at_end(after)

    def _blocks(self, *names: str) -> list[Any]:
        return [self._b.append_basic_block(name) for name in names]

    # Expressions

    def _value(self, node: ast.expr) -> Any:  # noqa: PLR0911 a case each
        """Write what computes an expression, and return an integer, a tuple, or another object of Python."""
        match node:
            case ast.Constant(int() as value):
                return value
            case ast.Name(name) if name in self._variables:
                return mapped(self._load, self._variables[name])
            case ast.Name(name) if name in self._names:
                return self._names[name]
            case ast.Attribute(value, name):
                return getattr(self._value(value), name)
            case ast.Subscript(value, ast.Constant(int() as number)):
                return self._value(value)[number]
            case ast.Tuple(parts):
                return tuple(self._parts(parts))
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return arithmetic(self._b, op, self._value(left), self._value(right))
            case ast.UnaryOp(ast.USub(), value):
                return arithmetic(self._b, ast.Sub(), 0, self._value(value))
            case ast.UnaryOp(ast.Invert(), value):
                return arithmetic(self._b, ast.BitXor(), -1, self._value(value))
            case ast.UnaryOp(ast.Not()) | ast.BoolOp() | ast.Compare():
                return self._bit(node)
            case ast.IfExp(test, body, orelse):
                return self._either(self._bit(test), body, orelse)
            case ast.Call(function, arguments, keywords):
                named = {str(keyword.arg): self._value(keyword.value) for keyword in keywords}
                return self._called(node, self._value(function), self._parts(arguments), named)
        raise self._unknown(node)

    def _parts(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """Write what computes several expressions, of which a tuple may stand for its parts."""
        values = [self._value(x.value) if isinstance(x, ast.Starred) else [self._value(x)] for x in nodes]
        return [value for some in values for value in some]

    def _bit(self, node: ast.expr) -> Value:
        """Write what decides a condition, and return a bit."""
        b = self._b
        match node:
            case ast.UnaryOp(ast.Not(), value):
                return b.not_(self._bit(value))
            case ast.BoolOp(op, [first, *others]):
                is_or, bit, outcomes = isinstance(op, ast.Or), self._bit(first), []
                decides = v.YES if is_or else v.NO
                if bit is decides:
                    return bit
                (decided,) = self._blocks("decided")
                for other in others:
                    (undecided,) = self._blocks("undecided")
                    outcomes.append((decides, b.block))
                    b.cbranch(bit, *((decided, undecided) if is_or else (undecided, decided)))
                    b.position_at_end(undecided)
                    bit = self._bit(other)
                outcomes.append((bit, b.block))
                b.branch(decided)
                b.position_at_end(decided)
                return phi(b, v.BIT, outcomes)
            case ast.Compare(left, ops, others):
                values = [word(b, self._value(value)) for value in (left, *others)]
                bits = [b.icmp_signed(_ORDER[type(op)], x, y) for op, (x, y) in zip(ops, pairwise(values), strict=True)]
                return functools.reduce(b.and_, bits)
        value = self._value(node)
        if isinstance(value, int):
            return v.YES if value else v.NO
        return value if value.type == v.BIT else b.icmp_signed("!=", value, v.size(0))

    def _either(self, bit: Value, body: ast.expr, orelse: ast.expr) -> Any:
        """Write ``body if bit else orelse``."""
        b, (yes, no, after), found = self._b, self._blocks("yes", "no", "after"), []
        b.cbranch(bit, yes, no)
        for block, expression in ((yes, body), (no, orelse)):
            b.position_at_end(block)
            found.append((mapped(functools.partial(word, b), self._value(expression)), b.block))
            b.branch(after)
        b.position_at_end(after)
        (x, at_x), (y, at_y) = found
        return mapped(lambda own, other: phi(b, v.SIZE, [(own, at_x), (other, at_y)]), x, y)

    def _called(self, node: ast.expr, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        b = self._b
        if function in (min, max) and not keywords:
            order = "<" if function is min else ">"
            return functools.reduce(
                lambda x, y: b.select(b.icmp_signed(order, x, y), x, y), [word(b, x) for x in arguments]
            )
        if function in (int, np.intp):
            return arguments[0]
        if isinstance(function, type) and issubclass(function, tuple):
            return function(*arguments, **keywords)
        if isinstance(function, types.ExternalFunction):
            return _called_in_c(b, function, [word(b, x) for x in arguments])
        if hasattr(function, "emit"):
            return function.emit(b, *(mapped(functools.partial(word, b), x) for x in arguments))
        if not inspect.isfunction(function):
            raise self._unknown(node)
        return _Body(b, function).written(arguments, keywords)


def _called_in_c(b: Builder, function: types.ExternalFunction, arguments: Sequence[Value]) -> Value | None:
    """Write a call of a function of C of integers, which may be shorter than words."""
    kinds = [ir.IntType(kind.bitwidth) for kind in function.sig.args]
    returned = function.sig.return_type
    result_kind = v.VOID if returned == types.void else ir.IntType(returned.bitwidth)
    declared = v.declare(b, function.symbol, result_kind, kinds)
    given = [x if kind == v.SIZE else b.trunc(x, kind) for x, kind in zip(arguments, kinds, strict=True)]
    result = b.call(declared, given)
    if result_kind in (v.VOID, v.SIZE):
        return None if result_kind is v.VOID else result
    return (b.sext if returned.signed else b.zext)(result, v.SIZE)
