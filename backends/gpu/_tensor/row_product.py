"""Products of A and B that the copy engine of Hopper reads, by rows or by columns: float64, complex128 and 16 bits.

A C of few rows in 16 bits is computed transposed, by tiles as low as it is (tensor_core_half_flat.cu).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from backends.gpu._complex.planes import ComplexProduct
from backends.gpu._cuda import device
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
    COMPLEX_TILES,
    DOUBLE_WARPS,
    FLAT_COLUMNS,
    FLAT_ROWS,
    HALF_ROWS,
    HOPPER_DEPTH,
    STAGE_STEPS,
    TILE_COLUMNS,
    reads_complex,
)

_DOUBLE = TmaKernel("tensor_core_f64_tma", STAGE_STEPS["float64"], TILE_COLUMNS["float64"], warps=DOUBLE_WARPS)
_COMPLEX = TmaKernel("tensor_core_c128", STAGE_STEPS["complex128"], TILE_COLUMNS["complex128"], room=0)
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
    program: Program, plan: Plan, product: Product, depth: int, *, unless: Place | None = None
) -> None:
    """Add ``out := [out +] a b`` in float64, by instructions of `depth` steps of k; what is not aligned is copied.

    The kernel computes unless the int32 at `unless`, in the memory of the GPU, is then another number than 0.
    """
    macros = {"WM": plan.launch.wm, "WN": plan.launch.wn, "K_STEP": depth}
    if unless is not None:
        macros["UNLESS"] = 1
    product = add_padding(program, product, plan.problem.input_dtype)
    a, b = _operands(plan.launch, product)
    cluster = int(plan.options["cluster"])
    maps = a.map("float64", _DOUBLE.bk), b.map("float64", _DOUBLE.bk, cluster)
    macros |= _orders(a, b)
    product = product._replace(extremes=unless or product.a.place)
    add_tma(program, plan, _DOUBLE, as_defines(macros), maps, product, steps=product.k)


def complex_plan(real: Plan, product: ComplexProduct) -> Plan | None:
    """Return the plan of complex128 matrices that are multiplied as they lie, from that of their real product.

    None if A or B is not read so, or if the last round of tiles would have little to do: then the passes of planes.cu
    pay. Rows that begin within a line of 128 bytes would take a quarter longer.
    """
    problem, matrices = product.problem, (product.a, product.b, product.out)
    lds = [x.ld * problem.dtype.itemsize % LINE_BYTES == 0 for x in matrices[:2]]
    if problem.is_mixed or problem.alpha is not None or real.options.get("unit") != "tma" or not all(lds):
        return None
    if any(x.alignment % WIDE for x in matrices) or not reads_complex(problem, real.problem, device.planned()):
        return None
    return dataclasses.replace(real, problem=problem, launch=COMPLEX_TILES)


def add_complex_product(program: Program, plan: Plan, product: ComplexProduct) -> None:
    """Add ``out := [out +] a b`` in complex128, of matrices that `complex_plan` takes; C is in `out` already."""
    problem, launch = product.problem, plan.launch
    signs = {f"{x.upper()}_SIGN": -1 if x in problem.conjugate else 1 for x in "ab"}
    macros = {"WM": launch.wm, "WN": launch.wn, "K_STEP": HOPPER_DEPTH, **signs}
    sizes = problem.m, problem.n, problem.k
    whole = Product(product.a, product.b, product.out, *sizes, Form.ANY, problem.accumulate, product.a.place)
    a, b = (x._replace(parts=2) for x in _operands(launch, whole))
    maps = a.map("float64", _COMPLEX.bk), b.map("float64", _COMPLEX.bk, int(plan.options["cluster"]))
    add_tma(program, plan, _COMPLEX, as_defines(macros | _orders(a, b)), maps, whole, steps=problem.k)


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
    parts: int = 1  # elements of a map that a number consists of

    def map(self, dtype: str, bk: int, cluster: int = 1) -> TensorMap:
        """Return its boxes: rows along k, which the blocks of a cluster divide among them, or columns of the side."""
        x, columns, parts = self.matrix, ROW_BYTES // TABLE[dtype].itemsize, self.parts
        if self.along_k:
            cuts = 1 if self.tile // _PERMUTED_ROWS % cluster else cluster
            return TensorMap(x.place, self.side, parts * self.k, parts * x.ld, self.tile // cuts, columns, dtype)
        return TensorMap(x.place, self.k, parts * self.side, parts * x.ld, bk, columns, dtype)


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
