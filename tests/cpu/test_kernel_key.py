"""The key of a kept kernel, part by part: what it depends on, and what it does not."""

import shutil
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

from backends.cpu import packed, tiled
from backends.cpu._cache import cache, sources
from backends.cpu._cache.key import Uncertain, kernel_builder, name_of
from backends.cpu._ladder import scalar_tile
from harness import BINARY_OPS, MONOIDS, SEMIRINGS, BinaryOp, Monoid, Semiring
from harness.semiring.operations import Constant
from tests._support.processes import ROOT, python

MADE_UP = str(ROOT / "backends" / "cpu" / "_made_up.py")
BUILDER = """
def build(*given):
    def kernel(y):
        return given
    return name(kernel)

def at_module_level(x):
    return x

def twice():
    return build.__wrapped__.__wrapped__(), build.__wrapped__.__wrapped__()
"""


def ours():
    """Return the functions of `BUILDER`, as if they stood in the folder of the kernels."""
    names = {"__name__": "backends.cpu._made_up", "name": name_of}
    exec(compile(BUILDER, MADE_UP, "exec"), names)
    names["build"] = kernel_builder(names["build"])
    return names


OURS = ours()
build = OURS["build"]
SIGNATURE = types.void(types.float64)


# ------------------------------------------------------------------------------------------- what a builder is given

MIN = MONOIDS["min"].function
GIVEN = (
    *((), (1,), (2,), (True,), (1.0,), (0.0,), (-0.0,), (float("nan"),), ("1",), (None,), (1, 1), ((1,),), (((1,),),)),
    *((x,) for x in (np.float32(1), np.float64(1), np.int64(1), np.uint64(1), np.dtype("f4"), np.dtype("i4"))),
    *((SEMIRINGS[name],) for name in ("min_plus", "max_plus", "plus_times")),
    (Semiring(MONOIDS["min"], BINARY_OPS["plus"], "mine"),),
    (Semiring(Monoid("own", MIN, Constant(9)), BINARY_OPS["plus"]),),
    (Semiring(Monoid("own", MIN, Constant(8)), BINARY_OPS["plus"]),),
    *((x,) for x in (packed.pack_a, packed.build_store, scalar_tile.build_micro_kernel)),
    *((packed.build_pack_b_panel(nr),) for nr in (4, 8)),
    (OURS["at_module_level"],),
)


def test_a_builder_that_is_given_another_thing_makes_another_kernel():
    names = {repr(build.__wrapped__(*given)) for given in GIVEN}
    assert len(names) == len(GIVEN)


def test_equal_things_and_defaults_that_are_written_out_are_no_other_kernel():
    for given in GIVEN:
        assert build.__wrapped__(*given) == build.__wrapped__(*given)
    dtype, semiring = np.dtype("f8"), SEMIRINGS["min_plus"]
    assert tiled.build_tile(semiring, dtype, 1) is tiled.build_tile(semiring, dtype, reuse=1, simd=tiled.ON)


def test_another_builder_makes_another_kernel():
    assert ours()["build"](1) == build(1)
    other = {}
    exec(compile(BUILDER.replace("def build", "def other"), MADE_UP, "exec"), other | OURS, other)
    assert kernel_builder(other["other"])(1) != build(1)


WITHOUT_A_NAME = {
    "function of a user": lambda x: x,
    "builder of a user": kernel_builder(lambda x: x),
    "semiring of a user": Semiring.from_functions("mine", min, lambda x, y: x, zero=0),
    "operation of a user": Semiring(MONOIDS["min"], BinaryOp("plus", lambda x, y: x)),
    "compiled function of a user": numba.njit(lambda x: x),
    "object": object(),
    "class": Path,
    "array": np.zeros(3),
    "list": [1],
    "record": np.dtype([("x", "f4")]),
    "module": sys,
}


@pytest.mark.parametrize("what", WITHOUT_A_NAME)
def test_what_has_no_name_is_refused(what):
    value = WITHOUT_A_NAME[what]
    for given in (value, (1, value)):
        with pytest.raises(Uncertain):
            build.__wrapped__(given)


