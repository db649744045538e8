"""XLA's foreign function interface without a compiler: handlers in Python that read a call's frame by `ctypes`.

XLA calls ``handler(frame)``. The frame has the operands and results as buffers, each an address and a shape, and an
attribute, the number of a function in `calls`. When a handler is registered, XLA asks for its version first, by an
extension of the frame. An exception becomes an error of XLA's, which JAX raises.

The structures are those of xla/ffi/api/c_api.h, version 0.1 and later ones, which only add fields at their ends.
NVIDIA's Warp calls its kernels in the same way.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np

from harness.api.libraries.gpu import cupy, on_stream

_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13  # XLA_FFI_Extension_Metadata, a stage, an error code
_VERSION = 0 | 1 << 32  # major and minor, two integers of 32 bits

# Words of 8 bytes of the structures, each of which begins with its size and its extensions.
_API, _CONTEXT, _STAGE, _OPERANDS, _RESULTS, _VALUES, _FRAME = 2, 3, 4, 7, 12, 20, 21  # XLA_FFI_CallFrame
_CREATE_ERROR, _GET_STREAM = 6, 10  # XLA_FFI_Api, which has its version from the third word to the fifth
_NARROW = 0xFFFFFFFF  # an integer of 32 bits in a word

# XLA_FFI_DataType
_DTYPES = {1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8", 10: "f2", 11: "f4", 12: "f8"}
_NUMPY = {number: np.dtype(name) for number, name in _DTYPES.items()}
_NUMPY |= {15: np.dtype("c8"), 16: np.dtype(ml_dtypes.bfloat16), 18: np.dtype("c16")}

# Function of arrays, which returns an array or a tuple of them, or with an attribute `takes_out` writes to its `out`.
Function = Callable[..., Any]


_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_Call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def handler(function_of: Callable[[int], Function], *, is_of_gpu: bool) -> Any:
    """Return the handler of a platform: it calls the function whose number the frame has."""
    view = _view_of_gpu if is_of_gpu else _view

    def handle(address: int) -> int | None:
        frame = _words(address, _FRAME)
        try:
            if frame[1]:
                _say_version(frame[1])
            elif frame[_STAGE] & _NARROW == _EXECUTE:
                (attribute,) = _words(frame[_VALUES], 1)
                (number,) = _words(_words(attribute, 2)[1], 1)
                with _stream(frame) if is_of_gpu else contextlib.nullcontext():
                    _compute(function_of(number), _arrays(frame, _OPERANDS, view), _arrays(frame, _RESULTS, view))
        except BaseException as error:  # noqa: BLE001 none may pass into XLA
            return _error(frame, f"{type(error).__name__}: {error}")
        return None

    return _Handler(handle)


def register(name: str, function_of: Callable[[int], Function]) -> bool:
    """Register handlers of CPU and GPU under one name, and return whether this JAX takes them."""
    if not hasattr(jax, "ffi"):
        return False
    for platform in ("cpu", "CUDA"):
        kept = handler(function_of, is_of_gpu=platform != "cpu")
        _kept.append(kept)
        capsule = jax.ffi.pycapsule(ctypes.cast(kept, ctypes.c_void_p))
        jax.ffi.register_ffi_target(name, capsule, platform=platform)
    return True


_kept: list[Any] = []  # XLA knows them by address alone


@functools.cache
def _kind(count: int) -> Any:
    return ctypes.c_uint64 * count


def _words(address: int, count: int) -> list[int]:
    """Return words of memory."""
    found: list[int] = _kind(count).from_address(address)[:]
    return found


def _say_version(extension: int) -> None:
    _, kind, _, metadata = _words(extension, 4)
    if kind & _NARROW == _METADATA:
        ctypes.c_uint64.from_address(metadata + 8 * 3).value = _VERSION  # after three sizes and extensions


def _compute(function: Function, inputs: list[Any], outputs: list[Any]) -> None:
    if getattr(function, "takes_out", False):
        function(*inputs, out=outputs[0])
        return
    found = function(*inputs)
    for out, x in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
        out[...] = x


def _arrays(frame: list[int], at: int, view: Callable[..., Any]) -> list[Any]:
    """Return the operands, or the results, as arrays."""
    count, _, items = frame[at : at + 3]
    made = []
    for buffer in _words(items, count) if count else ():
        _, _, dtype, data, rank, dims = _words(buffer, 6)
        made.append(view(data, tuple(_words(dims, rank)) if rank else (), _NUMPY[dtype & _NARROW]))
    return made


def _view(address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(shape, dtype, memory)


def _view_of_gpu(address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if not address or 0 in shape:
        return cupy().empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = cupy().cuda.UnownedMemory(address, size, None)
    return cupy().ndarray(shape, dtype, cupy().cuda.MemoryPointer(memory, 0))


def _stream(frame: list[int]) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which CuPy computes in the stream of the call."""
    arguments = _kind(4)(4 * 8, 0, frame[_CONTEXT], 0)
    _call(frame, _GET_STREAM, arguments)
    return on_stream(cupy().cuda.runtime.getDevice(), arguments[3])


def _error(frame: list[int], message: str) -> int | None:
    text = ctypes.create_string_buffer(message.encode())
    return _call(frame, _CREATE_ERROR, _kind(4)(4 * 8, 0, ctypes.addressof(text), _INTERNAL))


def _call(frame: list[int], which: int, arguments: Any) -> int | None:
    """Call a function of XLA's table of them."""
    (function,) = _words(frame[_API] + 8 * which, 1)
    found: int | None = _Call(function)(ctypes.addressof(arguments))
    return found


@functools.cache
def is_available(name: str, function_of: Callable[[int], Function]) -> bool:
    """Register the handlers once, and return whether that was possible."""
    return register(name, function_of)
