"""cuBLAS as a library: loaded as CuPy loads it, its contexts, and its status codes as errors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from backends.gpu._cuda import device
from harness.errors import BackendUnavailable, HarnessError


def bind(
    routine: str, action: str, arguments: tuple[Any, ...], addresses: tuple[ctypes.c_void_p, ...]
) -> Callable[..., None]:
    """Return ``launch(stream, *values)``, which calls a routine of cuBLAS on a stream of the current GPU.

    Parameters
    ----------
    routine : str
    action : str
        What a HarnessError of the launch says that cuBLAS could not do.
    arguments : tuple
        Of the routine, but for the context.
    addresses : tuple of c_void_p
        Those of `arguments` that a launch sets to `values`, integers.
    """
    set_stream, call, queue = library().cublasSetStream_v2, getattr(library(), routine), ctypes.c_void_p()
    spare = spare_contexts(device.current_index())
    if not spare:
        spare.append(_create_context())

    def launch(stream: int, *values: int) -> None:
        queue.value = stream
        for address, value in zip(addresses, values, strict=True):
            address.value = value
        try:
            context = spare.pop()
        except IndexError:  # other threads have them all
            context = _create_context()
        status = set_stream(context, queue) or call(context, *arguments)
        spare.append(context)
        if status:
            check(status, action)

    return launch


@functools.cache
def library() -> ctypes.CDLL:
    """Return cuBLAS, as CuPy loads it.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    except (ImportError, RuntimeError, OSError) as error:  # DynamicLibNotFoundError is a RuntimeError
        raise BackendUnavailable(
            "cuBLAS cannot be loaded", got=str(error), fix="pip install nvidia-cublas, or a CUDA toolkit"
        ) from None


def missing() -> str | None:
    """Say why cuBLAS cannot be loaded, or return None."""
    try:
        library()
    except BackendUnavailable as error:
        return error.what
    return None


@functools.cache
def spare_contexts(index: int) -> list[ctypes.c_void_p]:
    """Return the contexts of cuBLAS on the GPU `index` that no thread uses now: a context has one stream at a time.

    There are never more than threads that have called cuBLAS at once.
    """
    return []


def _create_context() -> ctypes.c_void_p:
    """Return a new context on the current GPU."""
    context = ctypes.c_void_p()
    check(library().cublasCreate_v2(ctypes.byref(context)), "begin")
    return context


def check(status: int, action: str) -> None:
    """Raise HarnessError if a status is not that of success."""
    if status:
        raise HarnessError(f"cuBLAS could not {action}", got=f"status {status} (cublas_api.h, cublasStatus_t)")
