"""Compiled kernels in files: one entry, one file, named by the digest of its key. Trouble is a miss, never an error.

    entry = MAGIC | digest of the key (32 bytes) | SHA-256 of the payload (32 bytes) | payload

A file is written aside and renamed into place, so that a reader sees all of it or none, and of two writers the last
one wins, with the same kernel. Reading one marks it as used; those unused for longest go when there are too many.

A payload is a pickle, which can run code when it is loaded: only a folder and files that belong to this user are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "GEMM_HARNESS_CACHE"
MAGIC = b"GEMM kernel 1\n"
LARGEST_BYTES = 256 << 20
_KEPT_BYTES = LARGEST_BYTES // 4 * 3  # left after a clearing, so that it is not due again at once
_ABANDONED_S = 3600.0  # a file that is still being written is younger
_SUFFIX, _UNFINISHED = ".kernel", ".part"


def folder() -> Path | None:
    """Return where kernels are kept, or None if the user wants none kept; read anew in every call.

    ``$GEMM_HARNESS_CACHE``, which turns it off when empty; else ``$XDG_CACHE_HOME/gemm-harness/kernels``; else
    ``~/.cache/gemm-harness/kernels``.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) if given else None
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        root = base if base.is_absolute() else Path.home() / ".cache"  # the XDG rule: a relative one is ignored
    except RuntimeError:  # there is no home
        return None
    return root / "gemm-harness" / "kernels"


def read(place: Path, digest: str) -> bytes | None:
    """Return the payload of the entry `digest` in the folder `place`, or None if there is none that is whole."""
    path = place / f"{digest}{_SUFFIX}"
    try:
        if not _is_mine(place.stat()):
            return None
        with open(path, "rb", opener=_open_no_link) as file:
            if not _is_mine(os.fstat(file.fileno())):
                return None
            head, content = file.read(len(_head(digest, b""))), file.read()
    except OSError:
        return None
    if head != _head(digest, content):
        return None
    with contextlib.suppress(OSError):  # a folder that cannot be written keeps no order of use
        os.utime(path)
    return content


def write(place: Path, digest: str, payload: bytes) -> bool:
    """Keep `payload` as the entry `digest` of the folder `place`; return whether that could be done."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_mine(place.stat()):
            return False
        descriptor, name = tempfile.mkstemp(_UNFINISHED, dir=place)  # readable by this user alone
    except OSError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(digest, payload) + payload)
        Path(name).replace(place / f"{digest}{_SUFFIX}")
    except OSError:
        _remove(name)
        return False
    _make_room(place)
    return True


def _head(digest: str, payload: bytes) -> bytes:
    return MAGIC + bytes.fromhex(digest) + hashlib.sha256(payload).digest()


def _is_mine(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid()


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _make_room(place: Path) -> None:
    """Remove the entries unused for longest if there is more than LARGEST_BYTES, and what writers have abandoned.

    Another process may do the same, or be reading what goes: an open file stays whole, a missing one is compiled anew.
    """
    entries = sorted(_entries(place))
    total = sum(size for _, size, _ in entries)
    excess = total - _KEPT_BYTES if total > LARGEST_BYTES else 0
    for used, size, path in entries:
        is_abandoned = path.endswith(_UNFINISHED) and used < time.time() - _ABANDONED_S
        if excess > 0 or is_abandoned:
            _remove(path)
            excess -= size


def _entries(place: Path) -> Iterator[tuple[float, int, str]]:
    """Yield last use, size in bytes and path of every file of ours in the folder."""
    with contextlib.suppress(OSError), os.scandir(place) as listing:
        for entry in listing:
            if entry.name.endswith((_SUFFIX, _UNFINISHED)):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield status.st_mtime, status.st_size, entry.path


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()
