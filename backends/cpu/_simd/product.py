"""A product by the generated kernels of operands of any strides, in the fast or the careful form, by their values.

The loops need an output with contiguous rows. An output with contiguous columns becomes that of the transposed product,
``C^T = B^T (x)' A^T``. Any other one is computed in an array of its own and copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backends.cpu._simd.argument_table import Loops, Run, Shape, prepare_product
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import may_take_dots
from backends.cpu._simd.loops import columns_left
from backends.cpu._simd.matrix_vector import VectorLoops
from backends.cpu._simd.rank_update import UpdateLoops
from backends.cpu._simd.self_product import SelfProduct, is_self_product
from backends.cpu._simd.shared_panels import SharedLoops, columns_beside
from backends.cpu._simd.symmetric import SymmetricLoops
from backends.cpu._simd.value_scan import Look
from backends.cpu._vector.operators import Guard, Operations, guard, operations
from backends.cpu._vector.unit import VectorUnit
from harness.operands import lower_triangle
from harness.plan import Blocking
from harness.semiring import BINARY_OPS, Semiring
from harness.tuning import simd as tuning_simd
from harness.tuning import simd_parts as tuning_parts

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
        Up to this m and n B need not be packed. Up to this n A need not, whatever its stride.
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

    def loops(self, ops: Operations, dtype: np.dtype[Any], shape: Shape, triangle: str = "") -> Loops:
        """Return the choices of the loops for operands of this shape; `triangle` as in `Loops`, empty or ``"d"``."""
        m, n, k, strides_a, strides_b, *_ = shape
        blocking, key = self.blocking, self.key(ops, dtype)
        a_in_place = strides_a[1] == dtype.itemsize and (
            n <= self.in_place_up_to or tuning_simd.reads_in_place(strides_a[0], m, self.bad_stride_a)
        )
        is_good_b = tuning_simd.reads_in_place(strides_b[0], k, self.bad_stride_b)
        is_near = abs(strides_b[0]) < tuning_simd.SIMD_NEAR_ROWS_OF_B and columns_left(n, k, key.lanes) == 0
        is_short = k <= self.in_place_up_to or (is_near and m <= tuning_simd.SIMD_FEW_ROWS_OF_A)
        is_small_b = max(m, n) <= self.in_place_up_to and is_short and is_good_b
        b_in_place = (
            strides_b[1] == dtype.itemsize
            and (is_small_b or m <= blocking.mr)
            and dtype.itemsize in self.unit.masked_bytes
        )
        if self.updates_rows(shape, dtype):
            size = m * n * dtype.itemsize // (2 if triangle else 1)
            grid = tuning_parts.stream_parts(size, self.threads), 1
            return UpdateLoops(key, blocking, False, False, grid, self.threads, triangle)
        parts = tuning_parts.simd_parts(m * n * k // 2 if triangle else m * n * k, self.threads)
        if triangle:
            side = tuning_parts.triangle_grid(m, self.threads, parts)
            packs = self.packs_a or not a_in_place, self.packs_b or not b_in_place
            return Loops(key, blocking, *packs, (side, side), self.threads, triangle)
        is_streamed = (strides_a if n == 1 else strides_b)[1] == dtype.itemsize
        if min(m, n) == 1 and is_streamed and not self.block_steps:
            return self._vector_loops(key, shape)
        packs_a, packs_b = self.packs_a or not a_in_place, self.packs_b or not b_in_place
        if packs_b and not packs_a and may_take_dots(key) and columns_left(n, k, key.lanes) == n:
            blocking = replace(blocking, kc=k)  # dot products stream A once
        elif packs_b and not is_good_b and not self.block_steps:
            kc = min(blocking.kc, tuning_simd.kc_at_bad_distance(m, k, dtype.itemsize))
            blocking = replace(blocking, kc=kc)
        costs = tuning_parts.SIMD_PACKING_ROWS if packs_b else 0, tuning_parts.SIMD_READING_COLUMNS
        grid = tuning_parts.thread_grid(m, n, parts, tuning_parts.SIMD_ROW_STEP, key.lanes, *costs)
        loops = Loops(key, blocking, packs_a, packs_b, grid, self.threads)
        is_shared = packs_b and not self.block_steps and tuning_parts.shares_panels(m, n, k, self.threads)
        if not is_shared or columns_beside(key, shape) == n:
            return loops
        grid = tuning_parts.shared_grid(m, n, self.threads, blocking.mr, blocking.nr)
        return SharedLoops(*loops._replace(grid=grid))

    def updates_rows(self, shape: Shape, dtype: np.dtype[Any]) -> bool:
        """Return whether a product has so few terms that each row of C passes through once, by `UpdateLoops`."""
        m, n, k, _, (_, step_b), *_ = shape
        is_possible = step_b == dtype.itemsize and not self.block_steps
        return is_possible and tuning_parts.updates_rows(m, n, k, dtype.itemsize)

    def _vector_loops(self, key: KernelKey, shape: Shape) -> VectorLoops:
        """Return the loops of a matrix by a vector: threads share its rows or, of few rows of A, its columns."""
        m, n, k, itemsize = shape.m, shape.n, shape.k, np.dtype(key.dtype).itemsize
        packs_x = n == 1 and shape.strides_b[0] != itemsize
        parts, parts_of_k = tuning_parts.stream_parts(m * n * k * itemsize, self.threads), 1
        is_low = n == 1 and m < parts * key.mr and shape.row_stride_out == itemsize and not packs_x
        if is_low or (m == 1 and 1 < n * itemsize <= tuning_simd.SIMD_LONGEST_SUM):
            parts_of_k = tuning_parts.parts_of_k(k, parts)
        grid = (parts, 1) if n == 1 else (1, parts)
        return VectorLoops(key, self.blocking, False, packs_x, grid, self.threads, parts_of_k=parts_of_k)

    def symmetric_loops(self, ops: Operations, dtype: np.dtype[Any], m: int, is_upper: bool) -> SymmetricLoops:
        """Return the loops of a symmetric matrix of m rows by a vector."""
        key, parts = self.key(ops, dtype), tuning_parts.stream_parts(m * m // 2 * dtype.itemsize, self.threads)
        return SymmetricLoops(key, self.blocking, False, False, (parts, 1), self.threads, "a", is_upper=is_upper)

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
    triangle: str = "",
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
        Takes the numbers of blocks of k, if the settings track them; then rows of both are contiguous.
    triangle : str
        As in `harness.Problem`; ``"a"`` with n = 1.
    """
    dtype = out.dtype
    if triangle == "a":
        return _prepare_symmetric(semiring, settings, a, b, out, accumulate)
    if not triangle:
        semiring, settings, a, b, out, block = as_suits_layout(semiring, settings, a, b, out, block)
    target = out if has_contiguous_rows(out) else np.empty(out.shape, dtype)
    ops, condition = operations(semiring, dtype), guard(semiring, dtype)
    assert ops is not None

    is_plain = not accumulate and not triangle and block is None

    def prepare(ops: Operations) -> Run:
        shape = Shape.of(a, b, target)
        if is_plain and a.ctypes.data == b.ctypes.data and is_self_product(shape, ops):
            half = SelfProduct(functools.partial(settings.loops, ops, dtype), shape)
            run = functools.partial(half.run, a.ctypes.data, target.ctypes.data)
            run.operands = a, target  # type: ignore[attr-defined] # it knows them by address alone
            return run
        return prepare_product(settings.loops(ops, dtype, shape, triangle), a, b, target, accumulate, block)

    # a scan takes as long as a product with a vector; and memory bounds an update, so that one form of it does
    is_streamed = min(out.shape) == 1 or settings.updates_rows(Shape.of(a, b, target), dtype)
    if condition is not Guard.NONE and is_streamed and block is None:
        return through(target, out, accumulate, prepare(ops._replace(is_careful=True)))
    run = prepare(ops)
    if condition is not Guard.NONE:
        careful = functools.partial(prepare, ops._replace(is_careful=True))
        run = guarded(Look(condition, semiring, dtype).on(a, b), run, careful)
    return through(target, out, accumulate, run, triangle)


