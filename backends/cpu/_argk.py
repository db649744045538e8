"""The two passes that find, for each element of a product over min or max, the smallest k that attains it.

    merge    c := c (+) terms, and block := q where that changed c         one compare for each element and block of k
    search   argk := the first p of the element's block with a[i, p] (x) b[p, j] == c[i, j]

A (x) of one pair rounds the same each time, so equality finds the term exactly. `search` compares CHUNK terms at once,
along k: it reads rows of A and rows of B transposed, whose lengths are padded to whole chunks. What lies in the padding
does not matter: a term that counts comes before it, and nothing is looked for that no term attains.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic

from backends.cpu import _vector_code as v
from backends.cpu._jit import jit, output, scratch
from backends.cpu._operators import operators
from backends.cpu._packing import build_transpose
from backends.cpu._vector_operators import Guard, guard, operations
from backends.cpu._vector_unit import VectorUnit
from harness.operands import CACHE_LINE, aligned_empty
from harness.semiring import Semiring

CHUNK = 64  # terms compared at once: as many as a machine word has bits

# A part of `search`: so many rows of B transposed stay in L2, and there are parts enough for the threads.
_PART_ROWS, _PART_COLUMNS = 128, 32


class Passes(NamedTuple):
    """Compiled for one semiring and dtype.

    Attributes
    ----------
    merge : function
        ``merge(terms, c, block, rows, q)``.
    search : function
        ``search(a, b, c, block, steps, product, argk, missing)``.
    transpose : function
        ``transpose(b, rows)``.
    """

    merge: Callable[..., None]
    search: Callable[..., None]
    transpose: Callable[[np.ndarray, np.ndarray], None]


@functools.cache
def passes(semiring: Semiring, dtype: np.dtype[Any]) -> Passes:
    """Compile the passes for a semiring whose (+) is selective."""
    return Passes(build_merge(semiring, dtype), build_search(semiring, dtype), build_transpose(dtype))


def chunked_rows(count: int, k: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return work memory for `count` rows of k elements, each padded to whole chunks and begun on a cache line.

    A row is one cache line longer than it must be, or rows of a power of two would share the sets of the caches.
    """
    row = -(-k // CHUNK) * CHUNK + CACHE_LINE // dtype.itemsize
    rows = aligned_empty((count, row), dtype)
    rows[:, k:] = 0  # no NaN, no denormal number: they would only cost time
    return rows


@functools.cache
def build_merge(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``merge``: a tile of C takes what is better in `terms`, from block q."""
    add = operators(semiring, dtype).add

    def merge(terms: np.ndarray, c: np.ndarray, block: np.ndarray, rows: int, q: int) -> None:
        """Compute ``c := c (+) terms`` on the first rows of a tile; ``block`` becomes q where c has changed."""
        for i in prange(rows):
            t, x, which = terms[i], c[i], block[i]
            for j in range(x.size):
                better = add(x[j], t[j])
                which[j] = q if better != x[j] else which[j]
                x[j] = better

    tile = (scratch(dtype, 2), scratch(dtype, 2), scratch(np.dtype(np.int32), 2))
    return jit(semiring, *tile, types.intp, types.int32)(merge)


@functools.cache
def build_search(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile ``search``: from a tile of C and the blocks of `steps` terms that it came from, product and argk.

    ``missing[0]`` becomes 1 if an element is attained by no term of its block.
    """
    first_match = build_first_match(semiring, dtype)
    part_rows, part_columns, chunk = _PART_ROWS, _PART_COLUMNS, CHUNK

    def search(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, block: np.ndarray, steps: int, product: np.ndarray,
        argk: np.ndarray, missing: np.ndarray,
    ) -> None:  # fmt: skip
        """Copy c, and replace block indices by the smallest k; -1 stays."""
        rows, columns = product.shape
        across = (columns + part_columns - 1) // part_columns
        for part in prange(across * ((rows + part_rows - 1) // part_rows)):
            row, column = part // across * part_rows, part % across * part_columns
            for i in range(row, min(row + part_rows, rows)):
                for j in range(column, min(column + part_columns, columns)):
                    value, p = c[i, j], np.intp(block[i, j]) * steps
                    product[i, j] = value
                    argk[i, j] = -1
                    if p < 0:
                        continue
                    end = p + steps
                    found = first_match(a, i, b, j, p, value)
                    while found == chunk and p + chunk < end:
                        p += chunk
                        found = first_match(a, i, b, j, p, value)
                    if found == chunk:
                        missing[0] = 1
                    argk[i, j] = p + found

    tile = (scratch(dtype, 2), scratch(np.dtype(np.int32), 2))
    result = (output(dtype), output(np.dtype(np.int32)))
    work = scratch(dtype, 2)
    return jit(semiring, work, work, *tile, types.intp, *result, scratch(np.dtype(np.int64), 1))(search)


def build_first_match(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return ``first_match(a, i, b, j, p, value)``: the first of CHUNK terms from p that is `value`, else CHUNK.

    As vector code where there is vector code of (x), else term by term.
    """
    if not numba.config.DISABLE_JIT and operations(semiring, dtype) is not None:
        return _first_match_by_vectors(semiring, dtype)
    multiply, chunk = operators(semiring, dtype).multiply, CHUNK

    @numba.njit(error_model="numpy")
    def first_match(a: np.ndarray, i: int, b: np.ndarray, j: int, p: int, value: Any) -> int:
        for step in range(chunk):
            if multiply(a[i, p + step], b[j, p + step]) == value:
                return step
        return chunk

    return first_match


def _first_match_by_vectors(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return `first_match` as one comparison of CHUNK terms, whose first set bit is looked for."""
    wanted = operations(semiring, dtype)
    assert wanted is not None
    wanted = wanted._replace(is_careful=guard(semiring, dtype) is not Guard.NONE)
    code = v.VectorCode(VectorUnit("chunk", (), CHUNK * dtype.itemsize, 1, 1), dtype)
    word = ir.IntType(CHUNK)

    def emit(builder: v.Builder, x: Any, y: Any, value: Any) -> Any:
        terms = wanted.term(code, builder, code.load(builder, x), code.load(builder, y))
        compare = builder.fcmp_ordered if dtype.kind == "f" else builder.icmp_signed
        bits = builder.bitcast(compare("==", terms, code.splat(builder, value)), word)
        count = v.declare(builder, f"llvm.cttz.i{CHUNK}", word, [word, v.BIT])
        return builder.call(count, [bits, ir.Constant(v.BIT, 0)])  # of no bit at all: CHUNK

    @intrinsic
    def first_match(typing_context: Any, a: Any, i: Any, b: Any, j: Any, p: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            of_a, row, of_b, column, step, c = arguments
            pointers = []
            for kind, array, index in ((a, of_a, row), (b, of_b, column)):
                parts = context.make_array(kind)(context, builder, array)
                stride = builder.extract_value(parts.strides, 0)
                offset = builder.add(builder.mul(index, stride), builder.mul(step, v.size(dtype.itemsize)))
                pointers.append(v.advance(builder, builder.bitcast(parts.data, v.POINTER), offset))
            as_stored = builder.zext(c, code.element) if dtype.kind == "b" else c  # a bool is a byte in memory
            return emit(builder, *pointers, as_stored)

        return types.intp(a, types.intp, b, types.intp, types.intp, value), generate

    return first_match
