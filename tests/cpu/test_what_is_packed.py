"""The choice of what cpu-simd copies, by shapes and by distances of rows; and that the choice leaves results right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backends.cpu import simd
from backends.cpu._simd.argument_table import Loops, Shape
from backends.cpu._vector.operators import operations
from harness import SEMIRINGS, Operands, Problem, gemm, machine
from harness.proof.verify import verify
from tests._support.units import needs_masks

FLOAT32 = np.dtype(np.float32)
UNIT = simd.usable_units()[0]
pytestmark = needs_masks
STRIPS, OF_LONG_ROWS = (2, 4) if UNIT.size_bytes == 64 else (1, 1)  # of A, that do not repay packing B


def loops_of(m: int, n: int, k: int, *, threads: int = 1, **distances: int) -> Loops:
    """Return the choices for a product of float32; distances of rows of `a` and `b` in bytes where they have gaps."""
    problem = Problem(m, n, k, dtype=FLOAT32)
    plan = simd.Simd().plan(problem, machine.detect().with_threads(threads))
    plan = plan.override({"in_place_up_to": 256, "near_b_bytes": 1 << 20})
    strides_a, strides_b = (distances.get("a", 4 * k), 4), (distances.get("b", 4 * n), 4)
    ops = operations(SEMIRINGS["plus_times"], FLOAT32)
    assert ops is not None
    return simd.settings_of(plan).loops(ops, FLOAT32, Shape(m, n, k, strides_a, strides_b, 4 * n))


SHAPES: dict[str, tuple[tuple[int, int, int], dict[str, int], tuple[bool, bool]]] = {
    "small": ((64, 64, 64), {}, (False, False)),
    "deep": ((32, 32, 16384), {}, (False, False)),
    "deep, many rows of A": ((200, 32, 5000), {}, (False, True)),
    "deep, rows of B are distant": ((32, 32, 5000), {"b": 40004}, (False, True)),
    "deep, rows of B share cache sets": ((32, 32, 5000), {"b": 8192}, (False, True)),
    "deep, a column for dot products": ((32, UNIT.lanes(FLOAT32) + 1, 5000), {}, (False, True)),
    "tall and narrow, rows of A share cache sets": ((4000, 64, 4096), {}, (False, True)),
    "wide, rows of A share cache sets": ((4000, 1000, 4096), {}, (True, True)),
    "wide": ((1000, 1000, 1000), {}, (False, True)),
    "flat": ((STRIPS * UNIT.mr, 1024, 700), {}, (False, False)),
    "flat, of a strip more": ((STRIPS * UNIT.mr + 1, 1024, 700), {}, (False, True)),
    "flat, long rows of B": ((OF_LONG_ROWS * UNIT.mr, 4096, 701), {}, (False, False)),
    "flat, of a strip more, long rows of B": ((OF_LONG_ROWS * UNIT.mr + 1, 4096, 701), {}, (False, True)),
    "flat, rows of B meet in one set": ((4 * UNIT.mr, 16384, 701), {}, (False, False)),
    "flat, rows of B shorter than a page": ((2 * UNIT.mr, 1023, 700), {}, (False, True)),
    "one strip, rows of B shorter than a page": ((UNIT.mr, 1023, 700), {}, (False, False)),
}


@pytest.mark.parametrize("what", SHAPES)
def test_what_is_packed(what: str) -> None:
    shape, distances, packed = SHAPES[what]
    loops = loops_of(*shape, **distances)
    assert (loops.packs_a, loops.packs_b) == packed


def test_panels_are_shorter_where_rows_of_b_share_cache_sets() -> None:
    assert loops_of(49, 2048, 512).blocking.kc == 256
    assert loops_of(49, 2000, 512).blocking.kc == 512
    assert loops_of(257, 2048, 512).blocking.kc == 512


def test_a_large_b_comes_a_few_rows_at_a_time_to_few_rows_of_a_and_parts_do_not_read_it_twice() -> None:
    rows = STRIPS * UNIT.mr
    flat = loops_of(rows, 1500, 700)
    assert flat.blocking.kc == 32
    assert flat.grid[0] == loops_of(rows, 1500, 700, threads=2).grid[0] == 1
    assert loops_of(rows + 1, 1500, 700).blocking.kc > 32  # packed
    assert loops_of(rows, 1500, 170).blocking.kc > 32  # near
    assert loops_of(UNIT.mr, 500, 700).blocking.kc == 32  # of rows shorter than a page too


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bits_of_flat_products_do_not_depend_on_threads(dtype: str) -> None:
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype(dtype) for shape in ((13, 700), (700, 3001)))
    one, all_cores = (gemm(a, b, backend="cpu-simd", threads=threads) for threads in (1, machine.detect().cores))
    assert (one == all_cores).all()


@pytest.mark.parametrize("shape", [(32, 32, 16384), (17, 33, 700), (49, 2048, 300), (300, 40, 4096), (13, 1501, 999)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_results_are_right(shape: tuple[int, int, int], dtype: str) -> None:
    problem: Any = Problem(*shape, dtype=np.dtype(dtype))
    operands = Operands.generate(problem, 1)
    gemm(operands.a, operands.b, out=operands.out, backend="cpu-simd")
    verify(problem, operands, operands.out, seed=1)
