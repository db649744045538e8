"""Products from many threads at once, with the GIL or without, in processes of their own.

Threads change places after a microsecond, so that what two of them share is met between any two steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "_support" / "mixed_calls.py"
THREADS, CALLS = 16, 2000

# Numba's modules import each other in a circle: who looks into them before all are there breaks the import for good.
FIRST_CALLS = """
import sys, threading
import numpy as np
import harness
from harness.threads import limit, read_back

sys.setswitchinterval(1e-6)
a, start, raised = np.ones((5, 5)), threading.Barrier(10), []

def call(work):
    start.wait()
    try:
        work()
    except Exception as error:
        raised.append(repr(error))

def look():
    for _ in range(300):
        with limit(1):
            read_back()

works = [lambda: harness.gemm(a, a, semiring="min_plus")] * 9 + [look]
threads = [threading.Thread(target=call, args=(work,)) for work in works]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not raised, raised
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sixteen_threads_compute_mixed_products_right():
    done = _run(str(PROGRAM), str(THREADS), str(CALLS))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["raised"] == []
    assert found["wrong"] == 0, found["kinds"]
    assert found["calls"] == THREADS * CALLS


def test_a_planted_race_is_found():
    for _ in range(5):
        done = _run(str(PROGRAM), str(THREADS), "500", "tables")
        if done.returncode != 0 or json.loads(done.stdout)["wrong"]:  # it may end the process
            return
    pytest.fail("threads shared their tables of addresses, and every product was right")


def test_first_calls_from_several_threads():
    done = _run("-c", FIRST_CALLS)
    assert done.returncode == 0, done.stderr
