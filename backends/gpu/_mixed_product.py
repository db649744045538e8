"""Products of float16 and bfloat16, summed in float32, by the copy engine and the warpgroup instructions of Hopper."""

from __future__ import annotations

import numpy as np

from backends.gpu import _device
from backends.gpu._padding import Extent, add_padding
from backends.gpu._program import Matrix, Program
from backends.gpu._raw_kernel import as_defines
from backends.gpu._tensor_map import TensorMap
from backends.gpu._wgmma import BM, ROW_BYTES, add_wgmma, check_tiles
from harness.plan import Plan

_KINDS = {"float16": '"f16"', "bfloat16": '"bf16"'}
_BK, _BOX = 64, 64
_COLUMNS = (128, 256)  # of a tile


def add_half_product(program: Program, plan: Plan, a: Matrix, b: Matrix, out: Matrix) -> None:
    """Add ``out := [out +] alpha a b``.

    Raises
    ------
    PlanError
        If the kernel has no such tiles.
    """
    problem, launch = plan.problem, plan.launch
    assert launch is not None
    m, n, k, dtype = problem.m, problem.n, problem.k, problem.input_dtype
    stage_bytes = (BM + launch.bn) * ROW_BYTES
    check_tiles(launch, _BK, _COLUMNS, _device.shared_limit(), stage_bytes)
    a, b = add_padding(program, Extent(a, m, k), Extent(b, k, n), dtype)
    maps = TensorMap(a.place, m, k, a.ld, BM, _BK, dtype.name), TensorMap(b.place, k, n, b.ld, _BK, _BOX, dtype.name)
    macros = as_defines({"KIND": _KINDS[dtype.name], "ACCUMULATE": problem.accumulate})
    alpha = np.float32(1 if problem.alpha is None else problem.alpha)
    add_wgmma(program, plan, "tensor_core_half", stage_bytes, macros, maps, out, alpha, a.place)
