"""Work that several threads need and one does: a word of memory for each piece, 0 before it is begun.

    claim(word)         whether it is for this thread to do: True for the first that asks
    publish(word)       it is done, and what was written is there for all
    await_done(word)    return when it is done
    is_done(word)       whether it is, without waiting

Who has claimed a piece does it at once and waits for nothing meanwhile. So whoever waits, waits for a thread that has
begun, and nobody for one that has not: threads may come in any order, or one thread do everything.
"""

from __future__ import annotations

import numba

from backends.cpu._threads.atomics import load, pause, replace, store

_NOT_BEGUN, _CLAIMED, _DONE = 0, 1, 2


@numba.njit
def claim(word: int) -> bool:
    """Return whether the piece is for this thread to do. Looking first is cheap: nobody has to give the line up."""
    return load(word) == _NOT_BEGUN and replace(word, _NOT_BEGUN, _CLAIMED)


@numba.njit
def publish(word: int) -> None:
    """Say that the piece is done."""
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
