"""Checks a backend in a process of its own, so that a crash or a hang is one more finding and not the end.

The process is ``python -m harness check NAME --in-process --json``, which writes a finding a line as soon as it has it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from harness.proof.contract import Finding

# How much of what a dead process printed is shown, in characters.
TAIL = 400


def findings(name: str, depth: str, patience: float) -> Iterator[Finding]:
    """Yield what a check of the backend called `name` finds, as it is found.

    Parameters
    ----------
    name, depth : str
        As for ``gemm-harness check``.
    patience : float
        How long the next finding may take [s] before the backend counts as hung.
    """
    command = [sys.executable, "-P", "-m", "harness", "check", name, "--depth", depth, "--in-process", "--json"]
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = subprocess.Popen(  # noqa: S603 our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=printed,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # a group of its own, killed as a whole
        )
        assert process.stdout is not None
        try:
            yield from _received(process, process.stdout, patience, printed)
        finally:
            _kill(process)
            process.stdout.close()


def _received(process: subprocess.Popen[str], stdout: IO[str], patience: float, printed: IO[str]) -> Iterator[Finding]:
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_forward, args=(stdout, lines), daemon=True).start()
    last = "nothing"
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            yield Finding("failed", "process", f"no answer within {patience:g} s (hang); the last finding was: {last}")
            return
        if line is None:
            break
        record = _finding(line)
        if record is not None:
            last = record.what
            yield record
    status = process.wait()
    if status not in (0, 1):
        yield Finding("failed", "process", f"{_death(status)}; the last finding was: {last}{_tail(printed)}")


def _forward(stdout: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in stdout:
        lines.put(line)
    lines.put(None)


def _finding(line: str) -> Finding | None:
    """Return the finding that `line` holds; None if a backend printed it."""
    try:
        return Finding(**json.loads(line))
    except (ValueError, TypeError):
        return None


def _death(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"


def _tail(printed: IO[str]) -> str:
    printed.seek(0)
    text = " | ".join(line.strip() for line in printed.read()[-TAIL:].splitlines() if line.strip())
    return f"; it printed: {text}" if text else ""


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
