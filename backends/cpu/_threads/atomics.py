"""Words of memory that several threads read and write at once, by their addresses: integers of 64 bits.

`load` acquires, `store` releases, `add` and `replace` do both: a thread that reads a stored word also sees all earlier
writes of the thread that stored it.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from backends.cpu._vector import code as v

WORD_BYTES = 8
_POINTER = v.SIZE.as_pointer()  # llvmlite's atomic operations need a typed pointer


@intrinsic
def load(typing_context: Any, word: Any) -> Any:
    """Return the value of a word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], _POINTER), "acquire", WORD_BYTES)

    return types.intp(types.intp), emit


@intrinsic
def store(typing_context: Any, word: Any, value: Any) -> Any:
    """Write to a word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], builder.inttoptr(arguments[0], _POINTER), "release", WORD_BYTES)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), emit


@intrinsic
def add(typing_context: Any, word: Any, value: Any) -> Any:
    """Add to a word, and return what it held before."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(arguments[0], _POINTER), arguments[1], "acq_rel")

    return types.intp(types.intp, types.intp), emit


@intrinsic
def replace(typing_context: Any, word: Any, expected: Any, value: Any) -> Any:
    """Write `value` to a word if it holds `expected`, and return whether it did."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _POINTER)
        outcome = builder.cmpxchg(pointer, arguments[1], arguments[2], "acq_rel", "acquire")
        return builder.extract_value(outcome, 1)

    return types.boolean(types.intp, types.intp, types.intp), emit


@intrinsic
def pause(typing_context: Any) -> Any:
    """Tell the processor that this is a loop that waits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if builder.module.triple.startswith("x86_64"):
            builder.call(v.declare(builder, "llvm.x86.sse2.pause", v.VOID, []), [])
        return context.get_dummy_value()

    return types.void(), emit
