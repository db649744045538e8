"""A module `cupy` whose arrays NumPy computes with, as far as `harness.linalg` uses it, and a backend that takes them.

As in CuPy an array of the host and one of the GPU do not mix, an element of an array is an array of no dimensions, and
only `get` brings it to the host. Only `asarray` takes an array there.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import subprocess
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.interface import Backend, HostExecution, Repeat
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from tests._support.planted_registry import entry_of, plant_entries


class ndarray(np.ndarray):  # noqa: N801 as CuPy calls it
    """An array on GPU 0."""

    device = property(lambda self: types.SimpleNamespace(id=0))  # type: ignore[assignment]
    __cuda_array_interface__ = property(lambda self: {"shape": self.shape})
    data = property(  # type: ignore[assignment]
        lambda self: types.SimpleNamespace(ptr=self.__array_interface__["data"][0], device_id=0)
    )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is not None:
            _refuse(out)
            options["out"] = tuple(map(_plain, out))
        _refuse(inputs)
        done = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return out[0] if out is not None else _on_device(done)

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        _refuse(arguments)
        return _on_device(function(*map(_plain, arguments), **options))

    def __getitem__(self, at: Any) -> Any:
        _refuse(at if isinstance(at, tuple) else (at,))
        return _on_device(_plain(self)[tuple(map(_plain, at)) if isinstance(at, tuple) else _plain(at)])

    def __setitem__(self, at: Any, x: Any) -> None:
        _refuse([x, *(at if isinstance(at, tuple) else (at,))])
        _plain(self)[tuple(map(_plain, at)) if isinstance(at, tuple) else _plain(at)] = _plain(x)

    def max(self, *arguments: Any, **options: Any) -> Any:
        return _on_device(_plain(self).max(*arguments, **options))

    def sum(self, *arguments: Any, **options: Any) -> Any:
        return _on_device(_plain(self).sum(*arguments, **options))

    def get(self, out: Any = None, *, blocking: bool = True) -> np.ndarray:
        if out is None:
            return np.array(_plain(self))
        out[...] = _plain(self)
        return out


ndarray.__module__ = "cupy"


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, ndarray) else x


def _on_device(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_on_device, x))
    return np.asarray(x).view(ndarray) if isinstance(x, np.ndarray | np.generic) else x


def _refuse(arguments: Any) -> None:
    for x in arguments:
        if isinstance(x, np.ndarray) and not isinstance(x, ndarray):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")


class _Module(types.ModuleType):
    """NumPy's functions, with arrays on the GPU."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = getattr(np, name)

        def on_device(*arguments: Any, **options: Any) -> Any:
            _refuse([*arguments, *options.values()])
            options = {key: _plain(x) for key, x in options.items()}
            return _on_device(function(*map(_plain, arguments), **options))

        return on_device


