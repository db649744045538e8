"""Rows of bools as bits of bytes, the lowest first, by arithmetic that arrays of NumPy and of a GPU have alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.arrays import Arrays


def bytes_of(n: int) -> int:
    """Return how many bytes hold `n` bits."""
    return (n + 7) // 8


def unpacked(arrays: Arrays, octets: Any) -> Any:
    """Return (..., n, n) bools of (..., n, bytes) octets."""
    n, module = octets.shape[-2], arrays.module
    bits = (octets[..., None] >> module.arange(8, dtype=np.uint8)) & np.uint8(1)
    return module.ascontiguousarray(bits.reshape(*octets.shape[:-1], 8 * octets.shape[-1])[..., :n]).astype(bool)


def packed(arrays: Arrays, bools: Any) -> Any:
    """Return (..., bytes) octets of (..., n) bools."""
    n, module = bools.shape[-1], arrays.module
    whole = module.zeros((*bools.shape[:-1], 8 * bytes_of(n)), np.uint8)
    whole[..., :n] = bools
    octets = whole.reshape(*bools.shape[:-1], whole.shape[-1] // 8, 8) << module.arange(8, dtype=np.uint8)
    return octets.sum(axis=-1, dtype=np.uint8)
