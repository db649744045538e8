"""How arrays lie in memory: where they begin, what they span, and in how few pieces a batch is."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

CACHE_LINE = 64  # bytes, on every x86-64 and nearly every AArch64 processor


_HEADER = object.__basicsize__  # bytes of a Python object before what its type adds: of an array, first the address


def data_address(x: np.ndarray) -> int:
    """Return the address of the first element of an array on the host.

    ``x.ctypes.data`` imports a module in every call, which takes longer, and fails while Python ends.
    """
    return ctypes.c_size_t.from_address(id(x) + _HEADER).value


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialised C-ordered array that begins on a cache line."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    begin = -data_address(raw) % CACHE_LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which `shapes` broadcast, of any number of dimensions; `numpy.broadcast_shapes` takes 32.

    Raises
    ------
    ValueError
        If there is none.
    """
    most = max(map(len, shapes))
    found = [{1, *sizes} for sizes in zip(*((1,) * (most - len(shape)) + shape for shape in shapes), strict=True)]
    if any(len(sizes) > 2 for sizes in found):
        raise ValueError(f"{shapes} do not broadcast")
    return tuple([sum(sizes) - 1 if len(sizes) == 2 else 1 for sizes in found])


def collapsed(batch: tuple[int, ...], *strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return a batch in as few dimensions as possible: for each its size, and the stride of every array.

    Parameters
    ----------
    batch : tuple of int
        Sizes, 1 or more.
    strides : tuples of int
        Of each array along the dimensions of the batch, in bytes or in elements. The last dimension runs fastest.
    """
    dimensions: list[tuple[int, ...]] = []
    for size, *steps in zip(batch, *strides, strict=True):
        if size == 1:
            continue
        outer = dimensions[-1] if dimensions else ()
        if outer and all(step * size == before for step, before in zip(steps, outer[1:], strict=True)):
            dimensions[-1] = (outer[0] * size, *steps)
        else:
            dimensions.append((size, *steps))
    return dimensions


def stacks(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the matrices of batches, of equal leading dimensions and numbers of rows, as few pieces as possible.

    Matrices that lie evenly below each other in every array are one tall matrix, a view.
    """
    first = arrays[0]
    sizes = first.shape[:-1]
    if first.ndim == 2 or first.size == 0:
        yield arrays
        return
    if all(x.flags.c_contiguous for x in arrays):
        yield tuple(x.reshape(-1, x.shape[-1]) for x in arrays)
        return
    pieces = collapsed(sizes, *(x.strides[:-1] for x in arrays))
    if len(pieces) > 1:
        yield from (tuple(x[index] for x in arrays) for index in np.ndindex(sizes[:-1]))
        return
    rows, *steps = pieces[0] if pieces else (1, *(0 for _ in arrays))
    yield tuple(
        np.lib.stride_tricks.as_strided(x, (rows, x.shape[-1]), (step, x.strides[-1]))
        for x, step in zip(arrays, steps, strict=True)
    )


def distinct(x: np.ndarray) -> np.ndarray:
    """Return the matrices of a batch that differ: one along each dimension with a stride of 0."""
    return x[tuple(slice(1 if stride == 0 else None) for stride in x.strides[:-2])]


def span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return the first byte that an array spans, and the one after its last, relative to its first element.

    Parameters
    ----------
    shape : tuple of int
        Sizes, 1 or more.
    strides : tuple of int
        In bytes.
    itemsize : int
        Bytes of an element.
    """
    low = end = 0
    for size, step in zip(shape, strides, strict=True):
        extent = step * (size - 1)
        if extent < 0:
            low += extent
        else:
            end += extent
    return low, end + itemsize


def shares_with_itself(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether two elements of an array of that layout share a byte."""
    steps = sorted((abs(step), size) for step, size in zip(strides, shape, strict=True) if size > 1)
    if 0 in shape or not steps:
        return False
    extent = itemsize
    for step, size in steps:
        if step < extent:
            break
        extent += step * (size - 1)
    else:
        return False  # each dimension steps over all that those before it span
    if steps[0][0] < itemsize:
        return True
    begins = functools.reduce(np.add.outer, (step * np.arange(size) for step, size in steps)).ravel()
    begins.sort()
    return bool((np.diff(begins) < itemsize).any())
