"""The source files that CPU kernels are made from: which they are, their digest, and whether they may have changed.

They are found through their package, not through the path of this file. So this file, and every part of a kernel, may
move to any folder below `backends/`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
import types as python
from pathlib import Path

from backends import _kernel_files

_ROOT = Path(str(_kernel_files.__file__)).parents[1]
# What kernels take from the harness: operations, nouns, and the numbers that are compiled in.
_OF_HARNESS = ("interface", "operands", "semiring", "tuning")
_OTHER_FAMILIES = {"gpu", "distributed"}


def holds(function: python.FunctionType) -> bool:
    """Return whether `function` stands in one of the files, and not in a library or with a user."""
    return _is_of_kernels(Path(function.__code__.co_filename))


@functools.cache
def files() -> list[Path]:
    """Return the files that kernels are made from: `backends/` without other families, and what it builds upon."""
    tops = ("backends", *(f"harness/{name}" for name in _OF_HARNESS))
    found = [*_ROOT.glob("harness/*.py"), *(path for top in tops for path in (_ROOT / top).rglob("*.py"))]
    return sorted(path for path in found if _is_of_kernels(path) and not path.name.startswith("."))


def _is_of_kernels(path: Path) -> bool:
    root, (top, *folders) = path.parts[: len(_ROOT.parts)], path.parts[len(_ROOT.parts) : -1] or ("",)
    is_noun = top == "harness" and (not folders or folders[0] in _OF_HARNESS)
    return root == _ROOT.parts and (is_noun or top == "backends") and not _OTHER_FAMILIES & set(folders)


@functools.cache
def digest() -> str:
    """Return the digest of names and contents, the same wherever the project is installed."""
    total = hashlib.sha256()
    for path in files():
        content = path.read_bytes()
        total.update(f"{os.path.relpath(path, _ROOT)} {len(content)}\n".encode() + content)
    return total.hexdigest()


def may_have_changed() -> bool:
    """Return whether a file changed since this process began, which may run the old or the new text."""
    try:
        return max(path.stat().st_ctime for path in files()) >= _started_s()
    except OSError:  # one is missing, for instance if only the bytecode is installed
        return True


@functools.cache
def _started_s() -> float:
    """Return when this process began, in seconds since the epoch, or a time before."""
    now = time.time()
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        after_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return now - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot - 0.1
    except (OSError, AttributeError, ValueError, IndexError):
        return now - 60.0  # no such file: assume that the process began a minute ago
