"""Products of float16 and bfloat16 with a tall, narrow C and a short k: row panels of A by bulk copies, mma.sync.

Rows of A lie one behind the other, and a run of them is what memory delivers fastest, wherever they begin. B stays in
shared memory.
"""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import WIDE, add_padding, is_aligned
from backends.gpu._program.program import Kernel, Product, Program, ceil_div
from backends.gpu._tensor.half_mma_product import unit_of
from backends.gpu._tensor.tma import bytes_at_once
from harness.dtypes import row_of
from harness.errors import PlanError
from harness.plan import WARP, Plan
from harness.tuning.device import odd_granules
from harness.tuning.gpu import half_panels

ROWS = (16, 32)  # of a warp
# Rows of C leave through shared memory where they are longer, and no whole granules: 1.13 to 1.86 of the speed there.
# Others are stored directly, in 0.88 to 0.98 of the time (two sweeps, H100, 2026-11-26).
_DIRECT_COLUMNS = 16
_ITEMSIZE, _SUM_BYTES = 2, 4
_GRANULE = WIDE // _ITEMSIZE  # elements


def add_half_panels_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] alpha a b``.

    Raises
    ------
    PlanError
        If C is wider than a panel, or a triangle, if A lies by columns, or if panels do not fit into shared memory.
    """
    launch, problem, (a, b, out, m, n, k, *_) = plan.launch, plan.problem, product
    warps = launch.bm // launch.wm if launch.wm else 0
    if launch.wm not in ROWS or launch.wn != launch.bn or launch.bn % 8 or launch.stages < 1:
        raise PlanError(
            "gpu-tensor-core: warps do not have panels of whole rows",
            expected=f"wm in {ROWS}, wn == bn, bn % 8 == 0",
            got=str(launch),
        )
    if n > launch.bn or product.is_triangle or a.by_columns or int(plan.options["shares"]) > 1:
        raise PlanError(
            "gpu-tensor-core: no panels of rows of A give C",
            expected=f"C of at most {launch.bn} columns, no triangle, A by rows, shares=1",
            got=f"{n} columns, {a}, shares={plan.options['shares']}",
        )
    if unit_of(a) < WIDE and a.ld - k >= _GRANULE:  # rows with gaps that are no whole granules
        product = add_padding(program, product, problem.input_dtype)
        a, b = product.a, product.b
    unit = unit_of(a)
    are_alone = unit == WIDE and (half_panels.takes_rows_alone(k) or a.ld - k >= 2 * _GRANULE)
    apart = odd_granules(k, _GRANULE) if are_alone else a.ld
    of_b = half_panels.b_bytes(launch.bn, k, by_columns=b.by_columns)
    of_stage = half_panels.stage_bytes(launch.wm, apart)
    is_ragged = n > _DIRECT_COLUMNS and n % (WIDE // _SUM_BYTES) != 0
    is_whole = is_ragged and out.ld == n and out.alignment % WIDE == 0 and not product.accumulate
    shared = of_b + warps * (launch.stages * of_stage + is_whole * launch.wm * n * _SUM_BYTES)
    device.fitting("gpu-tensor-core", shared, launch)
    resident = int(plan.options["resident"])
    macros = {
        "ROWS": launch.wm,
        "BN": launch.bn,
        "WARPS": warps,
        "STAGES": launch.stages,
        "MIN_BLOCKS": resident,
        "KIND": f'"{row_of(problem.input_dtype).ptx}"',
        "UNIT_A": unit,
        "B_BY_COLUMNS": int(b.by_columns),
        "UNIT_B": WIDE if is_aligned(b, _ITEMSIZE) else _ITEMSIZE,
        "WIDTH": 2 if bytes_at_once(out, _SUM_BYTES) > _SUM_BYTES else 1,
        "ACCUMULATE": product.accumulate,
        "ROW_RUNS": are_alone,
        "WHOLE_ROWS": is_whole,
    }
    kernel = Kernel("tensor_core_half_panels", as_defines(macros), (WARP * warps,), shared, is_chained=True)
    alpha = np.float32(1 if problem.alpha is None else problem.alpha)
    at_once = max(1, min(resident, device.planned().blocks_by_shared_memory(shared)))
    blocks = min(ceil_div(m, launch.bm), at_once * int(plan.options["blocks"]))
    program.launch(
        kernel, blocks, a.place, b.place, out.place, m, n, k, a.ld, b.ld, out.ld, alpha, of_b, of_stage, apart,
    )  # fmt: skip
