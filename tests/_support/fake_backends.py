"""Backends for arrays of `fake_arrays`, and what CuPy has beside arrays for the algorithms of linear algebra."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
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
from harness.proof.reference import product
from tests._support.fake_arrays import Array, Cupy
from tests._support.planted_registry import entry_of, plant_entries


class OnDevice(Backend):
    """Computes by the definition, and takes arrays of these GPUs only."""

    name, step = "gpu-fake", 50
    idea = source = "a test"
    takes = frozenset({"device arrays", "mixed"})

    def plan(self, problem: Any, machine: Any) -> Plan:
        return Plan(problem, 1)

    def prepare(self, plan: Plan, operands: Operands) -> HostExecution:
        def compute() -> None:
            given: Any = operands
            c = None if given.c is None else given.c.values
            out = given.out.values if isinstance(given.out, Array) else given.out
            out[...] = product(plan.problem, given.a.values, given.b.values, c)

        return _Execution(operands, compute)


class _Execution(HostExecution):
    def wait(self) -> None:
        raise AssertionError("nobody waits for the GPU")


class Remembering(OnDevice):
    """Computes by the library, adds in place, repeats a product by addresses, and notes what it computes."""

    takes = frozenset({"batch", "device arrays", "mixed"})
    accumulates_in_place = True

    def __init__(self) -> None:
        self.computed, self.repeated = list[Problem](), list[Problem]()

    def prepare(self, plan: Plan, operands: Operands) -> HostExecution:
        assert all(isinstance(x, Array) for x in (*operands.inputs(), operands.out))
        self.computed.append(plan.problem)

        def compute(a: Any, b: Any, *c_and_out: Any) -> None:
            out = c_and_out[-1]
            wide = a.astype(out.dtype) @ b.astype(out.dtype)
            out[...] = out + wide if plan.problem.accumulate else wide

        given: Any = (operands.a, operands.b, *([operands.out] if plan.problem.accumulate else []), operands.out)
        layouts = [(x.shape, x.dtype, x.strides) for x in given]

        def repeat(*arrays: Any) -> None:
            self.repeated.append(plan.problem)
            compute(*(_at(x.data.ptr, *layout) for x, layout in zip(arrays, layouts, strict=True)))

        def at(addresses: list[int], stream: int | None = None) -> None:
            self.repeated.append(plan.problem)
            compute(*(_at(x, *layout) for x, layout in zip(addresses, layouts, strict=True)))

        repeat.takes_addresses, repeat.at = True, at  # type: ignore[attr-defined]
        return _Repeated(operands, lambda: compute(*(x.values for x in given)), repeat)


class _Repeated(HostExecution):
    """A product that can be repeated."""

    def __init__(self, operands: Operands, run: Callable[[], None], repeat: Repeat) -> None:
        super().__init__(operands, run)
        self._repeat = repeat

    def repeat(self) -> Repeat:
        return self._repeat


def _at(address: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> np.ndarray:
    """Return the array of that layout at an address."""
    steps = [step * (size - 1) for step, size in zip(strides, shape, strict=True)]
    first, last = sum(min(x, 0) for x in steps), sum(max(x, 0) for x in steps)
    memory = (ctypes.c_char * (last - first + dtype.itemsize)).from_address(address + first)
    return np.ndarray(shape, dtype, memory, -first, strides)


def install(monkeypatch: Any) -> Cupy:
    """Have `sys.modules` hold CuPy with its solvers, and one backend for its arrays be the only one."""
    from harness.linalg import products

    products.forget()
    cupy: Any = Cupy()
    view = lambda x, shape, strides: Array(np.lib.stride_tricks.as_strided(x.values, shape, strides))  # noqa: E731
    vars(cupy).update(
        RawKernel=HostKernel,
        lib=types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=view)),
        linalg=types.SimpleNamespace(
            qr=lambda x, mode: tuple(map(Array, np.linalg.qr(x.values, mode))),
            inv=lambda x: Array(np.linalg.inv(x.values)),
        ),
    )
    vars(cupy.cuda).update(
        alloc_pinned_memory=bytearray,
        Event=lambda **_: types.SimpleNamespace(record=lambda: None, synchronize=lambda: None),
    )
    solvers = types.ModuleType("cupyx.scipy.linalg")
    solvers.__dict__["lu_factor"] = _lu_factor
    for name, module in (("cupy", cupy), ("cupyx.scipy.linalg", solvers)):
        monkeypatch.setitem(sys.modules, name, module)
    plant_entries(monkeypatch, [entry_of(Remembering())])
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
        self._library, self._name = compiled(source, options), name

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        of_scalars = {"i4": ctypes.c_int, "i8": ctypes.c_longlong}
        for number in range(*grid):
            self._library.set_block(number)
            getattr(self._library, self._name)(
                *(
                    ctypes.c_void_p(x.data.ptr) if isinstance(x, Array) else of_scalars[x.dtype.str[1:]](int(x))
                    for x in arguments
                )
            )


@functools.cache
def compiled(source: str, options: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Return a library of kernels whose loops take any number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cpp"
        path.write_text(_ON_HOST + source)
        library = path.with_suffix(".so")
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", *options, str(path), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def _lu_factor(a: Array, *, check_finite: bool) -> tuple[Array, Array]:
    """Return L and U in one (rows, w) array, by columns as CuPy does, and the row that row j was exchanged with."""
    assert not check_finite
    lu = a.values.copy(order="F")
    pivots = np.empty(lu.shape[1], np.intc)
    for j in range(lu.shape[1]):
        pivots[j] = pivot = j + np.argmax(np.abs(lu[j:, j]))
        lu[[j, pivot]] = lu[[pivot, j]]
        if lu[j, j]:  # as LAPACK, which goes on
            lu[j + 1 :, j] /= lu[j, j]
            lu[j + 1 :, j + 1 :] -= np.outer(lu[j + 1 :, j], lu[j, j + 1 :])
    return Array(lu), Array(pivots)
