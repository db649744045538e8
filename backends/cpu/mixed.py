"""Mixed precision: narrow operands, wide sums. float16 or bfloat16 into float32, int8 into int32, float32 into float64.

    D = alpha (A B) + beta C        A, B of 1 or 2 bytes an element; every sum, C and D of 4 (float32: see below)

The micro-kernel of cpu-simd runs over words of 32 bits, each of 1, 2 or 4 elements along k. One instruction multiplies
those and adds them to a sum (`_mixed.methods`). Operands become words where they are packed (`_mixed.packing`), inside
the five loops (`_mixed.loops`).

Floats: products of two operands are exact in float32, and sums are rounded like those of any float32 product. vdpbf16ps
takes a subnormal number for zero. So a product by it scans its operands first, and is computed by conversion if one is
subnormal. Integers: exact modulo 2^32.

float32 and complex64: cpu-simd multiplies wide copies (`_mixed.widened`); options and blocks of the plan are its own.

Source: Goto and van de Geijn (2008); Khudia et al., "FBGEMM" (2021), section 3, for packing in pairs and fours.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numba
import numpy as np
from numba import types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.jit import jit, output, scalar, strided
from backends.cpu._ladder.execution import KernelExecution
from backends.cpu._mixed.amx_kernel import check_tiles
from backends.cpu._mixed.methods import METHODS, MixedKey, refusal, usable_methods
from backends.cpu._mixed.product import PackedProduct, leaves_b, prepare_mixed
from backends.cpu._mixed.remembered import RememberedProducts
from backends.cpu._mixed.widened import is_widened, ordinary, prepare_widened
from backends.cpu._simd.argument_table import Shape
from backends.cpu._vector.unit import check_tile
from harness import registry
from harness.dtypes import MIXED, dtype_name, is_exact
from harness.errors import PlanError
from harness.interface import Backend, Execution, HostExecution, Shortcut
from harness.machine import Machine
from harness.operands import Operands, aligned_empty
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning import amx as tuning_amx
from harness.tuning import simd as tuning_simd
from harness.tuning import simd_parts as tuning_parts


class Mixed(Backend):
    """Packed loops over words, generated vector micro-kernel."""

    name = "cpu-mixed"
    step = 55
    idea = "operands of 1 or 2 bytes are packed in words, whose parts one instruction multiplies and adds to a wide sum"
    source = "Goto and van de Geijn (2008); Khudia et al., FBGEMM (2021), section 3"
    calls_libraries = False
    rereads_operands = True
    takes = frozenset({"mixed", "complex"})

    def missing(self) -> str | None:
        """Return why generated code cannot run."""
        return "NUMBA_DISABLE_JIT is set: generated code has no Python form" if numba.config.DISABLE_JIT else None

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` is not for this backend."""
        if not problem.is_mixed:
            return f"mixed products only: {', '.join(MIXED)} with sums of {', '.join(dict.fromkeys(MIXED.values()))}"
        if problem.alpha is not None and not np.isfinite(problem.alpha):
            return f"alpha multiplies the sums, and {problem.alpha} would make NaN of those that are zero"
        return None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose the best method of this processor, the register tile of its unit, and the blocks by the caches."""
        if is_widened(problem):
            return dataclasses.replace(_base().plan(ordinary(problem), machine), problem=problem)
        method, unit = usable_methods(dtype_name(problem.input_dtype))[0]
        options: dict[str, int | str] = {"method": method.name, "unit": unit.name}
        if method.is_tiled:
            blocking = tuning_amx.amx_blocking(problem, machine)
            threads = tuning_parts.simd_threads(problem, machine.threads, tuning_amx.AMX_FEWEST_PAIRS)
            return Plan(problem, threads, blocking, options)
        in_words = dataclasses.replace(problem, k=-(-problem.k // method.group), operand_dtype=None)
        blocking = tuning_simd.simd_blocking(in_words, machine, unit.mr, unit.nv * unit.lanes(problem.dtype))
        blocking = dataclasses.replace(blocking, kc=blocking.kc * method.group)
        return Plan(problem, tuning_parts.simd_threads(problem, machine.threads), blocking, options)

    def mixed_shortcut(self, dtype: np.dtype[Any], operand_dtype: np.dtype[Any], machine: Machine) -> Shortcut | None:
        """Return the call that prepares each layout once; None for operands that are copied as a whole."""
        if is_widened(Problem(1, 1, 1, "plus_times", dtype, operand_dtype=operand_dtype)):
            return None

        def make(shape: Shape, a_begins: int) -> PackedProduct | None:
            problem = Problem(shape.m, shape.n, shape.k, "plus_times", dtype, operand_dtype=operand_dtype)
            plan = self.plan(problem, machine)
            assert plan.blocking is not None
            key, careful = _keys(plan)
            if shape.strides_b[1] != operand_dtype.itemsize and leaves_b(key, shape.m, shape.k, shape.n):
                return None
            return PackedProduct(key, careful, plan.blocking, plan.threads, shape, False, a_begins)

        return RememberedProducts(operand_dtype, dtype, make).compute

    def loosens(self, problem: Problem) -> bool:
        """Return False: alpha enlarges the loss of sums below the smallest normal number in any method."""
        return False

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return the error of subnormal numbers lost in the sums, enlarged by alpha."""
        problem = plan.problem
        if is_exact(problem.dtype) or problem.alpha is None:
            return 0.0
        return float(abs(problem.alpha)) * (problem.k + 1) * float(np.finfo(problem.dtype).smallest_normal)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Compile the kernel, and settle addresses, strides and scratch of every part."""
        problem = plan.problem
        if is_widened(problem):
            return prepare_widened(_base(), plan, operands)
        key, careful = _keys(plan)
        if problem.alpha is None:
            return _sums(plan, key, careful, operands)
        plain = dataclasses.replace(plan, problem=dataclasses.replace(problem, alpha=None, beta=None, accumulate=False))
        sums = aligned_empty(operands.out.shape, problem.dtype) if problem.accumulate else operands.out
        execution = _sums(plain, key, careful, Operands(operands.a, operands.b, None, sums))
        zero, one = problem.dtype.type(0), problem.dtype.type(1)
        beta = (one if problem.beta is None else problem.beta) if problem.accumulate else zero
        c = operands.c if problem.accumulate else sums
        scale = build_scale(problem.dtype)

        def run() -> None:
            execution.run()
            scale(problem.alpha, sums, problem.accumulate, beta, c, operands.out)

        return HostExecution(operands, run)


def _base() -> Backend:
    """Return the backend that multiplies copies in the wide dtype."""
    return registry.find("cpu-simd")


@kernel_builder
def build_scale(dtype: np.dtype[Any]) -> Any:
    """Compile ``scale(alpha, sums, adds, beta, c, out)``: ``out := alpha sums``, with ``+ beta c`` if `adds`."""
    number = scalar(dtype)

    @jit(None, number, strided(dtype), types.boolean, number, strided(dtype), output(dtype), parallel=False)
    def scale(alpha: Any, sums: np.ndarray, adds: bool, beta: Any, c: np.ndarray, out: np.ndarray) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = alpha * sums[i, j] + beta * c[i, j] if adds else alpha * sums[i, j]

    return scale


def _sums(plan: Plan, key: MixedKey, careful: MixedKey | None, operands: Operands) -> Execution:
    """Return ``out := A B [+ beta C]``, ready to run."""
    if min(plan.problem.m, plan.problem.n, plan.problem.k) == 0:
        return KernelExecution(plan, operands, lambda *_: None)
    run = prepare_mixed(key, careful, plan, operands)
    return KernelExecution(plan, operands, lambda *_: run())


def _keys(plan: Plan) -> tuple[MixedKey, MixedKey | None]:
    """Return the kernel that the plan asks for, and one for subnormal numbers, if the first loses them.

    Raises
    ------
    PlanError
        If this processor does not have the method with that unit, the system refuses it, or the register tile is not
        made of whole vectors or tiles or too large.
    """
    problem, blocking = plan.problem, plan.blocking
    assert blocking is not None
    operands = dtype_name(problem.input_dtype)
    usable = {(method.name, unit.name): (method, unit) for method, unit in usable_methods(operands)}
    choice = plan.options["method"], plan.options["unit"]
    if choice not in usable:
        reasons = {refusal(method) for method in METHODS if (method.name, method.operands) == (choice[0], operands)}
        reasons.discard(None)
        raise PlanError(
            f"{Mixed.name}: this processor has no such method for {operands}"
            if not reasons
            else f"{Mixed.name}: the system does not let this process use the processor's tiles: {reasons.pop()}",
            expected=" or ".join(f"method={method}, unit={unit}" for method, unit in usable),
            got="method={}, unit={}".format(*choice),
        )
    method, unit = usable[str(choice[0]), str(choice[1])]
    if method.is_tiled:
        check_tiles(Mixed.name, blocking)
    else:
        check_tile(Mixed.name, blocking, unit, unit.lanes(problem.dtype))
    key = MixedKey(method, dtype_name(problem.dtype), unit.name, blocking.mr, blocking.nr // unit.lanes(problem.dtype))
    if not method.loses_subnormals:
        return key, None
    convert, _ = usable["convert", unit.name]
    mr, nv = (unit.mr, unit.nv) if method.is_tiled else (key.mr, key.nv)
    return key, key._replace(method=convert, mr=mr, nv=nv)
