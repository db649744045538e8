"""C in tiles: rows of A and of B transposed are reused from cache, then from registers.

    loop 5  ic, jc over m, n by mc, nc   tile of C                  prange over all tiles
    loop 4  pc over k by kc              tiles of A and B^T in L2   sequential: every pc updates the same tile of C
    loop 3  i over mc by reuse           rows of A in L1
    loop 2  j over nc by reuse           rows of B^T in L1
    loop 1  p over kc by 1               reuse^2 pairs a step from 2 reuse loaded values

With ``reuse=1`` each loaded value serves one pair, with ``reuse=2`` two, which halves the loads for the same work. Four
independent sums instead of one also hide the latency of the addition. With ``simd="off"`` sums are of scalars. With
``schedule="chunks"`` a thread takes the next tile when it has finished one; else each has its part of them beforehand.

Where B fits an L3 that keeps up, ``reuse=1`` is no faster than `transposed`: what tiles keep in L2 saves nothing, and
the lanes of each sum are added up once for each kc, not once for all of k.

Source: lecture notes on dense matrix algorithms (tiling, arithmetic intensity); course work on DGEMM (2x2 reuse).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import in_chunks, jit, output, rows
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._ladder.execution import KernelExecution
from backends.cpu._ladder.operators import operators
from backends.cpu._ladder.options import CHUNKS, ON, SIMD, STATIC, choices, defaults
from backends.cpu._ladder.rows import contiguous_rows
from harness.interface import Backend, Execution
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring
from harness.tuning.cpu import tile_blocking

OPTIONS = {"reuse": (2, 1), "simd": SIMD, "schedule": (STATIC, CHUNKS)}

Box = tuple[int, int, int, int, int, int]  # begin and end of i, j and p


class Tiled(Backend):
    """Cache tiles, then 2x2 reuse of loaded values."""

    name = "cpu-tiled"
    step = 30
    idea = "tiles of A and B stay in cache while they are used again, and each loaded value serves two pairs"
    source = "lecture notes on dense matrix algorithms: tiling; course work on DGEMM by OpenMP: 2x2 reuse"
    calls_libraries = False
    takes = frozenset({"complex"})
    accumulates_in_place = True

    def loops(self, plan: Plan) -> Nest:
        """Return the loops over B transposed; the copy is not among them."""
        assert plan.blocking is not None
        tiles = ("i", plan.blocking.mc), ("j", plan.blocking.nc), ("p", plan.blocking.kc)
        reuse = int(plan.options["reuse"])
        return Nest.of(*tiles, ("i", reuse), ("j", reuse), ("p", 1, "registers"), order_b="jp")

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose tiles that fit the caches, and 2x2 reuse."""
        return Plan(problem, machine.threads, tile_blocking(problem, machine), defaults(OPTIONS))

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel and allocate the transposed copy."""
        assert plan.blocking is not None
        mc, nc, kc = plan.blocking.mc, plan.blocking.nc, plan.blocking.kc
        chosen = choices(plan, OPTIONS)
        loops = build_loops(plan.problem.dtype)
        if chosen.pop("schedule") == CHUNKS:
            loops = in_chunks(loops, 1)
        tile = address_of(build_tile(plan.problem.semiring, plan.problem.dtype, **chosen))
        rows_of_a, rows_of_bt = contiguous_rows(operands.a), contiguous_rows(operands.b.T)

        def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
            loops(rows_of_a(a), rows_of_bt(b.T), out, accumulate, mc, nc, kc, tile)

        return KernelExecution(plan, operands, kernel)


@kernel_builder
def build_loops(dtype: np.dtype[Any]) -> Any:
    """Compile the loops around a tile that is given by its address."""
    size = types.intp

    @jit(None, rows(dtype), rows(dtype), output(dtype), types.boolean, size, size, size, size)
    def loops(
        a: np.ndarray, bt: np.ndarray, out: np.ndarray, accumulate: bool, mc: int, nc: int, kc: int, tile: Any
    ) -> None:
        (m, k), n = a.shape, bt.shape[0]
        tiles_of_n = (n + nc - 1) // nc
        for index in prange((m + mc - 1) // mc * tiles_of_n):  # loop 5: tiles of C
            ic, jc = np.intp(index) // tiles_of_n * mc, np.intp(index) % tiles_of_n * nc
            for pc in range(0, k, kc):  # loop 4: the first block of k may store C, every later one adds to it
                box = (ic, min(ic + mc, m), jc, min(jc + nc, n), pc, min(pc + kc, k))
                call(tile, (a, bt, out, accumulate or pc > 0, box))

    return loops


@kernel_builder
def build_tile(semiring: Semiring, dtype: np.dtype[Any], reuse: int | str, simd: int | str = ON) -> Any:
    """Compile the kernel of a tile: one element of C at a time, or with reuse 2x2; odd edges are done one by one."""
    add, multiply, zero = operators(semiring, dtype)

    def one_by_one(a: np.ndarray, bt: np.ndarray, out: np.ndarray, accumulate: bool, box: Box) -> None:
        """Compute the box of C one element at a time."""
        i_begin, i_end, j_begin, j_end, p_begin, p_end = box
        for i in range(i_begin, i_end):  # loop 3: rows of A
            for j in range(j_begin, j_end):  # loop 2: rows of B^T
                total, x, y = zero, a[i, p_begin:p_end], bt[j, p_begin:p_end]
                for p in range(x.size):  # loop 1: one pair a step
                    total = add(total, multiply(x[p], y[p]))
                out[i, j] = add(out[i, j], total) if accumulate else total

    single = numba.njit(error_model="numpy")(one_by_one)

    def two_by_two(a: np.ndarray, bt: np.ndarray, out: np.ndarray, accumulate: bool, box: Box) -> None:
        """Compute the box of C four elements at a time; `one_by_one` does an odd row or column."""
        i_begin, i_end, j_begin, j_end, p_begin, p_end = box
        i_even, j_even = i_end - (i_end - i_begin) % 2, j_end - (j_end - j_begin) % 2
        for i in range(i_begin, i_even, 2):  # loop 3: two rows of A
            for j in range(j_begin, j_even, 2):  # loop 2: two rows of B^T
                c00 = c01 = c10 = c11 = zero
                a0, a1 = a[i, p_begin:p_end], a[i + 1, p_begin:p_end]
                b0, b1 = bt[j, p_begin:p_end], bt[j + 1, p_begin:p_end]
                for p in range(a0.size):  # loop 1: four pairs a step from four loaded values
                    c00, c01 = add(c00, multiply(a0[p], b0[p])), add(c01, multiply(a0[p], b1[p]))
                    c10, c11 = add(c10, multiply(a1[p], b0[p])), add(c11, multiply(a1[p], b1[p]))
                if accumulate:
                    c00, c01 = add(out[i, j], c00), add(out[i, j + 1], c01)
                    c10, c11 = add(out[i + 1, j], c10), add(out[i + 1, j + 1], c11)
                out[i, j], out[i, j + 1] = c00, c01
                out[i + 1, j], out[i + 1, j + 1] = c10, c11
        single(a, bt, out, accumulate, (i_even, i_end, j_begin, j_end, p_begin, p_end))
        single(a, bt, out, accumulate, (i_begin, i_even, j_even, j_end, p_begin, p_end))

    box = types.UniTuple(types.intp, 6)
    signature = (rows(dtype), rows(dtype), output(dtype), types.boolean, box)
    compiled = jit(semiring, *signature, parallel=False, vectorizes=simd == ON)
    return compiled(one_by_one if reuse == 1 else two_by_two)
