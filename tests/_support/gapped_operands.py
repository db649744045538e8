"""Operands of kernels on a CPU with a gap between rows of A, as parts of wider arrays have them."""

from __future__ import annotations

from typing import Any

from backends.gpu._program.program import Matrix, Place
from harness.operands import Operands
from tests.gpu.host_kernels import HostOperands, fenced


def with_gap(gap: int, *, at_end: bool) -> type[HostOperands]:
    """Return operands with `gap` elements between rows of A, which a fence follows, or precedes."""

    class Gapped(HostOperands):
        def __init__(self, operands: Operands, **options: Any) -> None:
            super().__init__(operands, **options)
            m, k = operands.a.shape
            self._ld = k + gap
            room = fenced((m - 1) * self._ld + k, operands.a.dtype, at_end=at_end)
            for row, values in enumerate(operands.a):
                room[row * self._ld : row * self._ld + k] = values
            self.buffers["a"] = room

        def matrix(self, name: str) -> Matrix:
            if name != "a":
                return super().matrix(name)
            address = self.buffers["a"].ctypes.data
            return Matrix(Place("a"), self._ld, 16 if address % 16 == 0 else 1)

    return Gapped
