"""A source tree in a folder of its own: the backends it has, and the commands its worker understands."""

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
from harness.run.process import import_path, module_of

# What a tree's worker must understand, with the arguments that are sent: trees without it are too old to compare with.
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
    """One state of the source code.

    Parameters
    ----------
    label : str
        "base" or "head".
    source : Path
        Folder whose modules are imported first.
    commit : str
        What it was checked out from, "-dirty" if it has been changed since.
    """

    label: str
    source: Path
    commit: str

    def describe(self) -> dict[str, Any]:
        """Return what `harness.compare.source_tree_probe` finds in the tree.

        Raises
        ------
        RegressionError
            If its modules cannot be imported, or are too old.
        """
        answer = subprocess.run(  # noqa: S603 our own interpreter and module
            [sys.executable, "-P", str(source_tree_probe.__file__), module_of(self.source, "worker")],
            env={**os.environ, "PYTHONPATH": import_path(self.source)},
            cwd=self.source,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROBE_TIMEOUT,
        )
        if answer.returncode:
            said = answer.stderr.strip().splitlines() or [f"status {answer.returncode}"]
            raise RegressionError(f"{self.label} ({self.commit}) cannot be imported, or is too old", got=said[-1])
        found: dict[str, Any] = json.loads(answer.stdout)
        if found["mixed"]:
            raise RegressionError(
                f"{self.label} ({self.commit}) lacks modules of this version and is too old",
                got=", ".join(found["mixed"]),
                fix="compare with a later revision",
            )
        for command, sent in COMMANDS.items():
            known = found["commands"].get(command)
            if known is None or not set(known["required"]) <= set(sent) <= set(known["all"]):
                raise RegressionError(
                    f"{self.label} ({self.commit}) speaks another language with its workers",
                    expected=f"the command {command}({', '.join(sent)})",
                    got="no such command" if known is None else f"{command}({', '.join(known['all'])})",
                    fix="compare with a later revision",
                )
        return found

    def backends(self) -> dict[str, str | None]:
        """Return the backends whose code lies in this tree: why each is missing on this machine, or None, by name."""
        root = self.source.resolve()
        entries = self.describe()["backends"]
        return {
            name: entry["missing"] for name, entry in entries.items() if root in Path(entry["file"]).resolve().parents
        }


def pair(repository: Repository, checkout: Path, commit: str, source: str | None = None) -> tuple[Tree, Tree]:
    """Return base, which `checkout` holds, and head, the working tree as it is.

    Parameters
    ----------
    repository : Repository
    checkout : Path
    commit : str
        What `checkout` holds.
    source : str, optional
        Folder inside both that modules are imported from; by default ``src`` if the working tree has one, else the top.

    Raises
    ------
    RegressionError
        If one of the two has no such folder.
    """
    inside = source if source is not None else "src" if (repository.root / "src").is_dir() else "."
    found = (
        Tree("base", checkout / inside, commit[:12]),
        Tree("head", repository.root / inside, repository.describe()),
    )
    for tree in found:
        if not tree.source.is_dir():
            raise RegressionError(f"{tree.label} ({tree.commit}) has no folder {inside!r}", fix="--source FOLDER")
    return found
