"""Make a process that starts with this folder on its import path see what macOS or Windows has, and no more.

``FAKED_SYSTEM`` names it. The processes that it starts see the same. Libraries that look for their own files by the
name of the system are imported before it changes; they are not what is tested. What compiled code links to is faked by
name: a kernel that calls a function that the system lacks cannot be linked.
"""

import builtins
import ctypes
import io
import mmap
import os
import platform
import signal
import sys
import time
from typing import Any

# Linux alone has these.
OF_LINUX = """
    sched_getaffinity sched_setaffinity sched_getcpu memfd_create pidfd_open prctl posix_fadvise O_TMPFILE O_PATH
    eventfd splice setns unshare getrandom copy_file_range CLOCK_BOOTTIME RLIMIT_OFILE RUSAGE_THREAD waitid
    register_at_fork fork malloc_trim MADV_HUGEPAGE SIGRTMIN SIGRTMAX pthread_setaffinity_np sem_init process_cpu_count
""".split()
# Linux and macOS have these, and Windows does not.
OF_POSIX = """
    geteuid getuid sysconf getloadavg killpg setsid getpgrp getpgid uname pread pwrite fchdir mkfifo statvfs WNOHANG
    O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_DIRECTORY SIGKILL SIGSTOP SIGCONT pthread_sigmask sched_yield
    MAP_PRIVATE MAP_ANONYMOUS pthread_create pthread_detach sem_wait sem_post
""".split()
MODULES_OF_POSIX = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")
FOLDERS_OF_LINUX = ("/proc", "/sys", "/dev/shm")


def fake(system: str) -> None:
    """Take from this process what `system`, ``darwin`` or ``win32``, does not have."""
    import concurrent.futures.process  # noqa: F401
    import multiprocessing.connection  # noqa: F401
    import pathlib  # noqa: F401 as below: what looks at the system when it is imported
    import shutil
    import subprocess
    import tempfile

    import numba.np.ufunc.parallel
    import numpy as np  # noqa: F401
    import threadpoolctl

    tempfile._O_TMPFILE_WORKS = False
    threadpoolctl.sys, threadpoolctl.open = _Instead(sys, platform=sys.platform), open
    subprocess._CAN_USE_PIDFD_OPEN = False  # of 3.15
    shutil._winapi = _Instead(shutil, NeedCurrentDirectoryForExePath=lambda command: True)  # of 3.12
    absent = OF_LINUX + (OF_POSIX if system == "win32" else [])
    for module in (os, time, signal, mmap, *map(sys.modules.get, ("resource", "fcntl"))):
        for name in absent:
            if hasattr(module, name):
                delattr(module, name)
    if system == "win32":
        sys.modules.update(dict.fromkeys(MODULES_OF_POSIX))
    _without_folders()
    _without_symbols(absent, numba.types)
    sys.platform, platform.system = system, lambda: {"darwin": "Darwin", "win32": "Windows"}[system]
    platform.machine = lambda: {"darwin": "arm64", "win32": "AMD64"}[system]


class _Instead:
    """A module of which a few names differ."""

    def __init__(self, module: Any, **names: Any) -> None:
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _without_folders() -> None:
    """Have no file below the folders that Linux alone has."""

    def refusing(function: Any) -> Any:
        def refuse(path: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(path, int) and str(os.fspath(path)).startswith(FOLDERS_OF_LINUX):
                raise FileNotFoundError(2, "No such file or directory", str(path))
            return function(path, *args, **kwargs)

        return refuse

    for name in "stat lstat open listdir scandir readlink access chdir".split():
        setattr(os, name, refusing(getattr(os, name)))
    builtins.open = io.open = refusing(io.open)


def _without_symbols(absent: list[str], types: Any) -> None:
    """Have neither ctypes nor compiled kernels find functions of C that the system lacks."""
    find, make = ctypes.CDLL.__getattr__, types.ExternalFunction.__init__

    def lookup(library: Any, name: str) -> Any:
        if name in absent:
            raise AttributeError(f"{name}: symbol not found")
        return find(library, name)

    def declare(function: Any, symbol: str, signature: Any) -> None:
        make(function, f"absent_{symbol}" if symbol in absent else symbol, signature)

    ctypes.CDLL.__getattr__, types.ExternalFunction.__init__ = lookup, declare


if os.environ.get("FAKED_SYSTEM"):
    fake(os.environ["FAKED_SYSTEM"])
