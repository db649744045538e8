"""Products of row-major A and B that the copy engine of Hopper reads: float64, float16 and bfloat16.

A C of few rows in 16 bits is computed transposed, by tiles as low as it is (tensor_core_half_flat.cu).
"""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.padding import add_padding
from backends.gpu._simt.program import Place, Product, Program
from backends.gpu._tensor.tensor_map import TensorMap
from backends.gpu._tensor.tma import ROW_BYTES, TmaKernel, add_tma
from harness.errors import PlanError
from harness.plan import Plan
from harness.tuning.gpu.tensor_cores import (
    DOUBLE_WARPS,
    FLAT_COLUMNS,
    FLAT_ROWS,
    HALF_ROWS,
    STAGE_STEPS,
    TILE_COLUMNS,
)

_DOUBLE = TmaKernel("tensor_core_f64_tma", STAGE_STEPS["float64"], TILE_COLUMNS["float64"], warps=DOUBLE_WARPS)
_BOX_COLUMNS = 64  # of 16-bit elements
_HALF = TmaKernel(
    "tensor_core_half",
    STAGE_STEPS["float16"],
    TILE_COLUMNS["float16"],
    rows=HALF_ROWS,
    box_columns=_BOX_COLUMNS,
    has_stores=True,
    shares_steps=True,
)
# Its tiles are those of C transposed. It stages nothing.
_FLAT = TmaKernel(
    "tensor_core_half_flat", STAGE_STEPS["float16"], FLAT_ROWS, rows=FLAT_COLUMNS, room=0, shares_steps=True
)
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
    alpha = np.float32(1 if plan.problem.alpha is None else plan.problem.alpha)
    if plan.launch.bm in FLAT_ROWS:
        return _add_flat(program, plan, product, as_defines(macros), alpha)
    return _add_rows(program, plan, product, _HALF, as_defines(macros), alpha)


def _add_flat(program: Program, plan: Plan, product: Product, more: Defines, alpha: np.float32) -> None:
    """Add the product by a kernel that computes C transposed, for a C of few rows.

    Raises
    ------
    PlanError
        If D is a triangle, or if blocks share k of a C that is higher than a tile: the sums would be added up in
        another order of tiles.
    """
    if product.is_triangle:
        raise PlanError(
            "gpu-tensor-core: tiles with few rows compute no triangle", expected="bm >= 64", got=str(plan.launch)
        )
    if product.m > plan.launch.bm and int(plan.options.get("shares", 1)) > 1:
        raise PlanError(
            "gpu-tensor-core: blocks share no k of tiles with few rows, if C is higher",
            expected=f"shares=1, or bm >= {product.m}",
            got=f"{plan.launch}, shares={plan.options['shares']}",
        )
    dtype = plan.problem.input_dtype.name
    product = add_padding(program, product, plan.problem.input_dtype)
    a, b, _, m, n, k, *_ = product
    maps = (
        TensorMap(b.place, k, n, b.ld, _FLAT.bk, _BOX_COLUMNS, dtype),
        TensorMap(a.place, m, k, a.ld, plan.launch.bm, _FLAT.bk, dtype),
    )
    product = product._replace(extremes=a.place)
    is_shared = int(plan.options.get("together", 1)) > 1  # then rows of C are stored by several elements
    add_tma(program, plan, _FLAT, more, maps, product, alpha, steps=k, by_columns=True, width=None if is_shared else 1)


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
