"""A program under MPI whose backend sleeps while it is loaded and while it prepares; it prints where the time went.

mpiexec -n P python -m mpi4py rank_preparing.py LOAD_S PREPARE_S
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from mpi4py import MPI

from harness.distributed import gemm, local, spmd

ROWS = 4


def after(seconds: float, whole: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that sleeps before it does what `whole` does."""

    def slow(*arguments: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return whole(*arguments, **options)

    return slow


def main(load_s: float, prepare_s: float) -> None:
    """Compute one product, and print the report's seconds and its lines."""
    comm = MPI.COMM_WORLD
    a, b = np.ones((ROWS, ROWS * comm.size)), np.ones((ROWS, 3))
    gemm(a, b, comm=comm, local="cpu-numpy")  # loads what is really to be loaded
    with (
        mock.patch.object(spmd, "choose", after(load_s, spmd.choose)),
        mock.patch.object(local, "prepare", after(prepare_s, local.prepare)),
    ):
        _, report = gemm(a, b, comm=comm, local="cpu-numpy")
    if comm.rank == 0:
        told = {"prepare": report.prepare_s, "exposed": report.exposed_s, "stages": report.stages_s}
        sys.stdout.write(json.dumps({**told, "total": report.total_s, "lines": dict(report.rows())}))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
