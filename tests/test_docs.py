"""What the documents show works: commands run, examples run, links and files exist, `make help` is complete."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import harness
from backends.distributed._job import launcher
from tests._support import tracked
from tests._support.processes import ROOT, run

DOCUMENTS = [path for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))] if path.is_file()]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)

INLINE = re.compile(r"`(?:\.venv/bin/)?python -m harness ([^`]+)`")
PLACEHOLDERS = {"NAME", "COMMAND"}

# Commands that another test runs, that need the network, or that would take long: they are looked at, not carried out.
LONG = (
    "check",
    "run",
    "plot",
    "report",
    "page",
    "results",
    "compare",
    "judge",
    "calibrate",
    "tune",
    "bench-compare",
    "kernel",
)
LONG_OPTIONS = {"--peaks", "--fuzz", "--program", "--sanitize"}
NOT_OURS = ("git", "cd", "pre-commit", "pip", "python3", "sudo", "apt", "find", "export", "source", "module")
NOT_OURS += ("mpiexec", "mpirun", "srun")

# Names that stand for files which a reader makes, or that a run makes.
MADE_BY_READER = ("backends/cpu/outer.py", "report.md", "conftest.py", "measured/")


def blocks(*languages: str) -> list:
    """Return the fenced blocks of all documents in these languages, as parameters of a test."""
    found = []
    for path in DOCUMENTS:
        for match in FENCE.finditer(path.read_text()):
            if match[1] in languages:
                line = path.read_text()[: match.start()].count("\n") + 2
                found.append(pytest.param(match[2], id=f"{path.name}:{line}"))
    return found


def commands() -> list:
    """Return each command of the shell blocks once; in a console block only what stands behind a prompt.

    `.venv/bin/python` is the `python` of others.
    """
    found = {}
    for block in blocks("sh", "bash", "console"):
        prompts = block.id and any(line.startswith("$ ") for line in block.values[0].splitlines())
        for line in block.values[0].replace("\\\n", " ").splitlines():
            command = line.removeprefix("$ ").split(" #")[0].strip().removeprefix(".venv/bin/")
            if command and not command.startswith("#") and (line.startswith("$ ") or not prompts):
                found.setdefault(command, pytest.param(command, id=command))
    return list(found.values())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the project with the files that the contributor guide and the README tell to drop."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("harness", "backends", "experiments"):
        ignored = shutil.ignore_patterns("results", "figures")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "docs/examples", folder / "docs/examples")
    for block in blocks("python"):
        for name in re.findall(r"^class (Outer|Einsum)\(Backend\)", block.values[0], re.MULTILINE):
            (folder / f"backends/cpu/{name.lower()}.py").write_text(block.values[0])
    return folder


def shell(command: list[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with `variables` in its environment."""
    own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "PYTHON")}
    return run(*command, cwd=cwd, env=own, status=None, **variables)


