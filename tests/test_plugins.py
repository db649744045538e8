"""Backends from outside: found by entry point or as one dropped file, refused when they clash, checked when bad.

What bad ones cost a run is the subject of `tests/red_team/`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests._support import processes
from tests._support.processes import ROOT

# A package of somebody else: one good backend, and one for each way in which a kernel goes bad.
PLUG_INS = '''
import os, resource, signal, sys, time
import numpy as np
from harness.interface import Backend
from harness.plan import Plan


class Base(Backend):
    idea = source = "a test"

    def declines(self, problem):
        return None if problem.semiring.is_ordinary else "plus_times only"

    def plan(self, problem, machine):
        return Plan(problem, machine.threads)

    def prepare(self, plan, operands):
        return Execution(type(self).compute, plan.problem, operands)


class Execution:
    def __init__(self, compute, problem, operands):
        self.compute, self.problem, self.operands = compute, problem, operands

    def run(self):
        with np.errstate(all="ignore"):
            self.compute(self.problem, self.operands)

    def wait(self):
        pass

    def result(self):
        return self.operands.out


def multiply(problem, x):
    value = x.a @ x.b if problem.alpha is None else problem.alpha * (x.a @ x.b)
    if problem.accumulate:
        value = value + (x.c if problem.beta is None else problem.beta * x.c)
    x.out[...] = value


class Good(Base):
    name, step = "out-good", 1
    compute = staticmethod(multiply)


class Mixed(Base):
    """Takes mixed products alone."""

    name, step, takes = "out-mixed", 8, frozenset({"mixed"})
    compute = staticmethod(lambda problem, x: np.matmul(x.a, x.b, out=x.out, dtype=problem.dtype))


class Wrong(Base):
    """Forgets the last row."""

    name, step = "out-wrong", 2

    def compute(problem, x):
        multiply(problem, x)
        x.out[-1:] = 0


class Silent(Base):
    """Writes nothing."""

    name, step = "out-silent", 3

    def compute(problem, x):
        pass


class Crash(Base):
    """Takes its process with it."""

    name, step = "out-crash", 4

    def compute(problem, x):
        print("about to crash", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)


class Hang(Base):
    """Never comes back."""

    name, step = "out-hang", 5

    def compute(problem, x):
        while True:
            time.sleep(0.1)


class Raise(Base):
    """Fails in an ordinary way."""

    name, step = "out-raise", 6

    def compute(problem, x):
        raise RuntimeError("no luck today")


class Leak(Base):
    """Takes more memory than a process may have."""

    name, step = "out-leak", 8

    def compute(problem, x):
        np.empty(resource.getrlimit(resource.RLIMIT_DATA)[0] + 1, np.uint8)  # without a limit: nothing


class Fork(Base):
    """Leaves a process behind."""

    name, step = "out-fork", 9

    def compute(problem, x):
        multiply(problem, x)
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)


class Forge(Base):
    """Sends a finding of its own."""

    name, step = "out-forge", 10

    def compute(problem, x):
        import pickle, stat, struct

        message = pickle.dumps(("ok", [{"status": "ok"}]))
        for descriptor in range(3, 256):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.write(descriptor, struct.pack("!i", len(message)) + message)
            except OSError:
                pass


class Taken(Base):
    """Claims a name that is taken."""

    name, step = "cpu-naive", 7
    compute = staticmethod(multiply)
'''

BAD = {
    "out-wrong": "is wrong",
    "out-silent": "not written",
    "out-crash": "SIGSEGV",
    "out-hang": "hang",
    "out-raise": "no luck today",
    "out-leak": "Unable to allocate",
    "out-fork": "it left a process running",
    "out-forge": "missing 2 required positional arguments",
}

# What is in `backends` beside them: little, so that it is quickly searched.
FIRST = """
from out_plugins import Base, multiply


class First(Base):
    name, step = "cpu-naive", 1
    compute = staticmethod(multiply)
