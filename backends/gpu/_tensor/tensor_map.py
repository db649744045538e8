"""Tensor maps, which describe a matrix and its boxes to Hopper's copy engine (TMA)."""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

from backends.gpu._simt.program import Place
from harness.errors import BackendUnavailable, HarnessError

# CUtensorMapDataType, and the other enumerations of cuda.h in use here.
_TYPES = {"uint32": 2, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
ITEMSIZES = {"uint32": 4, "float16": 2, "float32": 4, "float64": 8, "bfloat16": 2}
_NO_INTERLEAVE, _SWIZZLE_128_BYTES, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 3, 2, 0
MAP_BYTES, MAP_ALIGNMENT = 128, 64


class TensorMap(NamedTuple):
    """A row-major matrix, and boxes of it; outside of it the copy engine writes zeros.

    Attributes
    ----------
    place : Place
    rows, columns, ld : int
        In elements; `ld` of them are a multiple of 16 bytes.
    box_rows, box_columns : int
        Extent of one copy; the columns are 128 bytes, which are swizzled.
    dtype : str
        One of `ITEMSIZES`.
    """

    place: Place
    rows: int
    columns: int
    ld: int
    box_rows: int
    box_columns: int
    dtype: str

    def encode(self, address: int, position: int) -> None:
        """Write the bytes that a kernel takes by value, for a matrix that begins at `address`.

        Parameters
        ----------
        address : int
        position : int
            Address of `MAP_BYTES` bytes in host memory, a multiple of `MAP_ALIGNMENT`.

        Raises
        ------
        HarnessError
            If the driver refuses it.
        """
        status = _driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(position),
            _TYPES[self.dtype],
            2,
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * 2)(self.columns, self.rows),
            (ctypes.c_uint64 * 1)(ITEMSIZES[self.dtype] * self.ld),
            (ctypes.c_uint32 * 2)(self.box_columns, self.box_rows),
            (ctypes.c_uint32 * 2)(1, 1),
            _NO_INTERLEAVE,
            _SWIZZLE_128_BYTES,
            _PROMOTE_TO_128_BYTES,
            _ZEROS_OUTSIDE,
        )
        if status:
            raise HarnessError("the driver refuses a tensor map", got=f"CUDA error {status} for {self}")


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BackendUnavailable("the NVIDIA driver's library cannot be loaded", got=str(error)) from None
