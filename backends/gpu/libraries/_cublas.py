"""cuBLAS as a library: loaded as CuPy loads it, contexts that no two threads share, and its status codes as errors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from backends.gpu._cuda import device
from harness.errors import BackendUnavailable, HarnessError


def launcher(
    routine: str, action: str, arguments: Sequence[Any], addresses: Sequence[ctypes.c_void_p]
) -> Callable[..., None]:
    """Return a function that calls a routine of cuBLAS: ``launch(stream, *addresses)``, by handle and addresses.

    Parameters
    ----------
    routine : str
    action : str
        What it does, in an error's message.
    arguments : sequence
        All but the context; not copied.
    addresses : sequence of c_void_p
        Those of `arguments` that hold addresses, in the order in which `launch` takes them.

    Raises
    ------
    BackendUnavailable
        If cuBLAS is not installed.
    """
    set_stream, compute = library().cublasSetStream_v2, getattr(library(), routine)
    spare, queue = _spare_contexts(device.current_index()), ctypes.c_void_p()

    def launch(stream: int, *places: int) -> None:
        queue.value = stream
        for address, place in zip(addresses, places, strict=True):
            address.value = place
        try:
            context = spare.pop()
        except IndexError:
            context = _create_context()
        status = set_stream(context, queue) or compute(context, *arguments)
        spare.append(context)
        if status:
            _check(status, action)

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


@functools.cache
def _spare_contexts(index: int) -> list[ctypes.c_void_p]:
    """Return the contexts of cuBLAS on the GPU `index` that no thread uses now: a context serves one stream at a time.

    There are never more than threads that have called cuBLAS at once.
    """
    return []


def _create_context() -> ctypes.c_void_p:
    """Return a new context on the current GPU."""
    context = ctypes.c_void_p()
    _check(library().cublasCreate_v2(ctypes.byref(context)), "begin")
    return context


def _check(status: int, action: str) -> None:
    if status:
        raise HarnessError(f"cuBLAS could not {action}", got=f"status {status} (cublas_api.h, cublasStatus_t)")
