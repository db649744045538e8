"""A product by the generated kernels of operands of any strides, in the fast or the careful form, by their values.

The loops need an output with contiguous rows. An output with contiguous columns becomes that of the transposed product,
``C^T = B^T (x)' A^T``. Any other one is computed in an array of its own and copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backends.cpu._simd.argument_table import Loops, Run, Shape, prepare_product
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.loops import columns_left, may_take_dots
from backends.cpu._simd.matrix_vector import VectorLoops
from backends.cpu._simd.value_scan import Look
from backends.cpu._vector.operators import Guard, Operations, guard, operations
from backends.cpu._vector.unit import VectorUnit
from harness.plan import Blocking
from harness.semiring import BINARY_OPS, Semiring
from harness.tuning import simd as tuning_simd

# The (x) with swapped operands, where it does not commute: x (x)' y = y (x) x.
_SWAPPED = {"first": "second", "second": "first"}


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
        Up to this m, n and k B need not be packed, and A need not whatever its stride.
    bad_stride_a, bad_stride_b : int
        Larger operands are packed if their rows are near a multiple of this many bytes apart.
    block_steps : int
        Terms in a block of k that is tracked; 0: no tracking.
    """

    unit: VectorUnit
    blocking: Blocking
    threads: int
    packs_a: bool
    packs_b: bool
    in_place_up_to: int
    bad_stride_a: int
    bad_stride_b: int
    block_steps: int = 0

    def key(self, ops: Operations, dtype: np.dtype[Any]) -> KernelKey:
        """Return the key of the kernel with the plan's register tile."""
        nv = self.blocking.nr // self.unit.lanes(dtype)
        return KernelKey(ops, dtype.name, self.unit.name, self.blocking.mr, nv, self.block_steps)

    def loops(self, ops: Operations, dtype: np.dtype[Any], shape: Shape) -> Loops:
        """Return the choices of the loops for operands of this shape."""
        m, n, k, strides_a, strides_b, *_ = shape
        blocking, key = self.blocking, self.key(ops, dtype)
        is_small = max(m, n, k) <= self.in_place_up_to
        a_in_place = strides_a[1] == dtype.itemsize and (
            is_small or tuning_simd.reads_in_place(strides_a[0], m, self.bad_stride_a)
        )
        is_small_b = is_small and tuning_simd.reads_in_place(strides_b[0], k, self.bad_stride_b)
        b_in_place = (
            strides_b[1] == dtype.itemsize
            and (is_small_b or m <= blocking.mr)
            and dtype.itemsize in self.unit.masked_bytes
        )
        parts = tuning_simd.simd_parts(m * n * k, self.threads)
        grid = tuning_simd.thread_grid(m, n, parts, blocking.mr, blocking.nr)
        if min(m, n) == 1 and not self.block_steps:
            is_streamed = (strides_a if n == 1 else strides_b)[1] == dtype.itemsize
            if is_streamed:
                packs_x = n == 1 and strides_b[0] != dtype.itemsize
                return VectorLoops(key, blocking, False, packs_x, grid, self.threads)
        packs_a, packs_b = self.packs_a or not a_in_place, self.packs_b or not b_in_place
        if packs_b and not packs_a and may_take_dots(key) and columns_left(n, k, key.lanes) == n:
            blocking = Blocking(blocking.mc, blocking.nc, k, blocking.mr, blocking.nr)  # dot products stream A once
        return Loops(key, blocking, packs_a, packs_b, grid, self.threads)

    def tracking(self, steps: int) -> Settings:
        """Return the settings of a product that notes blocks of `steps` terms: kc is a multiple of it."""
        x = self.blocking
        kc = -(-x.kc // steps) * steps
        return replace(self, blocking=Blocking(x.mc, x.nc, kc, x.mr, x.nr), block_steps=steps)

    def transposed(self) -> Settings:
        """Return the settings of the transposed product.

        Block sizes stay the same, but nc grows to the block of m if that is larger, since m becomes n.
        """
        x = self.blocking
        nc = max(x.nc, -(-x.mc // x.nr) * x.nr)
        transposed = Blocking(x.mc, nc, x.kc, x.mr, x.nr)
        return replace(self, blocking=transposed, packs_a=self.packs_b, packs_b=self.packs_a)


def prepare_generated(
    semiring: Semiring,
    settings: Settings,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    accumulate: bool,
    block: np.ndarray | None = None,
) -> Run:
    """Return ``run()``, which computes ``out := [out (+)] a (x) b``, for m, n, k >= 1.

    Parameters
    ----------
    semiring : Semiring
        One that `operations` knows over the dtype.
    settings : Settings
    a, b, out : (m, k), (k, n) and (m, n) array
        Of one dtype, any strides.
    accumulate : bool
    block : (m, n) array of int8, optional
        Takes the numbers of blocks of k, if the settings track them; then rows of `out` are contiguous.
    """
    dtype = out.dtype
    if _is_better_transposed(a, b, out):
        a, b, out, semiring, settings = b.T, a.T, out.T, _with_swapped_operands(semiring), settings.transposed()
    target = out if has_contiguous_rows(out) else np.empty(out.shape, dtype)
    ops, condition = operations(semiring, dtype), guard(semiring, dtype)
    assert ops is not None

    def prepare(ops: Operations) -> Run:
        return prepare_product(settings.loops(ops, dtype, Shape.of(a, b, target)), a, b, target, accumulate, block)

    run = prepare(ops)
    if condition is not Guard.NONE:
        run = guarded(Look(condition, semiring, dtype).on(a, b), run, prepare(ops._replace(is_careful=True)))
    return through(target, out, accumulate, run)


def has_contiguous_rows(x: np.ndarray) -> bool:
    """Return whether the elements of a row lie side by side."""
    return x.strides[1] == x.itemsize or x.shape[1] == 1


def _is_better_transposed(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Return whether the transposed product suits the layout of the output or, if that is a vector, of the matrix."""
    if out.shape[0] == 1 or out.shape[1] == 1:
        matrix = a if out.shape[1] == 1 else b
        return not has_contiguous_rows(matrix) and has_contiguous_rows(matrix.T)
    return not has_contiguous_rows(out) and has_contiguous_rows(out.T)


def guarded(holds: Callable[[], bool], fast: Run, careful: Run) -> Run:
    """Return a product that is computed by `fast` where ``holds()``, by `careful` elsewhere."""

    def run() -> None:
        (fast if holds() else careful)()

    return run


def through(target: np.ndarray, out: np.ndarray, accumulate: bool, compute: Run) -> Run:
    """Return `compute`, which works on `target`, followed by the copy to `out` if that is another array."""
    if target is out:
        return compute

    def run() -> None:
        if accumulate:
            target[...] = out
        compute()
        out[...] = target

    return run


def _with_swapped_operands(semiring: Semiring) -> Semiring:
    multiply = semiring.multiply
    return Semiring(semiring.add, BINARY_OPS[_SWAPPED.get(multiply.name, multiply.name)], semiring.name)
