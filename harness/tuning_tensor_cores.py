"""The only place with numbers for tensor cores: tiles, stages, and where padding pays, with where they come from.

Rows of `gpu-tensor-core`. Unless a row says otherwise it was found with the prototypes of the design study on one H200,
2026-11-20: ratios to cuBLAS at n = 4096, sampled in turns in one process.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.plan import Launch
from harness.problem import Problem


class TensorCoreNumbers(NamedTuple):
    """How products of one kind go about their tiles.

    Attributes
    ----------
    large, small : Launch
        Tiles where C fills the GPU with large ones, and where it does not.
    padded_from : int
        Smallest max(m, n, k) from which operands whose rows are not aligned to 16 bytes are copied to where they are;
        below, they are read element by element.
    """

    large: Launch
    small: Launch
    padded_from: int


NEVER = 1 << 31

# Kind: the dtype of A and B. float64: 0.97, 0.94 at 8192; 64 x 64 tiles 0.82 at 1024, where the large ones are 0.55.
# Four stages instead of three: 0.95 to 0.93, 0.925 to 0.92 at 8192 (the kernel itself, 2026-11-21).
# float32: 1.24 with the flush. bool: 6.1 times the LOP3 pipe. 16-bit: 0.90, and 0.84 at 1024 with 128 columns.
# Padding against element-wise reading, of cuBLAS: float64 1.12 to 1.21 at 4097, 0.82 to 0.91 at 2049, 0.85 to 0.94 at
# 1025, 1.21 to 1.30 at 8193; float32 1.14 to 0.91 at 4097 (the kernels themselves, 2026-11-21).
NUMBERS = {
    "float64": TensorCoreNumbers(
        Launch(bm=128, bn=128, bk=16, wm=64, wn=32, tm=8, tn=8, stages=4),
        Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3),
        NEVER,
    ),
    "float32": TensorCoreNumbers(
        Launch(bm=128, bn=128, bk=32, wm=64, wn=32, tm=8, tn=8, stages=3),
        Launch(bm=64, bn=64, bk=32, wm=32, wn=32, tm=8, tn=4, stages=3),
        1024,
    ),
    "bool": TensorCoreNumbers(
        Launch(bm=128, bn=256, bk=16, wm=64, wn=64, tm=8, tn=16, stages=4),
        Launch(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=4),
        0,
    ),
    "float16": TensorCoreNumbers(
        Launch(bm=128, bn=256, bk=64, tm=8, tn=16, stages=4),
        Launch(bm=128, bn=128, bk=64, tm=8, tn=8, stages=4),
        0,
    ),
}
NUMBERS["bfloat16"] = NUMBERS["float16"]

# Steps of k between two flushes of 3xTF32: 8 or 16. Compiled for sm_90, 16 spills 16 bytes a thread, 8 none.
FLUSH = 8

# Multiprocessors that small tiles are meant to occupy: those of an H100 or H200.
MULTIPROCESSORS = 132


def tensor_core_launch(problem: Problem) -> Launch:
    """Choose the large tiles if there is one for each multiprocessor, else the small ones."""
    numbers = NUMBERS[problem.input_dtype.name]
    tiles = -(-problem.m // numbers.large.bm) * -(-problem.n // numbers.large.bn)
    return numbers.large if tiles >= MULTIPROCESSORS else numbers.small


def pads_rows(problem: Problem) -> bool:
    """Whether operands with unaligned rows are worth a copy."""
    return max(problem.m, problem.n, problem.k) >= NUMBERS[problem.input_dtype.name].padded_from
