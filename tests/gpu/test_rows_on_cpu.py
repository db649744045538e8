"""Operands by columns, and float32 operands of float64 sums: one launch copies them as the kernel reads them."""

import numpy as np
import pytest

from harness import SEMIRINGS
from harness.problem import Problem
from tests.gpu.on_cpu import ON_CPU, RUNGS, check, with_small_tiles

pytestmark = ON_CPU

# Less than a tile, several, and rows that begin anywhere.
SIZES = ((1, 1, 1), (3, 40, 65), (70, 33, 97))
DOUBLE = {"bm": 32, "bn": 32, "bk": 8, "wm": 32, "wn": 16, "tm": 4, "tn": 4, "stages": 2}


def problem(size, dtype, semiring="min_plus", layout="FFC", narrow=None, **more):
    return Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), layout=layout, operand_dtype=narrow, **more)


@pytest.mark.parametrize(
    ("dtype", "semiring"),
    [("float64", "min_plus"), ("float32", "min_plus"), ("int16", "max_plus"), ("bool", "lor_land")],
)
def test_operands_by_columns_are_copied_by_rows(dtype, semiring):
    for size, layout in zip(SIZES, ("FFC", "CFC", "FCC"), strict=True):
        check(with_small_tiles("gpu-naive"), problem(size, dtype, semiring, layout, accumulate=layout == "CFC"))


@pytest.mark.parametrize("layout", ("CCC", "FFC"))
def test_float32_with_sums_of_float64_is_a_product_of_float64(layout):
    narrow = np.dtype(np.float32)
    for size in SIZES:
        one = problem(size, "float64", "plus_times", layout, narrow, alpha=-1.5, accumulate=size[0] > 3)
        check(RUNGS["gpu-tensor-core"], one, **DOUBLE)
