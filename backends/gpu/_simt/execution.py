"""A program on a GPU by CuPy: operands uploaded and kernels loaded beforehand, then launches one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import load_kernel
from backends.gpu._cuda.queue import CudaQueue, current_queue
from backends.gpu._simt.program import Call, Matrix, Place, Program, Step
from backends.gpu._tensor.tensor_map import TensorMap
from harness.interface import Execution
from harness.operands import Operands


class GpuOperands:
    """The operands of a product in the memory of the current GPU, row by row.

    Host arrays are uploaded; arrays of CuPy are used in place if their rows are contiguous, else copied.

    Attributes
    ----------
    buffers : dict
        ``{"a": ..., "b": ..., "c": ..., "out": ...}``, CuPy arrays; no c without a C.
    is_uploaded : bool
        Whether there are host arrays among them.
    """

    def __init__(self, operands: Operands) -> None:
        inputs = {"a": operands.a, "b": operands.b, "c": operands.c}
        self._inputs = {name: x for name, x in inputs.items() if x is not None}
        self.buffers = {name: _on_device(x) for name, x in self._inputs.items()}
        self.is_uploaded = not all(map(is_on_device, self._inputs.values()))
        self._out = operands.out
        stays = is_on_device(self._out) and _has_contiguous_rows(self._out)
        self.buffers["out"] = self._out if stays else device.empty(self._out.shape, self._out.dtype)

    def upload(self) -> None:
        """Copy the host arrays anew after their values changed, including `out` with its poison."""
        for name, x in {**self._inputs, "out": self._out}.items():
            if not is_on_device(x):
                self.buffers[name][...] = device.upload(x)

    def matrix(self, name: str) -> Matrix:
        """Return the matrix in buffer `name`: its beginning and the distance of its rows."""
        x = self.buffers[name]
        if x is self.buffers["out"]:
            name = "out"  # a C that is the output
        ld = x.strides[0] // x.itemsize if x.shape[0] > 1 else max(x.shape[1], 1)
        return Matrix(Place(name), ld, 16 if x.data.ptr % 16 == 0 else x.itemsize)

    def result(self) -> Any:
        """Return D: as a host array, or as an array of CuPy if `out` is one."""
        produced = self.buffers["out"]
        if not is_on_device(self._out):
            return produced.get()
        if produced is not self._out:
            self._out[...] = produced
        return self._out


class GpuExecution(Execution):
    """A product by a program.

    Parameters
    ----------
    program : Program
    operands : GpuOperands
    """

    def __init__(self, program: Program, operands: GpuOperands) -> None:
        self._operands = operands
        scratch = {name: device.empty((max(size, 1),), dtype) for name, (size, dtype) in program.scratch.items()}
        buffers = operands.buffers | scratch
        self._keep = scratch  # steps know their buffers by address alone
        self._launches = [_bind(step, buffers) for step in program.steps]
        if operands.is_uploaded:  # else the current stream keeps the order without waiting
            device.synchronize()

    @property
    def queue(self) -> CudaQueue:
        """Where `run` launches, as the harness times it."""
        return current_queue()

    def upload(self) -> None:
        """Read the operands anew: their values have changed on the host."""
        self._operands.upload()
        device.synchronize()

    def run(self) -> None:
        """Launch every step on the current stream."""
        for launch in self._launches:
            launch()

    def wait(self) -> None:
        """Return when the current stream has done all of it."""
        device.synchronize()

    def result(self) -> Any:
        """Return D."""
        return self._operands.result()


def _bind(step: Step | Call, buffers: dict[str, Any]) -> Callable[[], object]:
    """Return a function that launches `step`."""
    arguments = tuple(_resolve(x, buffers) for x in step.arguments)
    if isinstance(step, Call):
        return step.bind(*arguments)
    kernel = step.kernel
    function = load_kernel(kernel.stem, kernel.defines, kernel.function, kernel.shared_bytes, kernel.suffix)
    return functools.partial(function, step.grid, kernel.block, arguments, kernel.shared_bytes)


def _resolve(x: Any, buffers: dict[str, Any]) -> Any:
    """Return an argument as a kernel takes it."""
    if isinstance(x, TensorMap):
        return x.encode(int(_address(x.place, buffers)))
    return _address(x, buffers) if isinstance(x, Place) else x


def _address(position: Place, buffers: dict[str, Any]) -> np.uint64:
    buffer = buffers[position.buffer]
    return np.uint64(buffer.data.ptr + position.offset * buffer.itemsize)


def is_on_device(x: Any) -> bool:
    """Return whether `x` is an array on a GPU."""
    return hasattr(x, "__cuda_array_interface__")


def _has_contiguous_rows(x: Any) -> bool:
    rows, columns = x.shape
    is_unit = columns <= 1 or x.strides[1] == x.itemsize
    return bool(is_unit and (rows <= 1 or x.strides[0] >= columns * x.itemsize))


def _on_device(x: Any) -> Any:
    if not is_on_device(x):
        return device.upload(x)
    return x if _has_contiguous_rows(x) else device.cupy().ascontiguousarray(x)
