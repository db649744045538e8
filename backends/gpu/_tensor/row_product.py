"""Products of row-major A and B that the copy engine of Hopper reads: float64, float16 and bfloat16."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.padding import add_padding
from backends.gpu._simt.program import Place, Product, Program
from backends.gpu._tensor.tensor_map import TensorMap
from backends.gpu._tensor.tma import ROW_BYTES, TmaKernel, add_tma
from harness.plan import Plan
from harness.tuning.gpu.tensor_cores import DOUBLE_WARPS, HALF_ROWS, STAGE_STEPS, TILE_COLUMNS

_DOUBLE = TmaKernel("tensor_core_f64_tma", STAGE_STEPS["float64"], TILE_COLUMNS["float64"], warps=DOUBLE_WARPS)
_HALF = TmaKernel("tensor_core_half", STAGE_STEPS["float16"], TILE_COLUMNS["float16"], rows=HALF_ROWS)
_KINDS = {"float16": '"f16"', "bfloat16": '"bf16"'}


def add_double_product(
    program: Program, plan: Plan, product: Product, depth: int, *, unless: Place | None = None
) -> None:
    """Add ``out := [out +] a b`` in float64, by instructions of `depth` steps of k.

    The kernel computes unless the int32 at `unless`, in the memory of the GPU, is then another number than 0.
    """
    macros = {"WM": plan.launch.wm, "WN": plan.launch.wn, "K_STEP": depth}
    if unless is not None:
        macros["UNLESS"] = 1
    _add_rows(program, plan, product, _DOUBLE, as_defines(macros), chosen_by=unless)


def add_half_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] alpha a b`` of float16 or bfloat16, summed in float32."""
    macros = {"KIND": _KINDS[plan.problem.input_dtype.name]}
    alpha = 1 if plan.problem.alpha is None else plan.problem.alpha
    _add_rows(program, plan, product, _HALF, as_defines(macros), np.float32(alpha))


def _add_rows(
    program: Program,
    plan: Plan,
    product: Product,
    tma: TmaKernel,
    more: Defines,
    *alpha: np.generic,
    chosen_by: Place | None = None,
) -> None:
    """Add the product; rows that are not aligned are copied first."""
    dtype, bk = plan.problem.input_dtype, tma.bk
    product = add_padding(program, product, dtype)
    a, b, _, m, n, k, *_ = product
    maps = (
        TensorMap(a.place, m, k, a.ld, plan.launch.bm, bk, dtype.name),
        TensorMap(b.place, k, n, b.ld, bk, ROW_BYTES // dtype.itemsize, dtype.name),
    )
    add_tma(program, plan, tma, more, maps, product._replace(extremes=chosen_by or a.place), *alpha)
