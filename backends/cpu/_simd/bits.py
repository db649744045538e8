"""Products over bool, 32 elements a word: one instruction of a 512-bit unit extends 512 of them.

    B (k, n) is packed along n into words of bits;       A (m, k) becomes words that are all ones or all zeros
    C, as words,  :=  (+)_p  A[:, p] (x) B[p, :]          by the generated kernel for and, or, xor over int32
    C is unpacked into bools, combined with C if the product accumulates

The passes are O(m k + k n + m n) and vectorised; any byte but 0 counts as true.

Source: the representation of M4RI (Albrecht, Bard and Hart, 2010, section 2), without its tables.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit
from backends.cpu._simd.argument_table import Run, Shape, prepare_product
from backends.cpu._simd.product import through
from backends.cpu._simd.settings import Settings
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import as_pointer, emits
from backends.cpu._vector.operators import operations
from harness.operands import aligned_empty
from harness.semiring import Semiring

WORD_BITS = 32
WORD = np.dtype(np.int32)

_BYTES, _BITS = ir.VectorType(v.BYTE, WORD_BITS), ir.VectorType(v.BIT, WORD_BITS)


def prepare_bits(
    semiring: Semiring, settings: Settings, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool
) -> Run:
    """Return ``run()``, which computes ``out := [out (+)] a (x) b`` over bool.

    Parameters
    ----------
    semiring : Semiring
        (+) is lor, land or lxor, and (x) is land or lor.
    settings : Settings
        Of the product of words, (m, k) by (k, words).
    a, b, out : (m, k), (k, n) and (m, n) array of bool
        Any strides; m, n, k >= 1.
    accumulate : bool
    """
    (m, k), n = a.shape, b.shape[1]
    words = -(-n // WORD_BITS)
    rows_of_a, rows_of_b, rows_of_out = (_rows(x) for x in (a, b, out))
    masks, bits, result = (aligned_empty(shape, WORD) for shape in ((m, k), (k, words), (m, words)))
    ops = operations(semiring, a.dtype)
    assert ops is not None
    loops = settings.loops(ops, WORD, Shape.of(masks, bits, result))
    product = prepare_product(loops, masks, bits, result, accumulate=False)
    combine = _COMBINE[semiring.add.name] if accumulate else _STORE

    def compute() -> None:
        for rows, x in ((rows_of_a, a), (rows_of_b, b)):
            if rows is not x:
                rows[...] = x
        build_spread()(*_layout(rows_of_a), masks)
        build_pack()(*_layout(rows_of_b), bits)
        product()
        build_unpack()(*_layout(rows_of_out), result, combine)

    return through(rows_of_out, out, accumulate, compute)


# Values of `unpack`'s argument `how`: how a word of the result is combined with the bytes of C.
_STORE = 0
_COMBINE = {"lor": 1, "land": 2, "lxor": 3}


def _rows(x: np.ndarray) -> np.ndarray:
    """Return `x`, or an array to copy it to if its rows are not contiguous."""
    return x if x.strides[1] == 1 or x.shape[1] == 1 else np.empty(x.shape, x.dtype)


def _layout(x: np.ndarray) -> tuple[int, int, int, int]:
    """Return address, rows, columns and distance of rows of a matrix of bytes."""
    return x.__array_interface__["data"][0], *x.shape, x.strides[0]


@emits(types.int32, types.intp)
def _word_of(b: Builder, address: Value) -> Value:
    """Return 32 bytes as bits."""
    loaded = b.load(b.inttoptr(address, v.POINTER), typ=_BYTES, align=1)
    return b.bitcast(b.icmp_unsigned("!=", loaded, ir.Constant(_BYTES, None)), v.INDEX)


@emits(types.void, types.intp, types.int32)
def _store_bytes(b: Builder, address: Value, word: Value) -> None:
    """Store bits as 32 bytes."""
    expanded = b.zext(b.bitcast(word, _BITS), _BYTES)
    b.store(expanded, b.inttoptr(address, v.POINTER), align=1)


_LAYOUT = (types.intp, types.intp, types.intp, types.intp)
_WORDS = types.Array(types.int32, 2, "C")


@kernel_builder
def build_spread() -> Any:
    """Compile ``spread(address, rows, columns, stride, masks)``: true becomes a word of ones."""

    def spread(address: int, rows: int, columns: int, stride: int, masks: np.ndarray) -> None:
        for i in range(rows):
            row, mask = carray(as_pointer(address + i * stride), (columns,), np.uint8), masks[i]
            for p in range(columns):
                mask[p] = -np.int32(row[p] != 0)

    return jit(None, *_LAYOUT, _WORDS, parallel=False)(spread)


@kernel_builder
def build_pack() -> Any:
    """Compile ``pack(address, rows, columns, stride, words)``: a row of bytes becomes a row of bits."""

    def pack(address: int, rows: int, columns: int, stride: int, words: np.ndarray) -> None:
        whole = columns // WORD_BITS
        for i in range(rows):
            start = address + i * stride
            for w in range(whole):
                words[i, w] = _word_of(start + w * WORD_BITS)
            row, last = carray(as_pointer(start), (columns,), np.uint8), np.int32(0)
            for j in range(whole * WORD_BITS, columns):
                last |= np.int32(row[j] != 0) << np.int32(j - whole * WORD_BITS)
            if whole < words.shape[1]:
                words[i, whole] = last

    return jit(None, *_LAYOUT, _WORDS, parallel=False)(pack)


@kernel_builder
def build_unpack() -> Any:
    """Compile ``unpack(address, rows, columns, stride, words, how)``: bits become bytes, combined with those of C."""

    def unpack(address: int, rows: int, columns: int, stride: int, words: np.ndarray, how: int) -> None:
        whole = columns // WORD_BITS
        for i in range(rows):
            start = address + i * stride
            for w in range(whole):
                word, group = words[i, w], start + w * WORD_BITS
                if how != _STORE:
                    word = combined(how, _word_of(group), word)
                _store_bytes(group, word)
            row = carray(as_pointer(start), (columns,), np.uint8)
            for j in range(whole * WORD_BITS, columns):
                bit = (words[i, whole] >> np.int32(j - whole * WORD_BITS)) & np.int32(1)
                if how != _STORE:
                    bit = combined(how, np.int32(row[j] != 0), bit)
                row[j] = np.uint8(bit)

    def combined(how: int, x: int, y: int) -> int:
        if how == 1:
            return np.int32(x | y)
        return np.int32(x & y) if how == 2 else np.int32(x ^ y)

    combined = numba.njit(combined)
    return jit(None, *_LAYOUT, _WORDS, types.intp, parallel=False)(unpack)
