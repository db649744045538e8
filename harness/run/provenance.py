"""Which code produced a result: version, commit, and a digest of the source that decides what is measured."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from pathlib import Path

from harness.machine import VERSION

_ROOT = Path(__file__).resolve().parents[2]
_SUFFIXES = (".py", ".cu", ".cuh")


@functools.cache
def source_digest() -> str:
    """Return 16 hexadecimal digits that change when a source file of `harness/` or `backends/` does."""
    digest = hashlib.sha256()
    for folder in ("harness", "backends"):
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in _SUFFIXES:
                digest.update(f"{path.relative_to(_ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def code() -> dict[str, str]:
    """Return ``version``, ``source`` (the digest) and ``commit``: empty outside a repository, "-dirty" if changed."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],  # noqa: S607 the user's git
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        commit = answer.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = ""
    return {"version": VERSION, "source": source_digest(), "commit": commit}
