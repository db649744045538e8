"""A source tree in a folder of its own, its backends, and the commands of its worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.compare import source_tree_probe
from harness.compare.worktree import Repository
from harness.errors import HarnessError
from harness.run.process.other_trees import WORKER, import_path

# Commands and arguments that the worker of a tree must know; trees without them are too old to compare with.
COMMANDS = {
    "prepare": ("task", "arguments", "threads"),
    "prove": (),
    "sample": ("loops", "count"),
    "verify": (),
    "release": (),
}
PROBE_TIMEOUT = 120.0


class RegressionError(HarnessError, ValueError):
    """Two trees that cannot be compared."""


@dataclass(frozen=True)
class Tree:
    """One state of the source code."""

    label: str  # "base" or "head"
    source: Path  # folder whose modules are imported first
    commit: str  # with "-dirty" if files differ from it

    def describe(self) -> dict[str, Any]:
        """Return the description of the tree by `harness.compare.source_tree_probe`.

        Raises
        ------
        RegressionError
            If its modules cannot be imported, or are too old.
        """
        answer = subprocess.run(  # noqa: S603 our own interpreter and module
            [sys.executable, "-P", str(source_tree_probe.__file__), WORKER],
            env={**os.environ, "PYTHONPATH": import_path(self.source)},
            cwd=self.source,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROBE_TIMEOUT,
        )
        if answer.returncode:
            lines = answer.stderr.strip().splitlines() or [f"status {answer.returncode}"]
            raise RegressionError(f"{self.label} ({self.commit}) cannot be imported, or is too old", got=lines[-1])
        description: dict[str, Any] = json.loads(answer.stdout)
        if description["mixed"]:
            raise RegressionError(
                f"{self.label} ({self.commit}) lacks modules of this version and is too old",
                got=", ".join(description["mixed"]),
                fix="compare with a later revision",
            )
        for command, sent in COMMANDS.items():
            known = description["commands"].get(command)
            if known is None or not set(known["required"]) <= set(sent) <= set(known["all"]):
                raise RegressionError(
                    f"{self.label} ({self.commit}) speaks another language with its workers",
                    expected=f"the command {command}({', '.join(sent)})",
                    got="no such command" if known is None else f"{command}({', '.join(known['all'])})",
                    fix="compare with a later revision",
                )
        return description

    def backends(self) -> dict[str, str | None]:
        """Return the backends whose code lies in this tree, each with the reason why it is missing here, or None."""
        root = self.source.resolve()
        entries = self.describe()["backends"]
        return {
            name: entry["missing"] for name, entry in entries.items() if root in Path(entry["file"]).resolve().parents
        }


def pair(repository: Repository, checkout: Path, commit: str, source: str | None = None) -> tuple[Tree, Tree]:
    """Return base, which is in `checkout`, and head, the working tree as it is.

    Parameters
    ----------
    repository : Repository
    checkout : Path
    commit : str
        The commit in `checkout`.
    source : str, optional
        Folder inside both that modules are imported from; by default ``src`` if the working tree has one, else the top.

    Raises
    ------
    RegressionError
        If one of the two has no such folder.
    """
    inside = source if source is not None else "src" if (repository.root / "src").is_dir() else "."
    trees = (
        Tree("base", checkout / inside, commit[:12]),
        Tree("head", repository.root / inside, repository.describe()),
    )
    for tree in trees:
        if not tree.source.is_dir():
            raise RegressionError(f"{tree.label} ({tree.commit}) has no folder {inside!r}", fix="--source FOLDER")
    return trees
