"""Buffers, and how the arrays of a random program lie in them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from harness.operands import span
from harness.proof.programs.program import View

if TYPE_CHECKING:
    from harness.proof.programs.drawing import Draw, Limits


class Room:
    """Any order of axes, gaps, steps down, steps of zero, any alignment."""

    def __init__(self, draw: Draw, limits: Limits, *, is_shared: bool) -> None:
        self._draw, self._limits, self._is_shared = draw, limits, is_shared
        self.sizes: list[int] = []

    def lay(self, shape: tuple[int, ...], dtype: str, *, beside: int | None = None, is_out: bool = False) -> View:
        """Return an array in a buffer of its own, in the one that all share, or in the one it shall lie beside."""
        draw = self._draw
        view = View(0, dtype, shape, (), 0)
        itemsize = view.numpy_dtype.itemsize
        strides = self._strides(shape, itemsize, is_out=is_out)
        low, end = span(shape, strides, itemsize) if 0 not in shape else (0, 0)
        before = draw.choice((0, 0, 0, itemsize, 3 * itemsize, 64))
        if not self._limits.on_device and draw.integers(0, 39) == 0:
            before += 1  # no multiple of an element: only NumPy has such arrays
        buffer = 0 if self._is_shared and self.sizes else beside
        if buffer is None:
            buffer = len(self.sizes)
            self.sizes.append(before - low + end + draw.choice((0, 0, itemsize, 64)))
        else:  # anywhere in it
            step = draw.choice((16, itemsize))
            before += step * draw.integers(0, max(self.sizes[buffer] - (end - low), 0) // step)
            self.sizes[buffer] = max(self.sizes[buffer], before - low + end)
        is_writable = self._limits.on_device or draw.integers(0, 39 if is_out else 5) > 0
        return dataclasses.replace(view, buffer=buffer, strides=strides, offset=before - low, is_writable=is_writable)

    def _strides(self, shape: tuple[int, ...], itemsize: int, *, is_out: bool) -> tuple[int, ...]:
        draw, axes = self._draw, list(range(len(shape)))
        order = draw.choice("CCFFA")
        if order == "F":
            axes[-2:] = reversed(axes[-2:])
        elif order == "A":
            axes.sort(key=lambda axis: draw.integers(0, 99))
        is_plain = draw.integers(0, 2) > 0
        strides, extent = [0] * len(shape), itemsize
        for axis in reversed(axes):
            step, gap = (1, 0) if is_plain else (draw.choice((1, 1, 1, 2, 3)), draw.choice((0, 0, 1, 3, 16)))
            is_backwards = not is_plain and draw.integers(0, 4) == 0
            strides[axis] = -extent * step if is_backwards else extent * step
            extent = max(extent * step * shape[axis], itemsize) + gap * itemsize
        if shape and draw.integers(0, 299 if is_out else 19) == 0:
            strides[draw.choice(axes)] = 0
        return tuple(strides)
