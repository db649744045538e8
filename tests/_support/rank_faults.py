"""Faults and bad arguments on ranks; ``mpiexec -n P python -m mpi4py`` runs it, with their names as arguments.

Prints the files of MPICH that the job has, so that a test may see that they have gone, and the time at which faults
begin, by the clock that all processes of a system share.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from unittest import mock

import numpy as np
from mpi4py import MPI

from harness.distributed import gemm
from harness.distributed.agreement import _printed_elsewhere
from harness.distributed.transport.mpi import Fibre
from harness.distributed.transport.segments import _opened
from harness.errors import HarnessError
from harness.semiring import Semiring
from tests._support.local_function import LocalFunction

COMM = MPI.COMM_WORLD
ROWS = 6


def planted(*_):
    """Fail on rank 1, in the way that the argument names."""
    if COMM.rank != 1:
        return
    if FAULT == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "segfault":
        ctypes.string_at(0)
    raise ZeroDivisionError("planted")


def local_product(problem, backend, threads):
    """Return a local product that needs no compiling, and fails on rank 1."""

    def local(a, b, c, alpha, beta, out):
        planted()
        np.matmul(a, b, out=out)

    return LocalFunction(local)


def fails_in_a_thread(self, *arguments):
    """Gather, but fail on rank 1."""
    planted()
    return GATHER(self, *arguments)


GATHER = Fibre.gather
RANK_1 = COMM.rank == 1


def nearest(factor):
    """Return a semiring whose functions have other constants for another factor, and the same name."""
    multiply = {1: lambda x, y: 1.0 * abs(x - y), 2: lambda x, y: 2.0 * abs(x - y)}[factor]
    return Semiring.from_functions("nearest", min, multiply, zero=np.inf, kinds="f")


ARGUMENTS = {
    "shape": {"a": np.ones((ROWS, ROWS + RANK_1))},
    "inner": {"b": np.ones((ROWS + 1, ROWS))},
    "dtype": {"a": np.ones((ROWS, ROWS * COMM.size), "f4" if RANK_1 else "f8"), "b": np.ones((ROWS, 3), "f4")},
    "semiring of one": {"semiring": "min_plus" if RANK_1 else "max_plus"},
    "functions": {"semiring": nearest(1 + RANK_1)},
    "option": {"panel": 1 + RANK_1},
    "c": {"c": np.ones((ROWS, 3)) if RANK_1 else None},
    "no a": {"a": None},
    "vector": {"a": np.ones(ROWS)},
    "masked": {"a": np.ma.ones((ROWS, ROWS * COMM.size)) if RANK_1 else np.ones((ROWS, ROWS * COMM.size))},
    "rates": {"rates": 1e9},
    "grid": {"grid": f"{COMM.size}x2x1"},
    "grid text": {"grid": "2by2"},
    "cap": {"memory_cap": 100},
    "cap of a grid": {"memory_cap": 100, "grid": f"{COMM.size}x1x1"},
    "layout": {"layout": "diagonal"},
    "blocks": {"layout": "blocks"},
    "out": {"out": np.ones((ROWS + RANK_1, 3))},
    "out of others": {"layout": "root", "out": np.ones((ROWS, 3)), **({"a": None, "b": None} if COMM.rank else {})},
    "local": {"local": "cpu-smid"},
    "semiring": {"semiring": "min_pluss"},
    "threads": {"threads": 10_000},
    "panel": {"panel": -1},
    "in flight": {"in_flight": 0},
    "reduction": {"reduction": "tree"},
    "transport": {"transport": "pigeon"},
    "engine": {"transport": "nccl"},
    "domains": {"transport": "shared"},
    "communicator": {"comm": "COMM_WORLD"},
    "null": {"comm": MPI.COMM_NULL},
}


def call(fault):
    """Compute, with one thing wrong."""
    options = {
        "a": np.ones((ROWS, ROWS * COMM.size)),
        "b": np.ones((ROWS, 3)),
        "comm": COMM,
        **ARGUMENTS.get(fault, {}),
    }
    if fault == "intercommunicator":
        half = COMM.Split(COMM.rank % 2, COMM.rank)
        options["comm"] = half.Create_intercomm(0, COMM, 1 - COMM.rank % 2)
    if fault in {"killed", "segfault", "raises"}:
        with mock.patch("harness.distributed.spmd.host_local", local_product):
            gemm(**options)
    if fault == "domains":
        with mock.patch("harness.distributed.spmd.memory_domain", return_value=f"host {COMM.rank}"):
            gemm(**options)
    if fault == "thread":
        with mock.patch.object(Fibre, "gather", fails_in_a_thread):
            gemm(**options, panel=1, in_flight=2, grid=f"1x{COMM.size}x1", transport="mpi")
    gemm(**options)


def caught(fault):
    """Return the message of what is raised on this rank, and whether the rank would print it; None: nothing is."""
    try:
        call(fault)
    except HarnessError as error:
        return str(error), error not in _printed_elsewhere
    return None


def main(*faults):
    """Do one thing wrong; of several catch what each raises, print it, and then compute one right product."""
    if COMM.rank == 0:
        sys.stdout.write("".join(f"opened {name}\n" for name in _opened()) + f"begun {time.monotonic()}\n")
        sys.stdout.flush()
    if len(faults) == 1:
        call(*faults)
    errors = {fault: COMM.gather(caught(fault)) for fault in faults}
    d, _ = gemm(np.ones((ROWS, ROWS * COMM.size)), np.ones((ROWS, 3)), comm=COMM, local="cpu-numpy")
    assert (d == ROWS * COMM.size).all()
    if COMM.rank == 0:
        sys.stdout.write(json.dumps(errors) + "\n")


if __name__ == "__main__":
    FAULT = sys.argv[1]
    main(*sys.argv[1:])
