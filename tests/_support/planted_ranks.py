"""Semirings that fail on rank 1 of a job, and a program that starts a job and says where its ranks are.

The identity of (+) over integers is asked for before anything is compiled, by the parent and by each rank.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import signal
import sys

import numpy as np

import harness
from backends.distributed._job import jobs
from harness.semiring import SEMIRINGS, Semiring, highest

LONG_S = 600


def fail(how: str, dtype: np.dtype) -> object:
    """Return the identity of min, but on rank 1 of a job fail."""
    if os.environ.get("PMI_RANK") == "1":
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "busy":  # holding the GIL, as a kernel may
            sys.stdout.flush()
            ctypes.PyDLL(None).sleep(LONG_S)
        raise ZeroDivisionError("planted")
    return highest(dtype)


def semiring(how: str) -> Semiring:
    """Return min_plus whose identity fails on rank 1."""
    whole = SEMIRINGS["min_plus"]
    add = dataclasses.replace(whole.add, name="planted", identity=functools.partial(fail, how))
    return Semiring(add, whole.multiply, "planted_plus")


def main(how: str) -> None:
    """Start a job; write the numbers of its ranks; then wait, or compute for ever."""
    x = np.arange(36).reshape(6, 6)
    harness.gemm(x, x, backend="dist-2d", semiring="plus_times")
    (job,) = jobs._jobs.values()
    sys.stdout.write(" ".join(map(str, job.pids)) + "\n")
    sys.stdout.flush()
    if how == "busy":
        harness.gemm(x, x, backend="dist-2d", semiring=semiring("busy"))
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
