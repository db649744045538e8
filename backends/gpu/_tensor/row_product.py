"""Products of A and B that the copy engine of Hopper reads, by rows or by columns: float64, float16 and bfloat16.

A C of few rows in 16 bits is computed transposed, by tiles as low as it is (tensor_core_half_flat.cu).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._complex.planes import ComplexProduct
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import LINE_BYTES, WIDE, add_padding
from backends.gpu._program.operators import Form
from backends.gpu._program.program import Matrix, Place, Product, Program
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._tensor.tma import ROW_BYTES, TmaKernel, add_tma
from harness.dtypes import TABLE, dtype_name
from harness.errors import PlanError
from harness.plan import Launch, Plan
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
_PERMUTED_ROWS = 8  # rows of boxes along k come in so many
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


def add_double_product(
    program: Program,
    plan: Plan,
    product: Product,
    depth: int,
    *,
    unless: Place | None = None,
    conjugate: str | None = None,
) -> None:
    """Add ``out := [out +] a b`` in float64, by instructions of `depth` steps of k; what is not aligned is copied.

    The kernel computes unless the int32 at `unless`, in the memory of the GPU, is then another number than 0.

    If `conjugate` is given, A, B and C are complex and fit `takes_complex`, and those that it names are conjugated. The
    sizes and leading dimensions of `product` then count parts, as does the problem of `plan`.
    """
    macros = {"WM": plan.launch.wm, "WN": plan.launch.wn, "K_STEP": depth}
    if unless is not None:
        macros["UNLESS"] = 1
    parts = 1 if conjugate is None else 2
    if conjugate is None:
        product = add_padding(program, product, plan.problem.input_dtype)
    else:
        macros |= {"PARTS": parts, **{f"{x.upper()}_SIGN": -1 if x in conjugate else 1 for x in "ab"}}
    a, b = (x._replace(parts=parts) for x in _operands(plan.launch, product))
    cluster = int(plan.options["cluster"])
    maps = a.map("float64", _DOUBLE.bk), b.map("float64", _DOUBLE.bk, cluster)
    macros |= _orders(a, b)
    product = product._replace(extremes=unless or product.a.place)
    add_tma(program, plan, _DOUBLE, as_defines(macros), maps, product, steps=product.k)


def takes_complex(plan: Plan, product: ComplexProduct) -> bool:
    """Return whether complex matrices are multiplied as they lie, by the `plan` of the real product of their parts.

    Rows that begin within a line of 128 bytes would take a quarter longer than the passes that this spares.
    """
    problem, matrices = product.problem, (product.a, product.b)
    is_brought = plan.options.get("unit") == "tma" and int(plan.options.get("shares", 1)) == 1
    is_plain = not problem.is_mixed and problem.alpha is None
    return (
        is_brought
        and is_plain
        and all(x.alignment % WIDE == 0 and x.ld * problem.dtype.itemsize % LINE_BYTES == 0 for x in matrices)
    )


def add_complex_product(program: Program, plan: Plan, product: ComplexProduct) -> None:
    """Add ``out := [out +] a b`` of complex128 matrices that `takes_complex` allows, with C in out already."""
    problem, (a, b, out) = product.problem, (x._replace(ld=2 * x.ld) for x in (product.a, product.b, product.out))
    parts = Product(a, b, out, 2 * problem.m, 2 * problem.n, problem.k, Form.ANY, problem.accumulate, a.place)
    add_double_product(program, plan, parts, int(plan.options["depth"]), conjugate=problem.conjugate)


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
    a, b = _operands(launch, product)
    first, second = (b, a) if is_flat else (a, b)
    cluster, dtype = int(plan.options["cluster"]), dtype_name(plan.problem.input_dtype)
    maps = first.map(dtype, _HALF.bk), second.map(dtype, _HALF.bk, cluster)
    defines = as_defines({"KIND": f'"{TABLE[dtype].ptx}"', **_orders(first, second)})
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
    parts: int = 1  # real numbers of an element, which `side` and the leading dimension count

    def map(self, dtype: str, bk: int, cluster: int = 1) -> TensorMap:
        """Return its boxes: rows along k, which the blocks of a cluster divide among them, or columns of the side."""
        x, columns = self.matrix, ROW_BYTES // TABLE[dtype].itemsize
        if self.along_k:
            rows, box = self.side // self.parts, self.tile // self.parts
            cuts = 1 if box // _PERMUTED_ROWS % cluster else cluster
            return TensorMap(x.place, rows, self.parts * self.k, x.ld, box // cuts, bk, dtype)
        return TensorMap(x.place, self.k, self.side, x.ld, bk, columns, dtype)


def _operands(launch: Launch, product: Product) -> tuple[_Operand, _Operand]:
    a, b, _, m, n, k, *_ = product
    return _Operand(a, m, k, launch.bm, not a.by_columns), _Operand(b, n, k, launch.bn, b.by_columns)


def _orders(first: _Operand, second: _Operand) -> dict[str, int]:
    """Return the macros of boxes.cuh."""
    return {"FIRST_ALONG_K": int(first.along_k), "SECOND_ALONG_K": int(second.along_k)}


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
