"""The software by which ranks send: names and versions, for records of what was measured."""

from __future__ import annotations

import sys
from typing import Any


def software() -> dict[str, str]:
    """Return versions by name: ``"mpi"``, as ``"MPICH 5.0.2"``, ``"mpi4py"``, and ``"nccl"`` where CuPy has loaded it.

    Starts MPI if it has not been started.
    """
    import mpi4py
    from mpi4py import MPI

    library, version = MPI.get_vendor()
    return {"mpi": f"{library} {'.'.join(map(str, version))}", "mpi4py": mpi4py.__version__, **_nccl()}


def _nccl() -> dict[str, str]:
    nccl: Any = getattr(getattr(sys.modules.get("cupy"), "cuda", None), "nccl", None)
    if not getattr(nccl, "available", False):
        return {}
    number = int(nccl.get_version())
    return {"nccl": f"{number // 10000}.{number // 100 % 100}.{number % 100}"}
