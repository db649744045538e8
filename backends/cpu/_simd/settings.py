"""Which loops compute a product, and with which blocks: by the settings of its plan, its shape and its strides."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.cpu._simd.argument_table import Loops, Shape
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.loops import columns_beside, columns_left
from backends.cpu._simd.matrix_vector import VectorLoops
from backends.cpu._simd.rank_update import UpdateLoops
from backends.cpu._simd.shared_panels import SharedLoops
from backends.cpu._simd.symmetric import SymmetricLoops
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.unit import VectorUnit
from harness.dtypes import dtype_name
from harness.plan import Blocking
from harness.tuning import simd as tuning_simd
from harness.tuning import simd_parts as tuning_parts

_SWAPPED = str.maketrans("ab", "ba")  # what is conjugated in the transposed product


@dataclass(frozen=True)
class Settings:
    """Settings of the loops, from the plan.

    Attributes
    ----------
    unit : VectorUnit
    blocking : Blocking
        In elements of the dtype that is computed.
    threads : int
    packs_a, packs_b : bool
        Whether A, and B, are packed where the loops could read them in place.
    in_place_up_to : int
        Up to this m and n B need not be packed. Up to this n A need not, whatever its stride.
    bad_stride_a, bad_stride_b : int
        Larger operands are packed if their rows are near a multiple of this many bytes apart.
    near_b_bytes : int
        A larger B that few rows of A read in place passes through a few rows at a time.
    block_steps : int
        Terms in a block of k that is tracked; 0: no tracking.
    conjugates : str
        The operands, of "a" and "b", that are conjugated as they are read.
    """

    unit: VectorUnit
    blocking: Blocking
    threads: int
    packs_a: bool
    packs_b: bool
    in_place_up_to: int
    bad_stride_a: int
    bad_stride_b: int
    near_b_bytes: int
    block_steps: int = 0
    conjugates: str = ""

    def changed(self, **settings: Any) -> Settings:
        """Return the same with other `settings`; `dataclasses.replace` takes ten times as long."""
        other = object.__new__(Settings)
        vars(other).update(vars(self), **settings)
        return other

    def key(self, ops: Operations, dtype: np.dtype[Any]) -> KernelKey:
        """Return the key of the kernel with the plan's register tile."""
        tile = self.blocking.mr, self.blocking.nr // self.unit.lanes(dtype)
        return _key(ops, self.conjugates, dtype, self.unit.name, *tile, self.block_steps)

    def loops(
        self, ops: Operations, dtype: np.dtype[Any], shape: Shape, triangle: str = "", *, is_upper: bool = False
    ) -> Loops:
        """Return the loops for operands of this shape, of the type of their nest; `triangle`, `is_upper`: as there."""
        return self.loops_by(self.key(ops, dtype), shape, triangle, is_upper=is_upper)

    def loops_by(self, key: KernelKey, shape: Shape, triangle: str = "", *, is_upper: bool = False) -> Loops:
        """Return the same by the kernel of a key."""
        nest, m, n = self._nest(shape, key.itemsize, triangle), shape.m, shape.n
        if nest is Loops:
            return self.tiled_loops(key, shape, triangle)
        if nest is VectorLoops:
            return self._vector_loops(key, shape)
        size = (m * m // 2 if nest is SymmetricLoops else m * n // (1 + bool(triangle))) * key.itemsize
        grid = tuning_parts.stream_parts(size, self.threads), 1
        return nest(key, self.blocking, False, False, grid, self.threads, triangle, is_upper=is_upper)

    def _nest(self, shape: Shape, itemsize: int, triangle: str) -> type[Loops]:
        """Return the type of the loops: those that stream a matrix once, where that is possible, or those of tiles."""
        if triangle == "a":
            return SymmetricLoops
        if self._updates_rows(shape, itemsize):
            return UpdateLoops
        if (shape.m > 1 and shape.n > 1) or self.block_steps or triangle:
            return Loops
        streamed = shape.strides_a if shape.n == 1 else shape.strides_b
        return VectorLoops if streamed[1] == itemsize else Loops

    def tiled_loops(self, key: KernelKey, shape: Shape, triangle: str) -> Loops:
        """Return the loops around the register tile, which pack what they do not read in place."""
        m, n, k, (row_a, step_a), (row_b, _), _, _ = shape
        itemsize, blocking = key.itemsize, self.blocking
        is_near = n <= self.in_place_up_to or tuning_simd.reads_in_place(row_a, m, self.bad_stride_a)
        b_in_place, comes_by_rows = self._reads_b_in_place(shape, key)
        packs_a, packs_b = self.packs_a or step_a != itemsize or not is_near, self.packs_b or not b_in_place
        parts = tuning_parts.simd_parts(m * n * k // (1 + bool(triangle)), self.threads)
        if triangle:
            side = tuning_parts.triangle_grid(m, self.threads, parts)
            return Loops(key, blocking, packs_a, packs_b, (side, side), self.threads, triangle)
        if packs_b and not packs_a and columns_beside(key, n, k) == n:
            blocking = blocking.resized(kc=k)  # dot products stream A once
        elif packs_b and not self._is_good_distance(row_b, k) and not self.block_steps:
            blocking = blocking.resized(kc=min(blocking.kc, tuning_simd.kc_at_bad_distance(m, k, itemsize)))
        elif comes_by_rows and not packs_b:
            blocking = blocking.resized(kc=min(blocking.kc, tuning_simd.SIMD_STREAMED_ROWS))
        shares = packs_b and not self.block_steps and tuning_parts.shares_panels(m, n, k, self.threads)
        if shares and columns_beside(key, n, k) < n:
            grid = tuning_parts.shared_grid(m, n, self.threads, blocking.mr, blocking.nr)
            return SharedLoops(key, blocking, packs_a, packs_b, grid, self.threads)
        costs = tuning_parts.SIMD_PACKING_ROWS if packs_b or comes_by_rows else 0, tuning_parts.SIMD_READING_COLUMNS
        grid = tuning_parts.thread_grid(m, n, parts, tuning_parts.SIMD_ROW_STEP, key.lanes, *costs)
        return Loops(key, blocking, packs_a, packs_b, grid, self.threads)

    def _reads_b_in_place(self, shape: Shape, key: KernelKey) -> tuple[bool, bool]:
        """Return whether B may be read in place, and whether it then comes a few rows at a time."""
        m, n, k, _, (row_b, step_b), _, _ = shape
        size = key.itemsize
        if step_b != size or not key.masks:
            return False, False
        is_near = abs(row_b) < tuning_simd.SIMD_NEAR_ROWS_OF_B and columns_left(n, k, key.lanes) == 0
        is_short = k <= self.in_place_up_to or (is_near and m <= tuning_simd.SIMD_FEW_ROWS_OF_A)
        if max(m, n) <= self.in_place_up_to and is_short and self._is_good_distance(row_b, k):
            return True, False
        is_flat = m <= self.blocking.mr * tuning_simd.flat_strips(n * size, row_b, self.unit.size_bytes)
        return is_flat, is_flat and k * n * size > self.near_b_bytes and not self.block_steps

    def _is_good_distance(self, row_b: int, k: int) -> bool:
        return tuning_simd.reads_in_place(row_b, k, self.bad_stride_b)

    def streams(self, shape: Shape, dtype: np.dtype[Any]) -> bool:
        """Return whether a matrix passes through once: that takes as long as a scan of it."""
        return min(shape.m, shape.n) == 1 or self._updates_rows(shape, dtype.itemsize)

    def _updates_rows(self, shape: Shape, itemsize: int) -> bool:
        """Return whether a product has so few terms that each row of C passes through once, by `UpdateLoops`."""
        is_possible = shape.strides_b[1] == itemsize and not self.block_steps
        return is_possible and tuning_parts.updates_rows(shape.m, shape.n, shape.k, itemsize)

    def _vector_loops(self, key: KernelKey, shape: Shape) -> VectorLoops:
        """Return the loops of a matrix by a vector: threads share its rows or, of few rows of A, its columns."""
        m, n, k, itemsize = shape.m, shape.n, shape.k, key.itemsize
        packs_x = n == 1 and shape.strides_b[0] != itemsize
        parts, parts_of_k = tuning_parts.stream_parts(m * n * k * itemsize, self.threads), 1
        is_low = n == 1 and m < parts * key.mr and shape.row_stride_out == itemsize and not packs_x
        if is_low or (m == 1 and 1 < n * itemsize <= tuning_simd.SIMD_LONGEST_SUM):
            parts_of_k = tuning_parts.parts_of_k(k, parts)
        grid = (parts, 1) if n == 1 else (1, parts)
        return VectorLoops(key, self.blocking, False, packs_x, grid, self.threads, parts_of_k=parts_of_k)

    def tracking(self, steps: int) -> Settings:
        """Return the settings of a product that notes blocks of `steps` terms: kc is a multiple of it."""
        kc = -(-self.blocking.kc // steps) * steps
        return self.changed(blocking=self.blocking.resized(kc=kc), block_steps=steps)

    def transposed(self) -> Settings:
        """Return the settings of the transposed product.

        Block sizes stay the same, but nc grows to the block of m if that is larger, since m becomes n.
        """
        x = self.blocking
        nc = max(x.nc, -(-x.mc // x.nr) * x.nr)
        conjugates = self.conjugates.translate(_SWAPPED)
        others = {"packs_a": self.packs_b, "packs_b": self.packs_a, "conjugates": conjugates}
        return self.changed(blocking=x.resized(nc=nc), **others)


@functools.cache
def _key(ops: Operations, conjugates: str, dtype: np.dtype[Any], unit: str, mr: int, nv: int, steps: int) -> KernelKey:
    return KernelKey(ops._replace(conjugates=conjugates), dtype_name(dtype), unit, mr, nv, steps)
