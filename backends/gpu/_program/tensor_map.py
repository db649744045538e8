"""Tensor maps, which describe a matrix and its boxes to Hopper's copy engine (TMA)."""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

from backends.gpu._program.program import Place
from harness.dtypes import TABLE
from harness.errors import BackendUnavailable, HarnessError

# Enumerations of cuda.h; CUtensorMapDataType is in the table of dtypes.
_NO_INTERLEAVE, _SWIZZLE_128_BYTES, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 3, 2, 0
MAP_BYTES, MAP_ALIGNMENT = 128, 64


class TensorMap(NamedTuple):
    """A row-major matrix, or a stack of them, and boxes of it; outside of it the copy engine writes zeros.

    Attributes
    ----------
    place : Place
    rows, columns, ld : int
        In elements; `ld` of them are a multiple of 16 bytes.
    box_rows, box_columns : int
        Extent of one copy; the columns are 128 bytes, which are swizzled.
    dtype : str
        One with a number `tma` in `harness.dtypes.TABLE`.
    layers : int
        Matrices of a stack, one after the other, the third dimension of the map; 0: a matrix alone, without it.
    distance : int
        Of neighbours in a stack, in elements, a multiple of 16 bytes.
    """

    place: Place
    rows: int
    columns: int
    ld: int
    box_rows: int
    box_columns: int
    dtype: str
    layers: int = 0
    distance: int = 0

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
        itemsize, dimensions = TABLE[self.dtype].itemsize, 3 if self.layers else 2
        status = _driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(position),
            TABLE[self.dtype].tma,
            dimensions,
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * 3)(self.columns, self.rows, self.layers),
            (ctypes.c_uint64 * 2)(itemsize * self.ld, itemsize * self.distance),
            (ctypes.c_uint32 * 3)(self.box_columns, self.box_rows, 1),
            (ctypes.c_uint32 * 3)(1, 1, 1),
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
