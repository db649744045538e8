"""The results that git holds. What a user has measured, drawn and reported in the same clone decides no test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What git holds, and where commands write by default.
RESULTS, FIGURES, OWN = "experiments/results", "experiments/figures", "measured"


def names(pattern: str) -> list[str]:
    """Return the tracked files that match `pattern`, a path below the repository in which ``*`` passes no slash.

    Where no git holds the project, as in an unpacked archive, they are the files that are there.
    """
    found = _listed("ls-files", "--", f":(glob){pattern}") if IS_HELD else map(str, ROOT.glob(pattern))
    return sorted(os.path.relpath(ROOT / name, ROOT) for name in found)


def link_results(folder: Path) -> None:
    """Fill `folder` with the tracked results: links, and where a file has changed since, what git holds of it.

    Nothing can be written through these links (`refuse_others`).
    """
    changed = _listed("diff-files", "--name-only", "--relative", "--", RESULTS)
    for name in names(f"{RESULTS}/**/*.*"):
        path = folder / Path(name).relative_to(RESULTS)
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in changed:
            path.write_bytes(_git("show", f":./{name}"))
        else:
            path.symlink_to(ROOT / name)


def refuse_others() -> None:
    """Let every test fail that opens or lists results or figures of this clone, also where there are only tracked ones.

    Or that writes to them, by whatever name.

    A process cannot take such a hook back.
    """
    if IS_HELD:
        sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event not in ("open", "os.listdir", "os.scandir"):
        return
    name, writes = str(arguments[0]), event == "open" and int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR)
    if writes or "experiments" in name or OWN in name:
        # Links, as of `link_results`, are for readers.
        path = os.path.realpath(name) if writes else os.path.abspath(name)  # noqa: PTH100
        assert not path.startswith(_REFUSED), f"{path} may be a user's own: take it from the fixture stored_results"


def _git(*command: str) -> bytes:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=True).stdout


def _listed(command: str, *arguments: str) -> list[str]:
    """Return the names that a command of git prints; none without git, or where it holds none of this."""
    try:
        return [os.fsdecode(name) for name in _git(command, "-z", *arguments).split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        return []


IS_HELD = bool(_listed("ls-files", "--", "pyproject.toml"))
_REFUSED = tuple(f"{ROOT / folder}{os.sep}" for folder in (RESULTS, FIGURES, OWN))
