"""What works where Linux's own facilities are missing: on a faked macOS and a faked Windows, in processes of their own.

See `tests/_support/faked_system`. It shows that nothing needs what those systems lack, not that they do the rest alike.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from tests._support.processes import ROOT, python

FAKED = ROOT / "tests" / "_support" / "faked_system"
SYSTEMS = ("darwin", "win32")

LIBRARY = """
import numpy as np
import harness
from harness.paths import shortest_paths

rng = np.random.default_rng(0)
OPERATIONS = {"plus_times": (np.add, np.multiply), "min_plus": (np.minimum, np.add)}

def defined(a, b, semiring):
    add, multiply = OPERATIONS[semiring]
    return add.reduce(multiply(a[:, :, None], b[None]), axis=1)

for m, k, n in ((3, 5, 4), (70, 33, 129), (300, 90, 210)):
    for dtype in (np.float64, np.int32):
        a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n)))
        for semiring in OPERATIONS:
            for threads in (1, 2):
                c = harness.gemm(a, b, semiring=semiring, threads=threads)
                np.testing.assert_array_equal(c, defined(a, b, semiring))
roads = rng.integers(1, 99, (90, 90)).astype(np.float64)
np.fill_diagonal(roads, 0)
want, at = defined(roads, roads, "min_plus"), (roads[:, :, None] + roads[None]).argmin(axis=1)
for got, right in zip(harness.gemm_argk(roads, roads, semiring="min_plus"), (want, at)):
    np.testing.assert_array_equal(got, right)
batch = rng.integers(-9, 9, (6, 8, 8)).astype(np.float32)
np.testing.assert_array_equal(harness.gemm(batch, batch), batch @ batch)
np.testing.assert_array_equal(harness.einsum("ij,jk->ik", roads, roads), roads @ roads)
lengths = roads.copy()
for k in range(90):
    lengths = np.minimum(lengths, lengths[:, k : k + 1] + lengths[k])
np.testing.assert_array_equal(shortest_paths(roads), lengths)
harness.free_memory()
print("all right")
"""

# workqueue is what Numba has for certain on macOS. It ends a process in which two threads begin loops at once.
CALLERS = """
import threading
import numpy as np
import harness

a = np.random.default_rng(0).integers(-9, 9, (400, 400)).astype(np.float32)
want, wrong = np.minimum.reduce(a[:50, :, None] + a[None], axis=1), []

def call():
    for _ in range(40):
        if not np.array_equal(harness.gemm(a, a, semiring="min_plus", threads=2)[:50], want):
            wrong.append(1)

