"""A library of arrays that speak DLPack and nothing else: NumPy may not convert them, index them or compute with them.

They lie on the host, or as far as they say on a GPU. Whoever reads one without asking for its DLPack is found out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_CPU, _CUDA = 1, 2


class Array:
    """An array on the host, or on a GPU by `device`, (type, number) of DLPack."""

    def __init__(self, values: Any, device: tuple[int, int] = (_CPU, 0)) -> None:
        self._values, self._device = values, device

    dtype = property(lambda self: f"shelf.{self._values.dtype}")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("by DLPack alone")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def values(self) -> Any:
        """Return what it holds, for the test."""
        return self._values


Array.__module__ = "shelf"


class Shelf:
    """Stands for the module `shelf`."""

    def __init__(self) -> None:
        self.from_dlpack = lambda x: Array(np.from_dlpack(x))
