"""The source files that CPU kernels are made from: which they are, their digest, and whether they may have changed.

They are found through their packages, not through the path of this file. So this file, and every part of a kernel, may
move to any folder below `backends/cpu/`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import time
import types as python
from pathlib import Path
from typing import Any

from backends import _kernel_files, cpu
from harness import dtypes, scalars, semiring
from harness.semiring import operations

_FOLDER = Path(str(cpu.__file__)).parent
# Modules that store kernels or are inlined by them. Where only bytecode is installed, these files are missing.
_MODULES = _kernel_files, dtypes, scalars, semiring, operations
_FILES = [Path(str(module.__file__)).with_suffix(".py") for module in _MODULES]
_OURS = (f"{_FOLDER}/", f"{Path(str(scalars.__file__)).parent}/")


def is_ours(thing: Any) -> bool:
    """Return whether a function, class or module is of `backends/cpu/` or `harness/`, not of a library or a user."""
    if isinstance(thing, python.FunctionType):
        return thing.__code__.co_filename.startswith(_OURS)
    name = thing.__name__ if isinstance(thing, python.ModuleType) else thing.__module__
    return str(getattr(sys.modules.get(name), "__file__", "")).startswith(_OURS)


def files() -> list[Path]:
    """Return the files that kernels are made from: all of `backends/cpu/` and its subfolders, and `_FILES`."""
    kernels = sorted(path for path in _FOLDER.rglob("*.py") if not path.name.startswith("."))
    return [*kernels, *_FILES]


@functools.cache
def digest() -> str:
    """Return the digest of names and contents, the same wherever the project is installed."""
    total = hashlib.sha256()
    for path in files():
        content = path.read_bytes()
        total.update(f"{os.path.relpath(path, _FOLDER)} {len(content)}\n".encode() + content)
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
