"""Small plain products in one compiled call that checks shapes, strides and overlap by itself: no plan, no execution.

At n = 16 a product takes about 0.1 us, and what goes before it in Python ten times as long. Here everything that needs
looking at the arrays happens in compiled code; whatever is not simple is left to the ordinary way.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from numba import types

from backends.cpu._address import address_of, call
from backends.cpu._generated_kernel import KernelKey
from backends.cpu._generated_loops import build_product
from backends.cpu._jit import jit, output, strided
from harness.interface import Shortcut


def build_shortcut(key: KernelKey, largest: int) -> Shortcut:
    """Return ``compute(a, b, out)`` for matrices of the key's dtype with m, n and k up to `largest`.

    It computes ``out := a (x) b`` and returns True; or returns False and has done nothing, unless sizes fit, rows are
    contiguous, nothing is empty, elements are aligned, and `out` overlaps neither a nor b.
    """
    product = build_product(key)
    compiled = _build_compute(np.dtype(key.dtype))
    (result,) = compiled.overloads.values()
    compute = functools.partial(result.entry_point, address_of(product), largest)
    compute.refers_to = product  # type: ignore[attr-defined] # its code lives as long as it does
    return compute


@numba.njit
def _end(x: np.ndarray) -> int:
    """Return the address after the last element of a matrix with contiguous rows, in order."""
    return x.ctypes.data + (x.shape[0] - 1) * x.strides[0] + x.shape[1] * x.itemsize


@functools.cache
def _build_compute(dtype: np.dtype[Any]) -> Any:
    """Compile ``compute(product, largest, a, b, out)``, the same for every kernel of `dtype`."""
    itemsize = dtype.itemsize

    def is_simple(x: np.ndarray) -> bool:
        rows, columns = x.strides
        in_order = columns == itemsize and rows >= x.shape[1] * itemsize
        return in_order and x.ctypes.data % itemsize == 0 and rows % itemsize == 0

    is_simple = numba.njit(is_simple)

    def compute(product: int, largest: int, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
        (m, k), n = a.shape, b.shape[1]
        if b.shape[0] != k or out.shape[0] != m or out.shape[1] != n:
            return False
        if min(m, n, k) < 1 or max(m, n, k) > largest:
            return False
        if not (is_simple(a) and is_simple(b) and is_simple(out)):
            return False
        begin, end = out.ctypes.data, _end(out)
        if (a.ctypes.data < end and begin < _end(a)) or (b.ctypes.data < end and begin < _end(b)):
            return False
        a_begin, b_begin = a.ctypes.data, b.ctypes.data
        call(
            product,
            (
                m, n, k, a_begin, a.strides[0], itemsize, b_begin, b.strides[0], itemsize, begin, out.strides[0],
                0, m, n, k, 0, 0, 0, 0,
            ),
        )  # fmt: skip
        return True

    size = types.intp
    signature = (size, size, strided(dtype), strided(dtype), output(dtype))
    return jit(None, *signature, parallel=False, returns=types.boolean)(compute)
