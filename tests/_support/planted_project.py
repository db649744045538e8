"""A small project of somebody else, under git, whose backends come by an entry point: what `bench-compare` works on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests._support.processes import ROOT, run

MODULE = """\
import time

import numpy as np

from harness.interface import Backend, HostExecution
from harness.plan import Plan


class _Planted(Backend):
    step, idea, source = 50, "sleeps", "a test"

    def declines(self, problem):
        return None if problem.semiring.is_ordinary and not problem.accumulate else "plus_times without a C only"

    def plan(self, problem, machine):
        return Plan(problem, machine.threads)

    def prepare(self, plan, operands):
        return _Execution(operands, self)


class _Execution(HostExecution):
    def __init__(self, operands, backend):
        super().__init__(operands)
        self.backend = backend
        self.is_first = True

    def run(self):
        time.sleep(self.backend.first_s if self.is_first else self.backend.seconds)
        self.is_first = False
        if self.backend.is_broken:
            raise RuntimeError("broken on purpose")
        np.matmul(self.operands.a, self.operands.b, out=self.operands.out)
"""
BACKEND = """

class {title}(_Planted):
    name, seconds, first_s, is_broken = "planted-{name}", {seconds}, {first_s}, {is_broken}
"""


def backend(name: str, seconds: float, *, first_s: float | None = None, is_broken: bool = False) -> str:
    """Return the source of a backend that takes so long for a call, and for its first call."""
    first_s = seconds if first_s is None else first_s
    return BACKEND.format(title=name.title(), name=name, seconds=seconds, first_s=first_s, is_broken=is_broken)


def write(folder: Path, *backends: str) -> Path:
    """Write the project, and return its folder."""
    (folder / "planted.py").write_text(MODULE + "".join(backends))
    (folder / "backends").mkdir(exist_ok=True)
    (folder / "backends" / "__init__.py").touch()  # in place of the harness's own, which take their time to import
    metadata = folder / "planted-1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[gemm_harness.backends]\nplanted = planted\n")
    return folder


def commit(folder: Path) -> None:
    """Put the project under git as it is."""
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "base")


def git(folder: Path, *arguments: str) -> str:
    """Return what git says."""
    return run("git", "-C", folder, *arguments).stdout


def environment(temporary: Path) -> dict[str, str]:
    """Return the environment of a user who has installed the harness and keeps temporary files in a folder."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**own, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}


def command(*arguments: str) -> list[str]:
    """Return a command line of the harness."""
    return [sys.executable, "-m", "harness", *arguments]
