"""Arrays that processes of one host share, in memory that has no name in the file system.

Nothing is left behind however the processes end: the memory goes with the last of them. Linux alone has `memfd_create`.
"""

from __future__ import annotations

import functools
import mmap
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAGE_BYTES, LINE_BYTES = 4096, 64


@dataclass(frozen=True)
class SharedForm:
    """What another process needs to map a shared array."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    padded: bool


class SharedArray:
    """A C-ordered array in shared memory.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy dtype
    padded : bool
        Whether rows that would lie whole pages apart, and so share cache sets, lie a cache line further apart.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, padded: bool = False) -> None:
        size, self._padded = max(1, int(np.prod(_room(shape, dtype, padded))) * dtype.itemsize), padded
        self._descriptor = os.memfd_create("gemm-harness")
        # The soft limit on the size of files holds for this memory too, though nothing is printed to it.
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        try:
            os.ftruncate(self._descriptor, size)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.array = _mapped(self._descriptor, shape, dtype, padded)

    @property
    def form(self) -> SharedForm:
        """How another process maps it, as long as this one has not closed it."""
        return SharedForm(
            f"/proc/{os.getpid()}/fd/{self._descriptor}", self.array.shape, self.array.dtype, self._padded
        )

    def close(self) -> None:
        """Let no other process map it any more. Who has mapped it keeps it, this process too."""
        os.close(self._descriptor)


def attach(form: SharedForm) -> np.ndarray:
    """Return the shared array that another process has made."""
    descriptor = os.open(form.path, os.O_RDWR)
    try:
        return _mapped(descriptor, form.shape, form.dtype, form.padded)
    finally:
        os.close(descriptor)


def allocate_shared(comm: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialised array that the ranks of `comm` have in common; all must call it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Ranks with the same `memory_domain`.
    shape : tuple of int
    dtype : numpy dtype
    """
    own = SharedArray(shape, dtype) if comm.Get_rank() == 0 else None
    form = comm.bcast(None if own is None else own.form)
    array = attach(form) if own is None else own.array
    comm.Barrier()  # all have mapped it
    if own is not None:
        own.close()
    return array


@functools.cache
def memory_domain() -> str:
    """Return what processes that can share memory have in common; empty: this one can share none.

    A process opens the memory of another by ``/proc``, which takes the same kernel, numbering of processes and user.
    """
    if not hasattr(os, "memfd_create"):
        return ""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{kernel} {Path('/proc/self/ns/pid').readlink()} {os.geteuid()}"
    except OSError:
        return ""


def _room(shape: tuple[int, ...], dtype: np.dtype[Any], padded: bool) -> tuple[int, ...]:
    """Return the shape of the memory of an array: its own, or that with longer rows."""
    row = shape[-1] * dtype.itemsize
    is_longer = padded and row > 0 and row % PAGE_BYTES == 0
    return (*shape[:-1], shape[-1] + LINE_BYTES // dtype.itemsize) if is_longer else shape


def _mapped(descriptor: int, shape: tuple[int, ...], dtype: np.dtype[Any], padded: bool) -> np.ndarray:
    memory, room = mmap.mmap(descriptor, os.fstat(descriptor).st_size), _room(shape, dtype, padded)
    return np.frombuffer(memory, dtype, int(np.prod(room))).reshape(room)[..., : shape[-1]]
