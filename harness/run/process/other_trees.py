"""Names of modules, for workers that may import another state of the source code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

WORKER, TASK = "harness.run.worker", "harness.run.task"


def import_path(source: Path | None = None) -> str:
    """Return the import path of this process, after `source`: a worker imports the same modules, and no others."""
    here = Path.cwd()  # a worker cannot begin where it is gone
    folders = [here / folder for folder in sys.path]
    return os.pathsep.join(map(str, [source.absolute(), *folders] if source else folders))


def full_name(task: str) -> str:
    """Return ``"module:function"`` of `task`."""
    return task if ":" in task else f"{TASK}:{task}"
