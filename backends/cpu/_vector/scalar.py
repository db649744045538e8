"""Loops over sizes and addresses, as LLVM IR: the scalar code around vectors, which reads a table of words.

Numba would take ten times as long to compile it: most of that is type inference.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value

WORD = 8  # bytes of a word of a table


class ScalarCode:
    """Emitter of loops, conditions and addresses, which `builder` appends. A size may be given as an integer."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder

    def words(self, table: Value, names: Sequence[str]) -> Any:
        """Return the words of the table at an address, by their names."""
        start = self.b.inttoptr(table, v.POINTER)
        loaded = {name: self.b.load(v.advance(self.b, start, WORD * i), typ=v.SIZE) for i, name in enumerate(names)}
        return types.SimpleNamespace(**loaded)

    def at(self, base: Value, *steps: tuple[Value | int, Value | int]) -> Value:
        """Return ``base`` plus each index times its stride."""
        for index, stride in steps:
            base = self.b.add(base, self.b.mul(_size(index), _size(stride)))
        return base

    def pointer(self, address: Value) -> Value:
        """Return an address as a pointer: LLVM sees how a loop goes on from it."""
        return self.b.inttoptr(address, v.POINTER)

    def parts(self, size: Value, step: Value | int) -> Value:
        """Return the number of blocks of at most `step` that make `size`."""
        step = _size(step)
        return self.b.sdiv(self.b.add(size, self.b.sub(step, v.size(1))), step)

    def is_not(self, x: Value, y: Value | int) -> Value:
        """Return whether two sizes differ."""
        return self.b.icmp_signed("!=", x, _size(y))

    def for_each(self, count: Value, state: Sequence[Value], body: Callable[..., Any]) -> list[Value]:
        """Emit a loop that replaces `state` by ``body(index, *state)``, if there is any, and return the last state."""

        def one(current: list[Value]) -> list[Value]:
            index, *rest = current
            following = body(index, *rest)
            return [self.b.add(index, v.size(1)), *(following if state else ())]

        _, *last = v.loop(self.b, count, [v.size(0), *state], one)
        return last

    def for_blocks(self, size: Value, step: Value | int, body: Callable[[Value, Value], None]) -> None:
        """Emit ``body(first, count)`` for each block of at most `step` of `size`."""
        self.for_each(self.parts(size, step), (), lambda block: body(*self.block(block, size, step)))

    def block(self, number: Value, size: Value, step: Value | int) -> tuple[Value, Value]:
        """Return where the block of that number begins, and how many of `size` it has."""
        first = self.b.mul(number, _size(step))
        return first, v.smaller(self.b, _size(step), self.b.sub(size, first))

    def where(self, condition: Value, emit: Callable[[], Value], otherwise: Value) -> Value:
        """Return ``emit()``, which is computed only where the condition holds; else `otherwise`."""
        return self.where_all(condition, lambda: [emit()], [otherwise])[0]

    def where_all(
        self, condition: Value, emit: Callable[[], Sequence[Value]], otherwise: Sequence[Value]
    ) -> list[Value]:
        """Return what ``emit()`` returns, as `where` does."""
        before = self.b.block
        with self.b.if_then(condition):
            values = emit()
            inside = self.b.block
        results = []
        for value, other in zip(values, otherwise, strict=True):
            results.append(self.b.phi(value.type))
            results[-1].add_incoming(other, before)
            results[-1].add_incoming(value, inside)
        return results


def _size(value: Value | int) -> Value:
    return v.size(value) if isinstance(value, int) else value


def call_compiled(b: Builder, address: Value, arguments: Sequence[Value]) -> None:
    """Call a function of sizes that Numba compiled, which returns nothing and raises nothing, by its address."""
    with b.goto_entry_block():
        results = [b.alloca(v.POINTER) for _ in range(2)]  # where Numba's functions write a result and an exception
    kind = ir.FunctionType(v.INDEX, [v.POINTER] * 2 + [v.SIZE] * len(arguments))
    b.call(b.inttoptr(address, kind.as_pointer()), [*results, *arguments])
