"""Programs on ranks, started as a user does, ``mpiexec -n P python -m mpi4py program.py``, and what they leave."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.distributed._job.launcher import mpiexec
from tests._support.processes import PATIENCE_S, ROOT, eventually

PROGRAMS = Path(__file__).parent
MARK = "A_TEST_OF_RANKS"


def need_mpi() -> None:
    """Skip the test where no program can be started on ranks."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    if mpiexec() is None:
        pytest.skip("no mpiexec is installed")


def run(
    ranks: int, *program: str, timeout: float = PATIENCE_S, module: bool = True, **variables: str
) -> subprocess.CompletedProcess:
    """Run a program of tests/_support on ranks, and return how it ended; fail if it does not within `timeout` seconds.

    `variables` are set in its environment. Without `module` it is started by python alone, not by mpi4py.
    """
    need_mpi()
    start = [sys.executable, *(["-m", "mpi4py"] if module else []), str(PROGRAMS / program[0]), *program[1:]]
    command = [str(mpiexec()), "-n", str(ranks), *start]
    with started(command, **variables) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            pytest.fail(f"{' '.join(command)} did not end within {timeout} s:\n{output}{errors}")
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@contextlib.contextmanager
def started(command: list[str], **variables: str) -> Iterator[subprocess.Popen]:
    """Start a command in a process group of its own, which is killed in the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "0", **variables}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Traces:
    """The processes that have a mark in their environment, and what a job leaves in the system's folders."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex

    @property
    def variables(self) -> dict[str, str]:
        """What the environment of the program must hold."""
        return {MARK: self.mark}

    def numbers(self) -> dict[int, str]:
        """Return the command line of each marked process that runs, by its number."""
        entry, running = f"{MARK}={self.mark}".encode(), {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if entry in (folder / "environ").read_bytes().split(b"\0"):
                    running[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        return running

    def processes(self) -> list[str]:
        """Return the command line of each marked process that runs."""
        return list(self.numbers().values())

    def eventually_none(self) -> None:
        """Fail unless all marked processes end."""
        eventually(lambda: not self.processes())
