"""Work that several threads need and one does: a word of memory for each piece, 0 before it is begun.

    claim(word)         whether it is for this thread to do: True for the first that asks
    publish(word)       it is done, and what was written is there for all
    await_done(word)    return when it is done
    is_done(word)       whether it is, without waiting

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
_NOT_BEGUN, _CLAIMED, _DONE = 0, 1, 2


@intrinsic
def _take(typing_context: Any, word: Any) -> Any:
    """Return whether the piece was not begun, and claim it."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _POINTER)
        found = builder.cmpxchg(place, v.size(_NOT_BEGUN), v.size(_CLAIMED), "acquire", "monotonic")
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
def _state(typing_context: Any, word: Any) -> Any:
    """Return how far the piece is."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], _POINTER), "acquire", WORD_BYTES)

    return types.intp(types.intp), emit


@intrinsic
def _pause(typing_context: Any) -> Any:
    """Tell the processor that this is a loop that waits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if builder.module.triple.startswith("x86_64"):
            builder.call(v.declare(builder, "llvm.x86.sse2.pause", v.VOID, []), [])
        return context.get_dummy_value()

    return types.void(), emit


@numba.njit
def claim(word: int) -> bool:
    """Return whether the piece is for this thread to do. Looking first is cheap: nobody has to give the line up."""
    return _state(word) == _NOT_BEGUN and _take(word)


@numba.njit
def is_done(word: int) -> bool:
    """Return whether the piece is done."""
    return _state(word) == _DONE


@numba.njit
def await_done(word: int) -> None:
    """Return when the piece is done."""
    while not is_done(word):
        _pause()
