"""Compiled kernels in files, for the backends of every family. An unreadable entry is a miss, never an error.

One entry is one file, named by the digest of all that its machine code depends on:

    entry = MAGIC | its name (32 bytes) | SHA-256 of the payload (32 bytes) | payload

The payload is the caller's: a pickle of Numba's result for a CPU, a cubin for a GPU. A file is written under another
name and then renamed, so that a reader sees all of it or none. If two write the same entry, the last file stays.
Who is about to compile an entry takes its turn: others that need it wait, and then find it. Reading an entry marks it
as used. When a folder has become too large, the entries unused for longest are removed.

A pickle can run code when it is loaded: only a folder and files that belong to this user are read.
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

from harness.surroundings import is_there

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows: nobody takes turns, which only save work
    flock = None

VARIABLE = "GEMM_HARNESS_CACHE"
MAGIC = b"GEMM kernel 1\n"
LARGEST_BYTES = 256 << 20  # of one folder
_KEPT_BYTES = LARGEST_BYTES // 4 * 3  # left after a clearing, so that it is not due again at once
_ABANDONED_S = 3600.0  # a file that is still being written is younger
_SUFFIX, _UNFINISHED, _TURN = ".kernel", ".part", ".turn.part"
# A link is not followed, nor a pipe waited for. Windows has neither flag.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST_WAIT_S, _LOOK_AGAIN_S = 120.0, 0.02  # for another process that makes an entry: it may have been stopped


def cache_folder(family: str = "") -> Path | None:
    """Return the folder of a family's kernels, or None if the user turned the cache off. Read anew in every call.

    ``$GEMM_HARNESS_CACHE``, which turns the cache off when empty; else ``$XDG_CACHE_HOME/gemm-harness/kernels``; else
    ``~/.cache/gemm-harness/kernels``. In it, a folder `family`, if one is named.
    """
    folder = os.environ.get(VARIABLE)
    if folder is not None:
        return Path(folder) / family if folder else None
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        root = base if base.is_absolute() else Path.home() / ".cache"  # the XDG rule: a relative one is ignored
    except RuntimeError:  # there is no home
        return None
    return root / "gemm-harness" / "kernels" / family


def entry_name(*parts: object) -> str:
    """Return the name of the entry that depends on `parts`: SHA-256 of their `repr`, which must describe them."""
    return hashlib.sha256(repr((MAGIC, *parts)).encode()).hexdigest()


def read(folder: Path | None, name: str) -> bytes | None:
    """Return the payload of the entry `name`, or None if `folder` has none that is whole and this user's own."""
    if folder is None:
        return None
    path = folder / f"{name}{_SUFFIX}"
    try:
        if not _is_mine(folder.stat()):
            return None
        with open(path, "rb", opener=_open_no_link) as file:
            if not _is_mine(os.fstat(file.fileno())):
                return None
            head, payload = file.read(len(_head(name, b""))), file.read()
    except OSError:
        return None
    if head != _head(name, payload):
        return None
    with contextlib.suppress(OSError):  # in a read-only folder the time of use is not recorded
        os.utime(path)
    return payload


def write(folder: Path | None, name: str, payload: bytes) -> bool:
    """Keep `payload` as the entry `name`; return whether that could be done."""
    if folder is None:
        return False
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_mine(folder.stat()):
            return False
        descriptor, unfinished = tempfile.mkstemp(_UNFINISHED, dir=folder)  # readable by this user alone
    except OSError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(name, payload) + payload)
        Path(unfinished).replace(folder / f"{name}{_SUFFIX}")
    except OSError:
        _remove(unfinished)
        return False
    _make_room(folder)
    return True


@contextlib.contextmanager
def turn(folder: Path | None, name: str) -> Iterator[None]:
    """Wait while another process is in such a block for the entry `name`; hold others back until this block ends.

    The lock is that of a file, which the system gives back when a process ends. It only saves work: nobody waits for
    longer than two minutes, nor where the folder cannot be written to. An entry that is there needs no turn.
    """
    if folder is None or is_there(folder / f"{name}{_SUFFIX}"):
        yield
        return
    path, descriptor = folder / f"{name}{_TURN}", None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_mine(folder.stat()):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
            _lock(descriptor)
    except OSError:
        pass
    try:
        yield
    finally:
        if descriptor is not None:
            _remove(str(path))
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a file, or give up when it has taken too long."""
    latest = time.monotonic() + _LONGEST_WAIT_S
    while flock is not None and time.monotonic() < latest:
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_AGAIN_S)
        else:
            return


def _head(name: str, payload: bytes) -> bytes:
    return MAGIC + bytes.fromhex(name) + hashlib.sha256(payload).digest()


def _is_mine(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()  # Windows: a user's folder is that user's alone


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_LINK)


def _make_room(folder: Path) -> None:
    """Remove the entries unused for longest if there is more than LARGEST_BYTES, and abandoned files of writers.

    Another process may do the same, or read a removed entry: an open file stays whole, a missing one is recompiled.
    """
    entries = sorted(_entries(folder))
    total = sum(size for _, size, _ in entries)
    excess = total - _KEPT_BYTES if total > LARGEST_BYTES else 0
    for used, size, path in entries:
        is_abandoned = path.endswith(_UNFINISHED) and used < time.time() - _ABANDONED_S
        if excess > 0 or is_abandoned:
            _remove(path)
            excess -= size


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """Yield last use, size in bytes and path of every file of ours in the folder itself."""
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for entry in listing:
            if entry.name.endswith((_SUFFIX, _UNFINISHED)):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield status.st_mtime, status.st_size, entry.path


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()
