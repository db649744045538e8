"""Kernels kept between processes: the second process compiles nothing, and no match is ever a wrong one.

Whether a kernel was loaded or compiled is read from `cache.counts`, never from a clock.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

from backends import _kernel_files
from backends.cpu._cache import cache, sources
from backends.cpu._cache.key import kernel_builder
from backends.cpu._threads.pool_symbols import pool_for_loops
from harness import Semiring, gemm, scalars

ROOT = Path(__file__).resolve().parents[2]

# ------------------------------------------------------------------------------------------- programs, run in processes

REPORT = """
from backends.cpu._cache import cache
print(json.dumps({"counts": dict(cache.counts), "not_kept": cache.not_kept, "results": results}))
"""

# Parallel kernels, kernels called by address, more threads than one, beta.
LADDER = """
import json, numpy as np
from harness import gemm
rng = np.random.default_rng(7)
a, b, c = (rng.integers(0, 9, shape).astype(float) for shape in ((37, 29), (29, 41), (37, 41)))
results = [
    gemm(a, b, semiring="min_plus", backend="cpu-tiled", threads=2).tolist(),
    gemm(a, b, c, beta=2.0, semiring="max_plus", backend="cpu-tiled").tolist(),
    gemm(a.T.copy().T, b, backend="cpu-transposed", threads=1).tolist(),
]
"""
KERNELS_OF_LADDER = 7  # one is the thread pool

SCALE = """
import json, numpy as np
from harness import SEMIRINGS
from backends.cpu._ladder.execution import build_scale
a, out = np.arange(4.0).reshape(2, 2), np.zeros((2, 2))
a.flags.writeable = False
scale = build_scale(SEMIRINGS["min_plus"], np.dtype(float))
scale(1.5, a, out)
results = out.tolist()
"""
SCALED = [[1.5, 2.5], [3.5, 4.5]]


def start(program, folder, project=ROOT, **environment):
    environment = {**os.environ, "GEMM_HARNESS_CACHE": str(folder), **environment}
    command = [sys.executable, "-W", "error::UserWarning", "-c", program]
    return subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert not errors
    return json.loads(output.splitlines()[-1])


def run(program, folder, project=ROOT, **environment):
    return finish(start(program + REPORT, folder, project, **environment))


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ladder")
    return folder, run(LADDER, folder)


@pytest.fixture(scope="module")
def kept_scale(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scale")
    assert run(SCALE, folder)["counts"] == {"compiled": 1, "kept": 1}
    return folder


@pytest.fixture
def scale(kept_scale, tmp_path):
    """Return a folder of one kernel, that of SCALE, to do anything with."""
    return shutil.copytree(kept_scale, tmp_path / "scale")


def expected_results():
    rng = np.random.default_rng(7)
    a, b, c = (rng.integers(0, 9, shape).astype(float) for shape in ((37, 29), (29, 41), (37, 41)))
    sums = a[:, :, None] + b
    return [x.tolist() for x in (sums.min(1), np.maximum(sums.max(1), 2.0 + c), a @ b)]


def test_first_process_keeps_every_kernel(ladder):
    folder, report = ladder
    assert report["counts"] == {"compiled": KERNELS_OF_LADDER, "kept": KERNELS_OF_LADDER}
    assert report["not_kept"] == {}
    assert report["results"] == expected_results()
    assert len(list(folder.iterdir())) == KERNELS_OF_LADDER


def test_second_process_compiles_nothing_and_computes_the_same(ladder):
    folder, _ = ladder
    report = run(LADDER, folder)
    assert report["counts"] == {"loaded": KERNELS_OF_LADDER}
    assert report["results"] == expected_results()


@pytest.mark.deep
def test_damaged_entries_are_compiled_anew_and_replaced(ladder, tmp_path):
    folder = tmp_path / "kernels"
    shutil.copytree(ladder[0], folder)
    damages = (truncated, flipped, empty, garbage, another_entry)
    assert len(damages) < KERNELS_OF_LADDER
    for path, damage in zip(sorted(folder.iterdir()), damages, strict=False):
        damage(path)
    report = run(LADDER, folder)
    loaded, damaged = KERNELS_OF_LADDER - len(damages), len(damages)
    assert report["counts"] == {"loaded": loaded, "compiled": damaged, "kept": damaged}
    assert report["results"] == expected_results()
    entries = list(folder.iterdir())
    assert len(entries) == KERNELS_OF_LADDER
    assert all(_kernel_files.read(folder, path.stem) for path in entries)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-1])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def empty(path):
    path.write_bytes(b"")


def garbage(path):
    path.write_bytes(np.random.default_rng(7).bytes(5000))


def another_entry(path):
    """Make the entry a whole one, but that of another kernel."""
    other = max(path.parent.iterdir())
    assert other != path
    shutil.copy(other, path)


def test_an_entry_that_is_whole_but_no_kernel_is_compiled_anew(scale):
    (path,) = scale.iterdir()
    assert _kernel_files.write(scale, path.stem, b"no pickle")
    report = run(SCALE, scale)
    assert (report["counts"], report["results"]) == ({"not loadable": 1, "compiled": 1, "kept": 1}, SCALED)
    assert _kernel_files.read(scale, path.stem) != b"no pickle"


def test_a_loaded_kernel_is_called_from_compiled_code_and_handed_to_it(scale):
    program = """
