"""Claims on work that several threads need and one does: a word of memory for each piece, 0 before it is begun.

    claim(word)         True for the first thread that calls it, which does the piece
    publish(word)       the piece is done, and its results are visible to all threads
    await_done(word)    return when the piece is done
    is_done(word)       whether the piece is done, without waiting

A thread that has claimed a piece does it at once, without waiting. So a thread only waits for work that has begun:
threads may run in any order, or one thread may do everything.
"""

from __future__ import annotations

import numba

from backends.cpu._threads.atomics import load, pause, replace, store

_NOT_BEGUN, _CLAIMED, _DONE = 0, 1, 2


@numba.njit
def claim(word: int) -> bool:
    """Return whether this thread has to do the piece. The load first is cheap: the cache line stays shared."""
    return load(word) == _NOT_BEGUN and replace(word, _NOT_BEGUN, _CLAIMED)


@numba.njit
def publish(word: int) -> None:
    """Mark the piece as done."""
    store(word, _DONE)


@numba.njit
def is_done(word: int) -> bool:
    """Return whether the piece is done."""
    return load(word) == _DONE


@numba.njit
def await_done(word: int) -> None:
    """Return when the piece is done."""
    while not is_done(word):
        pause()
