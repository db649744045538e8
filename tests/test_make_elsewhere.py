"""The Makefile asks for no more than GNU make 3.81 and plain tools, which macOS and BSD have; here busybox's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests._support.processes import ROOT, run

# What GNU make learned after 3.81. Its .SHELLFLAGS are ignored there: no recipe relies on them, as the runs below show.
LATER = (
    r"^\.(ONESHELL|RECIPEPREFIX|EXTRA_PREREQS)|^undefine |^define .*=\s*$|^\w+ *!=|:::?=|^[^\t#]*&:"
    r"|\$\((file|guile|let|intcmp) "
)


@pytest.fixture(scope="module")
def plain_tools(tmp_path_factory):
    """Return a folder with busybox's tools, bash and make, and nothing else."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed: apt install busybox")
    folder = tmp_path_factory.mktemp("tools")
    listed = run(busybox, "--list").stdout.split()
    for name in listed:
        (folder / name).symlink_to(busybox)
    others = {"bash": shutil.which("bash"), "make": shutil.which("make"), "python3": sys._base_executable}
    others |= {"cksum": shutil.which("cksum")}  # of POSIX, and left out of Debian's busybox
    for name, program in others.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(program)
    return folder


@pytest.fixture
def checkout(tmp_path):
    """Return a folder with the files that the Makefile reads, and an environment that looks installed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _make(folder: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # make 3.81 runs each line by "bash -c"
    command = [shutil.which("make"), ".SHELLFLAGS=-c", "--no-print-directory", *arguments]
    return run(*command, cwd=folder, PATH=path, status=None)


def test_no_word_of_a_later_make():
    text = re.sub(r"^\s*#.*", "", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [line for line in text.splitlines() if re.search(LATER, line)] == []


@pytest.mark.parametrize(
    "line", ["define NAME =", "NAME != date", "a b &: c", "X ::= 1", "Y := $(file < Z)", ".ONESHELL:"]
)
def test_a_word_of_a_later_make_is_found(line):
    assert re.search(LATER, line)


@pytest.mark.parametrize("arguments", [("help",), ("--dry-run", "setup", "test", "docs", "page"), ("nosuch",)], ids=str)
def test_plain_tools_do_what_those_of_gnu_do(arguments, plain_tools, checkout):
    plain, ours = _make(checkout, str(plain_tools), *arguments), _make(checkout, os.environ["PATH"], *arguments)
    assert (plain.returncode, plain.stdout, plain.stderr) == (ours.returncode, ours.stdout, ours.stderr)
    assert plain.stdout + plain.stderr


def test_clean_by_plain_tools(plain_tools, checkout):
    for name in ("build/kernels", "harness/__pycache__", ".venv/lib/__pycache__", "experiments/results"):
        (checkout / name).mkdir(parents=True)
    assert _make(checkout, str(plain_tools), "clean").returncode == 0
    left = {str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_dir()}
    assert left == {"harness", ".venv", ".venv/lib", ".venv/lib/__pycache__", "experiments", "experiments/results"}


def test_failures_stop_recipes_without_flags_of_the_shell(plain_tools, checkout):
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho ran >> ran\nexit 3\n")
    python.chmod(0o755)
    done = _make(checkout, str(plain_tools), "--assume-old=.venv/bin/python", "test-units", "--touch")
    assert done.returncode == 0, done.stderr  # what is to be installed counts as installed from here on
    done = _make(checkout, str(plain_tools), "test-units")
    assert done.returncode != 0
    assert (checkout / "ran").read_text().count("ran") == 1