import numba
@numba.njit
def directly(alpha, a, out):
    scale(alpha, a, out)
@numba.njit
def as_argument(f, alpha, a, out):
    f(alpha, a, out)
results = []
for call in (directly, lambda *arguments: as_argument(scale, *arguments)):
    out = np.zeros_like(a)
    call(1.5, a, out)
    results.append(out.tolist())
"""
    report = run(SCALE + program, scale)
    assert (report["counts"], report["results"]) == ({"loaded": 1}, [SCALED, SCALED])


@pytest.mark.deep
def test_kernels_compiled_apart_do_not_share_symbols(tmp_path):
    # The two differ in what they close over, so Numba tells them apart by a counter alone. Each holds a part that the
    # linker would take from the other if names were equal.
    build = """
import json, numpy as np
from harness import SEMIRINGS
from backends.cpu.tiled import build_tile
def compute(name):
    a, b = np.array([[1.0, 5.0], [0.0, 7.0], [2.0, 2.0]]), np.array([[4.0, 1.0], [3.0, 3.0], [0.0, 9.0]])
    out = np.zeros((3, 3))
    for array in (a, b):
        array.flags.writeable = False
    build_tile(SEMIRINGS[name], np.dtype(float), 2)(a, b, out, False, (0, 3, 0, 3, 0, 2))
    return out.tolist()
"""
    names = ("min_plus", "max_plus")
    apart = [run(f"{build}results = compute({name!r})", tmp_path)["results"] for name in names]
    together = run(f"{build}results = [compute(name) for name in {names}]", tmp_path)
    assert together["counts"] == {"loaded": 2}
    assert together["results"] == apart
    assert apart[0] != apart[1]


@pytest.mark.deep
def test_of_two_processes_at_once_on_an_empty_folder_one_compiles(tmp_path):
    folder = tmp_path / "kernels"
    both = [start(SCALE + REPORT, folder) for _ in range(2)]
    reports = [finish(process) for process in both]
    assert [report["results"] for report in reports] == [SCALED, SCALED]
    counts = sorted((report["counts"] for report in reports), key=len)
    assert counts == [{"loaded": 1}, {"compiled": 1, "kept": 1}]  # the second waited for the first
    assert run(SCALE, folder)["counts"] == {"loaded": 1}


@pytest.mark.parametrize(("number", "kind"), [(1, "below a file"), (2, "read-only"), (3, "off")])
def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path, monkeypatch, number, kind):
    folder = {"below a file": tmp_path / "file" / "kernels", "read-only": tmp_path / "kernels", "off": ""}[kind]
    (tmp_path / "file").write_text("")
    (tmp_path / "kernels").mkdir(mode=0o500)
    before = cache.counts.copy()
    array = compiled_to_store(number, folder, monkeypatch)
    assert array[0] == number
    happened = cache.counts - before
    assert happened["compiled"] == 1
    assert happened["kept"] == (kind == "read-only" and os.geteuid() == 0)  # root writes anywhere


STORE = """
def build(number):
    inner = numba.njit(lambda: number)
    def store(x):
        x[0] = inner()
    return compile_kernel(store, types.void(types.intp[::1]), {})
