"""Programs that gemm lives in, each run in a process of its own: ``python -m tests._support.inside_programs NAME``.

A program prints "right" at its end, and fails, or never ends, where gemm does not stand what it does.
"""

import concurrent.futures
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path

import llvmlite.binding as llvm
import numba
import numpy as np

from backends.cpu._compile.jit import jit
from backends.cpu._threads.pool_symbols import pool_for_loops
from harness import SEMIRINGS, Semiring, gemm, gemm_argk, threads
from harness.paths import shortest_paths

N = 170  # large enough for four threads of every backend
MADE = Semiring.of("max", "absdiff")


def numbers(seed, n=N):
    """Return a square matrix of small integers as floats: every product of them is exact."""
    return np.random.default_rng(seed).integers(0, 9, (n, n)).astype(np.float64)


def expected(a, b, semiring):
    """Return the definition, by NumPy, of a few rows."""
    terms = semiring.multiply.ufunc(a[:4, :, None], b[None])
    return semiring.add.ufunc.reduce(terms, axis=1)


def check(seed, semiring=SEMIRINGS["plus_times"], n=N, **how):
    """Compute one product and compare it with the definition."""
    a, b = numbers(seed, n), numbers(seed + 1, n)
    got = gemm(a, b, semiring=semiring, **how)
    assert np.array_equal(got[:4], expected(a, b, semiring)), (seed, semiring.name, n, how)


# Made semirings on the backend of gemm's own choice alone: for each other one a kernel more is compiled.
MIXED = tuple(
    (semiring, how, n)
    for semiring, how, n in itertools.product(
        (SEMIRINGS["plus_times"], SEMIRINGS["min_plus"], MADE),
        ({}, {"threads": 1}, {"backend": "cpu-packed"}, {"backend": "cpu-tiled"}),
        (5, 70, N),
    )
    if semiring is not MADE or "backend" not in how
)
SOME = range(0, 63, 7)  # nine of them, in which each semiring, backend and size occurs


def smaller(c, t):
    """Return the smaller."""
    return min(c, t)


def added(x, y):
    """Return the sum."""
    return x + y


def check_mixed(number):
    """Compute the product of that number: several semirings, backends, sizes and threads, one after the other."""
    semiring, how, n = MIXED[number % len(MIXED)]
    check(number, semiring, n, **how)


def check_argk(seed):
    """Compute a product with its k, and paths."""
    a, b = numbers(seed), numbers(seed + 1)
    product, k = gemm_argk(a, b)
    rows, columns = np.indices(k.shape)
    assert np.array_equal(a[rows, k] + b[k, columns], product)
    assert shortest_paths(np.where(a[:50, :50] > 2, a[:50, :50], np.inf)).shape == (50, 50)


