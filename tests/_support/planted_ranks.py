"""Semirings that fail on rank 1 of a job, tasks on ranks, and a program that starts a job and says where its ranks are.

The identity of (+) over integers is asked for before anything is compiled, by the parent and by each rank.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import harness
from backends.distributed._job import jobs
from harness import registry
from harness.proof import contract
from harness.run.task import GemmTask, gemm
from harness.semiring import SEMIRINGS, Semiring, highest
from harness.surroundings.files import write_whole
from tests._support.local_function import LocalFunction

LONG_S = 600


def fail(how: str, told: str, dtype: np.dtype) -> object:
    """Return the identity of min, but on rank 1 of a job fail, having written the time to the file `told`."""
    if os.environ.get("PMI_RANK") == "1":
        if told:
            write_whole(Path(told), str(time.monotonic()))  # it fails again while others read the file
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "busy":  # holding the GIL, as a kernel may
            sys.stdout.flush()
            ctypes.PyDLL(None).sleep(LONG_S)
        raise ZeroDivisionError("planted")
    return highest(dtype)


def semiring(how: str, told: str = "") -> Semiring:
    """Return min_plus whose identity fails on rank 1, see `fail`."""
    whole = SEMIRINGS["min_plus"]
    add = dataclasses.replace(whole.add, name="planted", identity=functools.partial(fail, how, told))
    return Semiring(add, whole.multiply, "planted_plus")


def killed_while_timed(*, threads: int, **arguments: Any) -> GemmTask:
    """Return a product on ranks, the last of which is killed before the third call."""
    made, calls = gemm(threads=threads, **arguments), itertools.count(1)
    whole = made.run

    def run() -> None:
        if next(calls) == 3:
            (job,) = jobs._jobs.values()
            os.kill(job.pids[-1], signal.SIGKILL)
        whole()

    made.run = run  # type: ignore[method-assign]
    return made


def findings_of_one_kernel(*, backend: str, **_: Any) -> Iterator[dict[str, str]]:
    """Yield what `harness.proof.contract.findings` does, for one kernel."""
    for finding in contract.check_kernel(registry.find(backend), SEMIRINGS["min_plus"], np.dtype(np.int16)):
        yield dataclasses.asdict(finding)


def fill(share: Any, value: float, names: str = "ab") -> tuple[int, ...]:
    """Fill pieces of a rank; return the shape of that of D."""
    for name in names:
        share.pieces[name][...] = value
    return tuple(share.pieces["d"].shape)


def total(share: Any) -> float:
    """Return the sum of the rank's piece of D."""
    return float(share.pieces["d"].sum())


def slow_down(share: Any, seconds: tuple[float, ...]) -> None:
    """Have each rank wait so long before each part that it computes."""
    stealing, whole = share._stealing, share._stealing._local

    def slow(*arguments: Any) -> None:
        time.sleep(seconds[share.rank])
        whole.ready(*arguments)()

    stealing._local = LocalFunction(slow)


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
