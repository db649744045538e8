"""float64 on Hopper: mma.sync from tiles that the copy engine brings."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._simt.padding import Extent, add_padding
from backends.gpu._simt.program import Matrix, Program
from backends.gpu._tensor.tensor_map import TensorMap
from backends.gpu._tensor.tma import BM, TmaKernel, add_tma
from harness.plan import Plan

_KERNEL = TmaKernel("tensor_core_f64_tma", bk=16, columns=(128,), warps=((32, 64), (64, 32)))
_BOX = 16  # columns of B


def add_double_product(program: Program, plan: Plan, a: Matrix, b: Matrix, out: Matrix, depth: int) -> None:
    """Add ``out := [out +] a b`` by instructions of `depth` steps of k; rows that are not aligned are copied first."""
    problem, launch, bk = plan.problem, plan.launch, _KERNEL.bk
    assert launch is not None
    m, n, k, dtype = problem.m, problem.n, problem.k, problem.dtype
    a, b = add_padding(program, Extent(a, m, k), Extent(b, k, n), dtype)
    maps = TensorMap(a.place, m, k, a.ld, BM, bk, dtype.name), TensorMap(b.place, k, n, b.ld, bk, _BOX, dtype.name)
    macros = as_defines({"WM": launch.wm, "WN": launch.wn, "K_STEP": depth, "ACCUMULATE": problem.accumulate})
    add_tma(program, plan, _KERNEL, macros, maps, out, np.float32(1), a.place)
