"""Values of a matrix by position: any part of it can be drawn where it is used, on any device, without the rest.

The expressions are whole-array ones that NumPy, CuPy, PyTorch and JAX write alike, on integers of 64 bits and on
float64, so that all of them get the same bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

_BITS, _FACTOR, _COLUMNS = 0xFFFFFFFF, 0x45D9F3B, 0x9E3779B1
_LARGEST_KEY = 0x7FFFFFFF
AT_ONCE = 1 << 22  # elements of a piece


def values(seed: int, name: str, rows: Any, columns: Any, to_float64: Callable[[Any], Any]) -> Any:
    """Return elements of a matrix, uniform in [-1, 1), in float64.

    Parameters
    ----------
    seed : int
    name : str
        Of the matrix: ``"a"``, ``"b"``.
    rows, columns : int64 arrays
        Positions, below 2^31, of shapes that broadcast: (m, 1) and (1, n).
    to_float64 : callable
        Converts an array.

    Source
    ------
    The mixing function is that of hash-prospector (public domain), two rounds of multiply and shift on 32 bits.
    """
    key = zlib.crc32(f"{seed} {name}".encode()) & _LARGEST_KEY
    high = _mixed(_mixed(rows + key) ^ ((columns * _COLUMNS) & _BITS))
    low = _mixed(high ^ _FACTOR)  # fills the last digits of float64, which would else be zeros
    return (to_float64(high) + to_float64(low) * 2.0**-32) * 2.0**-31 - 1.0


def block(seed: int, name: str, rows: np.ndarray, columns: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the elements where `rows` and `columns` cross, on the host."""
    drawn = values(seed, name, rows[:, None], columns[None, :], lambda x: x.astype(np.float64))
    return np.asarray(drawn.astype(dtype))


def fill(
    part: Any,
    seed: int,
    name: str,
    positions: Callable[[int, int], Any],
    to_float64: Callable[[Any], Any],
    row: int = 0,
    column: int = 0,
) -> None:
    """Fill a part of a matrix where it lies, in pieces, which bounds the memory that it takes.

    Parameters
    ----------
    part : (rows, columns) array
    seed, name, to_float64
        As in `values`.
    positions : callable
        ``positions(begin, end)`` returns those integers as an array where `part` lies.
    row, column : int
        The place of the first element of `part` in the matrix.
    """
    height, width = part.shape
    across = max(1, min(width, AT_ONCE))
    down = max(1, AT_ONCE // across)
    for top in range(0, height, down):
        for left in range(0, width, across):
            piece = part[top : top + down, left : left + across]
            rows = positions(row + top, row + top + piece.shape[0])
            columns = positions(column + left, column + left + piece.shape[1])
            piece[...] = values(seed, name, rows[:, None], columns[None, :], to_float64)


def _mixed(x: Any) -> Any:
    """Return a permutation of the numbers below 2^32, elementwise, in which neighbours lie far apart."""
    x = ((x ^ (x >> 16)) * _FACTOR) & _BITS
    x = ((x ^ (x >> 16)) * _FACTOR) & _BITS
    return x ^ (x >> 16)
