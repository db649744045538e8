"""Goto's five loops around a 4x4 micro-kernel that reads packed panels and keeps its tile of C in registers.

    loop 5  jc over n by nc   row-panel of B   packed_b in L3
    loop 4  pc over k by kc   pack B           sequential: every pc updates the same C
    loop 3  ic over m by mc   block of A       packed_a in L2; prange if parallel_loop is "ic"
    loop 2  jr over nc by nr  micro-panel of B in L1;          prange if parallel_loop is "jr"
    loop 1  ir over mc by mr  micro-tile of C  in registers

The micro-kernel only sees whole micro-panels (packing fills the last one up with zeros) and writes a whole tile into
scratch; `store` copies the part that exists into C, so edges are handled there and nowhere else.

Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), section 4; loop names after
Van Zee and van de Geijn, "BLIS" (2015); the 4x4 micro-kernel from course work on DGEMM by OpenMP.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._compile.call_by_address import address_of, call
from backends.cpu._ladder.execution import KernelExecution
from backends.cpu._ladder.jit import jit, output, scalar, scratch, strided
from backends.cpu._ladder.micro_kernel import build_micro_kernel, build_store
from backends.cpu._ladder.packing import empty_panels, pack_a, pack_b_panel
from harness.errors import PlanError
from harness.interface import Backend, Execution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring
from harness.tuning.cpu import PACKED_MR, PACKED_NR, packed_blocking

PARALLEL_LOOPS = ("ic", "jr")


class Packed(Backend):
    """Five loops, packed panels, a 4x4 register tile."""

    name = "cpu-packed"
    step = 40
    idea = "panels packed in the order they are read, and a 4x4 tile of C in registers: eight loads for sixteen pairs"
    source = "Goto and van de Geijn (2008), section 4; course work on DGEMM by OpenMP: packed 4x4 micro-kernel"
    calls_libraries = False

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the five block sizes by the caches; threads share the blocks of A."""
        return Plan(problem, machine.threads, packed_blocking(problem, machine), {"parallel_loop": "ic"})

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
        mc, nc, kc, mr, nr = blocking.mc, blocking.nc, blocking.kc, blocking.mr, blocking.nr
        five_loops = build_five_loops(problem.dtype, plan.choice("parallel_loop", PARALLEL_LOOPS))
        macro_kernel = build_macro_kernel(problem.semiring, problem.dtype)
        address, zero = address_of(macro_kernel), problem.semiring.zero(problem.dtype)
        k_cur = max(min(kc, problem.k), 1)
        blocks_of_m = max(-(-problem.m // mc), 1)
        packed_a = empty_panels((blocks_of_m, mc // mr, mr, k_cur), problem.dtype)
        packed_b = empty_panels((min(nc, -(-problem.n // nr) * nr) // nr, nr, k_cur), problem.dtype)

        def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
            five_loops(a, b, out, accumulate, mc, nc, kc, zero, packed_a, packed_b, address)

        return KernelExecution(plan, operands, kernel)


@functools.cache
def build_five_loops(dtype: np.dtype[Any], parallel_loop: int | str) -> Any:
    """Compile loops 5, 4 and 3, with loop 3 or loop 2 parallel, around a macro-kernel that is given by its address."""
    is_ic = parallel_loop == "ic"
    size = types.intp

    def five_loops(
        a: np.ndarray,
        b: np.ndarray,
        out: np.ndarray,
        accumulate: bool,
        mc: int,
        nc: int,
        kc: int,
        zero: Any,
        packed_a: np.ndarray,
        packed_b: np.ndarray,
        macro_kernel: Any,
    ) -> None:
        """Compute ``out := [out (+)] a (x) b``."""
        (m, k), n = a.shape, b.shape[1]
        nr = packed_b.shape[1]
        for jc in range(0, n, nc):
            n_end = min(jc + nc, n)
            panels = (n_end - jc + nr - 1) // nr
            for pc in range(0, k, kc):
                k_cur = min(kc, k - pc)
                adds = accumulate or pc > 0
                for jr in prange(panels):
                    pack_b_panel(b, pc, jc + jr * nr, k_cur, n_end, zero, packed_b[jr])
                if is_ic:
                    for block in prange((m + mc - 1) // mc):
                        ic, mine = block * mc, packed_a[block]
                        pack_a(a, ic, pc, min(mc, m - ic), k_cur, zero, mine)
                        call(macro_kernel, (mine, packed_b, k_cur, out[ic : ic + mc, jc:n_end], adds, 0, panels))
                else:
                    for block in range((m + mc - 1) // mc):
                        ic, shared = block * mc, packed_a[0]
                        pack_a(a, ic, pc, min(mc, m - ic), k_cur, zero, shared)
                        for panel in prange(panels):
                            jr = np.intp(panel)
                            c = out[ic : ic + mc, jc:n_end]
                            call(macro_kernel, (shared, packed_b, k_cur, c, adds, jr, jr + 1))

    signature = (strided(dtype), strided(dtype), output(dtype), types.boolean, size, size, size, scalar(dtype))
    return jit(None, *signature, scratch(dtype, 4), scratch(dtype, 3), size)(five_loops)


@functools.cache
def build_macro_kernel(semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Compile loops 2 and 1: the micro-panels jr_begin to jr_end of B against every micro-panel of a block of A."""
    micro_kernel = build_micro_kernel(semiring, dtype)
    store = build_store(semiring, dtype)
    mr, nr = PACKED_MR, PACKED_NR
    size = types.intp

    def macro_kernel(
        packed_a: np.ndarray,
        packed_b: np.ndarray,
        k_cur: int,
        c: np.ndarray,
        accumulate: bool,
        jr_begin: int,
        jr_end: int,
    ) -> None:
        """Compute ``c := [c (+)] block of A (x) micro-panels of B``, m_cur x n_cur."""
        tile = np.empty((mr, nr), c.dtype)
        for jr in range(jr_begin, jr_end):
            for ir in range((c.shape[0] + mr - 1) // mr):
                micro_kernel(packed_a[ir], packed_b[jr], k_cur, tile)
                store(tile, c[ir * mr :, jr * nr :], accumulate)

    signature = (scratch(dtype, 3), scratch(dtype, 3), size, output(dtype), types.boolean, size, size)
    return jit(semiring, *signature, parallel=False)(macro_kernel)
