"""Programs that tests start: from the root of the project, heard to their end, with the patience for a slow machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Nothing ends sooner for it. Below the time-out of a test (pyproject.toml), so that what was printed is seen. Emulated
# processors need more.
PATIENCE_S = float(os.environ.get("TEST_PATIENCE_S", "500"))


def run(
    *command: str | Path,
    status: int | None = 0,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    given: str = "",
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command with `variables` beside those of `env`, and `given` as input. It must end by `status`, if any."""
    environment = {**(os.environ if env is None else env), **variables}
    done = subprocess.run(
        command, cwd=cwd, env=environment, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert status in (None, done.returncode), f"{done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def eventually(is_so: Callable[[], object], process: subprocess.Popen[str] | None = None) -> bool:
    """Wait until `is_so` holds, for the work of `process`; fail if that ends before, or time runs out."""
    deadline = time.monotonic() + PATIENCE_S / 4
    while not is_so():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return True


def python(*arguments: str | Path, **how: object) -> subprocess.CompletedProcess[str]:
    """Run this interpreter, as `run` does."""
    return run(sys.executable, *arguments, **how)  # type: ignore[arg-type]
