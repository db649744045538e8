"""A matrix by its own transpose, where (x) commutes: the result is symmetric, and one triangle of it is computed.

    for each block of k:
        copy      rows of A, unless the loops can read them where they are
        compute   D by strips of columns, each from the diagonal down, without the tiles above it: every panel of B is
                  packed once, or once a part
    mirror    what lies below the diagonal to its other side; if one of the two is conjugated, D is Hermitian, and so
              is what is mirrored

The two halves are equal to the last bit. NumPy does the same over floats (BLAS has SYRK for it). The kernel is that of
any product, so nothing more is compiled.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numba import carray, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit
from backends.cpu._compile.scratch import scratch
from backends.cpu._simd.argument_table import Loops, LoopTable, Shape, Stage, cut_evenly
from backends.cpu._simd.block_copies import BlockCopies, BlockCopy
from backends.cpu._simd.loops import row_bytes, tile_bytes
from backends.cpu._simd.part import NO_DIAGONAL
from backends.cpu._simd.run_parts import SCRATCH
from backends.cpu._vector.intrinsics import as_pointer
from backends.cpu._vector.operators import Operations
from harness.dtypes import parts_dtype
from harness.semiring import BINARY_OPS
from harness.tuning import simd_parts as tuning_parts

ROWS = 16  # of A that are copied together are a multiple of this: whole squares of registers


def is_self_product(shape: Shape, ops: Operations) -> bool:
    """Return whether B has the layout of A transposed: the product is symmetric if both begin at one address."""
    is_large = shape.m >= tuning_parts.SIMD_FEWEST_ROWS_TO_MIRROR and shape.k > tuning_parts.SIMD_FEW_TERMS
    is_transposed = shape.m == shape.n and shape.strides_b == shape.strides_a[::-1]
    return is_large and is_transposed and BINARY_OPS[ops.multiply].is_commutative


class LowerLoops(Loops):
    """The loops of strips of columns from the diagonal down; `grid` has the number of strips, and 1."""

    __slots__ = ()

    def stages(self, shape: Shape, accumulate: bool) -> list[Stage]:
        """Return the parts, the largest first: of each strip ranges of rows, so that threads share it."""
        key, whole = self.key, self.whole(shape, accumulate, tile_bytes(self.key))
        cuts = strips(self, shape.m)
        area = sum((shape.m - j) * (end - j) for j, end in cuts)
        parts = []
        for j, end in cuts:
            share = -(-area // (self.threads * tuning_parts.SIMD_MIRRORED_PARTS)) // (end - j)
            count = max(min((shape.m - j) // max(share, key.mr), self.threads), 1) if self.threads > 1 else 1
            for first, last in itertools.pairwise(cut_evenly(shape.m - j, count, key.mr)):
                i, m = j + first, last - first
                parts.append(
                    whole._replace(
                        m=m,
                        n=end - j,
                        a=i * shape.strides_a[0],
                        b=j * shape.strides_b[1],
                        c=i * shape.row_stride_out + j * self.itemsize,
                        diagonal=j - i if i < end else NO_DIAGONAL,
                    )
                )
        return [Stage(self.compile(), sorted(parts, key=lambda part: -part.m * part.n), self.kernel())]


def strips(loops: Loops, n: int) -> list[tuple[int, int]]:
    """Return the ranges of columns of the strips."""
    return list(itertools.pairwise(cut_evenly(n, loops.grid[0], loops.key.lanes * loops.key.nv)))


class SelfProduct:
    """``out := a (x) a^T``, for any three addresses.

    Parameters
    ----------
    loops : Loops
        The choices of the loops for a whole product.
    shape : Shape
        Rows of the output are contiguous.
    """

    def __init__(self, loops: Loops, shape: Shape) -> None:
        count = tuning_parts.mirrored_strips(shape.m, loops.key.lanes * loops.key.nv)
        lower = LowerLoops(*loops._replace(packs_a=False, grid=(count, 1), triangle="d"))
        self._copied_bytes, self._stages = 0, [(None, 0, LoopTable(lower, shape, accumulate=False))]
        if loops.packs_a:  # each part would pack it
            blocks = range(0, shape.k, loops.blocking.kc)
            self._stages = [self._copied_block(lower, shape, p, min(shape.k - p, blocks.step)) for p in blocks]
        of_mirror = list(mirrored(shape.m, shape.row_stride_out, loops.itemsize))
        self._mirror = BlockCopies(loops.key, of_mirror, loops.threads)
        is_hermitian = len(loops.key.operations.conjugates) == 1
        self._conjugate = build_conjugate_above(np.dtype(loops.key.dtype)) if is_hermitian else None
        self._rows = shape.m, shape.row_stride_out

    def _copied_block(self, lower: LowerLoops, shape: Shape, p: int, k: int) -> tuple[BlockCopies, int, LoopTable]:
        """Return a block of k: how to copy its columns of A, where its rows of B begin, and the sums over it."""
        m, threads, itemsize = shape.m, lower.threads, lower.itemsize
        lda, step = row_bytes(k, itemsize), -(-m // (4 * threads * ROWS)) * ROWS if threads > 1 else m
        self._copied_bytes = max(self._copied_bytes, m * lda)
        rows, begin = itertools.pairwise([*range(0, m, step), m]), p * shape.strides_a[1]
        copies = [
            BlockCopy(end - i, k, i * shape.strides_a[0] + begin, *shape.strides_a, i * lda, lda) for i, end in rows
        ]
        of_block = shape._replace(k=k, strides_a=(lda, itemsize))
        return (
            BlockCopies(lower.key, copies, threads),
            p * shape.strides_b[0],
            LoopTable(lower, of_block, accumulate=p > 0),
        )

    def run(self, a: int, out: int) -> None:
        """Compute the product of the matrix at `a`."""
        if self._copied_bytes == 0:
            self._run(a, out, 0)
            return
        memory = scratch(self._copied_bytes, "rows")
        with memory.lock:
            self._run(a, out, memory.address)

    def _run(self, a: int, out: int, memory: int) -> None:
        for copies, of_b, table in self._stages:
            rows = a
            if copies is not None:
                copies.run(a, memory)
                rows = memory
            table.addresses[:SCRATCH] = rows, a + of_b, out, 0
            table.run()
        self._mirror.run(out, out)
        if self._conjugate is not None:
            self._conjugate(out, *self._rows)


@kernel_builder
def build_conjugate_above(dtype: np.dtype[Any]) -> Any:
    """Compile ``conjugate(address, m, stride)`` of what lies above the diagonal; rows are `stride` bytes apart."""
    part = parts_dtype(dtype)
    itemsize = part.itemsize

    def conjugate(address: int, m: int, stride: int) -> None:
        for i in range(m - 1):
            count = 2 * (m - 1 - i)
            row = carray(as_pointer(address + i * stride + 2 * (i + 1) * itemsize), (count,), part)
            for j in range(1, count, 2):
                row[j] = -row[j]

    return jit(None, *[types.intp] * 3, parallel=False)(conjugate)


def mirrored(m: int, stride: int, itemsize: int) -> Any:
    """Yield the copies of what lies below the diagonal: of few columns below their square, and each row inside that."""
    columns, most = tuning_parts.SIMD_MIRRORED_BYTES // itemsize, tuning_parts.SIMD_MIRRORED_ROWS
    for j in range(0, m, columns):
        end = min(j + columns, m)
        for i in range(end, m, most):
            rows = min(most, m - i)
            yield BlockCopy(
                end - j, rows, i * stride + j * itemsize, itemsize, stride, j * stride + i * itemsize, stride
            )
        for i in range(j + 1, end):
            yield BlockCopy(i - j, 1, i * stride + j * itemsize, itemsize, stride, j * stride + i * itemsize, stride)
