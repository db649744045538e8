"""Settings of a whole process that no product may change: ``python -m tests._support.process_settings``.

It prints the settings that an entry point has changed, by name, or else "right" at its end.
"""

import ctypes
import decimal
import faulthandler
import gc
import importlib
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numba
import numpy as np
import threadpoolctl


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _blas():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}


C = ctypes.CDLL(None)
SETTINGS = {
    "start method of multiprocessing": lambda: multiprocessing.get_start_method(allow_none=True),
    "signal handlers": lambda: [signal.getsignal(number) for number in signal.valid_signals()],
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    "alarm": lambda: signal.getitimer(signal.ITIMER_REAL),
    "filters of warnings": lambda: [*warnings.filters, warnings.showwarning],
    "environment": lambda: dict(os.environ),
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "switch interval, recursion limit": lambda: (sys.getswitchinterval(), sys.getrecursionlimit()),
    "hooks": lambda: (sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook),
    "standard streams": lambda: (sys.stdin, sys.stdout, sys.stderr),
    "importing": lambda: (list(sys.path), list(sys.meta_path), list(sys.path_hooks), sys.getdlopenflags()),
    "tracing": lambda: (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
    "garbage collector": lambda: (gc.isenabled(), gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()),
    "errors of NumPy": lambda: (np.geterr(), np.geterrcall(), np.getbufsize()),
    "printing of NumPy": np.get_printoptions,
    "random numbers": lambda: (random.getstate(), repr(np.random.get_state())),  # noqa: NPY002 those of the process
    "working directory": os.getcwd,
    "folder of temporary files": lambda: tempfile.tempdir,
    "umask": _umask,
    "priority": lambda: os.getpriority(os.PRIO_PROCESS, 0),
    "limits": lambda: {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT")},
    "processors": lambda: os.sched_getaffinity(0),
    "faulthandler": faulthandler.is_enabled,
    "names": lambda: (threading.current_thread().name, Path("/proc/self/comm").read_text()),
    "stack of threads": threading.stack_size,
    "decimal": lambda: repr(decimal.getcontext()),
    "logging": lambda: (logging.root.level, list(logging.root.handlers), logging.root.manager.disable),
    "time-out of sockets": socket.getdefaulttimeout,
    "rounding, subnormal numbers": lambda: (C.fegetround(), float(np.float64(5e-324) * np.float64(1.0))),
    "Numba": lambda: {name: repr(value) for name, value in vars(numba.config).items() if name.isupper()},
    "threads of Numba": lambda: numba.get_num_threads() if numba.np.ufunc.parallel._is_initialized else MOST,
}
SIDE = 170  # large enough for four threads
MOST = numba.config.NUMBA_NUM_THREADS


def main():
    """Use each entry point, and compare the settings with those before it."""
    before, blas = {name: read() for name, read in SETTINGS.items()}, _blas()
    harness, linalg = importlib.import_module("harness"), importlib.import_module("harness.linalg")
    rng = np.random.default_rng(0)
    x, y = rng.random((SIDE, SIDE)), rng.random((SIDE, SIDE))
    calls = {
        "import": lambda: None,
        "gemm": lambda: (harness.gemm(x, y, semiring="min_plus"), harness.gemm(x, y, semiring="min_plus")),
        "gemm, threads=1": lambda: harness.gemm(x, y, threads=1),
        "gemm, C": lambda: harness.gemm(x, y, x.copy(), alpha=2.0, beta=0.5),
        "gemm_argk": lambda: harness.gemm_argk(x, y),
        "gemv": lambda: harness.gemv(x, y[0]),
        "einsum": lambda: harness.einsum("ij,jk,kl->il", x, y, x),
        "closure": lambda: importlib.import_module("harness.paths").closure(x, semiring="min_plus"),
        "qr": lambda: linalg.qr(x),
        "hessenberg": lambda: linalg.hessenberg(x),
        "refine": lambda: linalg.refine(x, y[:, :2]),
        "trsm": lambda: linalg.trsm(np.tril(x) + 9 * np.eye(SIDE), y),
        "free_memory": harness.free_memory,
    }
    registry = importlib.import_module("harness.registry")
    others = {"cpu-numpy", "cpu-packed", "cpu-strassen", "cpu-mkl", "cpu-tropical-gemm", "dist-2d"}
    for entry in registry.discover():
        if entry.name in others and not entry.unavailable():
            semiring = "min_plus" if "tropical" in entry.name else "plus_times"
            calls[entry.name] = lambda b=entry.name, s=semiring: harness.gemm(x, y, semiring=s, backend=b, threads=1)
    is_right = True
    for name, call in calls.items():
        call()
        now = {setting: read() for setting, read in SETTINGS.items()}
        changed = [setting for setting in SETTINGS if now[setting] != before[setting]]
        changed += ["threads of BLAS"] * any(number != _blas()[pool] for pool, number in blas.items())
        if changed:
            is_right = False
            sys.stdout.write(f"{name} changed: {', '.join(changed)}\n")
        before = now
    multiprocessing.set_start_method("spawn")  # a program may choose it after its first product
    sys.stdout.write("right\n" * is_right)


if __name__ == "__main__":
    main()
