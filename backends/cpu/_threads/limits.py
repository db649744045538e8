"""The number of threads of the parallel loops that a compiled function begins.

A `prange` loop of fewer pieces than threads is cut into as many all the same, and wakes workers for empty ones. So a
function that knows how many threads its work is worth says so::

    before = limit_threads(threads)
    for thread in prange(threads):
        ...
    restore_threads(before)
"""

from __future__ import annotations

from numba import types

from backends.cpu._vector.inlined import inlined

_get = types.ExternalFunction("get_num_threads", types.int32())
_set = types.ExternalFunction("set_num_threads", types.void(types.int32))


@inlined
def limit_threads(threads: int) -> int:
    """Let the loops of this thread of Python have no more than `threads` threads, and return how many they had."""
    before = _get()
    if threads < before:
        _set(threads)
    return before


@inlined
def restore_threads(before: int) -> None:
    """Undo `limit_threads`, which returned `before`."""
    if _get() != before:
        _set(before)
