"""Atomic operations on words of memory, 64-bit integers, given by their addresses.

`load` acquires, `store` releases, `add` and `replace` do both. So a thread that reads a stored word also sees all
earlier writes of the thread that stored it. Each has an emitter, for functions that are written as LLVM IR.
"""

from __future__ import annotations

import sys

from numba import types

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers

WORD_BYTES = 8
_POINTER = v.SIZE.as_pointer()  # llvmlite's atomic operations need a typed pointer


def emit_load(builder: Builder, word: Value) -> Value:
    """Return the value of a word."""
    return builder.load_atomic(builder.inttoptr(word, _POINTER), "acquire", WORD_BYTES)


def emit_store(builder: Builder, word: Value, value: Value) -> None:
    """Write to a word."""
    builder.store_atomic(value, builder.inttoptr(word, _POINTER), "release", WORD_BYTES)


def emit_add(builder: Builder, word: Value, value: Value) -> Value:
    """Add to a word, and return what it held before."""
    return builder.atomic_rmw("add", builder.inttoptr(word, _POINTER), value, "acq_rel")


def emit_replace(builder: Builder, word: Value, expected: Value, value: Value) -> Value:
    """Write `value` to a word if it holds `expected`, and return whether it did."""
    outcome = builder.cmpxchg(builder.inttoptr(word, _POINTER), expected, value, "acq_rel", "acquire")
    return builder.extract_value(outcome, 1)


def emit_pause(builder: Builder) -> None:
    """Tell the processor that this is a spin loop."""
    if builder.module.triple.startswith("x86_64"):
        builder.call(v.declare(builder, "llvm.x86.sse2.pause", v.VOID, []), [])


load = OfIntegers(emit_load)
store = OfIntegers(emit_store)
add = OfIntegers(emit_add)
replace = OfIntegers(emit_replace)
pause = OfIntegers(emit_pause)
# Let another thread have this one's processor.
yield_thread = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())
