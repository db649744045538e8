"""float32 by three TF32 products through wgmma: both operands split into high and low parts first, B transposed."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import LINE_BYTES, is_aligned
from backends.gpu._program.operators import Form
from backends.gpu._program.program import Kernel, Product, Program, ceil_div
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._tensor.tf32 import single_defines
from backends.gpu._tensor.tma import TmaKernel, add_tma
from harness.plan import Plan
from harness.tuning.gpu.tensor_cores import PASS_BLOCKS, PASS_THREADS, SPLIT_SIDE, STAGE_STEPS, TILE_COLUMNS, TILE_ROWS

_FLOAT = np.dtype(np.float32)
_PARTS = 2
_KERNEL = TmaKernel("tensor_core_tf32", STAGE_STEPS["float32"], TILE_COLUMNS["float32"], parts=_PARTS)
_VECTOR, _LINE = 4, LINE_BYTES // _FLOAT.itemsize


def add_split_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] a b``, which the GPU computes if the extremes allow it.

    Parameters
    ----------
    program : Program
    plan : Plan
    product : Product
        Its extremes are those of magnitudes.
    """
    a, b, _, m, n, k, *_ = product
    width = ceil_div(k, _LINE) * _LINE
    parts_a = program.reserve("parts_a", _PARTS * m * width, _FLOAT)
    parts_b = program.reserve("parts_b", _PARTS * n * width, _FLOAT)
    defines = as_defines({"VECTOR": _VECTOR if is_aligned(a, _FLOAT.itemsize) else 1})
    names = "split_rows", "split_columns"
    rows, columns = (Kernel("split", defines, (PASS_THREADS,), function=name) for name in names)
    program.launch(rows, min(m, PASS_BLOCKS), a.place, a.ld, m, k, parts_a, width)
    program.launch(columns, ceil_div(n, SPLIT_SIDE) * ceil_div(k, SPLIT_SIDE), b.place, b.ld, k, n, parts_b, width)
    map_a = TensorMap(parts_a, _PARTS * m, k, width, TILE_ROWS, _KERNEL.bk, _FLOAT.name)
    rows_of_b = plan.launch.bn // int(plan.options["cluster"])
    map_b = TensorMap(parts_b, _PARTS * n, k, width, rows_of_b, _KERNEL.bk, _FLOAT.name)
    macros = single_defines(plan.problem, Form.FAST, accumulate=product.accumulate)
    add_tma(program, plan, _KERNEL, tuple(x for x in macros if x[0] != "ACCUMULATE"), (map_a, map_b), product)
