"""float64 and float32 on int8 tensor cores: exact products of integers, put together by the Chinese remainders.

    norms      of rows of A and of columns of B                                        norms.cu
    trial      what some elements lose in float64, and would lose so                   trial.cu
    residues   2^e a and 2^f b to integers, modulo N numbers: bytes                    residues.cu
    gate       N = 14, 15, 16 (float32: 7, 8), or 0: computed natively                 gate.cu
    products   N exact ones of bytes, modulo those numbers, in one launch              tensor_core_s8.cu
    fold       the integer from its residues, times 2^-(e + f), alpha; + beta C        crt.cu
    native     at N = 0 alone: float64 tensor cores, float32 on CUDA cores             native.py

Tensor cores of Hopper multiply bytes 25 times as fast as float64. Rounding to integers is the only error, which does
not grow with k. Values that are not finite, wide, or badly matched are computed natively: the gate looks at the
values on the GPU, in the stream of the product, and nobody waits for it (docs/float64-by-int8.md).

Complex numbers take two products of bytes a modulus, where four real products would take four (moduli.py). The passes
look at planes of their parts (planes.cu), whose dot products are real parts of D, as at real vectors.

Source: Ozaki, Uchino and Imamura, arXiv 2504.08009 and 2508.03984; complex numbers: Caday, arXiv 2609.05419. Rounding
to nearest, bytes out of the products, trial, proof and gate are this project's.
"""

from __future__ import annotations

import numpy as np

from backends.gpu._base.backend import GpuBackend
from backends.gpu._complex.planes import ComplexProduct, add_join, add_split
from backends.gpu._cuda import device
from backends.gpu._program.program import Matrix, Program
from backends.gpu._residues.moduli import PARTS, table
from backends.gpu._residues.native import add_start
from backends.gpu._residues.product import add_residue_product, stack_bytes
from backends.gpu._residues.shape import ResidueProduct
from backends.gpu._tensor.norms import largest_dot
from backends.gpu._tensor.residue_product import PACKED_RUN
from harness import arithmetic
from harness.dtypes import count_parts, dtype_name
from harness.errors import BackendUnavailable
from harness.interface import Execution
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import HOPPER
from harness.tuning.gpu import residues as tuning
from harness.tuning.gpu import tensor_cores


class Ozaki(GpuBackend):
    """Products of floats from residues, or natively where the gate says so."""

    name = "gpu-ozaki"
    step = 85
    idea = "floats as exact int8 products modulo small numbers, unless a gate on the GPU finds values unfit for it"
    source = "Ozaki, Uchino and Imamura, arXiv 2504.08009, 2508.03984, 2602.02549"
    needs = HOPPER
    takes = GpuBackend.takes - {"batch"} | {"complex", "conjugate"}  # large products alone pay: one by one
    takes_columns = frozenset({"a", "b", "c", "out"})

    def missing(self) -> str | None:
        """Say whether there is a GPU with wgmma and TMA."""
        return device.missing_wgmma("int8 products by wgmma and TMA")

    def declines(self, problem: Problem) -> str | None:
        """Decline all but sums of products of floats of 32 or 64 bits, and of complex numbers of such parts."""
        if not problem.semiring.is_ordinary or dtype_name(problem.dtype) not in tuning.NUMBERS:
            return "it computes plus_times over float64, float32 and complex numbers"
        if problem.alpha is not None and not np.isfinite(problem.alpha) and not problem.is_complex:
            return "an infinite alpha would make NaN of sums that are zero"
        return None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Leave the number of moduli to the gate, and choose panels of columns whose residues fit into memory."""
        has_gpu = not device.missing()
        options: dict[str, int | str] = {
            "gate": tuning.GATES[0],
            "moduli": 0,
            "balance": 0,
            "panel": panel_columns(problem, device.device().memory if has_gpu else 0),
            "blocks": device.planned().multiprocessors,
            "cluster": 1,
            "group": tensor_cores.GROUPS,
        }
        return Plan(problem, 1, None, options, tensor_cores.NUMBERS["int8"].large)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Prepare with panels so narrow that their residues fit into the memory that is free."""
        try:
            return super().prepare(plan, operands)
        except BackendUnavailable:
            columns = int(plan.options["panel"])
            if columns <= PACKED_RUN:
                raise
        return self.prepare(plan.override({"panel": _half(columns)}), operands)

    def pays(self, problem: Problem) -> bool:
        """Return whether the shape is large enough."""
        return tuning.pays(problem)

    def keeps_arithmetic(self, problem: Problem) -> bool:
        """Return whether sums in IEEE arithmetic are not asked for, and the shape is large enough.

        What is emulated depends on values. So no measurement on some of them admits a smaller shape.
        """
        return not arithmetic.is_native() and self.pays(problem)

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return 0 if the gate proves the ordinary bound, else that of rounding to integers, from norms."""
        problem = plan.problem
        if plan.options["gate"] in ("proven", "certified") or problem.pairs == 0:
            return 0.0
        count = int(plan.options["moduli"]) or tuning.NUMBERS[dtype_name(problem.dtype)].fewest
        parts = count_parts(problem.dtype)
        half, terms = table(count, PARTS[parts][0]).half_bits, parts * problem.k
        return (2.0 ** (1 - half) * terms**0.5 + 4.0 ** (1 - half) * terms) * largest_dot(problem, operands)

    def loosens(self, problem: Problem) -> bool:
        """Return False: unless an option says otherwise, the ordinary bound holds."""
        return False

    def program(self, plan: Plan, a: Matrix, b: Matrix, *c_and_out: Matrix) -> Program:
        """Return the launches of the whole product; c precedes out if there is one."""
        problem, program, c, out = plan.problem, Program(), c_and_out[0], c_and_out[-1]
        m, n, k = problem.m, problem.n, problem.k
        if m == 0 or n == 0:
            return program
        if problem.is_complex:
            whole = ComplexProduct.of(problem, a, b, c, out)
            if k == 0:
                add_join(program, whole, None)
            else:
                add_residue_product(program, plan, _of_planes(program, whole))
            return program
        product = ResidueProduct(problem, a, b, c, out, m, n, k)
        product = product.transposed() if out.by_columns else product
        if k == 0:
            add_start(program, product)
        else:
            add_residue_product(program, plan, product)
        return program


def _of_planes(program: Program, whole: ComplexProduct) -> ResidueProduct:
    """Add the launch that makes planes, with alpha, and return the product of vectors of two lines each."""
    planes, problem = add_split(program, whole), whole.problem
    a, b = (x._replace(ld=2 * x.ld) for x in (planes.a, planes.b))
    unscaled = problem.laid_out(problem.layout, alpha=None)
    return ResidueProduct(unscaled, a, b, whole.c, whole.out, problem.m, problem.n, problem.k)


def panel_columns(problem: Problem, memory: int) -> int:
    """Return the columns of a panel: all, or as few as the share of the GPU's memory holds the residues of."""
    columns = max(problem.n, 1)
    while memory and columns > PACKED_RUN:
        most = tuning.NUMBERS[dtype_name(problem.dtype)].most * count_parts(problem.dtype)
        if sum(stack_bytes(problem, problem.m, columns, problem.k, most)) <= tuning.MEMORY_SHARE * memory:
            break
        columns = _half(columns)
    return columns


def _half(columns: int) -> int:
    """Return half of the columns of a panel, rounded up to whole runs."""
    return -(-columns // 2 // PACKED_RUN) * PACKED_RUN
