"""Cases of algorithms on top of products: the backend of the products is what differs between contenders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments._parts.gpu import DEVICE
from harness.experiment import Case, Contender

TASK = "experiments._parts.linalg_task:algorithm"
# Whose the library's own algorithm is, by where it computes.
HOST, GPU = "host", "gpu"
LIBRARIES = {HOST: "LAPACK", GPU: "CUDA libraries"}


def solver(backend: str, label: str = "", threads: int = 1, **options: Any) -> Contender:
    """Return the contender whose products are computed by `backend`, with options of the algorithm."""
    arguments = {"method": backend, "options": options}
    return Contender(label or backend, arguments, threads, TASK)


def library(device: str = "", threads: int = 1) -> Contender:
    """Return the contender that is the library's own algorithm."""
    return Contender(LIBRARIES[_where(device)], {"method": "library", "options": {}}, threads, TASK)


def algorithm_case(
    name: str, n: int, dtype: str, contenders: Sequence[Contender], *, device: str = "", columns: int = 1, **axes: Any
) -> Case:
    """Return the case of one algorithm on a matrix of n rows, on the host or on the GPU."""
    setting = f"{dtype}{', on the GPU' if device else ''}"
    place = {"m": n, "n": n, "k": n, "semiring": "plus_times", "dtype": dtype, "setting": setting}
    arguments = {"name": name, "n": n, "dtype": dtype, "where": _where(device), "columns": columns}
    return Case({**place, **axes, **(DEVICE if device else {})}, tuple(contenders), arguments)


def _where(device: str) -> str:
    return GPU if device else HOST
