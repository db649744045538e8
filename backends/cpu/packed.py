"""Goto's five loops around a micro-kernel that reads packed panels and keeps its tile of C in registers: 4x4 and wider.

    loop 5  jc over n by nc   row-panel of B     packed_b in L3
    loop 4  pc over k by kc   pack B             sequential: every pc updates the same C
    loop 3  ic over m by mc   pack a block of A  packed_a in L2
    loop 2  jr over nc by nr  micro-panel of B   in L1
    loop 1  ir over mc by mr  micro-tile of C    in registers
            p  over kc by 1   micro-kernel       four rows of sums a step from one row of B and four elements of A

Threads share loop 3: all have the row-panel of B in common, and each packs the blocks of A that it computes.

    packed_a  (mc/mr, kc, mr)  micro-panels of A: its mr elements of a step lie side by side
    packed_b  (nc/nr, kc, nr)  micro-panels of B: its row of nr elements is one vector or two

mr is 4, and nr two vectors: 8 columns of float64 by AVX2. With ``nr=4`` the tile is the 4x4 of the course there: one
vector a row, whose loads cannot keep up with the arithmetic.

Packing fills the last micro-panel up with the semiring's zero, so the micro-kernel only sees whole panels. It writes a
whole tile into scratch, and `store` copies the part that exists into C. No other code handles edges.

Packing widens the operands of a mixed product; the micro-kernel sees panels of the dtype of the sums alone.

Options change one idea. With ``packing="off"`` the micro-kernel reads rows where they lie (`_ladder.in_place`), with
``simd="off"`` its sums are of scalars (`_ladder.scalar_tile`), and by `parallel_loop` threads share another loop
(`_ladder.shared_loops`).

Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), section 4; loop names after
Van Zee and van de Geijn, "BLIS" (2015); the 4x4 micro-kernel from course work on DGEMM by OpenMP.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from typing import Any

import numba
import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, scalar, scratch, strided
from backends.cpu._ir.call_by_address import address_of, call
from backends.cpu._ladder import in_place, shared_loops, shares
from backends.cpu._ladder.complex_row import build_complex_rows
from backends.cpu._ladder.execution import KernelExecution, float32_only, kernel_dtypes
from backends.cpu._ladder.operators import operators
from backends.cpu._ladder.options import OFF, ON, SIMD, choices, defaults
from backends.cpu._ladder.row import build_rows, lengths_of_row, sums_of_row
from backends.cpu._ladder.scalar_tile import build_micro_kernel as build_scalar_micro_kernel
from backends.cpu._vector.inlined import inlined
from harness.dtypes import is_complex
from harness.errors import PlanError
from harness.interface import Backend, Execution
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import CACHE_LINE, Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring
from harness.tuning.cpu import PACKED_MR, packed_blocking

OPTIONS = {"parallel_loop": shares.LOOPS, "packing": (ON, OFF), "simd": SIMD}


class Packed(Backend):
    """Five loops, packed panels, a register tile of four rows."""

    name = "cpu-packed"
    step = 40
    idea = (
        "panels packed in the order they are read, and four rows of two vectors of C in registers: six loads for eight"
    )
    source = "Goto and van de Geijn (2008), section 4; course work on DGEMM by OpenMP: packed 4x4 micro-kernel"
    calls_libraries = False
    takes = frozenset({"mixed", "complex"})
    accumulates_in_place = True

    def loops(self, plan: Plan) -> Nest:
        """Return the five loops and the micro-kernel; packing is not among them."""
        assert plan.blocking is not None
        mc, nc, kc, mr, nr = dataclasses.astuple(plan.blocking)
        caches, registers = (("j", nc), ("p", kc), ("i", mc)), (("j", nr), ("i", mr), ("p", 1, "registers"))
        return Nest.of(*caches, *registers)

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` is out of scope, or None."""
        return float32_only(problem)

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the five block sizes by the caches; threads share the blocks of A."""
        wide, *narrow = lengths_of_row(problem.dtype)
        nr = narrow[0] if narrow and problem.n <= narrow[0] else wide
        return Plan(problem, machine.threads, packed_blocking(problem, machine, nr), defaults(OPTIONS))

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel and allocate the packed panels."""
        blocking, problem = plan.blocking, plan.problem
        assert blocking is not None
        if blocking.mr != PACKED_MR or blocking.nr not in lengths_of_row(problem.dtype):
            legal = " or ".join(map(str, lengths_of_row(problem.dtype)))
            expected = f"mr={PACKED_MR}, nr={legal}"
            raise PlanError(f"{self.name}: no such register block", expected=expected, got=str(blocking))
        chosen = choices(plan, OPTIONS)
        if chosen["packing"] == OFF:
            unpacked = in_place.prepare(plan, operands, build_micro_kernel, build_store)
            return KernelExecution(plan, operands, unpacked)
        macro_kernel = address_of(build_macro_kernel(problem.semiring, problem.dtype, blocking.nr, chosen["simd"]))
        if chosen["parallel_loop"] != shares.LOOPS[0]:
            pack_b_panel = build_pack_b_panel(blocking.nr)
            shared = shared_loops.prepare(plan, macro_kernel, pack_a, pack_b_panel, empty_panels)
            return KernelExecution(plan, operands, shared)
        mc, nc, kc, mr, nr = dataclasses.astuple(blocking)
        k_cur, blocks = max(min(kc, problem.k), 1), max(-(-problem.m // mc), 1)
        packed_a = empty_panels((blocks, mc // mr, k_cur, mr), problem.dtype)
        packed_b = empty_panels((min(nc // nr, -(-problem.n // nr)), k_cur, nr), problem.dtype)
        five_loops = build_five_loops(problem.dtype, *kernel_dtypes(problem), nr)
        zero = problem.semiring.zero(problem.dtype)
        # Threads claim one block after the other where some get two; else claims change nothing, and cost 4 us. They
        # are set here, not in the loops, so that their code can be kept; and for each run, since Numba has one object.
        claims = functools.partial(numba.parallel_chunksize, 1) if blocks > plan.threads else contextlib.nullcontext

        def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
            with claims():
                five_loops(a, b, out, accumulate, mc, nc, kc, zero, packed_a, packed_b, macro_kernel)

        return KernelExecution(plan, operands, kernel)


@kernel_builder
def build_five_loops(dtype: np.dtype[Any], dtype_a: np.dtype[Any], dtype_b: np.dtype[Any], nr: int) -> Any:
    """Compile loops 5, 4 and 3 around a macro-kernel that is given by its address."""
    pack_b_panel = build_pack_b_panel(nr)

    def five_loops(
        a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool, mc: int, nc: int, kc: int, zero: Any,
        packed_a: np.ndarray, packed_b: np.ndarray, macro_kernel: Any,
    ) -> None:  # fmt: skip
        """Compute ``out := [out (+)] a (x) b``."""
        (m, k), n = a.shape, b.shape[1]
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


@kernel_builder
def build_macro_kernel(semiring: Semiring, dtype: np.dtype[Any], nr: int, simd: int | str = ON) -> Any:
    """Compile loops 2 and 1: every micro-panel of a row-panel of B against every micro-panel of a block of A."""
    micro_kernel, store, mr = build_micro_kernel(semiring, dtype, nr, simd), build_store(semiring, dtype, nr), PACKED_MR

    def macro_kernel(packed_a: np.ndarray, packed_b: np.ndarray, k_cur: int, c: np.ndarray, accumulate: bool) -> None:
        """Compute ``c := [c (+)] block of A (x) row-panel of B``, m_cur x n_cur."""
        tile = np.empty((mr, nr), c.dtype)
        for jr in range((c.shape[1] + nr - 1) // nr):  # loop 2: micro-panels of B
            for ir in range((c.shape[0] + mr - 1) // mr):  # loop 1: micro-panels of A, a micro-tile of C each
                micro_kernel(packed_a[ir], packed_b[jr], k_cur, tile)
                store(tile, c[ir * mr :, jr * nr :], accumulate)

    signature = (scratch(dtype, 3), scratch(dtype, 3), types.intp, output(dtype), types.boolean)
    return jit(semiring, *signature, parallel=False, vectorizes=simd == ON, joins_lanes=simd == ON)(macro_kernel)


def build_micro_kernel(semiring: Semiring, dtype: np.dtype[Any], nr: int, simd: int | str = ON) -> Any:
    """Return ``micro_kernel(a, b, k_cur, tile)``: ``tile[i, j] := (+)_p a[p, i] (x) b[p, j]``.

    A row of B is loaded once and serves four rows of C, each by one element of A in all lanes. With two vectors a row
    six loads serve eight vectors of pairs, and eight sums hide the latency of the addition: it takes four cycles, and
    two can begin in each. With one vector a row, five loads serve four, and odd steps of k have sums of their own.
    """
    has_vectors = semiring.is_ordinary or not is_complex(dtype)
    if simd == OFF or numba.config.DISABLE_JIT or not has_vectors:
        return build_scalar_micro_kernel(semiring, dtype)
    rows_of = build_complex_rows if is_complex(dtype) else build_rows
    load, write, zeros, extend, combine = rows_of(semiring, dtype, nr)
    splits = sums_of_row(dtype, nr, PACKED_MR) > 1

    @inlined
    def step(c: Any, a: np.ndarray, b: np.ndarray, p: int) -> Any:
        """Return four rows of C one step of k further."""
        y = load(b.ctypes.data + p * b.strides[0])
        c0, c1, c2, c3 = c
        return extend(c0, a[p, 0], y), extend(c1, a[p, 1], y), extend(c2, a[p, 2], y), extend(c3, a[p, 3], y)

    @numba.njit(error_model="numpy")
    def micro_kernel(a: np.ndarray, b: np.ndarray, k_cur: int, tile: np.ndarray) -> None:
        """Compute the tile over the first k_cur steps of the panels."""
        even = zeros(), zeros(), zeros(), zeros()
        odd = even
        begin = 0
        if splits:
            for half in range(k_cur // 2):
                even, odd = step(even, a, b, 2 * half), step(odd, a, b, 2 * half + 1)
            begin = k_cur // 2 * 2
        for p in range(begin, k_cur):
            even = step(even, a, b, p)
        for i in range(PACKED_MR):
            write(tile.ctypes.data + i * tile.strides[0], combine(even[i], odd[i]))

    return micro_kernel


def build_store(semiring: Semiring, dtype: np.dtype[Any], nr: int) -> Any:
    """Return ``store(tile, c, accumulate)``: c := [c (+)] tile on the part of the tile that c has."""
    add, mr = operators(semiring, dtype).add, PACKED_MR

    @numba.njit(error_model="numpy")
    def store(tile: np.ndarray, c: np.ndarray, accumulate: bool) -> None:
        rows, columns = min(mr, c.shape[0]), min(nr, c.shape[1])
        if rows == mr and columns == nr:
            for i in range(mr):  # numbers that the compiler knows: it writes these loops out
                for j in range(nr):
                    c[i, j] = add(c[i, j], tile[i, j]) if accumulate else tile[i, j]
        else:
            for i in range(rows):
                for j in range(columns):
                    c[i, j] = add(c[i, j], tile[i, j]) if accumulate else tile[i, j]

    return store


def empty_panels(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return uninitialised micro-panels, the last two axes of `shape`, each of which begins on a cache line."""
    *outer, steps, width = shape
    line = CACHE_LINE // math.gcd(CACHE_LINE, width * dtype.itemsize)
    return aligned_empty((*outer, -(-steps // line) * line, width), dtype)


@numba.njit(error_model="numpy")
def pack_a(a: np.ndarray, first: int, begin: int, m_cur: int, k_cur: int, zero: Any, packed: np.ndarray) -> None:
    """Pack the block ``a[first : first + m_cur, begin : begin + k_cur]`` into micro-panels of mr rows."""
    for panel in range((m_cur + PACKED_MR - 1) // PACKED_MR):
        i = panel * PACKED_MR
        is_whole = i + PACKED_MR <= m_cur
        for p in range(k_cur):
            if is_whole:
                for r in range(PACKED_MR):
                    packed[panel, p, r] = a[first + i + r, begin + p]
            else:
                for r in range(PACKED_MR):
                    packed[panel, p, r] = a[first + i + r, begin + p] if i + r < m_cur else zero


@kernel_builder
def build_pack_b_panel(nr: int) -> Any:
    """Return ``pack_b_panel(b, begin, first, k_cur, n_end, zero, panel)`` for micro-panels of `nr` columns."""

    @numba.njit(error_model="numpy")
    def pack_b_panel(
        b: np.ndarray, begin: int, first: int, k_cur: int, n_end: int, zero: Any, panel: np.ndarray
    ) -> None:
        """Pack ``b[begin : begin + k_cur, first : first + nr]``; columns from `n_end` on are zero."""
        is_whole = first + nr <= n_end
        for p in range(k_cur):
            if is_whole:
                for r in range(nr):
                    panel[p, r] = b[begin + p, first + r]
            else:
                for r in range(nr):
                    panel[p, r] = b[begin + p, first + r] if first + r < n_end else zero

    return pack_b_panel
