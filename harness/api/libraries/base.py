"""A library beside NumPy and CuPy, of which nothing more is known than that its arrays speak DLPack."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Collection, Hashable
from typing import Any, Self

import numpy as np

from harness.api.libraries.dlpack import AsUnsigned
from harness.api.libraries.gpu import cupy, in_flight, named
from harness.dtypes import TABLE, is_float8, named_dtype
from harness.operands import aligned_empty

# Where an array lies: the number of a GPU, or None for the host.
Place = int | None

# Devices of DLPack (dlpack.h, DLDeviceType): the host, CUDA, pinned and managed memory of CUDA.
_CPU, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13


class Address:
    """Where an array on a GPU begins, and how it lies: a remembered product is found by it as by an array of CuPy."""

    __slots__ = ("device_id", "dtype", "ptr", "shape", "strides")

    def __init__(self, dtype: Any, shape: Any, strides: tuple[int, ...], device_id: int, ptr: int) -> None:
        self.dtype, self.shape, self.strides, self.device_id, self.ptr = dtype, shape, strides, device_id, ptr

    @property
    def data(self) -> Self:
        """Return itself, the holder of `ptr`."""
        return self


class Library:
    """A library of which no more is known than that its arrays speak DLPack.

    Parameters
    ----------
    package : str
        That defines the type of its arrays.

    Attributes
    ----------
    name : str
        In messages.
    spelling : tuple of (str, str)
        Patterns of remedies as NumPy and CuPy spell them, and what to write instead.
    has_addresses : bool
        Whether `address`, `layouts`, `pointer`, `maker` and `stream_in_force` are there.
    """

    spelling: tuple[tuple[str, str], ...] = ()
    has_addresses = False

    def __init__(self, package: str) -> None:
        self.package = self.name = package

    def uncompiled(self) -> Callable[..., Any] | None:
        """Return what calls a function, given with its arguments, where a compiler of the library follows each call.

        None: no compiler does.
        """
        return None

    def quick_place(self, arrays: Collection[Any]) -> tuple[Place] | None:
        """Return where all arrays lie, if they pass every check but those of `view`; None: it takes longer to tell."""
        return None

    def is_conjugated(self, x: Any) -> bool:
        """Return whether the memory of `x` holds its conjugate, and ``x.conj()`` is an array of that memory."""
        return False

    def check(self, caller: str, name: str, x: Any) -> None:
        """Raise ProblemError if the argument `name` of `caller` cannot be taken, whatever it holds."""

    def place(self, x: Any) -> Place:
        """Return where `x` lies; raises whatever the library raises, or ValueError if that is neither host nor CUDA."""
        device, index = x.__dlpack_device__()
        if device in {_CPU, _PINNED}:
            return None
        if device in {_CUDA, _MANAGED}:
            return int(index)
        raise ValueError(f"device {(int(device), int(index))} of DLPack")

    def in_force(self, place: Place) -> contextlib.AbstractContextManager[Any] | None:
        """Return the context in which the GPU `place` computes in the order that the library expects; None: now."""
        return None if place is None else cupy().cuda.Device(place)

    def address(self, x: Any, place: int) -> Address:
        """Return where `x`, which lies on the GPU `place`, begins, and how it lies."""
        raise NotImplementedError

    def layouts(self, arrays: Collection[Any]) -> tuple[list[Hashable], list[int]] | None:
        """Return all of arrays on GPUs that a product depends on, and where each begins.

        None: a view of one must be checked, or it lies on the host.
        """
        return None

    def pointer(self, x: Any) -> int:
        """Return where `x`, which lies on a GPU, begins."""
        raise NotImplementedError

    def stream_in_force(self, place: int) -> int | None:
        """Return the handle of the library's current stream of the GPU `place`, if it is CuPy's as well; else None."""
        raise NotImplementedError

    def view(self, x: Any, place: Place) -> Any:
        """Return an array of NumPy or of CuPy with the memory of `x`; raises whatever either library raises."""
        module = np if place is None else cupy()
        name = str(x.dtype).rpartition(".")[2]
        if name not in TABLE or TABLE[name].is_of_sums:
            return module.from_dlpack(x)
        bits, dtype = module.from_dlpack(AsUnsigned(x)), named_dtype(name)
        return bits.view(dtype) if place is None or not is_float8(dtype) else named(bits, dtype)

    def makes_results(self, place: Place) -> bool:
        """Return whether results are to be written to arrays of `empty`."""
        return place is None  # on a GPU any array of CuPy can be given without a copy

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], place: Place) -> Any:
        """Return an uninitialised array of NumPy or of CuPy that `give` need not copy."""
        return aligned_empty(shape, dtype) if place is None else cupy().empty(shape, dtype)

    def namespace(self, x: Any) -> Any:
        """Return what makes arrays such as `x`: its namespace of the array API, or the package."""
        return x.__array_namespace__() if hasattr(x, "__array_namespace__") else sys.modules[self.package]

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any], place: int, fill: Any = None) -> Callable[[], Any]:
        """Return what makes arrays of the library on a GPU, uninitialised or filled with a scalar."""
        raise NotImplementedError

    def quick_maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Any] | None:
        """Return what makes uninitialised ones on the current GPU in less time, if there is a way."""
        return None

    def give(self, x: Any, place: Place, namespace: Any) -> Any:
        """Return the result `x`, of NumPy or of CuPy, as an array of that namespace; itself if that reads no DLPack."""
        return namespace.from_dlpack(x) if hasattr(namespace, "from_dlpack") else x

    def dtype(self, dtype: Any) -> Any:
        """Return a dtype of the library as one of NumPy; what is none is returned itself."""
        if dtype is None or isinstance(dtype, str | type | np.dtype):
            return dtype
        try:
            return named_dtype(str(dtype).rpartition(".")[2])
        except TypeError:
            return dtype

    def launched(self, views: list[Any]) -> None:
        """Keep `views`, of CuPy, while the work that was launched may read them, if the library does not see to it."""
        in_flight.hold(views)

    def wrote(self, out: Any) -> None:
        """Take note that `out` was written to."""

    def converted(self, name: str, place: Place) -> str:
        """Return what to write to have the array `name` of another library as one of this, at that place."""
        return f"{self.package}.from_dlpack({name})"

    def moved(self, name: str, place: Place) -> str:
        """Return what to write to have the array `name` of this library at that place."""
        return f"{name} copied to {spoken(place)}"

    def respelled(self, fix: str) -> str:
        """Return a remedy as users of the library write it."""
        for pattern, replacement in self.spelling:
            fix = re.sub(pattern, replacement, fix)
        return fix


def spoken(place: Place) -> str:
    """Return a place in words."""
    return "the host" if place is None else f"GPU {place}"


def type_name(x: Any) -> str:
    """Return the type of an argument, for messages."""
    return f"{type(x).__module__}.{type(x).__name__}"
