"""The loops of the packed rung without packing: the micro-kernel reads rows of A and of B transposed where they lie.

    copy    B^T[j, p] := B[p, j]            once a product, as the rungs below do
    loop 5  jc over n by nc   rows of B^T
    loop 4  pc over k by kc   a part of each row
    loop 3  ic over m by mc   block of rows of A          prange
    loop 2  jr over nc by nr  nr rows of B^T, each a stream of its own
    loop 1  ir over mc by mr  micro-tile of C; mr rows of A

All block sizes are those of the packed rung, so the two differ by the copies alone. A matrix whose rows do not fill the
last micro-panel is copied once a product, with rows of the semiring's zero at its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._compile.call_by_address import address_of, call
from backends.cpu._compile.jit import jit, output, rows
from backends.cpu._ladder.execution import Kernel
from backends.cpu._ladder.rows import build_transpose
from harness.errors import PlanError
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.semiring import Semiring

# `build(semiring, dtype)` of the packed rung: its micro-kernel, and its store of a micro-tile.
Build = Callable[[Semiring, np.dtype[Any]], Any]


def prepare(
    plan: Plan, operands: Operands, build_micro_kernel: Build, build_store: Build, *, vectorizes: bool
) -> Kernel:
    """Return ``kernel(a, b, out, accumulate)`` of `KernelExecution`.

    Raises
    ------
    PlanError
        If threads are to share another loop than loop 3, or the product is mixed.
    """
    blocking, problem = plan.blocking, plan.problem
    assert blocking is not None
    _check(plan)
    mc, nc, kc, mr, nr = blocking.mc, blocking.nc, blocking.kc, blocking.mr, blocking.nr
    parts = build_micro_kernel(problem.semiring, problem.dtype), build_store(problem.semiring, problem.dtype)
    macro_kernel = build_macro_kernel(problem.semiring, problem.dtype, *parts, mr, nr, vectorizes)
    loops, address = build_loops(problem.dtype), address_of(macro_kernel)
    zero = problem.semiring.zero(problem.dtype)
    panels_of_a, panels_of_bt = whole_panels(operands.a, mr, zero), whole_panels(operands.b.T, nr, zero)

    def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        loops(panels_of_a(a), panels_of_bt(b.T), out, accumulate, mc, nc, kc, address)

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


def whole_panels(like: np.ndarray, height: int, zero: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return ``panels_of(x)``: `x` itself, or a copy with contiguous rows that are a multiple of `height`.

    `like` has the shape, dtype and strides of every later argument. The next call overwrites the copy.
    """
    count = like.shape[0]
    if like.flags.c_contiguous and count % height == 0:
        return lambda x: x
    copy = aligned_empty((-(-count // height) * height, like.shape[1]), like.dtype)
    copy[count:] = zero
    transpose = build_transpose(like.dtype)

    def panels_of(x: np.ndarray) -> np.ndarray:
        transpose(x.T, copy[:count])
        return copy

    return panels_of


@functools.cache
def build_loops(dtype: np.dtype[Any]) -> Any:
    """Compile loops 5, 4 and 3 around a macro-kernel that is given by its address."""
    size = types.intp

    @jit(None, rows(dtype), rows(dtype), output(dtype), types.boolean, size, size, size, size)
    def loops(
        a: np.ndarray, bt: np.ndarray, out: np.ndarray, accumulate: bool, mc: int, nc: int, kc: int, macro_kernel: Any
    ) -> None:
        (m, n), k = out.shape, a.shape[1]
        for jc in range(0, n, nc):  # loop 5: rows of B^T
            for pc in range(0, k, kc):  # loop 4: parts of rows; the first may store C, every later one adds to it
                for block in prange((m + mc - 1) // mc):  # loop 3: blocks of rows of A
                    ic = np.intp(block) * mc
                    c = out[ic : ic + mc, jc : min(jc + nc, n)]
                    call(macro_kernel, (a, bt, ic, jc, pc, min(kc, k - pc), c, accumulate or pc > 0))

    return loops


@functools.cache
def build_macro_kernel(
    semiring: Semiring, dtype: np.dtype[Any], micro_kernel: Any, store: Any, mr: int, nr: int, vectorizes: bool
) -> Any:
    """Compile loops 2 and 1: a block of rows of A against rows of B^T, from element pc of each row on."""

    def macro_kernel(
        a: np.ndarray, bt: np.ndarray, ic: int, jc: int, pc: int, k_cur: int, c: np.ndarray, accumulate: bool
    ) -> None:
        """Compute ``c := [c (+)] block of A (x) rows of B^T``, m_cur x n_cur."""
        tile = np.empty((mr, nr), c.dtype)
        for jr in range(0, c.shape[1], nr):  # loop 2: nr rows of B^T
            for ir in range(0, c.shape[0], mr):  # loop 1: mr rows of A, a micro-tile of C each
                i, j = ic + ir, jc + jr
                micro_kernel(a[i : i + mr, pc:], bt[j : j + nr, pc:], k_cur, tile)
                store(tile, c[ir:, jr:], accumulate)

    size = types.intp
    signature = (rows(dtype), rows(dtype), size, size, size, size, output(dtype), types.boolean)
    return jit(semiring, *signature, parallel=False, vectorizes=vectorizes)(macro_kernel)
