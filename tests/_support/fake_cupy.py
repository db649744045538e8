"""Arrays that obey CuPy's protocol as far as the public calls use it, on GPUs that do not exist: NumPy does the work.

Whoever takes one of them for an array of the host is found out: NumPy may not convert them, as it may not CuPy's.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

import numpy as np

from harness.interface import Backend, HostExecution
from harness.operands import Operands
from harness.plan import Plan
from harness.proof.reference import product


class Array:
    """An array on GPU `index`."""

    __module__ = "cupy"

    def __init__(self, values: Any, index: int = 0, mem: Any = None) -> None:
        self.values, self.device, self.mem = np.asarray(values), types.SimpleNamespace(id=index), mem

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)
    strides = property(lambda self: self.values.strides)
    ndim = property(lambda self: self.values.ndim)
    size = property(lambda self: self.values.size)
    itemsize = property(lambda self: self.values.itemsize)
    nbytes = property(lambda self: self.values.nbytes)
    data = property(
        lambda self: types.SimpleNamespace(ptr=self.values.ctypes.data, device_id=self.device.id, mem=self.mem)
    )
    __cuda_array_interface__ = property(lambda self: {"shape": self.shape})

    @property
    def T(self) -> Array:  # noqa: N802 as CuPy calls it
        return Array(self.values.T, self.device.id)

    def swapaxes(self, i: int, j: int) -> Array:
        return Array(self.values.swapaxes(i, j), self.device.id)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __getitem__(self, at: Any) -> Array:
        return Array(self.values[at], self.device.id)

    def __setitem__(self, at: Any, x: Any) -> None:
        self.values[at] = x.values if isinstance(x, Array) else x

    def astype(self, dtype: Any) -> Array:
        return Array(self.values.astype(dtype), self.device.id)

    def __and__(self, bits: int) -> Array:
        return Array(self.values & bits, self.device.id)

    def __mul__(self, factor: float) -> Array:
        return Array(self.values * factor, self.device.id)

    def fill(self, value: Any) -> None:
        self.values.fill(value)

    def set(self, x: np.ndarray) -> None:
        self.values[...] = x

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            return self.values.copy()
        out[...] = self.values
        return out

    def view(self, dtype: Any) -> Array:
        return Array(self.values.view(dtype), self.device.id)


class Gpus:
    """Stands for the module `cupy`; knows which GPU is the current one, and which ones were."""

    __name__ = "cupy"

    def __init__(self) -> None:
        self.current, self.entered = 0, list[int]()
        default = types.SimpleNamespace(ptr=0)
        self.cuda = types.SimpleNamespace(Device=self._device, get_current_stream=lambda: default)
        self.ndarray = Array

    @contextlib.contextmanager
    def _device(self, index: int) -> Any:
        before, self.current = self.current, index
        self.entered.append(index)
        yield
        self.current = before

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        poisoned = np.frombuffer(b"\xa5" * (int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype)
        return Array(poisoned.reshape(shape).copy(), self.current)

    def copysign(self, x: Array, y: Array) -> Array:
        return Array(np.copysign(x.values, y.values), self.current)

    def where(self, where: Array, x: Array, y: Array) -> Array:
        return Array(np.where(where.values, x.values, y.values), self.current)

    def broadcast_to(self, x: Array, shape: tuple[int, ...]) -> Array:
        return Array(np.broadcast_to(x.values, shape), x.device.id)

    def may_share_memory(self, x: Array, y: Array) -> bool:
        return np.may_share_memory(x.values, y.values)


class OnDevice(Backend):
    """Computes by the definition, and takes arrays of these GPUs only."""

    name, step = "gpu-fake", 50
    idea = source = "a test"
    takes = frozenset({"device arrays", "mixed"})

    def plan(self, problem: Any, machine: Any) -> Plan:
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> _Execution:
        return _Execution(plan, operands)


class _Execution(HostExecution):
    def __init__(self, plan: Plan, operands: Any) -> None:
        super().__init__(operands)
        self._plan = plan

    def run(self) -> None:
        given: Any = self.operands
        c = None if given.c is None else given.c.values
        given.out[...] = product(self._plan.problem, given.a.values, given.b.values, c)

    def wait(self) -> None:
        raise AssertionError("nobody waits for the GPU")