def make(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Say what make would do. It is told of this Python, or it would look for one each time."""
    return shell(["make", "--dry-run", *words], cwd, PYTHON=sys.executable)


@pytest.mark.parametrize("command", commands())
def test_command(command, checkout):
    words = shlex.split(command)
    while "=" in words[0]:  # VARIABLE=value in front
        words.pop(0)
    if words[0] == "gemm-harness":
        words[:1] = ["python", "-m", "harness"]
    if words[0] == "make":
        answer = make(*words[1:], cwd=checkout)
        assert answer.returncode == 0, answer.stderr
    elif words[:3] == ["python", "-m", "harness"] and words[3:] and (words[3] in LONG or LONG_OPTIONS & set(words)):
        parse(words[3:])
    elif words[0] == "python":
        answer = shell([sys.executable, *words[1:]], checkout)
        assert answer.returncode == 0, answer.stdout + answer.stderr
    elif words[0].startswith("."):
        assert os.access(ROOT / words[0], os.X_OK)
    else:
        assert words[0] in NOT_OURS, f"this test does not know what to do with {command!r}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_within_sentences_can_be_given(path):
    """A command without arguments is named; with arguments it must parse."""
    from harness.cli import COMMANDS

    for match in INLINE.finditer(FENCE.sub("", path.read_text())):
        words = shlex.split(match[1])
        assert words[0] in (*COMMANDS, *PLACEHOLDERS), match[0]
        if len(words) > 1 and not PLACEHOLDERS & set(words):
            parse(words)


def parse(words: list[str]) -> None:
    """Parse a command line of the harness without carrying it out; the experiments it names must exist."""
    import typer

    from harness.catalogue import load_all
    from harness.cli import app

    group = typer.main.get_command(app)
    command = group.commands[words[0]]  # type: ignore[attr-defined]
    context = command.make_context(words[0], list(words[1:]))
    assert set(context.params.get("experiments") or ()) <= set(load_all())


@pytest.fixture
def installed(request):
    """Skip an example that imports a library, or uses a GPU, which is not there."""
    source = request.node.callspec.params["source"]
    for name in re.findall(r"^import (torch|jax|cupy|array_api_strict|networkx|graphblas)\b", source, re.MULTILINE):
        pytest.importorskip(name)
    if re.search(r"^import cupy|\"cuda\"", source, re.MULTILINE):
        from backends.gpu._cuda import device

        if reason := device.missing():
            pytest.skip(reason)


OF_RANKS = [example.values[0] for example in blocks("python") if "mpi4py" in example.values[0]]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("source", [example for example in blocks("python") if example.values[0] not in OF_RANKS])
def test_example(source, tmp_path, monkeypatch, stored_results):
    monkeypatch.setitem(harness.results.__kwdefaults__, "folder", stored_results)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "results").symlink_to(stored_results)
    monkeypatch.chdir(tmp_path)
    if 'backend="dist-' not in source:
        exec(compile(source, "example", "exec"), {"__name__": "example"})
        return
    if reason := launcher.missing():
        pytest.skip(reason)
    program = tmp_path / "program.py"
    program.write_text(source)
    answer = shell([sys.executable, str(program)], ROOT, PYTHONPATH=str(ROOT))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.skipif(launcher.missing() is not None, reason=str(launcher.missing()))
def test_examples_for_several_ranks(tmp_path):
    """In one job: three ranks start for longer than all examples take."""
    assert len(OF_RANKS) > 4
    program = tmp_path / "program.py"
    program.write_text("".join(f"exec({source!r}, {{'__name__': 'example'}})\n" for source in OF_RANKS))
    command = [str(launcher.mpiexec()), "-n", "3", sys.executable, "-m", "mpi4py", str(program)]
    answer = shell(command, ROOT, PYTHONPATH=str(ROOT))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_readme_has_short_sentences_of_one_number_each():
    text = (ROOT / "README.md").read_text()
    for no_prose in (r"^```.*?^```$", r"<!--.*?-->", r"^(?:#|!\[|\|).*?$", r"(?<=\])\(.*?\)"):
        text = re.sub(no_prose, "", text, flags=re.DOTALL | re.MULTILINE)
    sentences = re.split(r"(?<=[.:?!])[\s*]+|\n\s*(?:- |\n)", text)
    # float32, n=64, AVX-512 and H200 are names
    numbers = {sentence: re.findall(r"(?<![\w=.-])\d[\d.,]*(?![\w-])", sentence) for sentence in sentences}
    assert len([one for one, found in numbers.items() if len(found) > 1]) <= 3
    assert [one for one in sentences if len(re.findall(r"\S*\w\S*", one)) > 25] == []
    assert sum(map(len, numbers.values())) > 9


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = FENCE.sub("", path.read_text())
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"<img[^>]*src=\"([^\"]+)\"", text)
    local = [
        target.split("#")[0] for target in targets if "://" not in target and not target.startswith(("#", "mailto:"))
    ]
    assert [target for target in local if target and not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(path):
    text = FENCE.sub("", path.read_text())
    named = re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml|txt|cu|yaml)|(?:[\w.-]+/)+)`", text)
    unknown = [
        name
        for name in named
        if name not in MADE_BY_READER and not any((place / name).exists() for place in (ROOT, path.parent))
    ]
    assert unknown == []


def test_every_machine_with_a_report_is_in_the_table_of_machines():
    table = (ROOT / "docs/experiments.md").read_text()
    reports = tracked.names("experiments/results/*/report.md")
    assert reports
    assert [report for report in reports if f"(../{report})" not in table] == []


def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z][a-z0-9-]*):(?!=)", text, re.MULTILINE))


def test_messages_name_commands_that_work_where_they_are_printed():
    """An installed copy has no Makefile, and no index has this project: packages are named that one has."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = {re.split(r"[>;\s]", item)[0] for items in extras.values() for item in items} | {"nvidia-cublas"}
    needs_a_checkout = re.compile(rf"\bmake ({'|'.join(targets())})\b|gemm-harness\[")
    places = [ROOT / "harness", ROOT / "backends", ROOT / "experiments" / "_parts"]
    for path in (path for place in places for path in place.rglob("*.py")):
        tree = ast.parse(path.read_text())
        comments = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in comments]
        for text in (str(node.value) for node in texts):
            assert not needs_a_checkout.search(text), f"{path}: {text}"
            for packages in re.findall(r"pip install ([^,;:]+)", text):
                assert {*shlex.split(packages)} <= known, f"{path}: {text}"


