"""The five loops of the packed rung, whose threads share another loop than loop 3, by the pieces of `_ladder.shares`.

    loop 5  jc over n by nc     row-panel of B           prange, if threads share it: nothing inside is shared then
    loop 4  pc over k by kc     pack B
    loop 3  ic over m by mc     as many blocks of A together as there is room for
            pack A              prange over micro-panels, unless a thread has whole blocks and packs its own
            pieces              prange over blocks, by micro-panels of B (loop 2), by micro-panels of A (loop 1)

Panels, packing and macro-kernel are those of the rung.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, scalar, scratch, strided
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._ladder import shares
from backends.cpu._ladder.execution import Kernel, kernel_dtypes
from harness.plan import Plan

Dtypes = tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any]]  # of the sums, and of A and B as they are packed


def prepare(
    plan: Plan, macro_kernel: Any, pack_a: Any, pack_b_panel: Any, empty_panels: Callable[..., np.ndarray]
) -> Kernel:
    """Return ``kernel(a, b, out, accumulate)`` of `KernelExecution`.

    Parameters
    ----------
    plan : Plan
    macro_kernel : int
        Address of the compiled loops 2 and 1.
    pack_a, pack_b_panel, empty_panels : callable
        Of the packed rung.
    """
    problem, blocking = plan.problem, plan.blocking
    assert blocking is not None
    loop, dtypes = plan.options["parallel_loop"], (problem.dtype, *kernel_dtypes(problem))
    pieces, blocking = shares.shares_of(loop, max(problem.m, 1), max(problem.n, 1), blocking, plan.threads)
    mc, nc, kc, mr, nr = blocking.mc, blocking.nc, blocking.kc, blocking.mr, blocking.nr
    k_cur, zero = max(min(kc, problem.k), 1), problem.semiring.zero(problem.dtype)
    own = (pieces.row_panels,) if pieces.row_panels else ()  # panels of each thread
    packed_a = empty_panels((*own, pieces.blocks, mc // mr, k_cur, mr), problem.dtype)
    packed_b = empty_panels((*own, min(nc // nr, -(-problem.n // nr)), k_cur, nr), problem.dtype)
    five_loops = (build_row_panels if own else build_five_loops)(dtypes, pack_a, pack_b_panel)

    def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        steps = pieces.panels, pieces.strips
        with numba.parallel_chunksize(1):  # threads claim one piece after the other; set here, the code can be kept
            five_loops(a, b, out, accumulate, mc, nc, kc, zero, packed_a, packed_b, macro_kernel, *steps)

    return kernel


@kernel_builder
def build_five_loops(dtypes: Dtypes, pack_a: Any, pack_b_panel: Any, is_parallel: bool = True) -> Any:
    """Compile loops 5, 4 and 3, and pieces of loops 3, 2 and 1, around a macro-kernel that is given by its address."""

    def five_loops(
        a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool, mc: int, nc: int, kc: int, zero: Any,
        packed_a: np.ndarray, packed_b: np.ndarray, macro_kernel: Any, jr_step: int, ir_step: int,
    ) -> None:  # fmt: skip
        """Compute ``out := [out (+)] a (x) b``; a piece is `jr_step` by `ir_step` micro-panels."""
        (m, k), n = a.shape, b.shape[1]
        at_once, strips, _, mr = packed_a.shape
        nr = packed_b.shape[2]
        blocks = (m + mc - 1) // mc
        for jc in range(0, n, nc):  # loop 5: row-panels of B
            n_end = min(jc + nc, n)
            panels = (n_end - jc + nr - 1) // nr
            across, down = (panels + jr_step - 1) // jr_step, (strips + ir_step - 1) // ir_step
            is_whole = across == 1 and down == 1  # then the thread that computes a block of A also packs it
            for pc in range(0, k, kc):  # loop 4: blocks of k; the first one may store C, every later one adds to it
                k_cur = min(kc, k - pc)
                adds = accumulate or pc > 0
                for jr in prange(panels):  # pack the row-panel of B
                    pack_b_panel(b, pc, jc + jr * nr, k_cur, n_end, zero, packed_b[jr])
                for first in range(0, blocks, at_once):  # loop 3: blocks of A, `at_once` together
                    count = min(at_once, blocks - first)
                    if not is_whole:
                        for strip in prange(count * strips):
                            ic = (first + strip // strips) * mc + strip % strips * mr
                            rows = packed_a[strip // strips, strip % strips : strip % strips + 1]
                            pack_a(a, ic, pc, min(mr, m - ic), k_cur, zero, rows)
                    for piece in prange(count * across * down):
                        block = piece // (across * down)
                        jr, ir = piece // down % across * jr_step, piece % down * ir_step
                        ic = (first + block) * mc
                        mine, m_cur = packed_a[block], min(mc, m - ic)
                        if is_whole:
                            pack_a(a, ic, pc, m_cur, k_cur, zero, mine)
                        i_end, j_end = min((ir + ir_step) * mr, m_cur), min(jc + (jr + jr_step) * nr, n_end)
                        c = out[ic + ir * mr : ic + i_end, jc + jr * nr : j_end]
                        call(macro_kernel, (mine[ir:], packed_b[jr:], k_cur, c, adds))

    panels, size = (scratch(dtypes[0], 4), scratch(dtypes[0], 3)), types.intp
    return jit(None, *_operands(dtypes), *panels, size, size, size, parallel=is_parallel)(five_loops)


@kernel_builder
def build_row_panels(dtypes: Dtypes, pack_a: Any, pack_b_panel: Any) -> Any:
    """Compile loop 5 for threads that compute row-panels of B alone, by the loops inside it."""
    inside = address_of(build_five_loops(dtypes, pack_a, pack_b_panel, is_parallel=False))

    def row_panels(
        a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool, mc: int, nc: int, kc: int, zero: Any,
        packed_a: np.ndarray, packed_b: np.ndarray, macro_kernel: Any, jr_step: int, ir_step: int, five_loops: Any,
    ) -> None:  # fmt: skip
        """Compute ``out := [out (+)] a (x) b``, a row-panel of B in a piece."""
        for panel in prange((b.shape[1] + nc - 1) // nc):
            columns = slice(panel * nc, min(panel * nc + nc, b.shape[1]))
            call(five_loops, (
                a, b[:, columns], out[:, columns], accumulate, mc, nc, kc, zero, packed_a[panel], packed_b[panel],
                macro_kernel, jr_step, ir_step,
            ))  # fmt: skip

    panels, size = (scratch(dtypes[0], 5), scratch(dtypes[0], 4)), types.intp
    compiled = jit(None, *_operands(dtypes), *panels, size, size, size, size)(row_panels)
    return lambda *arguments: compiled(*arguments, inside)


def _operands(dtypes: Dtypes) -> tuple[Any, ...]:
    """Return the types of the arguments from `a` to `zero`."""
    dtype, dtype_a, dtype_b = dtypes
    sizes = [types.intp] * 3
    return strided(dtype_a), strided(dtype_b), output(dtype), types.boolean, *sizes, scalar(dtype)
