"""Parts that threads claim: each is computed once in every run, by any number of threads."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import prange, types

from backends.cpu._compile.jit import jit
from backends.cpu._threads import claims
from backends.cpu._threads.atomics import add

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="atomic operations have no Python form")


@pytest.fixture(scope="module")
def count_all():
    def count(words, counts, threads):
        number, address = claims.next_run(words.ctypes.data, counts.size), words.ctypes.data
        for thread in prange(threads):
            parts = counts.size
            part = claims.first_part(parts, threads, np.intp(thread))
            for _ in range(parts):
                if claims.claim(address, part, number):
                    add(counts.ctypes.data + 8 * part, 1)
                part = part + 1 if part + 1 < parts else 0

    array = types.Array(types.int64, 1, "C")
    return jit(None, array, array, types.intp)(count)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("parts", [1, 2, 5, 64])
def test_every_part_is_claimed_once_in_every_run(count_all, parts, threads):
    words, counts = claims.new_claims(parts), np.zeros(parts, np.int64)
    for run in range(1, 4):
        count_all(words, counts, threads)
        assert (counts == run).all()


@pytest.mark.parametrize(("parts", "threads"), [(1, 4), (7, 3), (64, 16)])
def test_the_first_part_of_a_processor_exists(parts, threads):
    assert 0 <= claims.first_part(parts, threads, 0) < parts
