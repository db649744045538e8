"""The loops of the packed rung without packing: the micro-kernel reads rows of A and of B where they lie.

    loop 5  jc over n by nc   columns of B
    loop 4  pc over k by kc   rows of B, a part of each row of A
    loop 3  ic over m by mc   block of rows of A          prange
    loop 2  jr over nc by nr  a vector of each row of B
    loop 1  ir over mc by mr  micro-tile of C; mr rows of A, each a stream of its own

All block sizes are those of the packed rung, so the two differ by the copies alone. A matrix that has no contiguous
rows, or is no whole micro-panels, is copied once a product, with the semiring's zero at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, rows
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._ladder.execution import Kernel
from backends.cpu._ladder.options import ON
from harness.errors import PlanError
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.semiring import Semiring

# Of the packed rung: `build_micro_kernel(semiring, dtype, nr, simd)`, and `build_store(semiring, dtype, nr)`.
Build = Callable[..., Any]


def prepare(plan: Plan, operands: Operands, build_micro_kernel: Build, build_store: Build) -> Kernel:
    """Return ``kernel(a, b, out, accumulate)`` of `KernelExecution`.

    Raises
    ------
    PlanError
        If threads are to share another loop than loop 3, or the product is mixed.
    """
    blocking, problem = plan.blocking, plan.problem
    assert blocking is not None
    _check(plan)
    mc, nc, kc, tile = blocking.mc, blocking.nc, blocking.kc, (blocking.mr, blocking.nr)
    kernel_key = problem.semiring, problem.dtype, tile, plan.options["simd"]
    macro_kernel = build_macro_kernel(*kernel_key, build_micro_kernel, build_store)
    loops, address = build_loops(problem.dtype), address_of(macro_kernel)
    zero = problem.semiring.zero(problem.dtype)
    whole_a, whole_b = whole_panels(operands.a, (tile[0], 1), zero), whole_panels(operands.b, (1, tile[1]), zero)

    def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        loops(whole_a(a), whole_b(b), out, accumulate, mc, nc, kc, address)

    return kernel


def _check(plan: Plan) -> None:
    """Raise PlanError for what takes packing."""
    asked = f"packing={plan.options['packing']}"
    if plan.options["parallel_loop"] != "ic":
        raise PlanError(
            "cpu-packed: without packing only one loop can be parallel",
            expected="parallel_loop=ic",
            got=f"parallel_loop={plan.options['parallel_loop']}, {asked}",
        )
    if plan.problem.is_mixed:
        raise PlanError(
            "cpu-packed: packing is what widens the operands of a mixed product",
            expected="packing=on",
            got=f"{asked}, {plan.problem}",
        )


def whole_panels(like: np.ndarray, step: tuple[int, int], zero: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return ``whole(x)``: `x` itself, or a copy with contiguous rows whose shape is a multiple of `step`.

    `like` has the shape, dtype and strides of every later argument. The next call overwrites the copy.
    """
    (m, n), shape = like.shape, tuple(-(-size // each) * each for size, each in zip(like.shape, step, strict=True))
    if like.flags.c_contiguous and shape == like.shape:
        return lambda x: x
    copy = aligned_empty(shape, like.dtype)
    copy.fill(zero)

    def whole(x: np.ndarray) -> np.ndarray:
        copy[:m, :n] = x
        return copy

    return whole


@kernel_builder
def build_loops(dtype: np.dtype[Any]) -> Any:
    """Compile loops 5, 4 and 3 around a macro-kernel that is given by its address."""
    size = types.intp

    @jit(None, rows(dtype), rows(dtype), output(dtype), types.boolean, size, size, size, size)
    def loops(
        a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool, mc: int, nc: int, kc: int, macro_kernel: Any
    ) -> None:
        (m, n), k = out.shape, a.shape[1]
        for jc in range(0, n, nc):  # loop 5: columns of B
            for pc in range(0, k, kc):  # loop 4: blocks of k; the first may store C, every later one adds to it
                for block in prange((m + mc - 1) // mc):  # loop 3: blocks of rows of A
                    ic = np.intp(block) * mc
                    c = out[ic : ic + mc, jc : min(jc + nc, n)]
                    call(macro_kernel, (a, b, ic, jc, pc, min(kc, k - pc), c, accumulate or pc > 0))

    return loops


@kernel_builder
def build_macro_kernel(
    semiring: Semiring,
    dtype: np.dtype[Any],
    tile: tuple[int, int],
    simd: int | str,
    build_micro_kernel: Build,
    build_store: Build,
) -> Any:
    """Compile loops 2 and 1: a block of rows of A, from element pc on, against columns of B, from row pc on."""
    mr, nr = tile
    micro_kernel, store = build_micro_kernel(semiring, dtype, nr, simd), build_store(semiring, dtype, nr)

    def macro_kernel(
        a: np.ndarray, b: np.ndarray, ic: int, jc: int, pc: int, k_cur: int, c: np.ndarray, accumulate: bool
    ) -> None:
        """Compute ``c := [c (+)] block of A (x) columns of B``, m_cur x n_cur."""
        tile = np.empty((mr, nr), c.dtype)
        for jr in range(0, c.shape[1], nr):  # loop 2: nr columns of B
            for ir in range(0, c.shape[0], mr):  # loop 1: mr rows of A, a micro-tile of C each
                i, j = ic + ir, jc + jr
                micro_kernel(a[i : i + mr, pc:].T, b[pc:, j : j + nr], k_cur, tile)
                store(tile, c[ir:, jr:], accumulate)

    size = types.intp
    signature = (rows(dtype), rows(dtype), size, size, size, size, output(dtype), types.boolean)
    return jit(semiring, *signature, parallel=False, vectorizes=simd == ON, joins_lanes=simd == ON)(macro_kernel)
