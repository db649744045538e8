"""Products over bools by tensor cores: both operands packed along k, 32 a word, and common one bits counted."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.padding import is_aligned
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._tensor.mma_product import B1, UNITS, mma_kernel
from backends.gpu._tensor.tma import TmaKernel, add_tma, bytes_at_once
from harness.plan import Plan
from harness.tuning.gpu import tensor_cores as tuning

_BITS, _WORD = 32, np.dtype(np.uint32)
_VECTOR = 4  # words; rows are padded to a multiple
BITS_BY_TMA = TmaKernel("tensor_core_bits", tuning.STAGE_STEPS["bool"], tuning.TILE_COLUMNS["bool"])


def add_bit_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out (+)] a (x) b`` over or-and or xor-and of bools."""
    launch, (a, b, out, m, n, k, *_) = plan.launch, product
    is_transposed = plan.choice("unit", UNITS["bool"]) == "wgmma"
    words = ceil_div(k, _BITS * _VECTOR) * _VECTOR
    columns = ceil_div(n, tuning.PACKED_RUN) * tuning.PACKED_RUN
    bits_a = program.reserve("bits_a", m * words, _WORD)
    bits_b = program.reserve("bits_b", words * columns, _WORD)
    defines = pack_defines(is_aligned=is_aligned(a, 1) and is_aligned(b, 1), is_transposed=is_transposed)
    pack = Kernel("pack_bits", defines, (tuning.PASS_THREADS,), function="pack_operands")
    packed = bits_a, bits_b, words, columns
    blocks_of_b = ceil_div(words, tuning.PACKED_WORDS) * ceil_div(columns, tuning.PACKED_COLUMNS)
    blocks = min(max(ceil_div(m, tuning.PACKED_ROWS), blocks_of_b), tuning.PASS_BLOCKS)
    program.launch(pack, (blocks, 2), a.place, a.ld, m, b.place, b.ld, n, k, *packed)
    more = as_defines({"IS_XOR": plan.problem.semiring.name == "lxor_land"})
    if is_transposed:
        rows_of_b = launch.bn // int(plan.options["cluster"])
        map_a = TensorMap(bits_a, m, words, words, tuning.TILE_ROWS, BITS_BY_TMA.bk, _WORD.name)
        map_b = TensorMap(bits_b, columns, words, words, rows_of_b, BITS_BY_TMA.bk, _WORD.name)
        add_tma(program, plan, BITS_BY_TMA, more, (map_a, map_b), product._replace(extremes=bits_a))
        return
    more += as_defines({"ACCUMULATE": product.accumulate, "IS_LONG": 0, "AT_ONCE": bytes_at_once(out, 1)})
    kernel = mma_kernel(B1, launch, Matrix(bits_a, words), Matrix(bits_b, columns), "redirected", more)
    blocks = product.tiles(launch.bm, launch.bn)
    program.launch(kernel, blocks, bits_a, bits_b, out.place, m, n, words, words, columns, out.ld, bits_a)


def pack_defines(*, is_aligned: bool, is_transposed: bool = False) -> Defines:
    """Return the macros of pack_bits.cu, with rows of bools aligned or not, with B transposed or not."""
    return as_defines({"IS_ALIGNED": is_aligned, "IS_TRANSPOSED": is_transposed})
