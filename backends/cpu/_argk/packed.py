"""Integers with k packed into their low bits: one plain product yields the value and its k, without a search.

    A' := (A - base) * 2^s + position,    B' likewise     position: p where (+) is min, 2^s - 1 - p where it is max
    C' := A' (x) B'                                       equal terms: the better position wins, the smallest p
    c  := C' / 2^s + base,    argk := the position in C'

(x) is plus, with the position in A' alone, or min or max, with the position in both. It needs 2^s >= k, and terms times
2^s must fit the dtype. Else k is cut into parts that fit; each part replaces the elements that it improves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import prange, types

from backends.cpu._argk.search import searches_by_vectors
from backends.cpu._argk.work import Work
from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, rows, scratch
from backends.cpu._ladder.operators import operators
from backends.cpu._simd.block_tracker import NO_BLOCK
from backends.cpu._simd.value_scan import Look
from backends.cpu._vector.operators import Guard
from harness.interface import Prepared
from harness.operands import Operands, aligned_empty
from harness.semiring import Semiring, highest, lowest

SIZES = (4, 8)  # of elements, signed: narrower ones have no room


Ranges = tuple[tuple[int, int], tuple[int, int]]


class Packing(NamedTuple):
    """Layout of k in the low bits of the operands.

    Attributes
    ----------
    semiring : Semiring
    dtype : numpy dtype
    shift : int
        Bits of a position.
    base_a, base_b : int
        Subtracted from A and from B.
    """

    semiring: Semiring
    dtype: np.dtype[Any]
    shift: int
    base_a: int
    base_b: int

    @property
    def steps(self) -> int:
        """Number of terms of k that positions distinguish."""
        return 1 << self.shift

    def pack(self, a: np.ndarray, b: np.ndarray, packed_a: np.ndarray, packed_b: np.ndarray) -> None:
        """Write A' and B'; `a` has at most `steps` columns."""
        last, sign = (self.steps - 1, -1) if self.semiring.add.name == "max" else (0, 1)
        pack, both = build_pack(self.dtype), self.semiring.multiply.name != "plus"
        for x, target, base, strides in ((a, packed_a, self.base_a, (0, sign)), (b, packed_b, self.base_b, (sign, 0))):
            first, (down, right) = (last, strides) if both or x is a else (0, (0, 0))
            pack(np.ascontiguousarray(x), self.shift, base, first, down, right, target)

    def unpack(self, terms: np.ndarray, product: np.ndarray, argk: np.ndarray, begin: int) -> None:
        """Unpack `terms` to `product` and `argk`; if `begin`, their first k, is not 0, only where they are better."""
        if begin == 0 and terms is not product:
            product[...] = terms
        base = self.base_a + self.base_b if self.semiring.multiply.name == "plus" else self.base_a
        build_unpack(self.semiring, self.dtype)(terms, self.shift, base, begin, product, argk)


class CarryingProduct:
    """The product of a part of k, over integers that carry it.

    Parameters
    ----------
    operands : Operands
        Of all of k; `out` receives the product.
    argk : (m, n) array of int32
    begin, steps : int
        First k, and number of terms at most.
    prepare : callable
        ``prepare(operands)`` has a backend prepare a product.
    work : callable
        As `_argk.work` has it.
    """

    def __init__(
        self, operands: Operands, argk: np.ndarray, begin: int, steps: int, prepare: Callable[..., Prepared], work: Work
    ) -> None:
        self._a, self._b = operands.a[:, begin : begin + steps], operands.b[begin : begin + steps]
        self._product, self._argk, self._begin, self._prepare = operands.out, argk, begin, prepare
        self._packed = [work(x.shape, x.dtype, name) for x, name in ((self._a, "packed A"), (self._b, "packed B"))]
        self._prepared: Prepared | None = None

    def run(self, packing: Packing) -> None:
        """Write the product and the k of each element; those of a later part only where they are better."""
        packing.pack(self._a, self._b, *self._packed)
        if self._prepared is None:  # only now: a backend may read operands when it prepares
            product = self._product
            terms = aligned_empty(product.shape, product.dtype) if self._begin else product
            self._prepared = self._prepare(Operands(*self._packed, None, terms))
        packing.unpack(self._prepared.run_once(), self._product, self._argk, self._begin)


def can_carry_k(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether k can be packed into the values of such a product, if their range leaves room."""
    is_known = dtype.kind == "i" and dtype.itemsize in SIZES and searches_by_vectors(semiring, dtype)
    return is_known and semiring.add.name in ("min", "max") and semiring.multiply.name in ("plus", "min", "max")


