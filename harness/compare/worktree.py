"""Check out a revision of a git repository in a folder beside the working tree, and remove it afterwards.

The folder is a worktree of git: it shares the objects of the repository, so that only its files take space. It is
removed whatever ends the block, SIGTERM and SIGHUP included. After kill -9 the next use removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.run import ending
from harness.run.provenance import NO_OUTPUT, git
from harness.store.schema import DIRTY

PREFIX = "gemm-harness-base-"


class RevisionError(HarnessError, ValueError):
    """An unknown revision, or a folder under no version control."""


@dataclass(frozen=True)
class Repository:
    """A git repository."""

    root: Path  # of the working tree

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Return the repository whose working tree holds `folder`.

        Raises
        ------
        RevisionError
            If there is none, or no git.
        """
        try:
            answer = git(folder, "rev-parse", "--show-toplevel")
        except FileNotFoundError as error:
            raise RevisionError("git is not installed", fix="install it (Debian, Ubuntu: apt install git)") from error
        if answer.returncode:
            raise RevisionError(
                f"{folder.absolute()}: not in the working tree of a git repository",
                got=_first_line(answer.stderr),
                fix="run it inside a clone of the project",
            )
        return cls(Path(answer.stdout.strip()))

    def commit(self, revision: str) -> str:
        """Return the full hash of the commit that `revision` names.

        Raises
        ------
        RevisionError
            If it names none.
        """
        if not revision.strip():
            raise RevisionError(
                "no revision to compare with",
                expected="a commit, a branch or a tag",
                fix="python -m harness bench-compare origin/main",
            )
        answer = git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if answer.returncode:
            raise RevisionError(
                f"unknown revision {revision!r}",
                expected=f"a commit, a branch or a tag of {self.root}",
                fix="git fetch, if it is on a server; in CI, check out the whole history (fetch-depth: 0)",
            )
        return answer.stdout.strip()

    def describe(self) -> str:
        """Return the short hash of the commit that is checked out, with "-dirty" behind it if files of it differ.

        Results and figures are left out: measuring and drawing change them, and they change no speed.
        """
        commit = git(self.root, "rev-parse", "--short=12", "HEAD").stdout.strip()
        status = ("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
        return commit + (DIRTY if git(self.root, *status, "--", ".", *NO_OUTPUT).stdout else "")

    @contextlib.contextmanager
    def checked_out(self, commit: str) -> Iterator[Path]:
        """Yield a folder with the files of `commit`; it is removed when the block ends, however it ends.

        Raises
        ------
        RevisionError
            If git cannot check it out: a full disk, for instance.
        Terminated
            If SIGTERM or SIGHUP ended the block.
        """
        self.remove_leftovers()
        with ending.raising():
            # the number in its name tells a later process whether this one still runs
            outer = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
            tree = outer / "tree"
            try:
                answer = git(self.root, "worktree", "add", "--detach", "--quiet", str(tree), commit)
                if answer.returncode:
                    raise RevisionError(f"{commit[:12]} cannot be checked out", got=_first_line(answer.stderr))
                yield tree
            finally:
                with ending.delayed():  # a second Ctrl-C must not stop the removal
                    self._remove(tree)

    def remove_leftovers(self) -> None:
        """Remove the worktrees of processes that were killed before they could remove them."""
        listed = git(self.root, "worktree", "list", "--porcelain").stdout
        for line in listed.splitlines():
            tree = Path(line.removeprefix("worktree "))
            if line.startswith("worktree ") and tree.parent.name.startswith(PREFIX):
                number = tree.parent.name.removeprefix(PREFIX).partition("-")[0]
                if not (number.isdigit() and _is_running(int(number))):
                    self._remove(tree)

    def _remove(self, tree: Path) -> None:
        git(self.root, "worktree", "remove", "--force", "--force", str(tree))
        shutil.rmtree(tree.parent, ignore_errors=True)
        git(self.root, "worktree", "prune")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
