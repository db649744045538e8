"""The key of a kept kernel, part by part: what it depends on, and what it does not."""

import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

from backends.cpu._cache import cache, sources
from backends.cpu._ladder.operators import operators
from harness import SEMIRINGS

FLOAT64 = np.dtype(np.float64)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "ENABLE_AVX", "DEBUGINFO_DEFAULT"])
def test_settings_of_numba_are_part_of_the_key(monkeypatch, name):
    before = cache._settings()
    monkeypatch.setattr(numba.config, name, 17)
    assert before != cache._settings()


@pytest.mark.parametrize(
    ("module", "part"),
    [
        (sources, "digest"),
        (cache, "_versions"),
        (cache, "_target"),
        (cache, "_settings"),
    ],
)
def test_every_part_is_in_the_key(monkeypatch, module, part):
    add, signature = operators(SEMIRINGS["min_plus"], FLOAT64).add, types.void(types.float64)
    before = cache._key(add, signature)
    assert before == cache._key(operators(SEMIRINGS["min_plus"], FLOAT64).add, signature)
    assert before != cache._key(add, types.void(types.float32))
    monkeypatch.setattr(module, part, lambda: "another")
    assert before != cache._key(add, signature)


# ------------------------------------------------------------------------------------------------ the source files

IN_THE_KEY = {
    *("backends/cpu/packed.py", "backends/cpu/_made_up/part.py", "backends/cpu/_made_up/deeper/part.py"),
    *("backends/_kernel_files.py", "harness/scalars.py"),
    *("harness/semiring/__init__.py", "harness/semiring/operations.py"),
}
NOT_IN_THE_KEY = {
    *("README.md", "docs/kernel_cache.md", "tests/cpu/test_kernel_key.py", "backends/cpu/notes.txt"),
    *("backends/gpu/tiled.py", "backends/gpu/tiled.cu", "harness/registry/__init__.py"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a copy of the project with parts of kernels in subfolders, one of them a copy of `sources`."""
    copy = tmp_path_factory.mktemp("project")
    for name in ("backends", "harness"):
        shutil.copytree(ROOT / name, copy / name)
    for name in IN_THE_KEY | NOT_IN_THE_KEY:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).touch()
    (copy / "backends/cpu/_made_up/part.py").write_text("def part(): pass\n")
    shutil.copy(sources.__file__, copy / "backends/cpu/_made_up/sources.py")
    return copy


def run(program, project, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout.split()


def test_an_edit_makes_another_digest_if_it_is_of_the_kernels(project):
    program = """
import sys
from backends.cpu._cache import sources as kernel_sources
for name in sys.argv[1:]:
    before = kernel_sources.digest.__wrapped__()
    with open(name, "a") as file:
        file.write("\\n# edited\\n")
    if before != kernel_sources.digest.__wrapped__():
        print(name)
"""
    assert set(run(program, project, *IN_THE_KEY, *NOT_IN_THE_KEY)) == IN_THE_KEY


def test_sources_are_the_same_from_whatever_folder_they_are_asked_for(project):
    program = """
from backends.cpu._cache import sources as kernel_sources
from backends.cpu._made_up import part, sources
from harness import scalars
assert sources.__file__.endswith("_made_up/sources.py")
assert sources.files() == kernel_sources.files()
print(sources.digest() == kernel_sources.digest(), *map(sources.is_ours, (part, part.part, scalars, sources.os)))
"""
    assert run(program, project) == ["True", "True", "True", "True", "False"]


def test_a_file_that_moves_makes_another_digest(project):
    program = """
import os
from backends.cpu._cache import sources as kernel_sources
before = kernel_sources.digest.__wrapped__()
os.rename("backends/cpu/_made_up/part.py", "backends/cpu/_made_up/q.py")
print(before != kernel_sources.digest.__wrapped__())
os.rename("backends/cpu/_made_up/q.py", "backends/cpu/_made_up/part.py")
print(before == kernel_sources.digest.__wrapped__())
"""
    assert run(program, project) == ["True", "True"]


def test_nothing_is_kept_once_the_source_has_changed(tmp_path, monkeypatch):
    # a process that began before an edit may run either text
    add = operators(SEMIRINGS["min_plus"], FLOAT64).add
    edited_s = max(path.stat().st_ctime for path in sources.files())
    for started_s in (edited_s - 100, edited_s + 100):
        monkeypatch.setattr(sources, "_started_s", lambda started_s=started_s: started_s)
        assert (cache._key(add, types.void()) is None) == (started_s < edited_s)
    monkeypatch.undo()
    monkeypatch.setattr(sources, "files", lambda: [tmp_path / "gone.py"])
    assert cache._key(add, types.void()) is None
