"""Products of float8 by wgmma, summed in float32: bytes along k, as those of int8.

    sums   ``flushed``: taken out of the tensor cores every 128 steps of k; ``fast``: left there, in 14 bits

Source: PTX ISA, wgmma .e4m3; DeepSeek-V3 (2024), section 3.3.2, for the former.
"""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._program.program import Product, Program, ceil_div
from backends.gpu._tensor.digits import add_digits, byte_maps, without_edges
from backends.gpu._tensor.tma import TmaKernel, add_tma
from harness.dtypes import row_of
from harness.operands import Operands
from harness.plan import Plan
from harness.tuning.gpu.tensor_cores import FLOAT8_SUMS, STAGE_STEPS, TILE_COLUMNS

KERNEL = TmaKernel("tensor_core_f8", STAGE_STEPS["int8"], TILE_COLUMNS["float8"], has_stores=True)
# Tensor cores cut off what lies below so much of the greatest of the products of an instruction and of the sum so far.
_CUT, _OF_INSTRUCTION = 2.0**-13, 32
_LEAST_BIT = 2.0**-16  # of which every float8 is a multiple


def add_float8_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] alpha a b`` of float8, summed in float32; what does not lie along k is turned by a pass."""
    problem = plan.problem
    stacks = add_digits(program, product, 1)
    is_flushed = plan.choice("sums", FLOAT8_SUMS) == FLOAT8_SUMS[0]
    row, (part, more, beside) = row_of(problem.input_dtype), without_edges(product, stacks, plan)
    defines = as_defines({"KIND": f'"{row.ptx}"', "NUMBER": row.c, "FLUSHES": is_flushed, **more})
    alpha = np.float32(1 if problem.alpha is None else problem.alpha)
    add_tma(program, plan, KERNEL, defines, byte_maps(stacks, product.k, plan), part, alpha, beside=beside)


def lost_of_float8(plan: Plan, operands: Operands) -> float:
    """Return a bound of what the tensor cores cut off of an element; 0 where no sum has more bits than they keep.

    The sum so far is cut twice an instruction, before and after its products are added. Those are cut too, unless all
    of them are multiples of what is kept. Values that are not finite are ignored. Of a batch one bound for all.
    """
    problem = plan.problem
    alpha = 1.0 if problem.alpha is None else float(abs(problem.alpha))
    if problem.pairs == 0 or not np.isfinite(alpha):
        return 0.0
    steps = KERNEL.bk if plan.options.get("sums", FLOAT8_SUMS[0]) == FLOAT8_SUMS[0] else problem.k
    a, b = (np.where(np.isfinite(x), x, 0).astype(np.float64) for x in (operands.a, operands.b.swapaxes(-1, -2)))
    least = 2.0 ** row_of(problem.input_dtype).exponent  # subnormal numbers are aligned as if they were normal
    largest = max(np.abs(a).max(), least) * max(np.abs(b).max(), least)
    kept = _CUT * max(largest, _largest_norm(a, steps) * _largest_norm(b, steps))
    bit = _least_bit(a) * _least_bit(b)
    if _CUT * min(steps, problem.k) * largest <= bit:
        return 0.0
    cut = 2 + (_OF_INSTRUCTION if kept > bit else 0)
    return float(alpha * ceil_div(problem.k, _OF_INSTRUCTION) * cut * kept)


def _largest_norm(x: np.ndarray, steps: int) -> float:
    """Return the largest Euclidean norm of `steps` neighbours along the last axis of `x`."""
    parts = np.add.reduceat(x * x, np.arange(0, x.shape[-1], steps), axis=-1)
    return float(np.sqrt(parts.max()))


def _least_bit(x: np.ndarray) -> float:
    """Return the greatest power of two that all elements of `x` are multiples of."""
    bits = np.bitwise_or.reduce((x / _LEAST_BIT).astype(np.int64), axis=None)
    return float(bits & -bits) * _LEAST_BIT
