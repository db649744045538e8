"""Work that several threads need and one does: a word of memory for each piece, 0 before it is begun.

    claim(word)      whether it is for this thread to do: True for the first that asks
    publish(word)    it is done, and what was written is there for all
    await_done(word) return when it is done
    is_done(word)    whether it is, without waiting

Who has claimed a piece does it at once and waits for nothing meanwhile. So whoever waits, waits for a thread that has
begun, and nobody for one that has not: threads may come in any order, or one thread do everything.
"""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from backends.cpu import _vector_code as v

WORD_BYTES = 8
_POINTER = v.SIZE.as_pointer()  # llvmlite's atomic operations want to know of what
_CLAIMED, _DONE = 1, 2


@intrinsic
def claim(typing_context: Any, word: Any) -> Any:
    """Return whether the piece is for this thread to do."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _POINTER)
        found = builder.cmpxchg(place, v.size(0), v.size(_CLAIMED), "acquire", "monotonic")
        return builder.extract_value(found, 1)

    return types.boolean(types.intp), emit


@intrinsic
def publish(typing_context: Any, word: Any) -> Any:
    """Say that the piece is done."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(v.size(_DONE), builder.inttoptr(arguments[0], _POINTER), "release", WORD_BYTES)
        return context.get_dummy_value()

    return types.void(types.intp), emit


@intrinsic
def is_done(typing_context: Any, word: Any) -> Any:
    """Return whether the piece is done."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _POINTER)
        state = builder.load_atomic(place, "acquire", WORD_BYTES)
        return builder.icmp_signed("==", state, v.size(_DONE))

    return types.boolean(types.intp), emit


@intrinsic
def _pause(typing_context: Any) -> Any:
    """Tell the processor that this is a loop that waits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if builder.module.triple.startswith("x86_64"):
            builder.call(v.declare(builder, "llvm.x86.sse2.pause", v.VOID, []), [])
        return context.get_dummy_value()

    return types.void(), emit


@numba.njit
def await_done(word: int) -> None:
    """Return when the piece is done."""
    while not is_done(word):
        _pause()
