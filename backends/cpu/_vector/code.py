"""LLVM IR: constants, functions, loops and addresses. Pointers are opaque, offsets in bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from harness.dtypes import is_float

Builder = ir.IRBuilder
Value = Any

BIT, BYTE, INDEX, SIZE = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
POINTER, VOID = ir.PointerType(), ir.VoidType()
NO, YES = ir.Constant(BIT, 0), ir.Constant(BIT, 1)


def size(value: int) -> ir.Constant:
    """Return an integer as a constant of the width of an address."""
    return ir.Constant(SIZE, value)


def index(value: int) -> ir.Constant:
    """Return a small constant."""
    return ir.Constant(INDEX, value)


class InOneWord(ir.Constant):
    """A vector constant that is written as one word: llvmlite would write, and LLVM read, it lane by lane."""

    def __init__(self, vector: ir.VectorType, word: str) -> None:
        super().__init__(vector, [0] * vector.count)
        self._word = word

    def get_reference(self) -> str:
        """Return the word."""
        return self._word


def zeros(vector: ir.VectorType) -> ir.Constant:
    """Return a vector of zero bits."""
    return InOneWord(vector, "zeroinitializer")


def undefined(vector: ir.VectorType) -> ir.Constant:
    """Return a vector of any bits."""
    return InOneWord(vector, "undef")


def element_type(dtype: np.dtype[Any]) -> Any:
    """Return LLVM's type of one element."""
    if is_float(dtype):
        return ir.DoubleType() if dtype.itemsize == 8 else ir.FloatType()
    return ir.IntType(8 * dtype.itemsize)


