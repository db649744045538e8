"""Errors that all ranks raise alike: what they were given is compared before anything is sent.

Otherwise one rank would raise, or expect other messages, and the rest would wait for it for ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from harness.errors import HarnessError, ProblemError

T = TypeVar("T")
ANY_LAUNCHER = "GEMM_HARNESS_ANY_LAUNCHER"


class DistributedError(HarnessError):
    """What the ranks were given is wrong or does not agree. All ranks raise it; rank 0 alone prints it."""


def together(comm: Any, work: Callable[[], T]) -> list[T]:
    """Return what `work` returns on each rank.

    Raises
    ------
    DistributedError
        On all ranks, if it raises a HarnessError on one of them: the error of the lowest.
    """
    try:
        mine: tuple[T | None, HarnessError | None] = work(), None
    except HarnessError as error:
        mine = None, error
    answers = comm.allgather(mine)
    for rank, (_, failure) in enumerate(answers):
        if failure is not None:
            raise_together(comm, f"rank {rank}: {failure.what}", failure.expected, failure.got, failure.fix)
    return [answer for answer, _ in answers]


def check_equal(comm: Any, name: str, values: list[Any], fix: str = "") -> None:
    """Raise DistributedError on all ranks unless all have the same value of `name`."""
    for rank, value in enumerate(values):
        if value != values[0]:
            raise_together(
                comm,
                f"ranks 0 and {rank} do not agree on {name}",
                f"{values[0]} on all ranks",
                f"{value} on rank {rank}",
                fix,
            )


def check_launcher(comm: Any) -> None:
    """Raise DistributedError unless an exception on one rank ends the others, as ``python -m mpi4py`` has it.

    A program that sees to that itself says so by the environment variable GEMM_HARNESS_ANY_LAUNCHER=1.
    """
    is_safe = "mpi4py.run" in sys.modules or os.environ.get(ANY_LAUNCHER) == "1"
    if comm.Get_size() > 1 and not all(comm.allgather(is_safe)):
        raise_together(
            comm,
            "the program was not started by mpi4py: an exception on one rank would leave the others waiting",
            "mpiexec -n P python -m mpi4py program.py",
            "mpiexec -n P python program.py",
            f"add -m mpi4py, or set {ANY_LAUNCHER}=1 if the program calls MPI_Abort itself",
        )


def raise_together(comm: Any, what: str, expected: str = "", got: str = "", fix: str = "") -> None:
    """Raise DistributedError; every rank must call this with the same words. Uncaught, rank 0 alone prints it."""
    if comm.Get_rank():
        _print_no_distributed_error()
    raise DistributedError(what, expected=expected, got=got, fix=fix)


def _print_no_distributed_error() -> None:
    """Have this rank end in silence, with status 1, if nobody catches the error."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, DistributedError):
            before(kind, error, trace)

    sys.excepthook = hook


def as_matrix(name: str, x: Any) -> Any:
    """Return `x` if it is a matrix, or raise ProblemError."""
    if getattr(x, "ndim", None) != 2:
        got = f"{type(x).__name__}{getattr(x, 'shape', '')}"
        raise ProblemError(f"{name} is no matrix", expected="an array of two dimensions", got=got)
    return x
