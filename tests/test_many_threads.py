"""Products from many threads at once, with the GIL or without, in processes of their own.

Threads change places after a microsecond, so that what two of them share is met between any two steps.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests._support.processes import PATIENCE_S, ROOT, python, run

PROGRAM = ROOT / "tests" / "_support" / "mixed_calls.py"
THREADS, CALLS, CALLS_OF_A_RACE = 16, 2000, 500

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


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sixteen_threads_compute_mixed_products_right():
    done = python(PROGRAM, str(THREADS), str(CALLS), PYTHONPATH=str(ROOT))
    found = json.loads(done.stdout)
    assert found["raised"] == []
    assert found["wrong"] == 0, found["kinds"]
    assert found["calls"] == THREADS * CALLS
    assert found["gil"] != bool(sysconfig.get_config_var("Py_GIL_DISABLED")), "a package has brought the GIL back"


@pytest.mark.deep
def test_a_planted_race_is_found():
    """It may end the process, or never let it end: sizes of two products together make loops without end."""
    command = (sys.executable, PROGRAM, str(THREADS), str(CALLS_OF_A_RACE), "tables")
    how = {
        "cwd": ROOT,
        "env": {**os.environ, "PYTHONPATH": str(ROOT)},
        "capture_output": True,
        "timeout": PATIENCE_S / 5,
    }
    for _ in range(5):
        try:
            done = subprocess.run(command, **how, check=False)
        except subprocess.TimeoutExpired:
            return
        if done.returncode != 0 or json.loads(done.stdout)["wrong"]:
            return
    pytest.fail("threads shared their tables of addresses, and every product was right")


def test_first_calls_from_several_threads():
    python("-c", FIRST_CALLS)


@pytest.fixture
def checkout(tmp_path):
    """Return a folder with what the Makefile reads, and stand-ins for interpreters: its answers are statuses."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name, status in {"with-gil": 1, "without-gil": 0}.items():
        (tmp_path / name).write_text(
            f'#!/bin/sh\ncase $* in *GIL*) exit {status} ;; esac\nexec {sys.executable} "$@"\n'
        )
        (tmp_path / name).chmod(0o755)
    return tmp_path


def _make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "PYTHON"))}
    command = ["make", "--no-print-directory", "test-free-threads", "CUPY=", "MPI=", *arguments]
    return run(*command, cwd=folder, env=variables, status=None)


@pytest.mark.parametrize("python", ["with-gil", "nosuch", "/bin/false", sys.executable])
def test_tests_without_the_gil_decline_an_interpreter_with_it_in_one_message(python, checkout):
    if python == sys.executable and sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this interpreter has no GIL")
    named = str(checkout / python) if python == "with-gil" else python
    done = _make(checkout, f"PYTHON={named}")
    (said, status) = done.stderr.splitlines()
    assert said.startswith(f"make: {named} is not here, or has the GIL: name a CPython that was built without it: ")
    assert status.startswith("make: *** ")
    assert done.stdout == ""
    assert not (checkout / "build").exists()


def test_without_a_name_the_usual_one_is_taken(checkout, monkeypatch):
    (checkout / "with-gil").rename(checkout / "python3.14t")
    monkeypatch.setenv("PATH", f"{checkout}{os.pathsep}{os.environ['PATH']}")
    assert _make(checkout).stderr.startswith("make: python3.14t is not here, or has the GIL: ")


def test_tests_without_the_gil_have_an_environment_of_their_own(checkout):
    done = _make(checkout, f"PYTHON={checkout / 'without-gil'}", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f'"{checkout}/without-gil" -m venv --clear build/free-threads' in done.stdout
    assert "--editable '.[tests]'" in done.stdout
    assert "PYTHON_GIL=0 make" in done.stdout
    assert "\nbuild/free-threads/bin/python -m pytest" in done.stdout
    assert ".venv" not in done.stdout
