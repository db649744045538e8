"""Small products of a batch with the k that each element comes from, by the definition, in compiled loops.

    for each product, shared by the threads; it is called by its address
      for i over m, for p over k:   C[i, :] := C[i, :] (+) A[i, p] (x) B[p, :],  argk := p where that changed C

A later term replaces an earlier one only if it is strictly better, so the smallest k is found. The inner loop runs
along a row of B, in vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, scalar
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.product import has_contiguous_rows
from backends.cpu._vector.intrinsics import as_pointer
from harness.operands import distinct
from harness.semiring import Semiring

_NO_K, _K = -1, np.dtype(np.int32)


def prepare_argk(semiring: Semiring, a: np.ndarray, b: np.ndarray, c: np.ndarray, argk: np.ndarray) -> Any:
    """Return ``run()``, which writes ``a (x) b`` to `c` and the smallest k of each element to `argk`.

    Parameters
    ----------
    semiring : Semiring
        Whose (+) selects.
    a, b : (..., m, k) and (..., k, n) array
    c, argk : (..., m, n) array
        C-ordered; `argk` of int32.
    """
    product = address_of(build_product(semiring, c.dtype))
    compute, batch, given = build_products(c.dtype), c.shape[:-2], distinct(b)
    if not has_contiguous_rows(b):
        b = np.broadcast_to(copy := np.empty(given.shape, b.dtype), b.shape)
    else:
        copy = given
    longest = max(range(len(batch)), key=batch.__getitem__)
    arrays = [np.moveaxis(x, longest, -3) for x in (a, b, c, argk)]
    parts = [tuple(x[index] for x in arrays) for index in np.ndindex(arrays[0].shape[:-3])]

    def run() -> None:
        if copy is not given:
            copy[...] = given
        for part in parts:
            compute(*part, product)

    return run


@kernel_builder
def build_product(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``compute(a, b, c, argk, product)`` over arrays of three dimensions; rows of all but a are contiguous."""
    add, multiply, zero = operators(semiring, dtype)

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray, argk: np.ndarray, product: int) -> None:
        x, y, n = a[product], b[product], c.shape[2]
        for i in range(x.shape[0]):
            row = carray(as_pointer(c[product, i].ctypes.data), (n,), dtype)
            which = carray(as_pointer(argk[product, i].ctypes.data), (n,), _K)
            for j in range(n):
                row[j], which[j] = zero, _NO_K
            for p in range(x.shape[1]):
                factor, now = x[i, p], np.int32(p)
                terms = carray(as_pointer(y[p].ctypes.data), (n,), dtype)
                for j in range(n):
                    better = add(row[j], multiply(factor, terms[j]))
                    which[j] = now if better != row[j] else which[j]
                    row[j] = better

    return jit(semiring, *_arrays(dtype), types.intp, parallel=False)(compute)


@kernel_builder
def build_products(dtype: np.dtype[Any]) -> Any:
    """Compile ``compute(a, b, c, argk, product)``: every product of a batch, by the address of `build_product`.

    The same for every semiring. In the body of a parallel loop Numba would compile a product twice more.
    """

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray, argk: np.ndarray, product: Any) -> None:
        for index in prange(c.shape[0]):
            call(product, (a, b, c, argk, np.intp(index)))

    return jit(None, *_arrays(dtype), types.intp)(compute)


def _arrays(dtype: np.dtype[Any]) -> list[Any]:
    """Return the types of a, b, c and argk."""

    def matrices(dtype: np.dtype[Any], is_read: bool) -> Any:
        return types.Array(scalar(dtype), 3, "A", readonly=is_read)

    return [matrices(dtype, True), matrices(dtype, True), matrices(dtype, False), matrices(_K, False)]
