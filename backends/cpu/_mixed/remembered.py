"""Mixed products without a plan and an execution: what a layout needs is prepared once, and takes the addresses.

To plan and prepare a product takes longer than to compute it on many cores, up to n = 1000 and beyond. So a call whose
three matrices have contiguous rows or columns looks up what is ready for its sizes and strides.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._mixed.product import PackedProduct, place
from backends.cpu._simd.argument_table import Shape

MOST_LAYOUTS = 64  # products that a thread keeps

Strides = tuple[int, int]
Make = Callable[[Shape, int], PackedProduct | None]


class RememberedProducts(threading.local):
    """``compute(a, b, out)``, which computes ``out := a b`` and returns True, or returns False and does nothing.

    Each Python thread has its own products: another thread may run between setting the addresses and computing. So may
    a signal handler or a finalizer of the same thread: its product is made anew.

    Parameters
    ----------
    narrow, wide : numpy dtype
        Of the operands, and of the result.
    make : callable
        ``make(shape, a_begins)`` returns the product for a layout, None for one that takes a plan; see `PackedProduct`.
    """

    def __init__(self, narrow: np.dtype[Any], wide: np.dtype[Any], make: Make) -> None:
        self._narrow, self._wide, self._lock = narrow, wide, threading.Lock()

        def made(
            m: int, n: int, k: int, of_a: Strides, of_b: Strides, of_out: int, a_begins: int
        ) -> PackedProduct | None:
            return make(Shape(m, n, k, of_a, of_b, of_out), a_begins)

        self._made, self._ready = made, functools.lru_cache(MOST_LAYOUTS)(made)

    def compute(self, a: Any, b: Any, out: Any) -> bool:
        """Compute the product of matrices that are as the class describes."""
        if not (_is_matrix(a, self._narrow) and _is_matrix(b, self._narrow) and _is_matrix(out, self._wide)):
            return False
        if not _has_rows(out):
            a, b, out = b.T, a.T, out.T
            if not (_has_rows(a) and _has_rows(b) and _has_rows(out)):
                return False
        elif not ((_has_rows(a) or _has_rows(a.T)) and (_has_rows(b) or _has_rows(b.T))):
            return False
        (m, k), (k_of_b, n) = a.shape, b.shape
        if k_of_b != k or out.shape != (m, n) or min(m, n, k) < 1 or not out.flags.writeable:
            return False
        if np.may_share_memory(out, a) or np.may_share_memory(out, b):
            return False
        address, *others = (x.__array_interface__["data"][0] for x in (a, b, out))
        layout = m, n, k, a.strides, b.strides, out.strides[0], place(address)
        return self._run(layout, address, *others)

    def _run(self, layout: tuple[Any, ...], *addresses: int) -> bool:
        """Compute the product of a layout, if it is one that is made, and return whether it is."""
        if self._lock.locked():
            return _run(self._made(*layout), *addresses)
        with self._lock:
            return _run(self._ready(*layout), *addresses)


def _run(product: PackedProduct | None, *addresses: int) -> bool:
    """Compute a product, if there is one, and return whether there is."""
    if product is not None:
        product.run(*addresses)
    return product is not None


def _is_matrix(x: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether `x` is a matrix of NumPy of `dtype`."""
    return x.__class__ is np.ndarray and x.ndim == 2 and x.dtype == dtype


def _has_rows(x: np.ndarray) -> bool:
    """Return whether the rows of a matrix are contiguous, ascending and disjoint, and its elements aligned."""
    distance, stride = x.strides
    return stride == x.itemsize and distance >= x.shape[1] * stride and x.flags.aligned
