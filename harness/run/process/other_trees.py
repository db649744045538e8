"""Names of modules in other states of the source code, which may be older than this one and arranged in another way."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Folders below ``harness`` in which trees have kept the worker and the task of a product, the latest first.
HOMES = ("run", "")


def import_path(source: Path | None = None) -> str:
    """Return the import path of this process, after `source`: a worker imports the same modules, and no others."""
    folders = [Path(folder).absolute() for folder in sys.path]
    return os.pathsep.join(map(str, [source.absolute(), *folders] if source else folders))


def module_of(source: Path | None, name: str) -> str:
    """Return the full name of the module "worker" or "task" in the harness that a worker of `source` imports.

    A tree may be older than this one and arranged in another way, so its files are searched.
    """
    packages = [Path(folder) / "harness" for folder in import_path(source).split(os.pathsep)]
    package = next((path for path in packages if (path / "__init__.py").exists()), Path(__file__).parents[2])
    home = next((home for home in HOMES if (package / home / f"{name}.py").exists()), HOMES[0])
    return ".".join(filter(None, ("harness", home, name)))


def full_name(task: str, source: Path | None) -> str:
    """Return ``"module:function"`` of `task` in the tree of `source`."""
    return task if ":" in task else f"{module_of(source, 'task')}:{task}"
