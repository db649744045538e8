"""Machine code of CUDA kernels, kept between processes: found by all that makes it, bounded, and never a wrong one.

The compiler is a fake, so these tests need neither NVRTC nor a GPU.
"""

import collections
import os
import shutil
import threading
import types

import pytest

from backends import _kernel_files
from backends.gpu._cuda import kernel_files, nvrtc
from backends.gpu._cuda.nvrtc import Compiled
from tests._support.processes import ROOT, python

CUBIN = bytes(range(256)) * 4  # zero bytes among them
FILES = [path for path in kernel_files.FOLDER.rglob("*") if path.suffix in (".cu", ".cuh")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of an empty cache."""
    monkeypatch.setenv(_kernel_files.VARIABLE, str(tmp_path))
    return tmp_path / "gpu"


@pytest.fixture
def compiled(folder, monkeypatch):
    """Return the calls of the fake compiler."""
    calls = []

    def compile_source(source, name, arch):
        calls.append((name, arch))
        return Compiled(CUBIN, f"ptxas of {name} \N{MULTIPLICATION SIGN} {len(calls)}")

    monkeypatch.setattr(nvrtc, "compile_source", compile_source)
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    return calls


def kernel(stem="tiled", defines=(("BM", "8"),), arch="sm_90"):
    """Compile as a new process would, in which nothing has been compiled."""
    return kernel_files.compile_kernel.__wrapped__(stem, defines, arch)


def test_a_kernel_is_compiled_once(folder, compiled):
    assert not kernel_files.is_kept("tiled", (("BM", "8"),), "sm_90")
    first = kernel()
    assert kernel() == first == Compiled(CUBIN, "ptxas of tiled.cu \N{MULTIPLICATION SIGN} 1")
    assert len(compiled) == 1
    assert kernel_files.is_kept("tiled", (("BM", "8"),), "sm_90")
    assert [path.suffix for path in folder.iterdir()] == [".kernel"]


@pytest.fixture
def processors(monkeypatch):
    """Return a function that sets how many processors a new process has, which then compiles for a GPU."""
    chip = types.SimpleNamespace(arch="sm_90")
    monkeypatch.setattr(kernel_files.device, "device", lambda: chip)
    monkeypatch.setattr(kernel_files, "compile_kernel", kernel_files.compile_kernel.__wrapped__)
    monkeypatch.setattr(kernel_files, "_compiled", set())
    return lambda count: monkeypatch.setattr(kernel_files, "processors", lambda: range(count))


def jobs_of(*numbers):
    return {("tiled", (("BM", str(number)),), "") for number in numbers}


def test_kernels_of_a_product_are_compiled_at_once_and_each_once(compiled, processors, monkeypatch):
    met, compile_source = threading.Barrier(6, timeout=120), nvrtc.compile_source

    def compile_together(*arguments):
        met.wait()  # breaks unless all are compiled at the same time
        return compile_source(*arguments)

    monkeypatch.setattr(nvrtc, "compile_source", compile_together)
    processors(6)
    kernel_files.compile_together(jobs_of(1, 2, 3, 4), lambda: jobs_of(5, 6))
    kernel_files.compile_together(jobs_of(1, 2, 3, 4), lambda: jobs_of(5, 6))
    kernel_files.compile_together(jobs_of(5, 6))
    assert len(compiled) == 6


@pytest.mark.parametrize(("count", "expected"), ((1, 2), (2, 2), (3, 3), (16, 4)))
def test_kernels_alike_are_compiled_by_processors_that_would_be_idle(compiled, processors, count, expected):
    processors(count)
    kernel_files.compile_together(jobs_of(1, 2), lambda: sorted(jobs_of(3, 4)))
    assert len(compiled) == expected


def test_kernels_alike_are_not_compiled_beside_kept_ones(compiled, processors):
    processors(16)
    kernel_files.compile_kernel("tiled", (("BM", "8"),), "sm_90")
    kernel_files.compile_together(jobs_of(8), lambda: jobs_of(3, 4))
    assert len(compiled) == 1


def test_an_error_of_a_kernel_alike_is_left_to_the_product_that_needs_it(compiled, processors, monkeypatch):
    compile_source = nvrtc.compile_source

    def fail_on(source, *rest):
        if "BM 3" in source:
            raise nvrtc.CompileError("wrong")
        return compile_source(source, *rest)

    monkeypatch.setattr(nvrtc, "compile_source", fail_on)
    processors(16)
    kernel_files.compile_together(jobs_of(1), lambda: jobs_of(3))
    with pytest.raises(nvrtc.CompileError, match="wrong"):
        kernel_files.compile_together(jobs_of(2, 3))


def test_nothing_is_kept_where_the_cache_is_off(compiled, monkeypatch):
    monkeypatch.setenv(_kernel_files.VARIABLE, "")
    assert kernel().cubin == kernel().cubin == CUBIN
    assert len(compiled) == 2


def test_a_damaged_entry_is_compiled_anew_and_replaced(folder, compiled):
    kernel()
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert not kernel_files.is_kept("tiled", (("BM", "8"),), "sm_90")
    assert kernel() == kernel()
    assert len(compiled) == 2


def test_entries_unused_for_longest_go_first(folder, compiled, monkeypatch):
    monkeypatch.setattr(_kernel_files, "LARGEST_BYTES", 4 * len(CUBIN))
    monkeypatch.setattr(_kernel_files, "_KEPT_BYTES", 3 * len(CUBIN))
    for age, tile in enumerate("123"):
        kernel(defines=(("BM", tile),))
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_ctime_ns)
        os.utime(newest, (age + 1e9, age + 1e9))
    kernel(defines=(("BM", "1"),))  # used just now
    kernel(defines=(("BM", "4"),))
    kept = [tile for tile in "1234" if kernel_files.is_kept("tiled", (("BM", tile),), "sm_90")]
    assert kept == ["1", "4"]


# --------------------------------------------------------------------------------------------- what the name depends on


@pytest.mark.parametrize(
    "other",
    [
        {"stem": "naive"},
        {"defines": (("BM", "16"),)},
        {"arch": "sm_80"},
    ],
    ids=str,
)
def test_another_kernel_is_compiled_anew(compiled, other):
    kernel()
    kernel(**other)
    assert len(compiled) == 2


def test_another_compiler_or_another_option_of_ours_compiles_anew(compiled, monkeypatch):
    kernel()
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 1))
    kernel()
    monkeypatch.setattr(nvrtc, "all_options", lambda arch: (arch, "-ftz=true"))
    kernel()
    assert len(compiled) == 3


@pytest.fixture
def moved(tmp_path):
    """Return a folder with all CUDA files in subfolders."""
    for path in FILES:
        folder = tmp_path / "moved" / ("_headers" if path.suffix == ".cuh" else "_kernels/deeper")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)
    return tmp_path / "moved"


def test_files_are_found_in_subfolders(moved):
    for stem in (path.stem for path in FILES if path.suffix == ".cu"):
        assert kernel_files.assemble(stem, (), (moved,)) == kernel_files.assemble(stem, ())
    assert kernel_files.find_source("edges.cuh", (moved, kernel_files.FOLDER)) == moved / "_headers" / "edges.cuh"


def test_an_edited_header_in_a_subfolder_makes_another_entry(compiled, moved):
    def name():
        return kernel_files._entry_name(kernel_files.assemble("tiled", (), (moved,)), "sm_90")

    before = name()
    for file, is_part in (("_kernels/deeper/naive.cu", False), ("_headers/edges.cuh", True)):
        with (moved / file).open("a") as text:
            text.write("// edited\n")
        assert (name() != before) == is_part


def test_no_two_files_have_one_name():
    assert [name for name, count in collections.Counter(path.name for path in FILES).items() if count > 1] == []


def test_files_are_found_from_whatever_folder_they_are_asked_for(tmp_path):
    for name in ("backends", "harness"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "backends/gpu/_made_up").mkdir()
    shutil.copy(kernel_files.__file__, tmp_path / "backends/gpu/_made_up/raw.py")
    program = """
from backends.gpu._cuda import kernel_files
from backends.gpu._made_up import raw
print(raw.FOLDER == kernel_files.FOLDER, raw.assemble("tiled", ()) == kernel_files.assemble("tiled", ()))
"""
    assert python("-c", program, cwd=tmp_path).stdout == "True True\n"
