"""The launcher of a job, ``mpiexec``: whether there is one, its library, and what it needs in the environment."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from harness.surroundings import is_there

# Environment of a process that is itself a rank of a job: MPICH and Slurm, Open MPI, Intel MPI.
_OF_A_RANK = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
# Open MPI refuses to run as root, and more ranks than cores, unless it is told; other libraries read none of these.
PERMISSIONS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_osc": "^ucx",
}
_LIBRARIES = ("libmpi.so.12", "libmpi.so.40")  # of MPICH and its kin, of Open MPI


def missing() -> str | None:
    """Return why no job can be started here, or None."""
    if any(name in os.environ for name in _OF_A_RANK):
        return "this process is a rank of an MPI job itself: call harness.distributed.gemm"
    if not hasattr(os, "memfd_create"):
        return "ranks share memory by memfd_create, which this system has not: Linux has"
    try:
        _find_mpi4py()
    except ModuleNotFoundError:
        return "mpi4py is not installed: pip install mpi4py mpich, or mpi4py alone beside an MPI library"
    return None if mpiexec() else "no mpiexec in the environment or on PATH: pip install mpich"


@functools.cache
def _find_mpi4py() -> None:
    """Raise ModuleNotFoundError unless mpi4py is installed. That it is will be remembered: to look takes 0.1 ms."""
    if importlib.util.find_spec("mpi4py") is None:
        raise ModuleNotFoundError


def mpiexec() -> str | None:
    """Return the path of ``mpiexec``: the one beside this interpreter, else the first on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if is_there(beside) else shutil.which("mpiexec")


def library(launched_by: str) -> dict[str, str]:
    """Return the variable by which mpi4py loads the library that lies beside a launcher; empty where none does.

    By itself mpi4py takes the first that the dynamic linker knows, which may belong to another launcher.
    """
    folder = Path(launched_by).parent.parent / "lib"
    beside = (folder / name for name in _LIBRARIES)
    return next(({"MPI4PY_LIBMPI": str(path)} for path in beside if is_there(path)), {})