def _prepare_symmetric(
    semiring: Semiring, settings: Settings, a: np.ndarray, x: np.ndarray, out: np.ndarray, accumulate: bool
) -> Run:
    """Return ``run()`` for a symmetric A, whose triangle is taken by rows or by columns, and a vector x."""
    dtype, ops = out.dtype, operations(semiring, out.dtype)
    assert ops is not None
    ops = ops._replace(is_careful=guard(semiring, dtype) is not Guard.NONE)  # a scan takes as long as the product
    is_upper = not has_contiguous_rows(a) and has_contiguous_rows(a.T)
    stored = a.T if is_upper else a
    rows = stored if has_contiguous_rows(stored) else np.empty(a.shape, dtype)
    vector, target = (z if _is_contiguous(z) else np.empty(z.shape, dtype) for z in (x, out))
    loops = settings.symmetric_loops(ops, dtype, a.shape[0], is_upper)
    product = prepare_product(loops, rows, vector, target, accumulate)
    copies = [(to, of) for to, of in ((rows, stored), (vector, x)) if to is not of]

    def run() -> None:
        for to, of in copies:
            to[...] = of
        product()

    return through(target, out, accumulate, run if copies else product)


def _is_contiguous(x: np.ndarray) -> bool:
    """Return whether the elements of a column of one element a row lie side by side."""
    return x.strides[0] == x.itemsize or x.shape[0] == 1


