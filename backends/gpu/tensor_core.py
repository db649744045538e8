"""Tensor cores, for every product that they can compute: float64, float32, float16 and bfloat16, and bools.

    float32 to float64      widened by a pass, then as float64
    float64                 mma.sync m16n8k4 or k8, ordinary rounding               tensor_core_f64.cu
        the same on Hopper  m16n8k16, of tiles that the copy engine brings          tensor_core_f64_tma.cu
    float32                 three TF32 products, sums flushed to float32            tensor_core_f32.cu
        the same on Hopper  by wgmma, of parts that a pass has made                 tensor_core_tf32.cu
    float16, bfloat16       TMA and wgmma, sums in float32; Hopper alone            tensor_core_half.cu
        few rows of C       the same, of C transposed                               tensor_core_half_flat.cu
        thin ones           mma.sync m16n8k16, clusters that share k                tensor_core_half_mma.cu
        tall, a short k     the same, of row panels of A                            tensor_core_half_panels.cu
    float8                  the same, sums in 14 bits or flushed to float32         tensor_core_f8.cu
    int8, uint8 to int32    the same, exact modulo 2^32                             tensor_core_s8.cu
    integers                the same, of digits of one byte; exact modulo 2^bits    tensor_core_s8.cu
    bool, or-and, xor-and   32 bools a word; counts of common ones along k          tensor_core_b1.cu
        the same on Hopper  by wgmma, B transposed as it is packed                  tensor_core_bits.cu

    grid    tiles of C, bm x bn   a block each (16-bit: persistent blocks)
    warp    wm x wn of it         sums in registers
    loop    p over k by bk        tiles of A and B in shared memory, ``stages`` in flight

Rows not aligned to 16 bytes (odd leading dimensions) are copied to aligned ones, which is timed, or read element by
element (option ``edge``).

3xTF32 is right for zeros and for magnitudes from 1e-30 to 1e18. The GPU finds the extremes of the operands; other
values are computed by ordinary fused multiply-adds (`naive.cu`). Its error is that of a float32 product plus at most 8
units of rounding for each term (`extra_error`).

Source: PTX ISA, mma.sync and wgmma; Ootomo and Yokota (2022) for the flush; for edges Nath, Tomov and Dongarra,
"Accelerating GPU Kernels for Dense Linear Algebra" (2010), section 3.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from backends.gpu._base.backend import SYMMETRIC
from backends.gpu._base.rung import Rung
from backends.gpu._cuda import device
from backends.gpu._paths.bits import GpuBitClosure
from backends.gpu._program.program import Product, Program
from backends.gpu._tensor.bit_product import add_bit_product
from backends.gpu._tensor.float8_product import add_float8_product, lost_of_float8
from backends.gpu._tensor.half_mma_product import HALF_UNITS, add_half_mma_product, half_options
from backends.gpu._tensor.half_panels_product import add_half_panels_product
from backends.gpu._tensor.integer_product import add_integer_product
from backends.gpu._tensor.mma_product import MMA, UNITS, add_float_product
from backends.gpu._tensor.norms import cut_off, largest_dot
from backends.gpu._tensor.row_product import add_half_product
from harness.dtypes import dtype_name, is_float8
from harness.interface import Closure
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import ASYNC_COPY
from harness.tuning.gpu import tensor_cores, thin_tensor_cores
from harness.tuning.gpu.paths import BITS_FROM

# Error of 3xTF32 beyond float32's own, in units of rounding. It omits the product of the low parts (2^-11 of a times
# 2^-11 of b) and rounds each low part (2^-23).
_TF32_UNITS = 8
_HALF = {"wgmma": add_half_product, "mma": add_half_mma_product, "panels": add_half_panels_product}
_UNIT, _TINY = 2.0**-24, float(np.finfo(np.float32).smallest_normal)


class TensorCore(Rung):
    """Matrix instructions of a warp, or of four."""

    name = "gpu-tensor-core"
    step = 80
    idea = "tensor cores: one instruction multiplies small matrices; float32 is put together from three TF32 products"
    source = "PTX ISA, mma.sync and wgmma; Ootomo and Yokota (2022); Markidis et al. (2018)"
    takes = Rung.takes | {"mixed", "triangle"}
    needs = ASYNC_COPY
    widens = frozenset({"float32"})

    def declines(self, problem: Problem) -> str | None:
        """Decline products that no tensor core computes."""
        semiring, dtype = problem.semiring, problem.input_dtype
        if problem.triangle and (problem.triangle == "a" or dtype.kind == "b"):
            return SYMMETRIC if problem.triangle == "a" else "bools are packed for whole matrices alone"
        if dtype.kind == "b":
            return (
                None if semiring.name in ("lor_land", "lxor_land") else "tensor cores know or-and and xor-and of bools"
            )
        if not semiring.is_ordinary:
            return "tensor cores multiply and add: plus_times only, and or-and, xor-and of bools"
        if dtype_name(dtype) not in tensor_cores.NUMBERS:
            return f"no tensor-core kernel for {dtype_name(dtype)} with sums of {dtype_name(problem.dtype)}"
        is_narrow = problem.is_mixed and self.widened(problem) is problem
        if is_narrow and problem.alpha is not None and not np.isfinite(problem.alpha):
            return "an infinite alpha would make NaN of sums that are zero"
        needs_hopper = (is_narrow or dtype.kind in "iu") and self.missing() is None
        return device.missing_wgmma() if needs_hopper else None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose tiles by how many there are, and whether unaligned rows are copied."""
        wide = self.widened(problem)
        if wide is not problem:
            return dataclasses.replace(self.plan(wide, machine), problem=problem)
        options: dict[str, int | str] = {}
        here, name, is_hopper = device.planned(), dtype_name(problem.input_dtype), self._has_wgmma()
        thin = thin_tensor_cores.thin_choice(problem, here, is_hopper=is_hopper)
        launch = tensor_cores.tensor_core_launch(problem, here) if thin is None else thin.tile.launch
        if name in ("float32", "float64"):
            is_padded = thin is None and tensor_cores.pads_rows(problem)
            options["edge"] = "padded" if is_padded else "redirected"
        if name in tensor_cores.HOPPER_TILES:
            if thin is None:
                is_hopper = is_hopper and tensor_cores.suits_hopper(problem, here)
                launch = tensor_cores.HOPPER_TILES[name] if is_hopper else launch
            options["unit"] = UNITS[name][launch == tensor_cores.HOPPER_TILES[name]]
        if name in ("float32", "float64"):
            is_tma = options["unit"] == "tma"
            launch = tensor_cores.brought_tiles(problem) if is_tma else launch
            options["depth"] = tensor_cores.HOPPER_DEPTH if is_tma else tensor_cores.depth_of(problem, launch)
        if tensor_cores.needs_wgmma(problem) or "unit" in options:
            options["blocks"] = here.multiprocessors
            options["cluster"] = tensor_cores.cluster_of(problem) if thin is None else thin.cluster
            options["group"] = tensor_cores.GROUPS // int(options["cluster"])
        if problem.is_mixed and problem.input_dtype.itemsize == 1:
            options["edges"] = tensor_cores.edge_lines(problem, launch, here)
        if name in thin_tensor_cores.THIN:
            options["shares"] = 1 if thin is None else thin.shares
            options["stagger"] = 1 if thin is None else thin.stagger
        if name in ("float16", "bfloat16"):
            options |= half_options(thin)
        if is_float8(problem.input_dtype):
            options["sums"] = tensor_cores.FLOAT8_SUMS[0]
        if options.get("unit") == "mma" and name in MMA and MMA[name].most_shared_bytes(launch) > here.shared_memory:
            launch = tensor_cores.NUMBERS[name].small
        return Plan(problem, 1, None, options, launch)

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return A and B of integers and float8, which a pass turns, and of other floats what the kernel takes so."""
        if plan.problem.input_dtype.kind in "iu" or is_float8(plan.problem.input_dtype):
            return frozenset("ab")
        return tensor_cores.read_by_columns(plan.problem, str(plan.options.get("unit")))

    def pays(self, problem: Problem) -> bool:
        """Return whether integers have so many pairs that they are faster by their digits than one by one."""
        if problem.is_mixed or problem.dtype.kind not in "iu":
            return True
        return problem.pairs >= tensor_cores.DIGITS_FROM[problem.dtype.itemsize]

    def scales_sums(self, problem: Problem) -> bool:
        """Return whether sums are scaled: those of wgmma, where A is narrow or becomes digits."""
        return tensor_cores.needs_wgmma(problem)

    def prepare_closure(
        self, problem: Problem, count: int, block: int | None, machine: Machine, *, keeps: bool, symmetric: bool
    ) -> Closure | None:
        """Prepare graphs of bools as bits from beginning to end, where wgmma multiplies them."""
        if problem.dtype.kind != "b" or keeps or problem.n < BITS_FROM or not self._has_wgmma():
            return super().prepare_closure(problem, count, block, machine, keeps=keeps, symmetric=symmetric)
        return GpuBitClosure(problem, count, lambda product: self.plan(product, machine))

    def _has_wgmma(self) -> bool:
        return device.missing_wgmma() is None

    def loosens(self, problem: Problem) -> bool:
        """Return whether `problem` is computed from TF32 products; for alpha see cpu-mixed, for the rest cuBLAS."""
        return dtype_name(problem.dtype) == dtype_name(problem.input_dtype) == "float32"

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return the error of three TF32 products beyond float32; of 16-bit operands what is cut off or underflows."""
        problem = plan.problem
        if problem.is_mixed:
            underflow = 0.0 if problem.alpha is None else abs(float(problem.alpha)) * (problem.k + 1) * _TINY
            lost = lost_of_float8(plan, operands) if is_float8(problem.input_dtype) else cut_off(problem, operands)
            return underflow + lost
        if dtype_name(problem.input_dtype) != "float32":
            return 0.0
        return _TF32_UNITS * _UNIT * largest_dot(problem, operands) + 3 * problem.k * _TINY

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the launches for the dtype of A and B."""
        dtype = plan.problem.input_dtype
        if dtype.kind == "b":
            add_bit_product(program, plan, product)
        elif dtype.kind in "iu":
            add_integer_product(program, plan, product)
        elif is_float8(dtype):
            add_float8_product(program, plan, product)
        elif plan.problem.is_mixed:
            unit = plan.choice("unit", HALF_UNITS)
            _HALF[unit](program, plan, product)
        else:
            add_float_product(program, plan, product)
