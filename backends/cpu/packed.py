"""Goto's five loops around a 4x4 micro-kernel that reads packed panels and keeps its tile of C in registers.

    loop 5  jc over n by nc   row-panel of B     packed_b in L3
    loop 4  pc over k by kc   pack B             sequential: every pc updates the same C
    loop 3  ic over m by mc   pack a block of A  packed_a in L2
    loop 2  jr over nc by nr  micro-panel of B   in L1
    loop 1  ir over mc by mr  micro-tile of C    in registers
            p  over kc by 1   micro-kernel       sixteen pairs a step from eight loaded values

Threads share loop 3: all have the row-panel of B in common, and each packs the blocks of A that it computes.

    packed_a  (mc/mr, mr, kc)  micro-panels of A: mr rows, k fastest
    packed_b  (nc/nr, nr, kc)  micro-panels of B transposed: nr rows, k fastest

Packing fills the last micro-panel up with the semiring's zero, so the micro-kernel only sees whole panels. It writes a
whole tile into scratch, and `store` copies the part that exists into C. No other code handles edges.

Packing widens the operands of a mixed product; the micro-kernel sees panels of the dtype of the sums alone.

Options change one idea. With ``packing="off"`` the micro-kernel reads rows where they lie (`_ladder.in_place`), with
``simd="off"`` its sums are of scalars, and by `parallel_loop` threads share another loop (`_ladder.shared_loops`).

Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), section 4; loop names after
Van Zee and van de Geijn, "BLIS" (2015); the 4x4 micro-kernel from course work on DGEMM by OpenMP.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any

import numba
import numpy as np
from numba import prange, types

from backends.cpu._compile.call_by_address import address_of, call
from backends.cpu._compile.jit import jit, output, scalar, scratch, strided
from backends.cpu._ladder import in_place, shared_loops, shares
from backends.cpu._ladder.execution import KernelExecution, float32_only, kernel_dtypes
from backends.cpu._ladder.operators import operators
from backends.cpu._ladder.options import OFF, ON, SIMD, choices, defaults
from harness.errors import PlanError
from harness.interface import Backend, Execution
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import CACHE_LINE, Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring
from harness.tuning.cpu import PACKED_MR, PACKED_NR, packed_blocking

OPTIONS = {"parallel_loop": shares.LOOPS, "packing": (ON, OFF), "simd": SIMD}


class Packed(Backend):
    """Five loops, packed panels, a 4x4 register tile."""

    name = "cpu-packed"
    step = 40
    idea = "panels packed in the order they are read, and a 4x4 tile of C in registers: eight loads for sixteen pairs"
    source = "Goto and van de Geijn (2008), section 4; course work on DGEMM by OpenMP: packed 4x4 micro-kernel"
    calls_libraries = False
    takes = frozenset({"mixed"})
    accumulates_in_place = True

    def loops(self, plan: Plan) -> Nest:
        """Return the five loops and the micro-kernel; packing is not among them."""
        assert plan.blocking is not None
        mc, nc, kc, mr, nr = dataclasses.astuple(plan.blocking)
        caches, registers = (("j", nc), ("p", kc), ("i", mc)), (("j", nr), ("i", mr), ("p", 1, "registers"))
        return Nest.of(*caches, *registers, order_b="jp")

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` is out of scope, or None."""
        return float32_only(problem)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the five block sizes by the caches; threads share the blocks of A."""
        return Plan(problem, machine.threads, packed_blocking(problem, machine), defaults(OPTIONS))

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel and allocate the packed panels."""
        blocking, problem = plan.blocking, plan.problem
        assert blocking is not None
        if (blocking.mr, blocking.nr) != (PACKED_MR, PACKED_NR):
            raise PlanError(
                f"{self.name}: the register block is fixed",
                expected=f"mr={PACKED_MR}, nr={PACKED_NR}",
                got=str(blocking),
            )
        chosen = choices(plan, OPTIONS)
        if chosen["packing"] == OFF:
            vectorizes = chosen["simd"] == ON
            unpacked = in_place.prepare(plan, operands, build_micro_kernel, build_store, vectorizes=vectorizes)
            return KernelExecution(plan, operands, unpacked)
        macro_kernel = address_of(build_macro_kernel(problem.semiring, problem.dtype, chosen["simd"]))
        if chosen["parallel_loop"] != shares.LOOPS[0]:
            shared = shared_loops.prepare(plan, macro_kernel, pack_a, pack_b_panel, empty_panels)
            return KernelExecution(plan, operands, shared)
        mc, nc, kc, mr, nr = dataclasses.astuple(blocking)
        k_cur, blocks = max(min(kc, problem.k), 1), max(-(-problem.m // mc), 1)
        packed_a = empty_panels((blocks, mc // mr, mr, k_cur), problem.dtype)
        packed_b = empty_panels((min(nc // nr, -(-problem.n // nr)), nr, k_cur), problem.dtype)
        five_loops = build_five_loops(problem.dtype, *kernel_dtypes(problem))
        zero = problem.semiring.zero(problem.dtype)
        # Threads claim one block after the other where some get two; else claims change nothing, and cost 4 us. They
        # are set here, not in the loops, so that their code can be kept; and for each run, since Numba has one object.
        claims = functools.partial(numba.parallel_chunksize, 1) if blocks > plan.threads else contextlib.nullcontext

        def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
            with claims():
                five_loops(a, b, out, accumulate, mc, nc, kc, zero, packed_a, packed_b, macro_kernel)

        return KernelExecution(plan, operands, kernel)


@functools.cache
def build_five_loops(dtype: np.dtype[Any], dtype_a: np.dtype[Any], dtype_b: np.dtype[Any]) -> Any:
    """Compile loops 5, 4 and 3 around a macro-kernel that is given by its address."""

    def five_loops(
        a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool, mc: int, nc: int, kc: int, zero: Any,
        packed_a: np.ndarray, packed_b: np.ndarray, macro_kernel: Any,
    ) -> None:  # fmt: skip
        """Compute ``out := [out (+)] a (x) b``."""
        (m, k), n, nr = a.shape, b.shape[1], packed_b.shape[1]
        for jc in range(0, n, nc):  # loop 5: row-panels of B
            n_end = min(jc + nc, n)
            for pc in range(0, k, kc):  # loop 4: blocks of k; the first one may store C, every later one adds to it
                k_cur = min(kc, k - pc)
                for jr in prange((n_end - jc + nr - 1) // nr):  # pack the row-panel of B
                    pack_b_panel(b, pc, jc + jr * nr, k_cur, n_end, zero, packed_b[jr])
                for block in prange((m + mc - 1) // mc):  # loop 3: blocks of A, each packed by the thread that has it
                    ic = block * mc
                    m_cur = min(mc, m - ic)
                    pack_a(a, ic, pc, m_cur, k_cur, zero, packed_a[block])
                    c = out[ic : ic + m_cur, jc:n_end]
                    call(macro_kernel, (packed_a[block], packed_b, k_cur, c, accumulate or pc > 0))

    size = types.intp
    signature = (strided(dtype_a), strided(dtype_b), output(dtype), types.boolean, size, size, size, scalar(dtype))
    return jit(None, *signature, scratch(dtype, 4), scratch(dtype, 3), size)(five_loops)


@functools.cache
def build_macro_kernel(semiring: Semiring, dtype: np.dtype[Any], simd: int | str = ON) -> Any:
    """Compile loops 2 and 1: every micro-panel of a row-panel of B against every micro-panel of a block of A."""
    micro_kernel, store = build_micro_kernel(semiring, dtype), build_store(semiring, dtype)
    mr, nr = PACKED_MR, PACKED_NR

    def macro_kernel(packed_a: np.ndarray, packed_b: np.ndarray, k_cur: int, c: np.ndarray, accumulate: bool) -> None:
        """Compute ``c := [c (+)] block of A (x) row-panel of B``, m_cur x n_cur."""
        tile = np.empty((mr, nr), c.dtype)
        for jr in range((c.shape[1] + nr - 1) // nr):  # loop 2: micro-panels of B
            for ir in range((c.shape[0] + mr - 1) // mr):  # loop 1: micro-panels of A, a micro-tile of C each
                micro_kernel(packed_a[ir], packed_b[jr], k_cur, tile)
                store(tile, c[ir * mr :, jr * nr :], accumulate)

    signature = (scratch(dtype, 3), scratch(dtype, 3), types.intp, output(dtype), types.boolean)
    return jit(semiring, *signature, parallel=False, vectorizes=simd == ON)(macro_kernel)


def build_micro_kernel(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return ``micro_kernel(a, b, k_cur, tile)``: ``tile[i, j] := (+)_p a[i, p] (x) b[j, p]``, 4 rows each.

    Eight loaded values serve sixteen pairs, and sixteen independent sums hide the latency of the addition. The scalars
    are written out because Numba keeps scalars, not arrays, in registers. LLVM's loop vectoriser makes each a vector of
    partial sums over k. So k is contiguous in a micro-panel here; in BLIS, with vectors along n, mr or nr is.
    """
    add, multiply, zero = operators(semiring, dtype)

    @numba.njit(error_model="numpy")
    def micro_kernel(a: np.ndarray, b: np.ndarray, k_cur: int, tile: np.ndarray) -> None:
        """Compute the tile over the first k_cur steps of the panels."""
        c00 = c01 = c02 = c03 = zero
        c10 = c11 = c12 = c13 = zero
        c20 = c21 = c22 = c23 = zero
        c30 = c31 = c32 = c33 = zero
        x0, x1, x2, x3 = a[0, :k_cur], a[1, :k_cur], a[2, :k_cur], a[3, :k_cur]
        y0, y1, y2, y3 = b[0, :k_cur], b[1, :k_cur], b[2, :k_cur], b[3, :k_cur]
        for p in range(x0.size):  # sixteen pairs from eight loaded values
            a0, a1, a2, a3 = x0[p], x1[p], x2[p], x3[p]
            b0, b1, b2, b3 = y0[p], y1[p], y2[p], y3[p]
            c00, c01 = add(c00, multiply(a0, b0)), add(c01, multiply(a0, b1))
            c02, c03 = add(c02, multiply(a0, b2)), add(c03, multiply(a0, b3))
            c10, c11 = add(c10, multiply(a1, b0)), add(c11, multiply(a1, b1))
            c12, c13 = add(c12, multiply(a1, b2)), add(c13, multiply(a1, b3))
            c20, c21 = add(c20, multiply(a2, b0)), add(c21, multiply(a2, b1))
            c22, c23 = add(c22, multiply(a2, b2)), add(c23, multiply(a2, b3))
            c30, c31 = add(c30, multiply(a3, b0)), add(c31, multiply(a3, b1))
            c32, c33 = add(c32, multiply(a3, b2)), add(c33, multiply(a3, b3))
        tile[0, 0], tile[0, 1], tile[0, 2], tile[0, 3] = c00, c01, c02, c03
        tile[1, 0], tile[1, 1], tile[1, 2], tile[1, 3] = c10, c11, c12, c13
        tile[2, 0], tile[2, 1], tile[2, 2], tile[2, 3] = c20, c21, c22, c23
        tile[3, 0], tile[3, 1], tile[3, 2], tile[3, 3] = c30, c31, c32, c33

    return micro_kernel


def build_store(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return ``store(tile, c, accumulate)``: c := [c (+)] tile on the part of the tile that c has."""
    add = operators(semiring, dtype).add

    @numba.njit(error_model="numpy")
    def store(tile: np.ndarray, c: np.ndarray, accumulate: bool) -> None:
        for i in range(min(tile.shape[0], c.shape[0])):
            for j in range(min(tile.shape[1], c.shape[1])):
                c[i, j] = add(c[i, j], tile[i, j]) if accumulate else tile[i, j]

    return store


def empty_panels(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialised work array whose rows begin on cache lines and spread over the cache sets.

    A micro-kernel reads mr + nr rows together. If kc elements were a multiple of 4 KiB, they would share one set of L1,
    so every row is one cache line longer than needed.
    """
    line = CACHE_LINE // dtype.itemsize
    row = (-(-shape[-1] // line) + 1) * line
    return aligned_empty((*shape[:-1], row), dtype)


@numba.njit(error_model="numpy")
def pack_a(a: np.ndarray, first: int, begin: int, m_cur: int, k_cur: int, zero: Any, packed: np.ndarray) -> None:
    """Pack the block ``a[first : first + m_cur, begin : begin + k_cur]`` into micro-panels of mr rows."""
    mr = packed.shape[1]
    for panel in range((m_cur + mr - 1) // mr):
        for r in range(mr):
            i = panel * mr + r
            row = packed[panel, r]
            if i < m_cur:
                for p in range(k_cur):
                    row[p] = a[first + i, begin + p]
            else:
                row[:k_cur] = zero


@numba.njit(error_model="numpy")
def pack_b_panel(b: np.ndarray, begin: int, first: int, k_cur: int, n_end: int, zero: Any, panel: np.ndarray) -> None:
    """Pack ``b[begin : begin + k_cur, first : first + nr]`` into one micro-panel; columns from `n_end` on are zero."""
    nr = panel.shape[0]
    if first + nr <= n_end:
        for p in range(k_cur):
            for r in range(nr):
                panel[r, p] = b[begin + p, first + r]
        return
    for r in range(nr):
        for p in range(k_cur):
            panel[r, p] = b[begin + p, first + r] if first + r < n_end else zero
