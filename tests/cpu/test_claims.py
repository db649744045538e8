"""Parts that threads claim: each is computed once in every run, by any number of threads."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from backends.cpu._ir.integers import compiled_for_c
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._threads import claims, pool_symbols
from backends.cpu._threads.atomics import add
from backends.cpu._threads.pool import for_each
from backends.cpu._vector.intrinsics import on_stack, word_at

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="atomic operations have no Python form")


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch):
    """Kept code is found by the sources of the backends, and these functions are none of them."""
    monkeypatch.setenv("GEMM_HARNESS_CACHE", "")


def count(run: int, thread: int) -> None:
    address, counts, number = word_at(run), word_at(run + 8), word_at(run + 16)
    parts, threads = word_at(run + 24), word_at(run + 32)
    part = claims.first_part(parts, threads, thread)
    for _ in range(parts):
        if claims.claim(address, part, number):
            add(counts + 8 * part, 1)
        part = part + 1 if part + 1 < parts else 0


def count_all(piece: int, address: int, counts: int, parts: int, threads: int) -> None:
    number = claims.next_run(address, parts)
    for_each(piece, on_stack((address, counts, number, parts, threads)), threads)


def first_part(parts: int, threads: int, thread: int) -> int:
    return claims.first_part(parts, threads, thread)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("parts", [1, 2, 5, 64])
def test_every_part_is_claimed_once_in_every_run(parts, threads):
    words, counts = claims.new_claims(parts), np.zeros(parts, np.int64)
    pool_symbols.start()
    (piece,) = compiled_for_c(count)
    compute = compiled_for_python(count_all, releases_gil=True)
    for run in range(1, 4):
        compute(piece, words.ctypes.data, counts.ctypes.data, parts, threads)
        assert (counts == run).all()


@pytest.mark.parametrize(("parts", "threads"), [(1, 4), (7, 3), (64, 16)])
def test_the_first_part_of_a_processor_exists(parts, threads):
    assert 0 <= compiled_for_python(first_part)(parts, threads, 0) < parts