def test_make_help_lists_every_target():
    answer = shell(["make", "help"], ROOT)
    assert answer.returncode == 0
    listed = set(re.findall(r"^ +make ([a-z0-9-]+) ", answer.stdout, re.MULTILINE))
    assert listed == targets()
    assert answer.stdout == shell(["make"], ROOT).stdout  # the default


def test_an_unknown_target_names_the_list():
    answer = shell(["make", "nosuch"], ROOT)
    assert answer.returncode == 2
    assert "there is no target nosuch; make help lists them" in answer.stderr


def test_every_target_is_phony():
    (phony,) = re.findall(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(phony.split()) == targets()


@pytest.mark.parametrize("target", sorted(targets() - {"clean", "distclean"}))
def test_targets_set_up_by_themselves(target, checkout):
    """From a folder without .venv, each target's commands begin with making one, except help's."""
    answer = shell(["make", "--dry-run", target], checkout)
    assert answer.returncode == 0, answer.stderr
    assert ("-m venv" in answer.stdout) == (target != "help")


def test_a_python_that_will_not_do_is_said_in_one_message(checkout):
    answer = shell(["make", "test", "PYTHON=/bin/false"], checkout)
    assert answer.returncode != 0
    assert "no Python 3.11 to 3.14" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(("version", "status"), (("3.12.1 (built here)", 0), ("3.11.9 (built here)", 2)))
def test_a_python_that_is_not_that_of_the_environment_is_refused(version, status, checkout, tmp_path):
    """By stand-ins that tell their versions, in an environment that has everything."""
    folder = tmp_path / "project"
    (folder / ".venv/bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(checkout / name, folder / name)
    for path, told in ((folder / ".venv/bin/python", "3.12.1 (built here)"), (tmp_path / "python", version)):
        path.write_text(f'#!/bin/bash\n[[ "$*" != *sys.version* ]] || echo "{told}"\n')
        path.chmod(0o755)
    assert shell(["make", "setup", "CUPY=", "MPI="], folder).returncode == 0
    done = shell(["make", "setup", "CUPY=", "MPI=", f"PYTHON={tmp_path}/python"], folder)
    assert done.returncode == status, done.stderr
    assert ("to make it anew, remove it (rm -r .venv)" in done.stderr) == bool(status)


@pytest.mark.parametrize(
    ("answer", "expected"),
    (
        ("echo 580.159.04, 9.0", ",cuda13"),
        ("echo 580.159.04, 12.0; echo 580.159.04, 7.5", ",cuda13"),
        ("echo 535.86.10, 8.0; echo 535.86.10, 8.0", ",cuda12"),  # two GPUs
        ("echo 580.159.04, 7.0", ",cuda12"),  # CUDA 13 has no V100
        ("echo 580.159.04, 9.0; echo 580.159.04, 6.1", ",cuda12"),
        ("echo 470.256.02, 8.0", ""),
        ("echo No devices were found; exit 6", ""),
    ),
)
def test_make_installs_the_cupy_that_driver_and_gpus_can_run(answer, expected, checkout, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for target, own in (("experiments", "peers"), ("test", "dev")):
        assert f"--editable '.[{own}{expected}]'" in make(target, "MPI=", cwd=checkout).stdout
        assert f"--editable '.[{own}]'" in make(target, "CUPY=", "MPI=", cwd=checkout).stdout
    alone = f"[{expected[1:]}]" if expected else ""
    assert f"--editable '.{alone}'" in make("experiments", "MPI=", "PEERS=", cwd=checkout).stdout


@pytest.mark.parametrize(
    ("given", "system", "expected"),
    (
        ((), "Linux x86_64", "mpi"),
        ((), "Linux aarch64", "mpi"),
        ((), "Darwin arm64", ""),
        (("MPI=mpich",), "Darwin arm64", "mpi"),
        (("MPI=system",), "Linux x86_64", "mpi-system"),
        (("MPI=",), "Linux x86_64", ""),
        (("CUPY=cuda13",), "Linux x86_64", "cuda13,mpi"),
    ),
)
def test_make_installs_mpich_by_default_where_its_wheel_is_tested(
    given, system, expected, checkout, tmp_path, monkeypatch
):
    kernel, processor = system.split()
    program = tmp_path / "uname"
    program.write_text(f'#!/bin/sh\n[ "$1" = -s ] && echo {kernel} || echo {processor}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("MPI", raising=False)
    for target, own in (("experiments", "peers"), ("test", "dev")):
        done = make(target, "CUPY=", *given, cwd=checkout)
        assert f"--editable '.[{own},{expected}]'".replace(",]", "]") in done.stdout, done.stderr


def test_an_mpi_library_that_make_does_not_know_is_refused(checkout):
    done = make("test", "MPI=openmpi", cwd=checkout)
    assert done.returncode != 0
    assert 'MPI is mpich, system or empty; got "openmpi"' in done.stderr


@pytest.mark.parametrize("given", ("EXTRAS=mixed,exprt", "CUPY=exprt", "PEERS=exprt"))
def test_an_extra_that_does_not_exist_is_refused(given, checkout):
    done = make("setup", given, cwd=checkout)
    assert done.returncode != 0
    assert "no such extra: exprt. EXTRAS, CUPY and PEERS name some of: cuda12 cuda13 mpi " in done.stderr
    assert make("setup", "EXTRAS=mixed,export", "CUPY=", "PEERS=", cwd=checkout).returncode == 0


@pytest.mark.parametrize(
    ("installed", "mpi", "said", "uninstalled"),
    (
        ((), "mpich", False, False),
        (("mpich",), "mpich", False, False),
        (("openmpi",), "mpich", True, False),
        (("impi-rt",), "mpich", True, False),
        (("mpich",), "system", False, True),
        (("openmpi",), "system", False, True),
        (("mpich",), "", False, True),
    ),
)
def test_make_keeps_one_mpi_library_in_an_environment(installed, mpi, said, uninstalled, checkout, tmp_path):
    """By a stand-in for pip that knows what is installed and logs what it is told."""
    folder = tmp_path / "project"
    (folder / ".venv/bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(checkout / name, folder / name)
    python = folder / ".venv/bin/python"
    shown = "|".join(installed) or "nothing"
    python.write_text(
        f'#!/bin/bash\necho "$@" >> {tmp_path}/log\n[[ "$*" != *"pip show"* ]] && exit 0\n[[ "$*" =~ ({shown}) ]]\n'
    )
    python.chmod(0o755)
    done = shell(["make", "setup", "CUPY=", f"MPI={mpi}"], folder)
    log = (tmp_path / "log").read_text()
    assert ("has another MPI library" in done.stderr) == said == (done.returncode != 0), done.stderr
    assert ("pip install" in log) != said
    assert ("pip uninstall --yes -qq mpich" in log) == uninstalled


def test_what_is_installed_is_pinned():
    """Every dependency of pyproject.toml, extras included, has its version in constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [
        *project["dependencies"],
        *(item for extra in project["optional-dependencies"].values() for item in extra),
    ]
    names = {re.split(r"[^\w-]", item)[0] for item in required} - {project["name"]}
    pinned = set(re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert names <= pinned
