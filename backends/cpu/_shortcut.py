"""Plain products without a plan and an execution: one compiled call checks shapes, strides and overlap.

At n = 16 a product takes about 0.1 us, and what goes before it in Python a hundred times as long. Here everything that
needs looking at the arrays happens in compiled code, which goes on to compute if the product is small. For a larger one
it returns the addresses, and the loops' table for that shape, made once, takes them. Whatever is not simple is left to
the ordinary way.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from backends.cpu._address import address_of, call
from backends.cpu._generated_call import Loops, LoopTable, Shape
from backends.cpu._generated_kernel import KernelKey
from backends.cpu._generated_loops import build_product
from backends.cpu._jit import jit, output, strided

NOT_SIMPLE, DONE, LARGE = 0, 1, 2  # what `compute` returns
MOST_SHAPES = 256  # whose tables are kept

LoopsOf = Callable[[Shape], Loops]


class PlainProducts(threading.local):
    """``compute(a, b, out)`` for matrices of one dtype: ``out := a (x) b``.

    It returns True; or False and has done nothing, unless sizes fit, rows are contiguous, nothing is empty, elements
    are aligned, and `out` overlaps neither a nor b. Each thread of Python has addresses and tables of its own, since
    another one may go on between two steps.

    Parameters
    ----------
    key : KernelKey
    largest : int
        Greatest m, n and k that are computed as they lie.
    loops_of : callable
        ``loops_of(shape)``: how the loops go about a larger one.
    """

    def __init__(self, key: KernelKey, largest: int, loops_of: LoopsOf) -> None:
        self._addresses = np.zeros(4, np.int64)
        (result,) = _build_compute(np.dtype(key.dtype)).overloads.values()
        product = address_of(build_product(key))
        self._compute = functools.partial(result.entry_point, product, largest, self._addresses)
        self._table = functools.lru_cache(MOST_SHAPES)(
            lambda *shape: LoopTable(loops_of(Shape(*shape)), Shape(*shape), accumulate=False)
        )

    def __call__(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
        """Compute, or return False."""
        outcome = self._compute(a, b, out)
        if outcome == LARGE:
            m, k = a.shape
            table = self._table(m, b.shape[1], k, a.strides, b.strides, out.strides[0])
            table.bind(self._addresses)
            table.run()
        return outcome != NOT_SIMPLE


@numba.njit
def _end(x: np.ndarray) -> int:
    """Return the address after the last element of a matrix with contiguous rows, in order."""
    return x.ctypes.data + (x.shape[0] - 1) * x.strides[0] + x.shape[1] * x.itemsize


@functools.cache
def _build_compute(dtype: np.dtype[Any]) -> Any:
    """Compile ``compute(product, largest, addresses, a, b, out)``, the same for every kernel of `dtype`."""
    itemsize = dtype.itemsize

    def is_simple(x: np.ndarray) -> bool:
        # the stride of a dimension of one element means nothing
        (rows, columns), (row_stride, stride) = x.shape, x.strides
        has_contiguous_rows = stride == itemsize or columns == 1
        is_in_order = rows == 1 or (row_stride >= columns * itemsize and row_stride % itemsize == 0)
        return has_contiguous_rows and is_in_order and x.ctypes.data % itemsize == 0

    is_simple = numba.njit(is_simple)

    def compute(
        product: int, largest: int, addresses: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray
    ) -> int:
        (m, k), n = a.shape, b.shape[1]
        if b.shape[0] != k or out.shape[0] != m or out.shape[1] != n or min(m, n, k) < 1:
            return NOT_SIMPLE
        if not (is_simple(a) and is_simple(b) and is_simple(out)):
            return NOT_SIMPLE
        begin, end = out.ctypes.data, _end(out)
        if (a.ctypes.data < end and begin < _end(a)) or (b.ctypes.data < end and begin < _end(b)):
            return NOT_SIMPLE
        a_begin, b_begin = a.ctypes.data, b.ctypes.data
        if max(m, n, k) > largest or min(m, n) == 1:  # products with a vector have loops of their own
            addresses[0], addresses[1], addresses[2] = a_begin, b_begin, begin
            return LARGE
        call(
            product,
            (
                m, n, k, a_begin, a.strides[0], itemsize, b_begin, b.strides[0], itemsize, begin, out.strides[0],
                0, 0, 0, m, n, k, 0, 0, 0, 0,
            ),
        )  # fmt: skip
        return DONE

    size = types.intp
    signature = (size, size, types.Array(types.int64, 1, "C"), strided(dtype), strided(dtype), output(dtype))
    return jit(None, *signature, parallel=False, returns=size)(compute)
