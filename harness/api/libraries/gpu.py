"""CuPy for arrays of other libraries: a stream of theirs made current, and arrays kept while a GPU may read them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections import deque
from typing import Any

import numpy as np

from harness.dtypes import carrier
from harness.errors import BackendUnavailable
from harness.memory import on_free
from harness.surroundings import INSTALL_CUPY


def cupy() -> Any:
    """Return CuPy, which computes on GPUs for all libraries.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    try:
        return sys.modules.get("cupy") or importlib.import_module("cupy")
    except ImportError as error:
        raise BackendUnavailable(
            "arrays on a GPU are computed with by CuPy, which is not installed",
            got=str(error),
            fix=INSTALL_CUPY,
        ) from None


def named(bits: Any, dtype: np.dtype[Any]) -> Any:
    """Return `bits`, an array of CuPy of that size of elements, as one of float8.

    CuPy copies no such arrays. Its views, and what reads their memory, take this for what it is.
    """
    x = _named()(bits.shape, carrier(dtype), bits.data, bits.strides)
    x.dtype = dtype
    return x


def unnamed(x: Any) -> Any:
    """Return the unsigned integers of such an array."""
    return cupy().ndarray(x.shape, carrier(x.dtype), x.data, x.strides)


@functools.cache
def _named() -> type:
    class Named(cupy().ndarray):  # type: ignore[misc]
        dtype = np.dtype(np.uint8)  # of each, in place of CuPy's own

        def __array_finalize__(self, x: Any) -> None:
            self.dtype = getattr(x, "dtype", self.dtype)

        def reshape(self, *shape: Any, **options: Any) -> Any:
            x = super().reshape(*shape, **options)
            return x if isinstance(x, Named) else named(x, self.dtype)  # it is a copy

    Named.__module__ = "cupy"  # by which `harness.api.arrays.kind_of` knows it
    return Named


@contextlib.contextmanager
def on_stream(place: int, handle: int) -> Any:
    """Make a GPU, and its stream of that handle, current for CuPy."""
    with cupy().cuda.Device(place), _stream(handle):
        yield


class _Handle:
    """A stream as `cupy.cuda.Stream.from_external` takes it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


@functools.lru_cache(maxsize=64)
def _stream(handle: int) -> Any:
    return cupy().cuda.Stream.from_external(_Handle(handle)) if handle else cupy().cuda.Stream.null


class _InFlight:
    """Arrays that a GPU may still read: dropped in a later call, when what was launched is done."""

    def __init__(self) -> None:
        self._held: deque[tuple[Any, list[Any]]] = deque()
        on_free(self.drop)

    def hold(self, views: list[Any]) -> None:
        """Keep arrays until all that the current stream has now is done."""
        self.drop()
        event = cupy().cuda.Event(disable_timing=True)
        event.record(cupy().cuda.get_current_stream())
        self._held.append((event, views))

    def drop(self) -> None:
        """Drop those whose work is done."""
        with contextlib.suppress(IndexError):  # another thread has dropped the last
            while self._held[0][0].done:
                self._held.popleft()


in_flight = _InFlight()
