"""The code that produced a result: version, commit, changes since then, and a digest of its sources.

Committed results, figures and tables are evidence: somebody else can check out the commit and repeat them. So commands
refuse to write them in a checkout whose sources differ from its commit (`require_clean`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from pathlib import Path

from harness.errors import HarnessError
from harness.experiment import SMOKE
from harness.machine import VERSION
from harness.store.schema import DIRTY, UNKNOWN

ROOT = Path(__file__).resolve().parents[2]
# Path specifications of git: all but the output of a run, and the files that decide results and figures.
NO_OUTPUT = (":(exclude)experiments/results", ":(exclude)experiments/figures")
SOURCES = ("harness", "backends", "experiments", "pyproject.toml", "constraints.txt", "Makefile", *NO_OUTPUT)
EVIDENCE = ("experiments", "README.md")
ALLOW_DIRTY = "--allow-dirty"
_SUFFIXES = (".py", ".cu", ".cuh")
_MOST_NAMED = 3

# Set inside git's hooks; they would direct every command to the repository and the index of the hook.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in `folder`, also inside a hook; raise FileNotFoundError if it is not installed."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    return subprocess.run(  # noqa: S603
        ["git", "-C", str(folder), *arguments],  # noqa: S607 the user's git
        env={**environment, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )


@functools.cache
def source_digest() -> str:
    """Return 16 hexadecimal digits that change when a source file of `harness/` or `backends/` does."""
    digest = hashlib.sha256()
    for folder in ("harness", "backends"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in _SUFFIXES:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def commit() -> str:
    """Return the short hash of the commit that is checked out; "unknown" if these sources are in no repository.

    An installed package may lie inside another repository, whose commit says nothing of it.
    """
    try:
        is_ours = git(ROOT, "ls-files", "--error-unmatch", "harness/__init__.py").returncode == 0
        answer = git(ROOT, "rev-parse", "--short=12", "HEAD")
    except OSError:
        return UNKNOWN
    return answer.stdout.strip() if is_ours and answer.returncode == 0 else UNKNOWN


@functools.cache
def changed() -> tuple[str, ...]:
    """Return the source files that differ from the commit, new ones included; none where the commit is "unknown"."""
    if commit() == UNKNOWN:
        return ()
    status = ("--no-optional-locks", "status", "--porcelain", "--no-renames", "--untracked-files=all", "-z")
    answer = git(ROOT, *status, "--", *SOURCES)
    return tuple(line[3:] for line in answer.stdout.split("\0") if line)


def code() -> dict[str, str]:
    """Return ``version``, ``source`` (the digest) and ``commit``: "-dirty" behind it if sources differ from it."""
    state = commit() + (DIRTY if changed() else "")
    return {"version": VERSION, "source": source_digest(), "commit": state}


def mark() -> str:
    """Return the mark of figures, pages and tables that were made by changed sources; else an empty string."""
    return f"Made by code that differs from commit {commit()}" if changed() else ""


def require_clean(*targets: Path, allow_dirty: bool) -> None:
    """Refuse to write evidence that nobody else can reproduce.

    Parameters
    ----------
    targets : Path
        Files to be written. Only those below `experiments/` of this checkout, and its README.md, are evidence: what a
        user measures goes elsewhere, and its cells say that sources had changed. Those in a folder of
        preset smoke show that everything works, and are none.
    allow_dirty : bool
        Write all the same; the caller marks the output.

    Raises
    ------
    HarnessError
        If a target is evidence and sources differ from the commit.
    """
    files = () if allow_dirty else changed()
    evidence = [path for path in map(Path.resolve, targets) if _is_evidence(path)]
    if files and evidence:
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        raise HarnessError(
            f"{evidence[0]}: sources of this checkout have changed, so nobody could reproduce what is written there",
            expected=f"sources as in commit {commit()}",
            got=f"changed: {', '.join(files[:_MOST_NAMED])}{more}",
            fix=f"commit or stash them; or write elsewhere, as without --results and PUBLISH=1; or {ALLOW_DIRTY} (make:"
            " ALLOW_DIRTY=1), and what is written is marked",
        )


def _is_evidence(path: Path) -> bool:
    """Return whether the file or folder at the absolute `path` is to be repeatable."""
    inside = path.relative_to(ROOT).parts if path.is_relative_to(ROOT) else ()
    return bool(inside) and inside[0] in EVIDENCE and SMOKE not in inside
