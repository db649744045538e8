"""Life inside other people's programs: forks, threads, pools of processes, other loops, under each threading layer."""

from __future__ import annotations

import ctypes
import subprocess
import threading
import time

import numpy as np
import pytest

from backends.cpu._ladder.execution import build_begin
from harness import SEMIRINGS, gemm, gemm_argk
from tests._support.processes import python

PROGRAMS = """forks forks_while_others_compute many_threads pools_of_processes joblib_workers other_loops
every_piece_once an_interrupt""".split()


def _has_tbb() -> bool:
    try:
        ctypes.CDLL("libtbb.so.12")
    except OSError:
        return False
    return True


def _run(module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-W", "ignore::DeprecationWarning", "-m", module, *arguments, status=None, **environment)


LAYERS = ["workqueue", *(["tbb"] if _has_tbb() else [])]
# Programs in which Numba's own layer, beside our threads, forks, is used by several threads, or runs loops. Workers of
# pools and of joblib are forked as those are, and what is interrupted or counted runs on our threads alone.
ON_EVERY_LAYER = ("forks", "forks_while_others_compute", "many_threads", "other_loops")
RUNS = [(program, "default") for program in PROGRAMS] + [(name, layer) for layer in LAYERS for name in ON_EVERY_LAYER]


@pytest.mark.deep(but=5)
@pytest.mark.parametrize(("program", "layer"), RUNS)
def test_gemm_lives_in(program: str, layer: str) -> None:
    done = _run("tests._support.inside_programs", program, NUMBA_THREADING_LAYER=layer, NUMBA_NUM_THREADS="4")
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["right"]), done.stdout + done.stderr


def test_settings_of_the_process_are_as_before_each_product() -> None:
    done = _run("tests._support.process_settings", NUMBA_NUM_THREADS="4")
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(("before", "size"), [("same", 60), ("same", 300), ("other", 300)])
def test_a_finalizer_multiplies_as_python_ends(before: str, size: int) -> None:
    done = _run("tests._support.at_the_end", before, str(size), NUMBA_NUM_THREADS="4")
    said = [line.split(": ") for line in done.stdout.splitlines()]
    assert [answer for _, answer in said] == ["right"] * 11, done.stdout + done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_a_first_product_as_python_ends_says_what_to_do() -> None:
    done = _run("tests._support.at_the_end", "none", "60")
    assert len(done.stdout.splitlines()) == 11
    assert all(line.endswith(" cannot be loaded while Python ends") for line in done.stdout.splitlines()), done.stdout
    assert (done.returncode, done.stderr) == (0, "")


CALLS = {
    "cpu-simd, one thread": lambda x: gemm(x, x, threads=1),
    "cpu-simd": lambda x: gemm(x, x, semiring="max_times"),
    "cpu-transposed": lambda x: gemm(x[:600, :600], x[:600, :600], backend="cpu-transposed", threads=1),
    # A kernel without a parallel loop, by itself: those with one release the GIL in any case.
    "the pass over C": lambda x: build_begin(SEMIRINGS["plus_times"], x.dtype)(True, 2.0, x, np.empty_like(x)),
    "argk": lambda x: gemm_argk(x[:1000, :1000], x[:1000, :1000], threads=1),
}


@pytest.mark.parametrize("what", CALLS)
def test_other_threads_of_python_go_on_meanwhile(what: str) -> None:
    n = 4000 if what == "the pass over C" else 1500
    x = np.random.default_rng(1).random((n, n))
    CALLS[what](x)
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            time.sleep(0.0005)
            ticks.append(time.perf_counter())

    ticking = threading.Thread(target=tick)
    ticking.start()
    begin = time.perf_counter()
    CALLS[what](x)
    end = time.perf_counter()
    stop.set()
    ticking.join()
    assert sum(begin < at < end for at in ticks) > 5  # none at all, or one, where the GIL is held
