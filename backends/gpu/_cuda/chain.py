"""Launches that begin while the one before them ends: the driver's cuLaunchKernelEx, which CuPy does not offer.

Source: CUDA driver API, CUlaunchConfig, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from harness.errors import HarnessError

_SERIALIZATION, _VALUE_BYTES = 6, 64
_SIZES = "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes"


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute, with a value that is an int."""

    _fields_ = [
        ("number", ctypes.c_int),
        ("gap", ctypes.c_int),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * (_VALUE_BYTES - 4)),
    ]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in _SIZES),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    ]


def chained_launch(function: int, block: tuple[int, ...], parameters: int) -> Callable[[tuple[int, ...], int], None]:
    """Return ``launch(grid, stream)``, by the extents of a grid and the handle of a stream.

    Parameters
    ----------
    function : int
        Handle of a kernel that waits itself for the launch before it (chain.cuh).
    block : tuple of int
        Extents of a block, and the dynamic shared memory of a block in bytes.
    parameters : int
        Address of the array of pointers to its arguments.
    """
    attribute = _Attribute(_SERIALIZATION, 0, 1)
    config = _Config(1, 1, 1, *block, None, ctypes.addressof(attribute), 1)
    call, place, handle, pointers = (
        _driver(),
        ctypes.byref(config),
        ctypes.c_void_p(function),
        ctypes.c_void_p(parameters),
    )

    def launch(grid: tuple[int, ...], stream: int, _keep: _Attribute = attribute) -> None:
        config.grid_x, config.grid_y, config.grid_z = grid
        config.stream = stream
        status = call(place, handle, pointers, None)
        if status:
            raise HarnessError("a kernel cannot be launched", got=f"CUDA error {status} (cuda.h, CUresult)")

    return launch


@functools.cache
def _driver() -> Callable[..., int]:
    return ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
