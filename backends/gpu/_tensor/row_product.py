"""Products of A and B that the copy engine of Hopper reads: float64 by rows, float16 and bfloat16 as they lie.

A C of few rows in 16 bits is computed transposed, by tiles as low as it is (tensor_core_half_flat.cu).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._simt.padding import add_padding
from backends.gpu._simt.program import Matrix, Place, Product, Program
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
    """Add ``out := [out +] a b`` in float64, by instructions of `depth` steps of k; rows not aligned are copied first.

    The kernel computes unless the int32 at `unless`, in the memory of the GPU, is then another number than 0.
    """
    macros = {"WM": plan.launch.wm, "WN": plan.launch.wn, "K_STEP": depth}
    if unless is not None:
        macros["UNLESS"] = 1
    dtype, bk = plan.problem.input_dtype, _DOUBLE.bk
    product = add_padding(program, product, dtype)
    a, b, _, m, n, k, *_ = product
    maps = (
        TensorMap(a.place, m, k, a.ld, plan.launch.bm, bk, dtype.name),
        TensorMap(b.place, k, n, b.ld, bk, ROW_BYTES // dtype.itemsize, dtype.name),
    )
    add_tma(program, plan, _DOUBLE, as_defines(macros), maps, product._replace(extremes=unless or a.place))


def add_half_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] alpha a b`` of float16 or bfloat16, summed in float32; each of A and B as it lies.

    Raises
    ------
    PlanError
        If tiles with few rows are to compute a triangle, or if blocks are to share k of a C that is higher than such a
        tile: the sums would be added up in another order of tiles.
    """
    alpha = np.float32(1 if plan.problem.alpha is None else plan.problem.alpha)
    product = add_padding(program, product, plan.problem.input_dtype)
    launch, is_flat = plan.launch, plan.launch.bm in FLAT_ROWS
    if is_flat:
        _check_flat(plan, product)
    a = _Operand(product.a, product.m, product.k, launch.bm, along_k=not product.a.by_columns)
    b = _Operand(product.b, product.n, product.k, launch.bn, along_k=product.b.by_columns)
    first, second = (b, a) if is_flat else (a, b)
    cluster, dtype = int(plan.options["cluster"]), plan.problem.input_dtype.name
    maps = first.map(dtype), second.map(dtype, cluster)
    order = {"FIRST_ALONG_K": int(first.along_k), "SECOND_ALONG_K": int(second.along_k)}
    defines = as_defines({"KIND": _KINDS[dtype], **order})
    tma = (_FLAT if is_flat else _HALF)._replace(box_columns=0 if second.along_k else _BOX_COLUMNS)
    is_shared = int(plan.options.get("together", 1)) > 1  # then rows of C are stored by several elements
    width = 1 if is_flat and not is_shared else None
    add_tma(
        program, plan, tma, defines, maps, product._replace(extremes=product.a.place), alpha, steps=product.k,
        by_columns=is_flat, width=width,
    )  # fmt: skip


class _Operand(NamedTuple):
    """A or B, whose `side` along C tiles cut in pieces of `tile`."""

    matrix: Matrix
    side: int
    k: int
    tile: int
    along_k: bool

    def map(self, dtype: str, cluster: int = 1) -> TensorMap:
        """Return its boxes: of rows along k, which the blocks of a cluster divide among them, or of columns of the side."""
        x, bk = self.matrix, _HALF.bk
        if self.along_k:
            return TensorMap(x.place, self.side, self.k, x.ld, self.tile // cluster, bk, dtype)
        return TensorMap(x.place, self.k, self.side, x.ld, bk, _BOX_COLUMNS, dtype)


def _check_flat(plan: Plan, product: Product) -> None:
    """Raise PlanError if tiles with few rows cannot compute a product."""
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
