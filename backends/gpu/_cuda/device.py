"""The GPU of this process: the only `import cupy`, which is lazy; its properties, memory, or why none is usable.

Nothing here runs on import, so that a machine without CuPy or a GPU can list every rung and its missing parts.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.dtypes import carrier
from harness.errors import BackendUnavailable, PlanError
from harness.memory import on_free
from harness.plan import Launch
from harness.surroundings import INSTALL_CUPY
from harness.tuning.device import HOPPER, MEASURED, OLDEST, Device, queried

# Handles of the default stream of all threads, which CUDA graphs cannot capture.
_NEVER_CAPTURED = (0, 1)


@functools.cache
def cupy() -> Any:
    """Return CuPy.

    Raises
    ------
    BackendUnavailable
        If it is not installed, or cannot be imported.
    """
    if importlib.util.find_spec("cupy") is None:
        raise BackendUnavailable("CuPy is not installed", fix=INSTALL_CUPY)
    try:
        import cupy as module
    except Exception as error:
        raise BackendUnavailable(f"CuPy cannot be imported: {error}") from error
    on_free(free_memory)
    return module


def missing(least: tuple[int, int] = OLDEST, feature: str = "CUDA kernels") -> str | None:
    """Return why a rung that needs compute capability `least` for `feature` cannot run here, or None."""
    reason = _no_gpu()
    if reason is not None:
        return reason
    gpu = device()
    if gpu.capability < least:
        return "{} need compute capability {}.{}; {} has {}.{}".format(feature, *least, gpu.name, *gpu.capability)
    return None


def missing_wgmma(feature: str = "wgmma and TMA") -> str | None:
    """Return why a rung that needs the matrix instructions of a warpgroup cannot run here, or None."""
    reason = missing(HOPPER, feature)
    if reason is None and not device().has_wgmma:
        gpu = device()
        reason = "{} need compute capability 9.x; {} has {}.{}".format(feature, gpu.name, *gpu.capability)
    return reason


@functools.cache
def _no_gpu() -> str | None:
    """Return why no GPU can be used, or None; determined once per process."""
    try:
        runtime = cupy().cuda.runtime
    except BackendUnavailable as error:
        return error.what
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        driver = runtime.driverGetVersion()  # 0: there is none
        if driver and "InsufficientDriver" in str(error):
            return "the NVIDIA driver is too old: it is for CUDA {}.{}, CuPy for {}.{}".format(
                *_version(driver), *_version(runtime.runtimeGetVersion())
            )
        return "no CUDA device" if driver else "no CUDA device: the NVIDIA driver is not installed"
    return None if count else "no CUDA device"


def _version(number: int) -> tuple[int, int]:
    """Return 13020 as (13, 2)."""
    return number // 1000, number % 1000 // 10


def chains_launches() -> bool:
    """Return whether a kernel of this GPU may begin while the one before it ends (launches.py)."""
    return missing(HOPPER) is None


def current_index() -> int:
    """Return the number of the current GPU; raises as `device`."""
    reason = _no_gpu()
    if reason is not None:
        raise BackendUnavailable(reason)
    return int(cupy().cuda.runtime.getDevice())


def device(index: int | None = None) -> Device:
    """Return the properties of GPU `index`; None: the current one.

    Raises
    ------
    BackendUnavailable
        If there is none.
    """
    return _look_at(current_index() if index is None else index)


@functools.cache
def _look_at(index: int) -> Device:
    runtime = cupy().cuda.runtime
    facts = runtime.getDeviceProperties(index)
    return queried(
        facts["name"].decode(),
        (facts["major"], facts["minor"]),
        facts["multiProcessorCount"],
        shared_memory=facts["sharedMemPerBlockOptin"],
        shared_of_multiprocessor=facts["sharedMemPerMultiprocessor"],
        registers=facts["regsPerMultiprocessor"],
        l2=facts["l2CacheSize"],
        memory=facts["totalGlobalMem"],
        driver=runtime.driverGetVersion(),
        runtime=runtime.runtimeGetVersion(),
    )


def planned() -> Device:
    """Return the GPU that plans are for: the current one; without one an H200, for plans that are only compiled."""
    return MEASURED if _no_gpu() else device()


def fitting(name: str, needed: int, launch: Launch) -> Launch:
    """Return `launch`, whose block takes `needed` bytes of shared memory, for the backend `name`.

    Raises
    ------
    PlanError
        If the GPU does not allow a block so many.
    """
    limit = planned().shared_memory
    if needed > limit:
        raise PlanError(
            f"{name}: the tiles do not fit into shared memory",
            expected=f"{limit} bytes",
            got=f"{needed} bytes for {launch}",
            fix="smaller tiles, or fewer stages",
        )
    return launch


def upload(x: np.ndarray) -> Any:
    """Return a C-ordered copy of a host array on the current GPU.

    Raises
    ------
    BackendUnavailable
        If its memory is too small, even after CuPy's reserve was freed.
    """
    contiguous = np.ascontiguousarray(x)
    if x.dtype != carrier(x.dtype):
        contiguous = contiguous.view(carrier(x.dtype))
    return allocating(lambda: cupy().asarray(contiguous), x.nbytes)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an uninitialised C-ordered array on the current GPU, of the `carrier` of `dtype`; raises as `upload`."""
    return allocating(lambda: cupy().empty(shape, carrier(dtype)), int(np.prod(shape)) * dtype.itemsize)


def allocating(allocate: Callable[[], Any], size: int) -> Any:
    """Return ``allocate()``, an array of `size` bytes; if it fails, free CuPy's reserve and try again.

    Raises
    ------
    BackendUnavailable
        If the second attempt fails too.
    """
    try:
        return allocate()
    except cupy().cuda.memory.OutOfMemoryError:
        free_memory()
    try:
        return allocate()
    except cupy().cuda.memory.OutOfMemoryError:
        free, total = cupy().cuda.runtime.memGetInfo()
        raise BackendUnavailable(
            "the GPU's memory is too small",
            expected=f"{size / 2**20:.0f} MiB",
            got=f"{free / 2**20:.0f} of {total / 2**20:.0f} MiB are free",
        ) from None


def free_memory() -> None:
    """Return the unused blocks of CuPy's pools to the GPU, and to the host."""
    cupy().get_default_memory_pool().free_all_blocks()
    cupy().get_default_pinned_memory_pool().free_all_blocks()


def current_stream(handle: int | None = None) -> int:
    """Return the handle of CuPy's current stream, for launches by this thread, which may be its first.

    It is `handle` if the caller knows it.
    """
    cuda = cupy().cuda
    if not cuda.driver.ctxGetCurrent():
        cuda.runtime.free(0)  # makes the context of the current GPU this thread's
    return int(cuda.get_current_stream().ptr) if handle is None else handle


def is_capturing(stream: int) -> bool:
    """Return whether work on the stream of that handle becomes part of a CUDA graph."""
    return stream not in _NEVER_CAPTURED and bool(cupy().cuda.runtime.streamIsCapturing(stream))


def synchronize() -> None:
    """Return when all work of the current stream is done."""
    cupy().cuda.get_current_stream().synchronize()