def declare(builder: Builder, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """Return the function `name` of LLVM."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def call_on_floats(builder: Builder, name: str, *values: Value) -> Value:
    """Call LLVM's function `name` of scalars or vectors of one floating-point type; the sign of zero is free."""
    kind = values[0].type
    lanes, element = (f"v{kind.count}", kind.element) if isinstance(kind, ir.VectorType) else ("", kind)
    width = 64 if element == ir.DoubleType() else 32
    function = declare(builder, f"llvm.{name}.{lanes}f{width}", kind, [kind] * len(values))
    return builder.call(function, values, fastmath=() if name == "fmuladd" else ("nsz",))


def own_function(
    module: ir.Module, name: str, arguments: Sequence[Any], emit: Callable[..., Value | None], result: Any = VOID
) -> Any:
    """Return the function `name` of this module, which ``emit(builder, *arguments)`` writes at the first call.

    It is never inlined: LLVM would interleave a kernel with the loops around it, and spill its registers.
    """
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    value = emit(builder, *function.args)
    if result is VOID:
        builder.ret_void()
    else:
        builder.ret(value)
    return function


def calls(name: str, emit: Callable[..., Value | None]) -> Callable[..., Value]:
    """Return ``call(builder, *sizes)``, which calls the function that ``emit(builder, *sizes)`` writes."""
    return lambda builder, *sizes: builder.call(own_function(builder.module, name, [SIZE] * len(sizes), emit), sizes)


def calls_numbered(
    name: str, largest: int, emitter: Callable[[int], Callable[..., Value | None]]
) -> Callable[..., None]:
    """Return ``call(builder, n, *sizes)``, which calls the function that ``emitter(n)`` writes, n in 1..largest."""

    def call(builder: Builder, which: Value, *sizes: Value) -> None:
        functions = numbered_functions(builder.module, name, largest, len(sizes), emitter)
        switch(builder, which, dict(enumerate(functions, 1)), list(sizes))

    return call


def prefer_widest_vectors(function: Any) -> None:
    """Have LLVM's loop vectoriser take the widest vectors for a function: for some processors it would not."""
    set.add(function.attributes, '"prefer-vector-width"="512"')  # llvmlite's own `add` knows no attribute with a value


def numbered_functions(
    module: ir.Module, name: str, largest: int, count: int, emitter: Callable[[int], Callable[..., Value | None]]
) -> list[Any]:
    """Return functions of `count` sizes that ``emitter(n)`` writes, for n from 1 to `largest`."""
    return [own_function(module, f"{name}_{n}", [SIZE] * count, emitter(n)) for n in range(1, largest + 1)]


def loop(
    builder: Builder, iterations: Value, state: Sequence[Value], body: Callable[[list[Value]], Sequence[Value]]
) -> list[Value]:
    """Emit a loop that replaces `state` by ``body(state)``, `iterations` times, and return the last state."""
    before = builder.block
    inside, after = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", iterations, size(0)), inside, after)
    builder.position_at_end(inside)
    left = builder.phi(SIZE)
    current = [builder.phi(value.type) for value in state]
    following = list(body(list(current)))
    fewer = builder.sub(left, size(1))
    last = builder.block
    for phi, begin, end in zip([left, *current], [iterations, *state], [fewer, *following], strict=True):
        phi.add_incoming(begin, before)
        phi.add_incoming(end, last)
    builder.cbranch(builder.icmp_signed("!=", fewer, size(0)), inside, after)  # decrement and jump, as one instruction
    builder.position_at_end(after)
    results = []
    for begin, end in zip(state, following, strict=True):
        phi = builder.phi(begin.type)
        phi.add_incoming(begin, before)
        phi.add_incoming(end, last)
        results.append(phi)
    return results


def in_both_forms(builder: Builder, accumulate: Value, emit: Callable[[bool], object]) -> None:
    """Emit ``emit(True)``, which combines with C, where `accumulate` is not 0; else ``emit(False)``."""
    with builder.if_else(builder.icmp_signed("!=", accumulate, size(0))) as branches:
        for branch, is_combining in zip(branches, (True, False), strict=True):
            with branch:
                emit(is_combining)


def switch(builder: Builder, which: Value, functions: dict[int, Any], arguments: list[Value]) -> None:
    """Call the function whose number is `which`."""
    after, never = builder.append_basic_block("called"), builder.append_basic_block("never")
    switch = builder.switch(which, never)
    for number, function in functions.items():
        block = builder.append_basic_block(f"case{number}")
        switch.add_case(size(number), block)
        builder.position_at_end(block)
        builder.call(function, arguments)
        builder.branch(after)
    builder.position_at_end(never)
    builder.unreachable()
    builder.position_at_end(after)


def advance(builder: Builder, pointer: Value, offset: Value | int) -> Value:
    """Return `pointer` moved by `offset` bytes."""
    if isinstance(offset, int):
        if offset == 0:
            return pointer
        offset = size(offset)
    return builder.gep(pointer, [offset], source_etype=BYTE)


def prefetch(builder: Builder, pointer: Value, locality: int) -> None:
    """Ask for a cache line: `locality` 3 into L1, 2 into L2."""
    function = declare(builder, "llvm.prefetch.p0", VOID, [POINTER, INDEX, INDEX, INDEX])
    builder.call(function, [pointer, index(0), index(locality), index(1)])


def keep_order(builder: Builder, values: Sequence[Value] = ()) -> list[Value]:
    """Return `values`, of one type, and have them computed here, before any later load.

    Otherwise LLVM moves loads up and arithmetic down, until it spills registers of the tile.
    """
    letter = vector_register(builder)
    tied = list(values) if letter else []
    kinds, constraints = [value.type for value in tied], [f"={letter}"] * len(tied) + [str(i) for i in range(len(tied))]
    result = VOID if not kinds else kinds[0] if len(kinds) == 1 else ir.LiteralStructType(kinds)
    assembly = ir.InlineAsm(ir.FunctionType(result, kinds), "", ",".join([*constraints, "~{memory}"]), False)
    done = builder.call(assembly, tied)
    if len(tied) < 2:
        return [done] if tied else list(values)
    return [builder.extract_value(done, i) for i in range(len(tied))]


# Letters of vector registers in assembly, by processor.
_VECTOR_REGISTERS = {"x86_64": "v", "aarch64": "w", "arm64": "w"}


def vector_register(builder: Builder) -> str | None:
    """Return the letter of vector registers in assembly for the processor of the module; None: not known."""
    return _VECTOR_REGISTERS.get(builder.module.triple.partition("-")[0])


def smaller(builder: Builder, x: Value, y: Value) -> Value:
    """Return the smaller of two signed sizes."""
    return builder.select(builder.icmp_signed("<", x, y), x, y)
