"""Products of float16 and bfloat16 by mma.sync, for those that move more than they compute: thin, flat and deep ones.

The blocks of a cluster share k and add up their sums in each other's shared memory. Rows may begin anywhere, and are
read where they lie.
"""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import WIDE, is_aligned
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div
from backends.gpu._tensor.shared_product import add_parts, add_sums
from backends.gpu._tensor.tma import bytes_at_once
from harness.dtypes import row_of
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning.gpu.tensor_cores import GROUP
from harness.tuning.gpu.thin_tensor_cores import ThinChoice

HALF_UNITS = ("wgmma", "mma", "panels")
# Blocks of a cluster: of more than eight not every GPU has one (CUDA C++ Programming Guide, "Thread Block Clusters").
CLUSTERS = SLICES = (1, 2, 4, 8)
_ITEMSIZE, _STEP = 2, 16
_SUM_PAD, _SUM_BYTES = 8, 4  # of tensor_core_half_mma.cu: PITCH
_REGISTERS = 65536


def half_options(thin: ThinChoice | None) -> dict[str, int | str]:
    """Return the options of 16-bit elements that choose the instructions, wgmma or mma.sync, and those of each.

    Of mma.sync there are two kernels, with tiles of A and with row panels of it.

    ``together``: blocks of a cluster, which share k. Of mma.sync alone ``slices``: warps that take turns along k;
    ``resident``: blocks that are to fit on a multiprocessor.
    """
    if thin is None or thin.unit == "wgmma":
        return {"unit": "wgmma", "slices": 1, "together": 1 if thin is None else thin.together, "resident": 1}
    tile = thin.tile
    return {"unit": thin.unit, "slices": tile.slices, "together": thin.together, "resident": tile.blocks}


def add_half_mma_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] alpha a b``.

    Raises
    ------
    PlanError
        If D is a triangle, warps and slices do not cut the tiles evenly, or tiles do not fit into shared memory.
    """
    if product.is_triangle:
        raise PlanError("gpu-tensor-core: mma.sync computes no triangle of 16-bit elements", expected="unit=wgmma")
    launch, problem = plan.launch, plan.problem
    slices, cluster = int(plan.choice("slices", SLICES)), int(plan.choice("together", CLUSTERS))
    threads = launch.threads * slices
    if launch.wm % _STEP or launch.wn % 8 or not launch.wm or launch.bk % (_STEP * slices) or launch.stages < 2:
        raise PlanError(
            "gpu-tensor-core: warps and slices do not cut the tiles evenly",
            expected=f"wm % 16 == wn % 8 == bk % (16 slices) == 0, stages >= 2, with {slices} slices",
            got=str(launch),
        )
    shared = shared_bytes(launch, slices)
    device.fitting("gpu-tensor-core", shared, launch)
    tile = launch.bm, launch.bn, GROUP
    steps = ceil_div(product.k, launch.bk)
    to, tail = add_parts(program, plan, product, tile, launch.bk * cluster, ceil_div(steps, cluster))
    a, b, out, m, n, k, *_ = to
    tiles = product.tiles(launch.bm, launch.bn)
    depth = ceil_div(steps, cluster) if tail is None else tail.depth // (launch.bk * cluster)
    macros = {
        "BM": launch.bm,
        "BN": launch.bn,
        "BK": launch.bk,
        "WM": launch.wm,
        "WN": launch.wn,
        "SLICES": slices,
        "STAGES": launch.stages,
        "MIN_BLOCKS": int(plan.options["resident"]),
        "CLUSTER": cluster,
        "GROUP": GROUP,
        "KIND": f'"{row_of(problem.input_dtype).ptx}"',
        "UNIT_A": unit_of(a),
        "UNIT_B": WIDE if is_aligned(b, _ITEMSIZE) else _ITEMSIZE,
        "WIDTH": bytes_at_once(out, _SUM_BYTES) // _SUM_BYTES,
        "ACCUMULATE": to.accumulate,
        **({} if tail is None else {"IS_SPLIT": 1}),
    }
    kernel = Kernel("tensor_core_half_mma", as_defines(macros), (threads,), shared)
    alpha = np.float32(1 if problem.alpha is None else problem.alpha)
    blocks = cluster * tiles * (1 if tail is None else tail.shares)
    program.launch(kernel, blocks, a.place, b.place, out.place, m, n, k, a.ld, b.ld, out.ld, alpha, tiles, depth)
    add_sums(program, plan, product, tile, tail)


def shared_bytes(launch: Launch, slices: int) -> int:
    """Return the shared memory of a block: of its stages, or of its sums, which take their place."""
    stage = launch.bm * (launch.bk * _ITEMSIZE + WIDE) + launch.bk * (launch.bn * _ITEMSIZE + WIDE)
    return max(launch.stages * stage, slices * launch.bm * (launch.bn + _SUM_PAD) * _SUM_BYTES)


def unit_of(a: Matrix) -> int:
    """Return the bytes of which all rows of A begin at multiples: 16, 4 or 2."""
    return next((unit for unit in (WIDE, 4) if a.ld * _ITEMSIZE % unit == 0 and a.alignment % unit == 0), _ITEMSIZE)