threads = [threading.Thread(target=call) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
from harness.threads import read_back
assert not wrong
print(read_back()["numba_layer"])
"""


def _run(system: str, *arguments: str, status: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the project on a faked system."""
    path = os.pathsep.join(map(str, (FAKED, ROOT)))
    return python(*arguments, status=status, FAKED_SYSTEM=system, PYTHONPATH=path, **environment)


def _printed(system: str, *arguments: str, **environment: str) -> str:
    return _run(system, *arguments, **environment).stdout


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_library_computes(system):
    assert _printed(system, "-c", LIBRARY) == "all right\n"


@pytest.mark.deep
def test_threads_may_call_at_once_where_numba_lets_one_begin_loops():
    assert _printed("darwin", "-c", CALLERS, NUMBA_THREADING_LAYER="workqueue") == "workqueue\n"


@pytest.mark.deep(but=2)
@pytest.mark.parametrize(
    "program",
    [
        "import os; os.sched_getaffinity(0)",
        "import os; os.register_at_fork(before=print)",
        "from pathlib import Path; Path('/proc/self/stat').read_text()",
        "from pathlib import Path; assert Path('/sys').exists()",
        "import os; os.listdir('/dev/shm')",
        "import ctypes; ctypes.CDLL(None).sched_getcpu()",
        "from backends.cpu._threads.claims import _processor; import numba; numba.njit(_processor)(0)",
    ],
)
def test_the_fake_has_nothing_of_linux(program):
    _run("", "-c", program)
    assert _run("darwin", "-c", program, status=None).returncode != 0


@pytest.mark.deep
def test_the_harness_measures_on_a_faked_macos(tmp_path):
    listed = _printed("darwin", "-m", "harness", "list")
    assert all(name in listed for name in ("cpu-naive", "cpu-simd", "gpu-tensor-core"))
    places = ["--results", str(tmp_path / "results"), "--figures", str(tmp_path / "figures"), "--allow-dirty"]
    ladder = _printed("darwin", "-m", "harness", "run", "ladder", "--preset", "smoke", "--only", "cpu-simd", *places)
    assert "FAILED" not in ladder
    assert "not seen here, so that no verdict knows of it: processor time that a host takes" in ladder
    recorded = _printed("darwin", "-m", "harness", "results", "--preset", "smoke", *places[:2])
    assert "ladder" in recorded


def test_macos_describes_its_processor(tmp_path):
    facts = {
        "machdep.cpu.brand_string": "Apple M3",
        "hw.optional.neon": 1,
        "hw.optional.sve": 0,
        "hw.l1dcachesize": 65536,
        "hw.perflevel0.l1dcachesize": 131072,
        "hw.perflevel0.l2cachesize": 16777216,
    }
    program = tmp_path / "sysctl"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{name}: {value}'\n" for name, value in facts.items()))
    program.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    asked = "from harness.machine import detect; m = detect(); print(m.cpu, m.l1d, m.l2, m.l3, m.simd, m.memory > 0)"
    assert _printed("darwin", "-c", asked, PATH=path) == "Apple M3 131072 16777216 0 ('neon',) True\n"


# Of each system: the target of its compilers, how its object files begin, the unit, fused and minimum instructions.
# A Mach-O file names its processor in its second word, ARM64; a COFF file begins with it, AMD64.
TARGETS = {
    "macOS": (
        ("arm64-apple-macosx14", "apple-m1", "+neon"),
        "cffaedfe0c000001",
        "neon",
        16,
        "fmla",
        r"f?cmgt|[fs]min",
    ),
    "Windows": (("x86_64-pc-windows-msvc", "x86-64-v3", "+avx2,+fma"), "6486", "avx2", 32, r"vfmadd\d+p", r"vp?min"),
}


@pytest.mark.deep
@pytest.mark.parametrize("system", TARGETS)
def test_tiles_become_object_code_of_another_system(system):
    target, begin, unit, size_bytes, fused, least = TARGETS[system]
    program = ROOT / "tests" / "_support" / "tiles_elsewhere.py"
    tiles = [json.loads(line) for line in _printed("", str(program), *target).splitlines()]
    assert {tile["semiring"] for tile in tiles} == {"plus_times", "min_plus"}
    for tile in tiles:
        assert tile["object"].startswith(begin)
        assert tile["unit"] == unit
        loop = tile["listing"].partition("\n\n")[2]
        steps = int(re.search(r"in an iteration of the loop: (\d+)", tile["listing"])[1])
        vectors = tile["mr"] * tile["nr"] * np.dtype(tile["dtype"]).itemsize // size_bytes
        wanted = fused if tile["semiring"] == "plus_times" else least
        assert len(re.findall(rf"^ +(?:{wanted})", loop, re.MULTILINE)) == vectors * steps, tile["listing"]
        assert not re.search(r"^ +(bl|call\w*) ", loop, re.MULTILINE)
        assert not re.search(r"\[sp|%rsp", loop), "a register is spilled"


@pytest.fixture
def emulated(tmp_path, monkeypatch):
    """Return the program that runs tests on an emulated processor, which here is this one, and its results."""
    location = importlib.util.spec_from_file_location("aarch64_run", ROOT / "tests" / "aarch64" / "run.py")
    program = importlib.util.module_from_spec(location)
    location.loader.exec_module(program)
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(program, "FOLDER", tmp_path)

    class Process(subprocess.Popen):
        """Its time is over as soon as the test begins that does not end."""

        def wait(self, timeout=None):
            while timeout > OF_AN_INTERRUPTION_S and self.poll() is None:
                if (tmp_path / "has begun").exists():
                    raise subprocess.TimeoutExpired(self.args, timeout)
                time.sleep(0.05)
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Process)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", f"--into={tmp_path / 'results.json'}", *map(str, arguments)])
        return program.main(), json.loads((tmp_path / "results.json").read_text())

    return run


OF_AN_INTERRUPTION_S = 60
TESTS = """
import time
from pathlib import Path
import pytest

def test_right():
    pass

@pytest.mark.parametrize("name", ["a b"])
def test_wrong(name):
    assert not name

def test_elsewhere():
    pytest.skip("no such [unit] here")

def test_long():
    Path(__file__).with_name("has begun").touch()
    time.sleep(600)
"""


@pytest.mark.deep
def test_results_of_an_emulated_processor_are_kept_by_file(emulated, tmp_path):
    first, second = tmp_path / "test_first.py", tmp_path / "test_second.py"
    first.write_text(TESTS)
    second.write_text("def test_right():\n    pass\n")
    options = ["--rootdir", tmp_path, "-c", os.devnull]
    status, _ = emulated(second, "--processes=1", *options)
    assert status == 0
    status, record = emulated(first, "--minutes=10", *options)
    assert status == 1
    assert record["files"][str(second)]["passed"] == 1
    ended = record["files"][str(first)]
    assert ended["failed"] == ["test_wrong[a b]"]
    assert [ended[name] for name in ("passed", "skipped", "not reached")] == [1, 1, 1]
    assert [record[name] for name in ("passed", "skipped", "not reached", "failed")] == [2, 1, 1, 1]
    assert "test_long" in (tmp_path / "logs" / f"{str(first).replace('/', '.')}.txt").read_text()