def packing(semiring: Semiring, dtype: np.dtype[Any], k: int, ranges: Ranges | None, fewest: int) -> Packing | None:
    """Return the packing of k, in parts of at least `fewest` terms or in one; None if the dtype has no room.

    `ranges` are the least and the greatest element of A, and those of B; None: unknown, or unused (`can_carry_k`).
    """
    if ranges is None or not can_carry_k(semiring, dtype):
        return None
    adds = semiring.multiply.name == "plus"
    if not adds:
        ranges = ((min(ranges[0][0], ranges[1][0]), max(ranges[0][1], ranges[1][1])),) * 2
    elif not Look(Guard.NO_EXTREME, semiring, dtype).allows(*ranges):
        return None
    bases = base_a, base_b = [low + (high - low + 1) // 2 for low, high in ranges]  # so that A' and B' lie around 0
    around = [(low - base, high - base) for (low, high), base in zip(ranges, bases, strict=True)]
    low, high = map(sum, zip(*around, strict=True)) if adds else around[0]
    shift = (k - 1).bit_length()
    while shift >= 0 and not (lowest(dtype) < low << shift and (high + 1) << shift < highest(dtype)):
        shift -= 1
    return Packing(semiring, dtype, shift, base_a, base_b) if shift >= 0 and 1 << shift >= min(fewest, k) else None


@kernel_builder
def build_pack(dtype: np.dtype[Any]) -> Any:
    """Compile ``pack(x, shift, base, first, down, right, target)``: the position's steps along a column and a row."""

    def pack(x: np.ndarray, shift: int, base: int, first: int, down: int, right: int, target: np.ndarray) -> None:
        for i in prange(x.shape[0]):
            row, to, position = x[i], target[i], first + i * down
            for j in range(row.size):
                to[j] = ((row[j] - base) << shift) + (position + j * right)

    size = types.int64
    return jit(None, rows(dtype), *[size] * 5, scratch(dtype, 2))(pack)


@kernel_builder
def build_unpack(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``unpack(terms, shift, base, begin, product, argk)``."""
    add, element, zero = operators(semiring, dtype).add, dtype.type, semiring.zero(dtype)
    is_max = semiring.add.name == "max"

    def unpack(terms: np.ndarray, shift: int, base: int, begin: int, product: np.ndarray, argk: np.ndarray) -> None:
        mask = (1 << shift) - 1
        for i in prange(terms.shape[0]):
            t, c, k = terms[i], product[i], argk[i]
            if begin == 0:  # `product` holds the terms; LLVM does not vectorise the loop over `terms`
                for j in range(c.size):
                    position = c[j] & mask
                    value = element((c[j] >> shift) + base)
                    c[j] = value
                    k[j] = NO_BLOCK if value == zero else (mask - position if is_max else position)
            else:
                for j in range(t.size):
                    position = t[j] & mask
                    before = c[j]
                    value = add(before, element((t[j] >> shift) + base))
                    c[j] = value
                    k[j] = k[j] if value == before else begin + (mask - position if is_max else position)

    size, numbers = types.int64, scratch(np.dtype(np.int32), 2)
    return jit(semiring, scratch(dtype, 2), size, size, size, scratch(dtype, 2), numbers)(unpack)