"""


def compiled_to_store(number, folder, monkeypatch):
    """Compile and run a kernel that stores `number`, with kernels kept in `folder`."""
    monkeypatch.setenv("GEMM_HARNESS_CACHE", str(folder))
    compiles = {"numba": numba, "types": types, "compile_kernel": cache.compile_kernel}
    names = {"__name__": "backends.cpu._made_up", **compiles}
    exec(compile(STORE, str(ROOT / "backends" / "cpu" / "_made_up.py"), "exec"), names)  # as if it stood there
    array = np.zeros(1, np.intp)
    kernel_builder(names["build"])(number)(array)
    return array


# ---------------------------------------------------------------------------------------------- what the key depends on


def test_another_target_compiles_anew(scale):
    report = run(SCALE, scale, NUMBA_CPU_NAME="generic")
    assert (report["counts"], report["results"]) == ({"compiled": 1, "kept": 1}, SCALED)


def test_what_cannot_change_code_does_not_compile_anew_and_a_read_only_folder_is_read(scale):
    scale.chmod(0o500)
    report = run(SCALE, scale, NUMBA_NUM_THREADS="1", NUMBA_CACHE_DIR="elsewhere", PYTHONHASHSEED="5")
    assert (report["counts"], report["results"]) == ({"loaded": 1}, SCALED)


@pytest.mark.deep
def test_only_an_edit_of_the_kernels_compiles_anew(tmp_path):
    project, folder = tmp_path / "project", tmp_path / "kernels"
    for name in ("backends", "harness"):
        shutil.copytree(ROOT / name, project / name)
    in_subfolder = project / "backends" / "cpu" / "_made_up" / "part.py"
    in_subfolder.parent.mkdir()
    anew = {"compiled": 1, "kept": 1}
    for path, happens in ((in_subfolder, anew), (project / "README.md", {"loaded": 1}), (in_subfolder, anew)):
        with path.open("a") as file:
            file.write("# edited\n")
        time.sleep(0.3)  # a process that began at once could not be sure which text it runs
        report = run(SCALE, folder, project)
        assert (report["counts"], report["results"]) == (happens, SCALED)


def test_a_forked_process_numbers_functions_anew(tmp_path):
    program = """
import json, os
from numba.core.bytecode import FunctionIdentity
from backends.cpu._cache import cache
end, begin = os.pipe()
if os.fork() == 0:
    os.write(begin, str(next(FunctionIdentity._unique_ids)).encode())
    os._exit(0)
os.wait()
results = [int(os.read(end, 100)), next(FunctionIdentity._unique_ids)]
"""
    in_child, here = run(program, tmp_path)["results"]
    assert in_child != here


def test_start_of_this_process_is_before_now_and_after_its_parent():
    assert sources._started_s() < time.time()
    began = time.time()
    program = "import json; from backends.cpu._cache import sources; results = sources._started_s()"
    assert began - 1 <= run(program, "")["results"] <= time.time()


# ----------------------------------------------------------------------------------------------------- what is not kept


def test_semirings_of_a_user_are_never_kept_and_never_confused(tmp_path, monkeypatch):
    monkeypatch.setenv("GEMM_HARNESS_CACHE", str(tmp_path))
    with pool_for_loops():  # whose own code is kept
        shutil.rmtree(tmp_path)
    weight = 2.0
    functions = (lambda x, y: x + y, lambda x, y: x + weight * y)
    a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    results = []
    for multiply in functions:
        mine = Semiring.from_functions("mine", scalars.keep_greater, multiply, zero=-np.inf, is_selective=True)
        results.append(gemm(a, b, semiring=mine, backend="cpu-naive").item())
    assert results == [6.0, 10.0]
    assert not tmp_path.exists() or list(tmp_path.iterdir()) == []
    assert "which is not ours" in cache.not_kept["build.<locals>.ijk"]


def test_code_from_before_the_numbering_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_LEAST_NUMBER", 1 << 63)
    assert compiled_to_store(4, tmp_path, monkeypatch)[0] == 4
    assert list(tmp_path.iterdir()) == []
    assert "before functions were numbered" in cache.not_kept["build.<locals>.store"]


@pytest.mark.parametrize("value", [0x7F3A_0000_1000, 0x7F3A_0000_0000, 0x2_0000_0008])
def test_code_that_holds_an_address_is_not_kept(value, tmp_path, monkeypatch):
    assert compiled_to_store(value, tmp_path, monkeypatch)[0] == value
    assert list(tmp_path.iterdir()) == []
    assert "may be an address" in cache.not_kept["build.<locals>.store"]


def test_code_that_holds_a_small_number_above_a_zero_is_kept(tmp_path, monkeypatch):
    assert compiled_to_store(0x3_0000_0000, tmp_path, monkeypatch)[0] == 0x3_0000_0000
    assert list(tmp_path.iterdir())


def test_the_python_form_is_not_compiled(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert cache.compile_kernel(compiled_to_store, types.void(), {}) is compiled_to_store
