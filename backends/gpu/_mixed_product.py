"""Products of float16 and bfloat16, summed in float32, by the copy engine and the warpgroup instructions of Hopper."""

from __future__ import annotations

import numpy as np

from backends.gpu._padding import add_padding
from backends.gpu._program import Kernel, Matrix, Program, ceil_div
from backends.gpu._raw_kernel import as_defines
from backends.gpu._tensor_map import TensorMap
from harness.errors import PlanError
from harness.plan import Plan

_KINDS = {"float16": '"f16"', "bfloat16": '"bf16"'}
_BM, _BK, _BOX, _ITEMSIZE = 128, 64, 64, 2
_COLUMNS = (128, 256)  # of a tile
_THREADS = 3 * 128  # a warpgroup that copies and two that compute
_SWIZZLE_ALIGNMENT = 1024


def add_half_product(program: Program, plan: Plan, a: Matrix, b: Matrix, out: Matrix) -> None:
    """Add ``out := [out +] alpha a b``.

    Raises
    ------
    PlanError
        If the kernel has no such tiles.
    """
    problem, launch = plan.problem, plan.launch
    m, n, k, dtype = problem.m, problem.n, problem.k, problem.input_dtype
    if (launch.bm, launch.bk) != (_BM, _BK) or launch.bn not in _COLUMNS or launch.stages < 2:
        raise PlanError(
            "gpu-tensor-core: no such tiles of 16-bit elements",
            expected=f"bm={_BM}, bk={_BK}, bn in {_COLUMNS}, stages >= 2",
            got=str(launch),
        )
    a = add_padding(program, "padded_a", a, m, k, dtype)
    b = add_padding(program, "padded_b", b, k, n, dtype)
    map_a = TensorMap(a.place, m, k, a.ld, _BM, _BK, dtype.name)
    map_b = TensorMap(b.place, k, n, b.ld, _BK, _BOX, dtype.name)
    macros = {"KIND": _KINDS[dtype.name], "BN": launch.bn, "STAGES": launch.stages, "ACCUMULATE": problem.accumulate}
    shared = launch.stages * (_BM + launch.bn) * _BK * _ITEMSIZE + _SWIZZLE_ALIGNMENT
    kernel = Kernel("tensor_core_half", as_defines(macros), (_THREADS,), shared, suffix="a")
    blocks = min(int(plan.options["blocks"]), ceil_div(m, _BM) * ceil_div(n, launch.bn))
    alpha = np.float32(1 if problem.alpha is None else problem.alpha)
    program.launch(kernel, blocks, map_a, map_b, out.place, m, n, k, out.ld, alpha)
