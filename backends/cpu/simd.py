"""Five loops around a micro-kernel that is generated as vector code, for every semiring, dtype and vector unit.

    loop 5  jc over n by nc      row-panel of B
    loop 4  pc over k by kc      later blocks of k combine with C, the first stores it: C is never filled nor read first
    loop 3  ic over m by mc      block of A in L2: in place, or gathered if its rows would share cache sets
    loop 2  over n_cur by nr     micro-panel of B, packed just before its first use, the next one prefetched meanwhile
    loop 1  over m_cur by mr     micro-tile of C: 8 x 3 vectors of 32 registers, 6 x 2 of 16

Edges are masked vectors and lower tiles, split evenly. Threads get parts of C of their own. Where (x) is not one
instruction for every value, a look at A and B decides between the fast and the careful form (`_vector_operators`).

Source: Goto and van de Geijn (2008); Van Zee and van de Geijn, "BLIS" (2015); even split of edges and A in place: this
project, measured in docs/simd.md.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from backends.cpu._execution import KernelExecution
from backends.cpu._generated_call import Loops, PreparedProduct
from backends.cpu._generated_kernel import KernelKey
from backends.cpu._guards import Look
from backends.cpu._vector_operators import Guard, Operations, guard, operations
from backends.cpu._vector_unit import find_unit, usable_units
from harness import tuning
from harness.errors import PlanError
from harness.interface import Backend, Execution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Blocking, Plan
from harness.problem import Problem
from harness.semiring import BINARY_OPS, Semiring

PACKING = ("auto", "always")
LARGEST_MR, LARGEST_NV = 16, 6  # beyond them no unit has the registers

# D^T = B^T (x)' A^T, where (x)' takes its operands the other way round
_TURNED = {"first": "second", "second": "first"}


class Simd(Backend):
    """Packed loops, generated vector micro-kernel."""

    name = "cpu-simd"
    step = 50
    idea = "the micro-kernel is generated as vector code, as wide and as high as the registers allow, and prefetches"
    source = "Van Zee and van de Geijn, BLIS (2015), section 4; Goto and van de Geijn (2008)"

    def missing(self) -> str | None:
        """Return why generated code cannot run."""
        return "NUMBA_DISABLE_JIT is set: generated code has no Python form" if numba.config.DISABLE_JIT else None

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` has no generated kernel."""
        if operations(problem.semiring, problem.dtype) is None:
            return f"no vector code for {problem.semiring.name} over {problem.dtype.name}"
        return None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the widest unit, its register tile, and the blocks by the caches."""
        unit = usable_units()[0]
        blocking = tuning.simd_blocking(problem, machine, unit.mr, unit.nv * unit.lanes(problem.dtype))
        options: dict[str, int | str] = {"unit": unit.name, "pack_a": "auto", "pack_b": "auto"}
        return Plan(problem, tuning.simd_threads(problem, machine.threads), blocking, options)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel, and settle addresses, strides and scratch of every part."""
        problem = plan.problem
        is_plain = problem.alpha is None and not problem.accumulate and min(problem.m, problem.n, problem.k) > 0
        if is_plain:
            return SimdExecution(plan, operands.a, operands.b, operands.out, accumulate=False)

        def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
            SimdExecution(plan, a, b, out, accumulate).run()

        _check(plan)
        return KernelExecution(plan, operands, kernel)