"""


def write_backends(folder: Path, **modules: str) -> Path:
    """Write a folder `backends/cpu` with these modules."""
    cpu = folder / "backends" / "cpu"
    cpu.mkdir(parents=True)
    for package in (cpu, cpu.parent):
        (package / "__init__.py").touch()
    for name, text in modules.items():
        (cpu / f"{name}.py").write_text(text)
    return folder


def write_package(folder: Path, entries: dict[str, str], **modules: str) -> Path:
    """Write an installed distribution: modules, and the metadata that a package manager leaves beside them."""
    write_backends(folder, first=FIRST)
    return write_distribution(folder, entries, **modules)


def write_distribution(folder: Path, entries: dict[str, str], of: str = "backends", **modules: str) -> Path:
    """Write the same without a folder `backends`, with entry points of backends or experiments."""
    metadata = folder / "out_backends-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: out-backends\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (metadata / "entry_points.txt").write_text(f"[gemm_harness.{of}]\n{points}")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def python(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run an interpreter that sees `path` like installed packages, and the harness."""
    return processes.python("-P", *arguments, cwd=path, status=None, PYTHONPATH=f"{path}{os.pathsep}{ROOT}")


def listing(path: Path) -> dict[str, dict]:
    """Return what `list` says, by name."""
    answer = python("-m", "harness", "list", "--json", path=path)
    assert answer.returncode == 0, answer.stderr
    return {record["name"]: record for record in json.loads(answer.stdout)}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return write_package(tmp_path_factory.mktemp("outside"), {"all": "out_plugins"}, out_plugins=PLUG_INS)


@pytest.fixture(scope="module")
def records(package):
    """Return what `list` says of its backends and of those beside it."""
    return json.loads(python("-m", "harness", "list", "--json", path=package).stdout)


def test_an_entry_point_that_names_a_module_brings_all_its_backends(records):
    found = {record["name"]: record for record in records}
    assert {"out-good", *BAD} <= set(found)
    assert found["out-good"]["available"]
    assert "entry point all" in found["out-good"]["origin"]
    assert found["cpu-naive"]["origin"] == "backends.cpu.first"


def test_an_entry_point_that_names_a_class_brings_that_one(tmp_path):
    found = listing(write_package(tmp_path, {"one": "out_plugins:Good"}, out_plugins=PLUG_INS))
    assert "out-good" in found
    assert "out-wrong" not in found


def test_a_name_that_is_taken_is_refused_and_said_and_a_base_that_backends_share_is_none_of_them(records):
    refused = [record["missing"] for record in records if "out_plugins" in record["origin"] and record["missing"]]
    assert refused == ["the name 'cpu-naive' is taken by backends.cpu.first: refused"]


def test_a_plug_in_that_cannot_be_imported_is_listed_with_its_exception(tmp_path):
    broken = {"broken": "out_broken:Gone", "absent": "out_plugins:Nobody", "number": "out_plugins:BAD"}
    path = write_package(tmp_path, broken, out_broken="import no_such_library\n", out_plugins=f"{PLUG_INS}\nBAD = 3\n")
    said = {record["origin"].split("entry point ")[-1]: record["missing"] for record in listing(path).values()}
    assert "ModuleNotFoundError: No module named 'no_such_library'" in said["broken)"]
    assert "AttributeError" in said["absent)"]
    assert "neither a Backend class nor a module" in said["number)"]
    answer = python("-m", "harness", "list", path=path)
    assert answer.returncode == 0
    assert "no_such_library" in answer.stdout


def test_gemm_computes_with_an_outside_backend(package):
    program = """
        import numpy as np
        from harness import gemm
        a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
        assert np.array_equal(gemm(a, b, backend="out-good"), a @ b)
        assert np.array_equal(gemm(a.astype("i1"), b.astype("i1"), backend="out-mixed", dtype="i4"), a @ b)
    """
    answer = python("-c", textwrap.dedent(program), path=package)
    assert answer.returncode == 0, answer.stderr


# A mistake in what a backend says of itself: in an attribute, or in a question that discovery and auto ask.
FAULTY = """
from out_plugins import Base, multiply


class High(Base):
    name, step = "out-high", "high"


class Three(Base):
    name, step = 3, 3


class Boo(Base):
    name, step = "out-boo", 40

    def missing(self):
        raise RuntimeError("boo")


class Truth(Base):
    name, step = "out-truth", 41

    def missing(self):
        return True


class Shy(Base):
    name, step = "out-shy", 42

    def declines(self, problem):
        raise KeyError("shy")


class Bill(Base):
    name, step = "cpu-bill", 43

    def declines(self, problem):
        return None

    def pays(self, problem):
        raise ZeroDivisionError("bill")
"""

