from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np  # noqa: F401 its pool is one of those that are set
import pytest

from harness import threads
from harness.errors import ProblemError
from tests._support.processes import python

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize("number", sorted({1, CORES}))
def test_all_libraries_use_what_they_are_told_and_go_back(number):
    before = threads.read_back()
    with threads.limit(number):
        found = threads.read_back()
        assert threads.disagreement(found, number) is None
    assert threads.read_back() == before


PRODUCTS = {"several threads": "", "a limit": ", threads=2"}


@pytest.mark.parametrize("how", PRODUCTS.values(), ids=PRODUCTS)
def test_a_threading_layer_that_numba_cannot_load_is_named_with_the_cure(how):
    program = f"import numpy as np; from harness import gemm; gemm(np.ones((300, 300)), np.ones((300, 300)){how})"
    done = python("-c", program, status=1, NUMBA_THREADING_LAYER="nonsense")
    message = done.stderr[done.stderr.rindex("BackendUnavailable: ") :]
    assert "  got       nonsense: The threading layer requested 'nonsense' is unknown to Numba." in message
    assert "  fix       unset NUMBA_THREADING_LAYER" in message


# Each entry point, where the environment has a number of threads that Numba refuses as it is imported.
REFUSED = """
import numpy as np
import harness, harness.paths
from harness.linalg import qr
x = np.arange(9.0).reshape(3, 3)
for call in (
    lambda: harness.gemm(x, x),
    lambda: harness.gemm(x, x, threads=1),
    lambda: harness.gemm(x, x, backend="cpu-simd"),
    lambda: harness.gemm_argk(x, x),
    lambda: harness.gemm_argk(x, x, backend="cpu-numpy"),
    lambda: harness.einsum("ij,jk->ik", x, x),
    lambda: harness.paths.closure(x, semiring="min_plus"),
    lambda: harness.gemv(x, x[0]),
    lambda: qr(x),
):
    try:
        print(call())
    except harness.BackendUnavailable as error:
        print(error.what, error.got, error.fix, sep="; ")
assert np.array_equal(harness.gemm(x, x, backend="cpu-numpy"), x @ x)
"""


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_number_of_threads_that_numba_refuses_is_said_by_every_entry_point(number):
    done = python("-c", REFUSED, NUMBA_NUM_THREADS=number)
    what = "backend 'cpu-simd' cannot be loaded; import failed: ValueError: Number of threads specified must be > 0."
    assert done.stdout.splitlines() == [f"{what}; correct or unset NUMBA_NUM_THREADS"] * 9, done.stdout
    assert done.stderr == ""


# What Python says where there is no /dev/shm, or nothing may be written there.
WITHOUT_SEMAPHORES = """
import multiprocessing.context, errno, warnings
def refuse(*_):
    raise OSError(errno.EROFS, "Read-only file system")
multiprocessing.context.BaseContext.RLock = refuse
import numpy as np
from harness import gemm
assert gemm(np.ones((300, 300)), np.ones((300, 300)), threads=%d)[0, 0] == 300
"""


def test_a_machine_without_shared_memory_computes_and_numba_warns_of_nothing():
    assert python("-W", "error", "-c", WITHOUT_SEMAPHORES % CORES).stderr == ""


def test_the_old_numbers_come_back_after_an_exception():
    before = threads.read_back()
    with pytest.raises(ZeroDivisionError), threads.limit(1):
        raise ZeroDivisionError
    assert threads.read_back() == before


def test_limits_of_several_threads_leave_what_was_there_before():
    before, wrong = threads.read_back(), []

    def limit_often(number):
        for _ in range(30):
            with threads.limit(number):
                wrong.append(threads.disagreement(threads.read_back(), number))
                time.sleep(0.0001)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(limit_often, [1, CORES] * 4))
    assert set(wrong) == {None}
    assert threads.read_back() == before


def test_libraries_are_left_alone_if_they_are_not_called():
    before = threads.read_back()
    with threads.limit(1, libraries=False):
        found = threads.read_back()
    assert {name: found[name] for name in found if "blas" in name} == {n: before[n] for n in before if "blas" in n}
    assert found.get("numba", 1) == 1


@pytest.mark.parametrize("number", [0, -1, CORES + 1, 1.0, True, "2"])
def test_a_number_that_the_machine_does_not_have_is_refused(number):
    with pytest.raises(ProblemError, match="threads"), threads.limit(number):
        pass


def test_a_disagreement_names_the_library():
    assert threads.disagreement({"openblas": 1, "numba_layer": "omp"}, 1) is None
    assert threads.disagreement({"openblas": 1, "numba": 4}, 1) == "numba uses 4 threads, not 1"