def in_a_child(work, *arguments):
    """Fork, have the child do something, and return when it has; a child that hangs is ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(*arguments)
            status = 0
        finally:
            os._exit(status)
    for _ in range(3000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, f"the child ended with {status}"
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the child hangs")


def forks():
    """Fork after use; compute in children, in their threads, in grandchildren, and go on in the parent."""

    def child():
        assert len(list(Path("/proc/self/task").iterdir())) == 1
        check(1)
        # It has workers of its own. Numba's workqueue, if chosen, starts threads beside them.
        assert len(list(Path("/proc/self/task").iterdir())) >= threads.available()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(check_mixed, SOME))
        check_argk(3)
        with threads.limit(1):
            assert threads.read_back()["numba"] == 1
        check(2, threads=1)

    for number in (0, 1, 2):
        check_mixed(number)
    check_argk(0)
    in_a_child(child)
    check(4)
    in_a_child(in_a_child, child)
    check(5)


def forks_while_others_compute():
    """Fork in a process whose other threads are computing, compiling and limiting threads."""
    check(0)
    stop = threading.Event()
    failed = []

    def compute(seed):
        try:
            while not stop.is_set():
                check_mixed(seed)
                seed += 1
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    def compile_kernels():
        for number in itertools.count():
            if stop.is_set():
                return
            semiring = Semiring.from_functions(f"own{number}", smaller, added, zero=np.inf, is_selective=True)
            gemm(numbers(1, 9), numbers(2, 9), semiring=semiring, backend="cpu-naive")

    others = [threading.Thread(target=compute, args=(100 * i,)) for i in range(3)]
    others.append(threading.Thread(target=compile_kernels))
    for thread in others:
        thread.start()
    for number in range(4):
        in_a_child(check_mixed, 11 * number)
    stop.set()
    for thread in others:
        thread.join()
    assert not failed, failed


def many_threads():
    """Call from eight threads of Python, 150 products each."""
    blas = threads.read_back()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(check_mixed, range(8 * 150)))
        list(pool.map(check_argk, range(8)))
    assert threads.read_back() == blas | {"numba_layer": "own"}, (threads.read_back(), blas)


def pools_of_processes():
    """Compute in processes that were forked after use, spawned, and started by a server."""
    check(0)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            pool.map(check_mixed, SOME)
    for method in ("fork", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            list(pool.map(check_with, [*SEMIRINGS.values(), MADE]))


def check_with(semiring):
    """Compute over a semiring that came from another process."""
    if semiring.name.startswith(("plus_t", "min_", MADE.name)):
        check(7, semiring)


def joblib_workers():
    """Compute in joblib's workers, of every kind."""
    import joblib

    check(0)
    for backend in ("loky", "threading", "multiprocessing"):
        with joblib.parallel_config(backend, n_jobs=2):
            joblib.Parallel()(joblib.delayed(check_mixed)(number) for number in SOME)
            joblib.Parallel()(joblib.delayed(check_with)(semiring) for semiring in (SEMIRINGS["min_plus"], MADE))


def other_loops():
    """Run loops of another program on Numba's layer, before and after ours."""

    @numba.njit(parallel=True)
    def total(x):
        sums = np.zeros(8)
        for i in numba.prange(8):
            sums[i] = x[i::8].sum()
        return sums.sum()

    x = np.arange(1000.0)
    layer = numba.config.THREADING_LAYER
    assert total(x) == x.sum()
    symbols = "numba_parallel_for", "get_num_threads"
    numbas = [llvm.address_of_symbol(name) for name in symbols]
    check(0)
    assert [llvm.address_of_symbol(name) for name in symbols] == numbas  # what is compiled now runs on Numba's layer
    with pool_for_loops():
        assert not {llvm.address_of_symbol(name) for name in symbols} & set(numbas)
    assert total(x) == x.sum()

    @numba.njit(parallel=True)
    def doubled(x):
        out = np.empty_like(x)
        for i in numba.prange(x.size):
            out[i] = 2 * x[i]
        return out

    assert np.array_equal(doubled(x), 2 * x)
    check(1)
    assert layer in ("default", numba.threading_layer())


def every_piece_once():
    """Run loops of many lengths from many threads: each piece is computed once, on whichever thread."""
    words, size = numba.types.Array(numba.int64, 1, "C"), numba.types.intp

    @jit(None, words, size)
    def count(counts, work):
        for i in numba.prange(counts.size):
            for _ in range(work):
                counts[i] += 1

    def run(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            counts, work = np.zeros(rng.integers(0, 40), np.int64), int(rng.choice((1, 1, 1, 3000)))
            numba.set_num_threads(int(rng.integers(1, numba.config.NUMBA_NUM_THREADS + 1)))
            count(counts, work)
            assert (counts == work).all(), counts
            if rng.random() < 0.02:
                time.sleep(0.001)  # so that workers sleep, and are woken

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(12)))


def an_interrupt():
    """Press Ctrl-C in a long product: it is heard after the product, and the next one is right."""
    a = numbers(0, 1500)
    gemm(a, a, semiring="min_plus")
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        for _ in range(100):
            gemm(a, a, semiring="min_plus")
    except KeyboardInterrupt:
        check(1)
        check(2, SEMIRINGS["min_plus"])
        return
    raise AssertionError("it was not heard")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    sys.stdout.write("right\n")
