"""cuBLAS as a library: loaded as CuPy loads it, its contexts, and its status codes as errors."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.launches import CONTEXT, Contexts, Given, Routine, address_of
from harness.errors import BackendUnavailable, HarnessError


def bind(routine: str, action: str, arguments: tuple[int | np.ndarray | Given, ...]) -> Routine:
    """Return a routine of cuBLAS on the current GPU, as `Program.call` loads it.

    Parameters
    ----------
    routine : str
    action : str
        What a HarnessError of the launch says that cuBLAS could not do.
    arguments : tuple
        Of the routine, but for the context: integers, arrays for pointers to scalars, and addresses.
    """
    spare = spare_contexts(device.current_index())
    if not spare:
        spare.append(_create_context())
    words = tuple(int(x.ctypes.data) if isinstance(x, np.ndarray) else x for x in arguments)
    contexts = Contexts(spare, _create_context, address("cublasSetStream_v2"))
    return Routine(address(routine), (CONTEXT, *words), functools.partial(check, action=action), arguments, contexts)


def address(routine: str) -> int:
    """Return the address of a routine."""
    return address_of(library(), routine)


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
def spare_contexts(index: int) -> list[int]:
    """Return the contexts of cuBLAS on the GPU `index` that no thread uses now: a context has one stream at a time.

    There are never more than threads that have called cuBLAS at once.
    """
    return []


def _create_context() -> int:
    """Return a new context on the current GPU."""
    context = ctypes.c_void_p()
    check(library().cublasCreate_v2(ctypes.byref(context)), "begin")
    return context.value or 0


def check(status: int, action: str) -> None:
    """Raise HarnessError if a status is not that of success."""
    if status:
        raise HarnessError(f"cuBLAS could not {action}", got=f"status {status} (cublas_api.h, cublasStatus_t)")