# Each asks all backends, as plain products of floats do not.
ASKS_ALL = """
import numpy as np
from harness import BackendUnavailable, Semiring, gemm

a = np.ones((3, 3))
own = Semiring.from_functions("own", add=lambda c, t: c + t, multiply=lambda x, y: x * y, zero=0)
assert gemm(a, a, semiring=own).tolist() == (a @ a).tolist()
assert gemm(a.astype("f2"), a.astype("f2"), semiring="min_plus").tolist() == (a + a).tolist()
assert gemm(a, a, backend="cpu-strassen").tolist() == (a @ a).tolist()
for name in ("cpu-smid", "out-high", "out-boo", "out-shy"):
    try:
        gemm(a, a, backend=name)
    except BackendUnavailable as error:
        print(name, str(error))
"""


def test_a_faulty_plug_in_is_named_with_its_fault_and_others_are_not_affected(tmp_path):
    path = write_distribution(tmp_path, {"faulty": "out_faulty"}, out_plugins=PLUG_INS, out_faulty=FAULTY)
    records = python("-m", "harness", "list", "--json", path=path)
    assert records.returncode == 0, records.stderr
    missing = {record["missing"] for record in json.loads(records.stdout) if "out_faulty" in record["origin"]}
    assert missing == {
        "High.step is 'high'; expected int",
        "Three.name is 3; expected str",
        "its missing() failed: RuntimeError: boo",
        "its missing() returned True, which is neither a reason nor None",
        None,  # what is wrong with the others shows where they are asked for a product
    }
    assert python("-m", "harness", "list", path=path).returncode == 0
    answer = python("-c", ASKS_ALL, path=path)
    assert answer.returncode == 0, answer.stderr
    assert "cpu-smid unknown backend 'cpu-smid'" in answer.stdout
    assert "backend 'out-boo' cannot run here" in answer.stdout
    assert "its declines() failed: KeyError: 'shy'" in answer.stdout


SHOWN = [("CONTRIBUTING.md", "outer"), ("README.md", "einsum")]


def shown_backend(document):
    """Return the file with a backend that a document shows."""
    text = (ROOT / document).read_text()
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "(Backend)" in block]
    return example


@pytest.mark.parametrize(("document", "module"), SHOWN)
def test_the_file_that_a_document_shows_passes_the_rules_of_the_project(document, module):
    """As `make lint` looks at it where it is dropped."""
    for rules in (["check", "--quiet"], ["format", "--check", "--diff"]):
        named = ["--stdin-filename", f"backends/cpu/{module}.py", "-"]
        processes.python("-m", "ruff", *rules, *named, given=shown_backend(document))


