"""Compiled CUDA kernels in files: one entry a file, named by the digest of its key. Trouble is a miss, never an error.

    entry = MAGIC | SHA-256 of the rest (32 bytes) | length of the log (8 bytes) | log | cubin

A file is written aside and renamed into place, so that a reader sees all of it or none. They lie beside the kernels of
the CPU (docs/kernel_cache.md), in a folder of their own, and hold machine code of a GPU: the host executes none of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from backends.gpu._cuda.nvrtc import Compiled

VARIABLE = "GEMM_HARNESS_CACHE"
_MAGIC, _SUFFIX = b"GEMM cubin 1\n", ".cubin"


def folder() -> Path | None:
    """Return where kernels are kept, or None if the user wants none kept: as docs/kernel_cache.md says, and ``gpu``."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) / "gpu" if given else None
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        root = base if base.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # there is no home
        return None
    return root / "gemm-harness" / "kernels" / "gpu"


def read(digest: str) -> Compiled | None:
    """Return the entry `digest`, or None if there is none that is whole and this user's own."""
    place = folder()
    if place is None:
        return None
    try:
        with (place / f"{digest}{_SUFFIX}").open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            head, check, rest = file.read(len(_MAGIC)), file.read(32), file.read()
    except OSError:
        return None
    if head != _MAGIC or check != hashlib.sha256(rest).digest():
        return None
    size = int.from_bytes(rest[:8], "little")
    return Compiled(rest[8 + size :], rest[8 : 8 + size].decode())


def write(digest: str, compiled: Compiled) -> None:
    """Keep `compiled` as the entry `digest`, if that can be done."""
    place = folder()
    if place is None:
        return
    log = compiled.log.encode()
    rest = len(log).to_bytes(8, "little") + log + compiled.cubin
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".part", dir=place)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(rest).digest() + rest)
        Path(name).replace(place / f"{digest}{_SUFFIX}")
