"""The task of a product from arrays of the host on a GPU, taken apart: allocate, copy, compute, copy back, free.

    pageable          ordinary arrays, memory of the GPU allocated and freed by every call
    pinned by a call  the call page-locks the arrays first, and undoes it at the end
    pinned            arrays that were page-locked before
    kept              those, and memory of the GPU that was allocated before

Each stage is waited for, so nothing overlaps and the stages add up. The first call of a process also starts the GPU and
loads the library, the kernels and their plan.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from experiments._parts.stages_clock import StagesClock
from harness import machine, registry
from harness.interface import prepare
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.proof.verify import verify
from harness.timing.clock import timed

PAGEABLE, PINNED_BY_A_CALL, PINNED, KEPT = MEMORIES = ("pageable", "pinned by a call", "pinned", "kept")
_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyKind


class BrokenDown:
    """One product by a backend of the GPU, from arrays of the host, stage by stage.

    Parameters
    ----------
    backend : str
    problem : Problem
    memory : str
        One of `MEMORIES`.
    seed : int
    """

    def __init__(self, backend: str, problem: Problem, memory: str, seed: int) -> None:
        self._problem, self._memory, self._seed = problem, memory, seed
        drawn = Operands.generate(problem, seed)
        self._arrays = tuple(_on_own_pages(x) for x in (drawn.a, drawn.b, drawn.out))
        self._host = Operands(*self._arrays[:2], None, self._arrays[2])
        self.stages: dict[str, float] = {}
        with self._timed("start of the GPU"):
            device.cupy().cuda.runtime.free(0)  # makes the context
        if memory in (PINNED, KEPT):
            self._pin()
        self._kept: list[Any] | None = None
        with self._timed("load"):
            self._backend = registry.admit(backend, problem)
            self._plan: Plan = self._backend.plan(problem, machine.detect())
        self._repeat: Any = None
        self._call()
        self.first_call_s = self.stages
        if memory == KEPT:
            self._kept = self._allocate()

    def run(self) -> None:
        """Do all stages of a warm call."""
        self.stages = {}
        self._call()

    def _timed(self, stage: str) -> AbstractContextManager[None]:
        """Return the context that times a stage, which may come several times, until the GPU has done it."""
        return timed(self.stages, stage, device.cupy().cuda.runtime.deviceSynchronize)

    def _call(self) -> None:
        """Do all stages of a call, and add their seconds."""
        copy, (a, b, out) = device.cupy().cuda.runtime.memcpy, self._arrays
        if self._memory == PINNED_BY_A_CALL:
            with self._timed("pin"):
                self._pin()
        on_gpu = self._kept
        if on_gpu is None:
            with self._timed("allocate"):
                on_gpu = self._allocate()
        with self._timed("host to device"):
            for target, source in zip(on_gpu, (a, b), strict=False):
                copy(target.data.ptr, source.ctypes.data, source.nbytes, _TO_DEVICE)
        if self._repeat is None:
            with self._timed("load"):
                self._repeat = self._prepared(*on_gpu)
        with self._timed("compute"):
            self._repeat(*on_gpu)
        with self._timed("device to host"):
            copy(out.ctypes.data, on_gpu[-1].data.ptr, out.nbytes, _TO_HOST)
        if self._kept is None:
            with self._timed("free"):
                on_gpu.clear()  # nothing else refers to them
        if self._memory == PINNED_BY_A_CALL:
            with self._timed("unpin"):
                self._unpin()

    def _prepared(self, a: Any, b: Any, out: Any) -> Any:
        """Return the product of arrays on the GPU as a function of them, its kernels loaded."""
        return prepare(self._backend, self._plan, Operands(a, b, None, out)).repeat()

    def _allocate(self) -> list[Any]:
        """Return new arrays on the GPU for A, B and D, of memory from the driver, not from a pool."""
        with device.cupy().cuda.using_allocator(None):
            return [device.empty(x.shape, x.dtype) for x in self._arrays]

    def _pin(self) -> None:
        for x in self._arrays:
            device.cupy().cuda.runtime.hostRegister(x.ctypes.data, x.nbytes, 0)

    def _unpin(self) -> None:
        for x in self._arrays:
            device.cupy().cuda.runtime.hostUnregister(x.ctypes.data)

    def wait(self) -> None:
        """Return: every stage has been waited for."""

    def clock(self) -> StagesClock:
        """Return the clock of the host, which reads the stages."""
        return StagesClock(lambda _: self.stages, "ns")

    def spoil(self) -> None:
        """Overwrite the last result."""
        self._host.out.view(np.uint8)[...] = 0x7B

    def verify(self) -> str:
        """Compare the last result with the definition."""
        return verify(self._problem, self._host, self._host.out, seed=self._seed)

    def facts(self) -> dict[str, Any]:
        """Return the work of one call, and the stages of the first one in seconds."""
        copied = {"bytes_copied": sum(x.nbytes for x in self._arrays), "first_call_s": self.first_call_s}
        return {**self._problem.work, "plan": self._plan.to_json(), **copied}


def _on_own_pages(x: np.ndarray) -> np.ndarray:
    """Return a copy that shares no page with anything else: pages are what is locked."""
    room = np.empty(x.nbytes + 2 * mmap.PAGESIZE, np.uint8)
    begin = -room.ctypes.data % mmap.PAGESIZE
    copy = room[begin : begin + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def product(*, problem: Mapping[str, Any], backend: str, memory: str, seed: int, threads: int) -> BrokenDown:
    """Prepare one.

    Raises
    ------
    Declined
        If there is no GPU, or the backend declines the product.
    """
    decoded = Problem.from_json(dict(problem))
    registry.admit(backend, decoded)
    return BrokenDown(backend, decoded, memory, seed)
