"""Where the working directory has been removed, libraries get another one while they need it."""

import os
import threading
from pathlib import Path

import pytest

from harness.surroundings import working_directory
from tests._support.processes import ROOT, python


@pytest.fixture
def removed(tmp_path, monkeypatch):
    """A working directory that is removed; the one before comes back after the test."""
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


def is_nowhere():
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def test_where_there_is_one_nothing_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with working_directory():
        assert Path.cwd() == tmp_path
    assert Path.cwd() == tmp_path


def test_a_removed_one_is_back_after_the_block_also_after_an_exception(removed):
    def block():
        with working_directory():
            assert Path.cwd().is_dir()
            raise KeyError

    with pytest.raises(KeyError):
        block()
    assert is_nowhere()


def test_blocks_of_several_threads_end_in_any_order(removed):
    may_end, has_begun = threading.Event(), threading.Event()

    def other():
        with working_directory():
            has_begun.set()
            may_end.wait()
            assert not is_nowhere()

    thread = threading.Thread(target=other)
    with working_directory():
        thread.start()
        has_begun.wait()
    assert not is_nowhere()  # the other one is still inside
    may_end.set()
    thread.join()
    assert is_nowhere()


def test_who_goes_elsewhere_meanwhile_stays_there(removed, tmp_path):
    with working_directory():
        os.chdir(tmp_path)
    assert Path.cwd() == tmp_path


PROGRAM = """
import os, tempfile
os.chdir(folder := tempfile.mkdtemp())
os.rmdir(folder)
import numpy as np
from harness import Semiring, gemm, registry
a = np.arange(81.0).reshape(9, 9)
assert np.array_equal(gemm(a, a), a @ a)
best = (a[:, :, None] + a[None]).min(1)
own = Semiring.from_functions("own", lambda c, t: min(c, t), lambda x, y: x + y, zero=np.inf, is_selective=True)
assert np.array_equal(gemm(a, a, semiring=own, backend="cpu-naive"), best)  # compiled now
for entry in registry.discover():
    assert "No such file" not in (entry.error or ""), entry
if not registry.look_up("cpu-mkl").unavailable():
    assert np.array_equal(gemm(a, a, backend="cpu-mkl"), a @ a)
try:
    os.getcwd()
except FileNotFoundError:
    print("right")
"""


def test_gemm_computes_compiles_and_finds_all_backends_there():
    assert python("-c", PROGRAM, PYTHONPATH=str(ROOT)).stdout == "right\n"
