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
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import ml_dtypes
import numpy as np

from harness.api.libraries.gpu import cupy, on_stream

_WORD, _INT = ctypes.c_size_t, ctypes.c_int32
_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13  # XLA_FFI_Extension_Metadata, a stage, an error code
_MAJOR, _MINOR = 0, 1

# XLA_FFI_DataType
_DTYPES = {1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8", 10: "f2", 11: "f4", 12: "f8"}
_NUMPY = {number: np.dtype(name) for number, name in _DTYPES.items()}
_NUMPY |= {15: np.dtype("c8"), 16: np.dtype(ml_dtypes.bfloat16), 18: np.dtype("c16")}

# Function of arrays, which returns an array or a tuple of them.
Function = Callable[..., Any]


class _Head(ctypes.Structure):
    """The beginning of every structure."""

    _fields_: ClassVar[Sequence[tuple[str, Any]]] = (("size", _WORD), ("extension", ctypes.c_void_p))


class _Many(_Head):
    """Operands, or results."""

    _fields_ = (("count", ctypes.c_int64), ("types", ctypes.c_void_p), ("items", ctypes.POINTER(ctypes.c_void_p)))


class _Attributes(_Head):
    _fields_ = (
        ("count", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("items", ctypes.POINTER(ctypes.POINTER(ctypes.c_int64 * 2))),  # of a scalar: its dtype, and where it is
    )


class _Buffer(_Head):
    _fields_ = (("dtype", _INT), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.c_void_p))


class _Version(_Head):
    _fields_ = (("major", ctypes.c_int), ("minor", ctypes.c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (("size", _WORD), ("version", _Version), ("traits", ctypes.c_uint32))


class _Extension(ctypes.Structure):
    _fields_ = (("size", _WORD), ("type", _INT), ("next", ctypes.c_void_p), ("metadata", ctypes.POINTER(_Metadata)))


class _Api(_Head):
    _fields_ = (
        ("version", _Version),
        ("internal", ctypes.c_void_p),
        ("create_error", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 3),
        ("get_stream", ctypes.c_void_p),
    )


class _Frame(_Head):
    _fields_ = (
        ("api", ctypes.POINTER(_Api)),
        ("context", ctypes.c_void_p),
        ("stage", _INT),
        ("operands", _Many),
        ("results", _Many),
        ("attributes", _Attributes),
    )


class _ErrorArguments(_Head):
    _fields_ = (("message", ctypes.c_char_p), ("code", _INT))


class _StreamArguments(_Head):
    _fields_ = (("context", ctypes.c_void_p), ("stream", ctypes.c_void_p))


_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
_Call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def handler(function_of: Callable[[int], Function], *, is_of_gpu: bool) -> Any:
    """Return the handler of a platform: it calls the function whose number the frame has."""

    def handle(pointer: Any) -> int | None:
        frame = pointer.contents
        try:
            if frame.extension:
                _say_version(frame.extension)
            elif frame.stage == _EXECUTE:
                number = ctypes.c_int64.from_address(frame.attributes.items[0].contents[1]).value
                with _stream(frame) if is_of_gpu else contextlib.nullcontext():
                    view = _view_of_gpu if is_of_gpu else _view
                    inputs, outputs = (_arrays(many, view) for many in (frame.operands, frame.results))
                    found = function_of(number)(*inputs)
                    for out, x in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
                        out[...] = x
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


def _say_version(address: int) -> None:
    extension = _Extension.from_address(address)
    if extension.type == _METADATA:
        version = extension.metadata.contents.version
        version.major, version.minor = _MAJOR, _MINOR


def _arrays(many: _Many, view: Callable[..., Any]) -> list[Any]:
    made = []
    for i in range(many.count):
        buffer = _Buffer.from_address(many.items[i])
        shape = tuple((ctypes.c_int64 * buffer.rank).from_address(buffer.dims)) if buffer.rank else ()
        made.append(view(buffer.data, shape, _NUMPY[buffer.dtype]))
    return made


def _view(address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(shape, dtype, memory)


def _view_of_gpu(address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if not address or 0 in shape:
        return cupy().empty(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = cupy().cuda.UnownedMemory(address, size, None)
    return cupy().ndarray(shape, dtype, cupy().cuda.MemoryPointer(memory, 0))


def _stream(frame: _Frame) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which CuPy computes in the stream of the call."""
    arguments = _StreamArguments(ctypes.sizeof(_StreamArguments), None, frame.context, None)
    _Call(frame.api.contents.get_stream)(ctypes.addressof(arguments))
    return on_stream(cupy().cuda.runtime.getDevice(), arguments.stream or 0)


def _error(frame: _Frame, message: str) -> int | None:
    arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(), _INTERNAL)
    created: int | None = _Call(frame.api.contents.create_error)(ctypes.addressof(arguments))
    return created


@functools.cache
def is_available(name: str, function_of: Callable[[int], Function]) -> bool:
    """Register the handlers once, and return whether that was possible."""
    return register(name, function_of)