def test_a_kernel_that_no_builder_of_ours_makes_has_no_name():
    def inner():
        return 1

    assert name_of(OURS["at_module_level"])
    for function in (inner, test_what_has_no_name_is_refused):
        with pytest.raises(Uncertain, match="which is not ours"):
            name_of(function)
    with pytest.raises(Uncertain, match="which is not ours"):
        kernel_builder(lambda: name_of(inner))()


def test_two_kernels_of_one_function_would_share_a_name():
    with pytest.raises(Uncertain, match="compiles twice"):
        kernel_builder(OURS["twice"])()


# ------------------------------------------------------------------------------------------------ the other parts


def test_settings_of_numba_are_part_of_the_key(monkeypatch):
    before = [cache._settings()]
    for name in ("OPT", "CPU_FEATURES", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "ENABLE_AVX"):
        monkeypatch.setattr(numba.config, name, 17)
        before.append(cache._settings())
    assert len(set(before)) == len(before)


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
    kernel = OURS["at_module_level"]
    before = cache._key(kernel, SIGNATURE, {"fastmath": {"nsz", "contract"}})
    assert before == cache._key(kernel, SIGNATURE, {"fastmath": {"contract", "nsz"}})
    assert before != cache._key(kernel, SIGNATURE, {"fastmath": False})
    assert before != cache._key(kernel, types.void(types.float32), {"fastmath": {"nsz", "contract"}})
    assert before != cache._key(kernel, types.int64(types.float64), {"fastmath": {"nsz", "contract"}})
    monkeypatch.setattr(module, part, lambda: "another")
    assert before != cache._key(kernel, SIGNATURE, {"fastmath": {"nsz", "contract"}})


# ------------------------------------------------------------------------------------------------ the source files

IN_THE_KEY = {
    *("backends/cpu/packed.py", "backends/cpu/_made_up/part.py", "backends/cpu/_made_up/deeper/part.py"),
    *("backends/_kernel_files.py", "harness/scalars.py"),
    *("harness/semiring/__init__.py", "harness/semiring/operations.py", "backends/_strassen/form.py"),
    *("harness/operands/__init__.py", "harness/tuning/simd_parts.py", "harness/tuning/deeper/part.py"),
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
    return python("-c", program, *arguments, cwd=project).stdout.split()


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
from harness import registry, scalars
assert sources.__file__.endswith("_made_up/sources.py")
assert sources.files() == kernel_sources.files()
functions = (part.part, scalars.plus, registry.find, sources.os.path.join)
print(sources.digest() == kernel_sources.digest(), *map(sources.holds, functions))
"""
    assert run(program, project) == ["True", "True", "True", "False", "False"]


def test_a_file_that_moves_makes_another_digest(project):
    program = """
import os
from backends.cpu._cache import sources as kernel_sources
before = kernel_sources.digest.__wrapped__()
os.rename("backends/cpu/_made_up/part.py", "backends/cpu/_made_up/q.py")
kernel_sources.files.cache_clear()
print(before != kernel_sources.digest.__wrapped__())
os.rename("backends/cpu/_made_up/q.py", "backends/cpu/_made_up/part.py")
kernel_sources.files.cache_clear()
print(before == kernel_sources.digest.__wrapped__())
"""
    assert run(program, project) == ["True", "True"]


def test_nothing_is_kept_once_the_source_has_changed(tmp_path, monkeypatch):
    # a process that began before an edit may run either text
    edited_s = max(path.stat().st_ctime for path in sources.files())
    for started_s in (edited_s - 100, edited_s + 100):
        monkeypatch.setattr(sources, "_started_s", lambda started_s=started_s: started_s)
        assert (cache._key(OURS["at_module_level"], SIGNATURE, {}) is None) == (started_s < edited_s)
    monkeypatch.undo()
    monkeypatch.setattr(sources, "files", lambda: [tmp_path / "gone.py"])
    assert cache._key(OURS["at_module_level"], SIGNATURE, {}) is None
