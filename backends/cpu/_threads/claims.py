"""Parts of a loop that threads claim one by one, each first those that belong to its processor.

A part belongs to the same processor in every run, so a product that is computed again finds its operands and its
result in that processor's own cache. A thread whose own parts are done claims those that others have not begun. So a
late or slow thread computes fewer.

    number = next_run(claims, parts)                 one word a part, and one that counts the runs
    for thread in prange(threads):
        part = first_part(parts, threads, thread)
        for _ in range(parts):
            if claim(claims, part, number):
                ...
            part = part + 1 if part + 1 < parts else 0
"""

from __future__ import annotations

import sys

import numpy as np
from numba import types

from backends.cpu._threads.atomics import WORD_BYTES, add, load, replace

_here = types.ExternalFunction("sched_getcpu", types.int32())


def _processor(thread: int) -> int:
    return np.intp(_here())


def _thread(thread: int) -> int:
    return np.intp(thread)


_place = _processor if sys.platform.startswith("linux") else _thread  # elsewhere systems do not say


def new_claims(parts: int) -> np.ndarray:
    """Return the words for a loop of `parts` parts, none of which has been claimed."""
    return np.zeros(parts + 1, np.int64)


def next_run(claims: int, parts: int) -> int:
    """Begin a run, before its threads do, and return its number; `claims` is the address of the words."""
    return add(claims + WORD_BYTES * parts, 1) + 1


def first_part(parts: int, threads: int, thread: int) -> int:
    """Return the first of the parts that belong to the processor of this thread: `parts / threads` of them."""
    return _place(thread) % threads * parts // threads


def claim(claims: int, part: int, number: int) -> bool:
    """Claim a part in the run of that number, and return whether no other thread had."""
    word = claims + WORD_BYTES * part
    before = load(word)
    return before != number and replace(word, before, number)