@pytest.mark.parametrize(("document", "module"), SHOWN)
def test_the_file_that_a_document_shows_is_found_where_it_is_dropped(tmp_path, document, module):
    """Drop the one file that the document shows, edit nothing."""
    example = shown_backend(document)
    assert "._" not in "".join(re.findall(r"^(?:from|import) .*$", example, re.MULTILINE)), "a private module"
    found = listing(write_backends(tmp_path, **{module: example}))
    assert found[f"cpu-{module}"]["origin"] == f"backends.cpu.{module}"
    assert found[f"cpu-{module}"]["available"]
    answer = python("-m", "harness", "check", f"cpu-{module}", path=tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_check_says_what_is_wrong_and_passes_a_good_plug_in(package):
    hangs = ["out-hang"]
    others = ["out-good", *(name for name in BAD if name not in hangs)]
    # s without an answer, for what answers by itself however busy the machine is
    for names, patience in ((others, "100"), (hangs, "5")):
        answer = python("-m", "harness", "check", *names, "--patience", patience, path=package)
        assert answer.returncode == 1, answer.stdout + answer.stderr
        assert "Traceback" not in answer.stderr
        told = re.split(r"^(out-\w+): \d+ ok, (\d+) failed, \d+ declined$", answer.stdout, flags=re.MULTILINE)
        assert told[1::3] == names
        for said, name, failed in zip(told[::3], names, told[2::3], strict=False):
            assert (failed != "0") == (name in BAD), answer.stdout
            assert BAD.get(name, "") in said


# ---------------------------------------------------------------------------------------------------------- experiments

FAULTY_EXPERIMENTS = """
import dataclasses
from experiments.ladder import EXPERIMENT as ladder
from out_shown import EXPERIMENT as shown

taken, named = (dataclasses.replace(ladder, name=n) for n in ("ladder", "no name"))
(figure,) = shown.figures
figure = dataclasses.replace(figure, name="odd", options={"finding": "lader", "x_lable": 1})
odd = dataclasses.replace(shown, name="odd", figures=(figure,))
void = dataclasses.replace(ladder, name="void", cases=lambda preset, machine: {}[preset])
poor = dataclasses.replace(ladder, name="poor", budget={})
"""


def test_an_experiment_that_the_docs_show_is_measured_drawn_and_reported_by_its_entry_point(tmp_path):
    """Others that are faulty cost a line each."""
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own-experiments.md").read_text(), re.DOTALL)
    faulty = {name: f"out_faulty:{name}" for name in ("taken", "named", "odd", "void", "poor", "absent")}
    modules = {"out_shown": shown, "out_faulty": FAULTY_EXPERIMENTS}
    write_distribution(tmp_path, {"shown": "out_shown", **faulty, "number": "sys:maxsize"}, "experiments", **modules)
    failed = {name.split("entry point ")[-1]: entry["missing"] for name, entry in listing(tmp_path).items()}
    assert "the name 'ladder' is taken by experiments.ladder: refused" in failed["taken)"]
    assert "its name is 'no name'" in failed["named)"]
    assert "AttributeError" in failed["absent)"]
    assert "neither an Experiment nor a module" in failed["number)"]
    places = ["--results", "r", "--figures", "f", "--preset", "smoke"]
    for name, said in (("void", "KeyError: 'smoke'"), ("poor", "no budget for preset smoke"), ("absent", "Attribute")):
        ran = python("-m", "harness", "run", name, *places, path=tmp_path)
        assert ran.returncode == 2
        assert said in ran.stderr
        assert "Traceback" not in ran.stderr
    ran = python("-m", "harness", "run", "min_plus_rates", "odd", *places, path=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "results  r/" in ran.stdout
    assert sorted(path.name for path in tmp_path.glob("f/*/smoke/*.svg")) == ["min_plus_rates.svg", "odd.svg"]
    told = python("-m", "harness", "report", *places, path=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "unknown finding 'lader'" in told.stderr
    assert "did you mean 'x_label'?" in told.stderr
    assert told.stderr.count("left out: ") == 4
    (report,) = tmp_path.glob("r/*/smoke/report.md")
    assert "over min_plus?" in report.read_text()


# ---------------------------------------------------------------------------------------------------------------- forks

# Compiles while it is imported, when the fork has begun to take locks.
COMPILES = """
import concurrent.futures, logging, time
import numba

time.sleep(0.3)
numba.njit(lambda x: x + 1)(1)
logging.getLogger("out_compiles").debug("imported")
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(int).result()
"""

FORKS = """
import os, sys, threading, time
import numpy
from harness import gemm, registry

gemm(numpy.eye(3), numpy.eye(3), backend="cpu-naive")
importing = threading.Thread(target=registry.discover)
importing.start()
while "out_compiles" not in sys.modules:
    time.sleep(0.001)
if os.fork() == 0:
    os._exit(0 if registry.look_up("out-compiles") is not None else 1)
print(os.wait()[1])
importing.join()
"""


def test_a_fork_beside_the_import_of_a_backend_that_compiles_goes_on(tmp_path):
    backend = "from out_plugins import Base, multiply\n\n\nclass Compiles(Base):\n"
    backend += "    name, step = 'out-compiles', 1\n    compute = staticmethod(multiply)\n"
    modules = {"out_plugins": PLUG_INS, "out_compiles": COMPILES + backend}
    write_distribution(tmp_path, {"compiles": "out_compiles"}, **modules)
    answer = python("-c", FORKS, path=tmp_path)
    assert (answer.returncode, answer.stdout.split()) == (0, ["0"]), answer.stderr
