"""Errors that all ranks raise alike: what they were given is compared before anything is sent.

Otherwise one rank would raise, or expect other messages, and the rest would wait for it for ever.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
import zlib
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, TypeVar

from harness.distributed.transport.segments import forget_names
from harness.errors import HarnessError, ProblemError
from harness.semiring import Semiring

T = TypeVar("T")
ANY_LAUNCHER = "GEMM_HARNESS_ANY_LAUNCHER"
TO_PRINT_S = 1.0  # what rank 0 is given to print an error before others end


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


def check_equal(comm: Any, name: str, values: list[Any]) -> None:
    """Raise DistributedError on all ranks unless all have the same value of `name`."""
    for rank, value in enumerate(values):
        if value != values[0]:
            raise_together(
                comm,
                f"ranks 0 and {rank} do not agree on {name}",
                f"{values[0]} on all ranks",
                f"{value} on rank {rank}",
            )


def identify(semiring: Semiring) -> str:
    """Return the name of a semiring, and of one with functions of the user's own a checksum of their code.

    Ranks may import different versions of it. What its functions call or close over is not looked at.
    """
    if semiring.is_tabled:
        return semiring.name
    functions = semiring.add.function, semiring.multiply.function
    return f"{semiring.name}, whose code has checksum {zlib.crc32(repr([*map(_code, functions)]).encode()):08x}"


def _code(function: Any) -> Any:
    """Return what the interpreter executes, as plain data: of a function, or of code within one."""
    code = getattr(getattr(function, "py_func", function), "__code__", function)
    if not isinstance(code, CodeType):
        return "" if callable(code) else code
    return code.co_code, code.co_names, [_code(constant) for constant in code.co_consts]


def check_communicator(comm: Any) -> None:
    """Raise DistributedError unless `comm` is a communicator of MPI among the ranks of one group."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # not installed; or its MPI library is not found
        raise DistributedError(
            "distributed.gemm needs MPI",
            expected="mpi4py, and an MPI library",
            got=str(error),
            fix="pip install mpi4py mpich",
        ) from None
    forget_names()
    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
        raise DistributedError(
            "comm is no communicator among the ranks of one group",
            expected="mpi4py.MPI.COMM_WORLD, or what its Split returns",
            got="MPI.COMM_NULL" if isinstance(comm, MPI.Comm) and comm == MPI.COMM_NULL else repr(comm),
            fix="merge an intercommunicator by Merge()" if isinstance(comm, MPI.Intercomm) else "",
        )


def check_thread_level() -> None:
    """Raise ProblemError unless MPI lets a thread gather while the main one computes."""
    from mpi4py import MPI

    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise ProblemError(
            "in_flight: MPI was started for one thread",
            expected="MPI.THREAD_SERIALIZED or more",
            got=f"thread level {MPI.Query_thread()}",
            fix="in_flight=1, or leave mpi4py.rc.thread_level alone",
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
    error = DistributedError(what, expected=expected, got=got, fix=fix)
    if comm.Get_rank():
        _be_silent_about(error)
    raise error


_printed_elsewhere: weakref.WeakSet[DistributedError] = weakref.WeakSet()
_hooks: list[Callable[..., None]] = []  # ours, once it is installed


def _be_silent_about(error: DistributedError) -> None:
    """Have this rank end without a word if nobody catches `error`, and not before rank 0 has printed it."""
    _printed_elsewhere.add(error)
    if sys.excepthook in _hooks:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], uncaught: BaseException, trace: TracebackType | None) -> None:
        if uncaught in _printed_elsewhere:
            time.sleep(TO_PRINT_S)  # the first rank that ends has the launcher kill the others
        else:
            before(kind, uncaught, trace)

    _hooks[:] = [hook]
    sys.excepthook = hook


def as_matrix(name: str, x: Any) -> Any:
    """Return `x` if it is a matrix, or raise ProblemError."""
    if getattr(x, "ndim", None) != 2:
        got = f"{type(x).__name__}{getattr(x, 'shape', '')}"
        raise ProblemError(f"{name} is no matrix", expected="an array of two dimensions", got=got)
    return x
