"""Claims on work that several threads need and one does: a word of memory for each piece, 0 before it is begun.

    claim(word)         True for the first thread that calls it, which does the piece
    publish(word)       the piece is done, and its results are visible to all threads
    await_done(word)    return when the piece is done
    is_done(word)       whether the piece is done, without waiting

Each emits instructions of LLVM IR, as loops over tiles are written.

A thread that has claimed a piece does it at once, without waiting. So a thread only waits for work that has begun:
threads may run in any order, or one thread may do everything.
"""

from __future__ import annotations

from backends.cpu._threads import atomics
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.scalar import ScalarCode

_NOT_BEGUN, _CLAIMED, _DONE = map(v.size, range(3))


def claim(b: Builder, word: Value) -> Value:
    """Return whether this thread has to do the piece. The load first is cheap: the cache line stays shared."""
    is_new = b.icmp_signed("==", atomics.emit_load(b, word), _NOT_BEGUN)
    return ScalarCode(b).where(is_new, lambda: atomics.emit_replace(b, word, _NOT_BEGUN, _CLAIMED), v.NO)


def publish(b: Builder, word: Value) -> None:
    """Mark the piece as done."""
    atomics.emit_store(b, word, _DONE)


def is_done(b: Builder, word: Value) -> Value:
    """Return whether the piece is done."""
    return b.icmp_signed("==", atomics.emit_load(b, word), _DONE)


def await_done(b: Builder, word: Value) -> None:
    """Return when the piece is done."""
    look, waiting, after = (b.append_basic_block(name) for name in ("look", "wait", "done"))
    b.branch(look)
    b.position_at_end(look)
    b.cbranch(is_done(b, word), after, waiting)
    b.position_at_end(waiting)
    atomics.emit_pause(b)
    b.branch(look)
    b.position_at_end(after)