def has_contiguous_rows(x: np.ndarray) -> bool:
    """Return whether the elements of a row lie side by side."""
    return x.strides[-1] == x.itemsize or x.shape[-1] == 1


def as_suits_layout(
    semiring: Semiring, settings: Settings, a: np.ndarray, b: np.ndarray, out: np.ndarray, block: np.ndarray | None
) -> tuple[Semiring, Settings, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return a product, or its transpose where that suits the layouts better: of two matrices, or of a batch of them.

    `block`, which is written as `out` is, becomes that of the transpose too.
    """
    if _is_better_transposed(a, b, out):
        semiring, settings, a, b, out = with_swapped_operands(semiring), settings.transposed(), b.mT, a.mT, out.mT
        block = None if block is None else block.mT
    assert block is None or has_contiguous_rows(block)  # else numbers would be written beside it
    return semiring, settings, a, b, out, block


def _is_better_transposed(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Return whether the transposed product suits the layout of the output or, if that is a vector, of the matrix."""
    (m, n), k = out.shape[-2:], a.shape[-1]
    if n == 1 and k == 1 and has_contiguous_rows(a.mT):
        return True  # a vector by a number: one row of the transposed A, in place of rows of one element
    decisive = a if n == 1 else b if m == 1 else out
    return not has_contiguous_rows(decisive) and has_contiguous_rows(decisive.mT)


def guarded(holds: Callable[[], bool], fast: Run, prepare_careful: Callable[[], Run]) -> Run:
    """Return a product that is computed by `fast` where ``holds()``, elsewhere by what `prepare_careful` returns.

    That is prepared when it is first needed: its kernel takes as long to compile as the fast one, and rarely runs.
    """
    careful = functools.cache(prepare_careful)

    def run() -> None:
        (fast if holds() else careful())()

    return run


def through(target: np.ndarray, out: np.ndarray, accumulate: bool, compute: Run, triangle: str = "") -> Run:
    """Return `compute`, which works on `target`, followed by the copy to `out` if that is another array."""
    if target is out:
        return compute
    counts: Any = lower_triangle(out.shape[0]) if triangle == "d" else True

    def run() -> None:
        if accumulate:
            target[...] = out
        compute()
        np.copyto(out, target, where=counts)

    return run


def with_swapped_operands(semiring: Semiring) -> Semiring:
    """Return the semiring of the transposed product."""
    multiply = semiring.multiply
    return Semiring(semiring.add, BINARY_OPS[_SWAPPED.get(multiply.name, multiply.name)], semiring.name)
