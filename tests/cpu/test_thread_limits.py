"""Loops that ask for fewer threads: no piece for the others, and the setting of the caller is as before."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import prange, types

from backends.cpu._compile.jit import jit
from backends.cpu._threads.limits import limit_threads, restore_threads

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="loops have no threads without compilation")


@pytest.fixture(scope="module")
def count():
    def count(threads: int, seen: np.ndarray) -> None:
        before = limit_threads(threads)
        inside = numba.get_num_threads()
        for piece in prange(threads):
            seen[piece] = inside
        restore_threads(before)

    return jit(None, types.intp, types.Array(types.int64, 1, "C"))(count)


def test_a_loop_has_as_many_threads_as_it_asks_for_and_no_more_than_there_are(count):
    here = numba.get_num_threads()
    for most in {1, here}:
        numba.set_num_threads(most)
        try:
            for threads in (1, 2, 5):
                seen = np.zeros(8, np.int64)
                count(threads, seen)
                assert set(seen[:threads]) == {min(threads, most)}
                assert not seen[threads:].any()
                assert numba.get_num_threads() == most
        finally:
            numba.set_num_threads(here)