def install(monkeypatch: Any) -> types.ModuleType:
    """Have `sys.modules` hold this as `cupy`, with one backend for its arrays beside those that are registered."""
    import sys

    from harness.linalg import products

    products.forget()
    cupy = _Module("cupy")
    streams = types.SimpleNamespace(ptr=0, synchronize=lambda: None)
    view = lambda x, shape, strides: np.lib.stride_tricks.as_strided(_plain(x), shape, strides).view(ndarray)  # noqa: E731
    cupy.__dict__.update(
        ndarray=ndarray,
        RawKernel=HostKernel,
        asarray=lambda x: _on_device(np.array(x)),
        cuda=types.SimpleNamespace(
            Device=lambda _: contextlib.nullcontext(),
            get_current_stream=lambda: streams,
            alloc_pinned_memory=bytearray,
            Event=lambda **_: types.SimpleNamespace(record=lambda: None, synchronize=lambda: None),
            runtime=types.SimpleNamespace(getDevice=lambda: 0),
        ),
        lib=types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=view)),
        linalg=types.SimpleNamespace(
            qr=lambda x, mode: _on_device(tuple(np.linalg.qr(_plain(x), mode))),
            inv=lambda x: _on_device(np.linalg.inv(_plain(x))),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    solvers = types.ModuleType("cupyx.scipy.linalg")
    solvers.__dict__["lu_factor"] = _lu_factor
    monkeypatch.setitem(sys.modules, "cupyx.scipy.linalg", solvers)
    backend = OnDevice()
    plant_entries(monkeypatch, [entry_of(backend)])
    return cupy


_ON_HOST = """
#include <cmath>
using std::copysign; using std::fabs; using std::fmax; using std::sqrt;
#define LANES 1
#define __device__ static
#define __global__
#define __shared__ static
#define __syncthreads()
#define __shfl_down_sync(mask, x, step) (x)
struct Index { int x; };
static const Index threadIdx{0}, blockDim{1};
static Index blockIdx{0};
extern "C" void set_block(int x) { blockIdx.x = x; }
"""


class HostKernel:
    """A kernel whose loops take any number of threads, run by one thread of the host, block after block."""

    def __init__(self, source: str, name: str, options: tuple[str, ...]) -> None:
        self._library, self._name = _compiled(source, options), name

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        of_scalars = {"i4": ctypes.c_int, "i8": ctypes.c_longlong}
        for number in range(*grid):
            self._library.set_block(number)
            getattr(self._library, self._name)(
                *(
                    ctypes.c_void_p(x.data.ptr) if isinstance(x, ndarray) else of_scalars[x.dtype.str[1:]](int(x))
                    for x in arguments
                )
            )


@functools.cache
def _compiled(source: str, options: tuple[str, ...]) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cpp"
        path.write_text(_ON_HOST + source)
        library = path.with_suffix(".so")
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", *options, str(path), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def _lu_factor(a: Any, *, check_finite: bool) -> tuple[Any, Any]:
    """Return L and U in one (rows, w) array, by columns as CuPy does, and the row that row j was exchanged with."""
    assert not check_finite
    a = _plain(a).copy(order="F")
    pivots = np.empty(a.shape[1], np.intc)
    for j in range(a.shape[1]):
        pivots[j] = pivot = j + np.argmax(np.abs(a[j:, j]))
        a[[j, pivot]] = a[[pivot, j]]
        if a[j, j]:  # as LAPACK, which goes on
            a[j + 1 :, j] /= a[j, j]
            a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
    return _on_device(a), _on_device(pivots)


class OnDevice(Backend):
    """Computes by the library, adds in place, and takes arrays of this GPU only."""

    name, step = "gpu-fake", 50
    idea = source = "a test"
    takes = frozenset({"batch", "device arrays", "mixed"})
    accumulates_in_place = True
    computed: list[Problem]
    repeated: list[Problem]

    def __init__(self) -> None:
        self.computed, self.repeated = [], []

    def plan(self, problem: Any, machine: Any) -> Plan:
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> HostExecution:
        assert all(isinstance(x, ndarray) for x in (*operands.inputs(), operands.out))
        self.computed.append(plan.problem)

        def compute(a: Any, b: Any, *c_and_out: Any) -> None:
            a, b, out = map(_plain, (a, b, c_and_out[-1]))
            wide = a.astype(out.dtype) @ b.astype(out.dtype)
            out[...] = out + wide if plan.problem.accumulate else wide

        given = (operands.a, operands.b, *([operands.out] if plan.problem.accumulate else []), operands.out)
        layouts = [(x.shape, x.dtype, x.strides) for x in given]

        def repeat(*arrays: Any) -> None:
            self.repeated.append(plan.problem)
            compute(*(_at(x.data.ptr, *layout) for x, layout in zip(arrays, layouts, strict=True)))

        repeat.takes_addresses = True  # type: ignore[attr-defined]
        return OnDeviceExecution(operands, lambda: compute(operands.a, operands.b, operands.out), repeat)


def _at(address: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> np.ndarray:
    """Return the array of that layout at an address."""
    steps = [step * (size - 1) for step, size in zip(strides, shape, strict=True)]
    first, last = sum(min(x, 0) for x in steps), sum(max(x, 0) for x in steps)
    memory = (ctypes.c_char * (last - first + dtype.itemsize)).from_address(address + first)
    return np.ndarray(shape, dtype, memory, -first, strides)


class OnDeviceExecution(HostExecution):
    """A product that can be repeated."""

    def __init__(self, operands: Operands, run: Callable[[], None], repeat: Repeat) -> None:
        super().__init__(operands, run)
        self._repeat = repeat

    def repeat(self) -> Repeat:
        return self._repeat