class SimdExecution:
    """``out := [out (+)] a (x) b`` by the generated loops, for m, n, k >= 1.

    Attributes
    ----------
    run : callable
        ``run()`` computes once.
    """

    def __init__(self, plan: Plan, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool) -> None:
        self._out = out
        self._kept: list[PreparedProduct] = []  # `run` knows their arguments by address alone
        semiring, dtype = plan.problem.semiring, plan.problem.dtype
        is_turned = not _has_contiguous_rows(out) and _has_contiguous_rows(out.T)
        if is_turned:
            a, b, out, semiring = b.T, a.T, out.T, _turned(semiring)
        target = out if _has_contiguous_rows(out) else np.empty(out.shape, dtype)
        wanted = operations(semiring, dtype)
        assert wanted is not None
        fast = PreparedProduct(_loops(plan, wanted, a, b, is_turned), a, b, target, accumulate)
        self.run = fast.run
        self._kept.append(fast)
        what = guard(semiring, dtype)
        if what is not Guard.NONE:
            careful_loops = _loops(plan, wanted._replace(is_careful=True), a, b, is_turned)
            careful = PreparedProduct(careful_loops, a, b, target, accumulate)
            self._kept.append(careful)
            self.run = _guarded(Look(what, semiring, dtype), a, b, fast.run, careful.run)
        if target is not out:
            self.run = _through(target, out, accumulate, self.run)

    def wait(self) -> None:
        """Return: the kernel has returned, so the result is complete."""

    def result(self) -> np.ndarray:
        """Return D, the output array itself."""
        return self._out


def _guarded(look: Look, a: np.ndarray, b: np.ndarray, fast: Any, careful: Any) -> Any:
    def run() -> None:
        (fast if look.holds(a, b) else careful)()

    return run


def _through(target: np.ndarray, out: np.ndarray, accumulate: bool, compute: Any) -> Any:
    """Return `compute` by way of an array with contiguous rows, for an output that has neither rows nor columns so."""

    def run() -> None:
        if accumulate:
            target[...] = out
        compute()
        out[...] = target

    return run


def _has_contiguous_rows(x: np.ndarray) -> bool:
    return x.strides[1] == x.itemsize or x.shape[1] == 1


def _turned(semiring: Semiring) -> Semiring:
    multiply = semiring.multiply
    return Semiring(semiring.add, BINARY_OPS[_TURNED.get(multiply.name, multiply.name)], semiring.name)


def _check(plan: Plan) -> tuple[Blocking, int, int]:
    """Return the blocking, mr and nv of a legal plan.

    Raises
    ------
    PlanError
        If the unit is not here, or the register tile is not made of whole vectors or too large for any unit.
    """
    blocking = plan.blocking
    assert blocking is not None
    unit = find_unit(str(plan.options["unit"]))
    lanes = unit.lanes(plan.problem.dtype)
    if blocking.nr % lanes or blocking.mr > LARGEST_MR or blocking.nr // lanes > LARGEST_NV:
        raise PlanError(
            f"{Simd.name}: no such register tile",
            expected=f"mr <= {LARGEST_MR}, nr a multiple of {lanes} and at most {LARGEST_NV * lanes}",
            got=str(blocking),
            fix=f"mr={unit.mr}, nr={unit.nv * lanes}",
        )
    return blocking, blocking.mr, blocking.nr // lanes


def _loops(plan: Plan, wanted: Operations, a: np.ndarray, b: np.ndarray, is_turned: bool) -> Loops:
    """Settle how the loops go about the operands, which may be the transposed ones."""
    blocking, mr, nv = _check(plan)
    (m, k), n = a.shape, b.shape[1]
    key = KernelKey(wanted, plan.problem.dtype.name, str(plan.options["unit"]), mr, nv)
    is_small = max(m, n, k) <= tuning.SIMD_SMALL
    packs_a = (
        plan.choice("pack_a", PACKING) == "always"
        or not _has_contiguous_rows(a)
        or not (is_small or tuning.reads_in_place(a.strides[0], m))
    )
    packs_b = (
        plan.choice("pack_b", PACKING) == "always"
        or not _has_contiguous_rows(b)
        or not (is_small or m <= mr)
        or not key.code().masks
    )
    if is_turned:
        blocking = Blocking(  # m and n have changed places, their cache blocks too
            mc=-(-blocking.nc // mr) * mr, nc=-(-blocking.mc // blocking.nr) * blocking.nr,
            kc=blocking.kc, mr=mr, nr=blocking.nr,
        )  # fmt: skip
    return Loops(key, blocking, packs_a, packs_b, tuning.thread_grid(m, n, plan.threads, mr, blocking.nr))
