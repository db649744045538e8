"""Products of float16 and bfloat16, summed in float32, by the copy engine and the warpgroup instructions of Hopper."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._simt.padding import Extent, add_padding
from backends.gpu._simt.program import Matrix, Program
from backends.gpu._tensor.tensor_map import TensorMap
from backends.gpu._tensor.tma import BM, TmaKernel, add_tma
from harness.plan import Plan

_KINDS = {"float16": '"f16"', "bfloat16": '"bf16"'}
_KERNEL, _BOX = TmaKernel("tensor_core_half", bk=64, columns=(128, 256)), 64


def add_half_product(program: Program, plan: Plan, a: Matrix, b: Matrix, out: Matrix) -> None:
    """Add ``out := [out +] alpha a b``."""
    problem, bk = plan.problem, _KERNEL.bk
    m, n, k, dtype = problem.m, problem.n, problem.k, problem.input_dtype
    a, b = add_padding(program, Extent(a, m, k), Extent(b, k, n), dtype)
    maps = TensorMap(a.place, m, k, a.ld, BM, bk, dtype.name), TensorMap(b.place, k, n, b.ld, bk, _BOX, dtype.name)
    macros = as_defines({"KIND": _KINDS[dtype.name], "ACCUMULATE": problem.accumulate})
    alpha = np.float32(1 if problem.alpha is None else problem.alpha)
    add_tma(program, plan, _KERNEL, macros, maps, out, alpha, a.place)
