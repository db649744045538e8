"""Triangles of D by the kernels of gpu-tuned and gpu-tensor-core, executed on the CPU; and the map of their tiles."""

import ctypes
import dataclasses

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import FOLDER, as_defines
from backends.gpu._program.program import Kernel
from harness import SEMIRINGS
from harness.errors import PlanError
from harness.machine import detect
from harness.plan import count_tiles
from harness.problem import Problem
from harness.tuning.device import MEASURED
from harness.tuning.gpu.sharing import LEAST_SHARE_OF_FEW, SHARES_OF_SCARCE
from harness.tuning.gpu.tensor_cores import tensor_core_launch
from tests.gpu import host_kernels
from tests.gpu.on_cpu import ON_CPU, RUNGS, SMALL, check, together
from tests.gpu.test_tensor_cores_on_cpu import HALF, SPLIT
from tests.gpu.test_tensor_cores_on_cpu import SMALL as SMALL_TENSOR

pytestmark = ON_CPU

SQUARE, WIDE = SMALL["gpu-pipelined"], SMALL["gpu-tuned"]
DOUBLE_TMA = {"unit": "tma", "bm": 128, "bn": 128, "bk": 16, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "stages": 2,
              "depth": 16, "blocks": 2, "cluster": 1}  # fmt: skip


def begin(name, semiring, dtype, size, k, *, narrow=None, accumulate=False, alpha=None, beta=None, **parameters):
    """Return a triangle of D to be computed, `together` with others."""
    problem = Problem(size, size, k, SEMIRINGS[semiring], np.dtype(dtype), alpha, beta, accumulate,
                      operand_dtype=narrow, triangle="d")  # fmt: skip
    return check.begin(RUNGS[name], problem, **parameters)


def compute(*arguments, **options):
    together(begin(*arguments, **options))


@pytest.mark.deep(but=8)
@pytest.mark.parametrize("size", (1, 31, 33, 64, 97, 130))
@pytest.mark.parametrize(("semiring", "dtype", "accumulate"), (
    ("plus_times", "float32", True), ("min_plus", "float32", False), ("min_plus", "int32", True),
    ("plus_times", "float64", False),
))  # fmt: skip
def test_triangles_of_simt_kernels_are_right(semiring, dtype, accumulate, size):
    tiles = {**SQUARE, "group": 2}, {**WIDE, "stages": 2, "group": 3}
    together(*(begin("gpu-tuned", semiring, dtype, size, 19, accumulate=accumulate, **x) for x in tiles))


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("edge", ("redirected", "padded", "conditional"))
def test_shares_of_triangles_are_right(edge):
    products = []
    for size, wave in ((100, 7), (97, 4), (130, 1 << 20)):
        options = {**SQUARE, "edge": edge, "shares": 3, "wave": wave}
        products += [
            begin("gpu-tuned", "plus_times", "float32", size, 61, accumulate=size == 97, **options),
            begin("gpu-tuned", "max_plus", "int16", size, 61, **options),
        ]
    together(*products)


def test_scalars_and_exponentials_of_triangles_are_right():
    compute("gpu-tuned", "plus_times", "float32", 45, 7, accumulate=True, alpha=2.0, beta=-3.0, **SQUARE)
    compute("gpu-tuned", "logaddexp_plus", "float32", 45, 7, accumulate=True, **SQUARE)
    compute("gpu-tuned", "plus_times", "float32", 45, 0, accumulate=True, beta=2.0)
    compute("gpu-tuned", "min_plus", "float64", 45, 0)


def test_tiles_that_cut_no_triangle_are_refused():
    for parameters in ({**SQUARE, "edge": "big-small"}, {**SQUARE, "bm": 96, "bn": 64}):
        with pytest.raises(PlanError):
            compute("gpu-tuned", "plus_times", "float32", 45, 7, **parameters)


@pytest.mark.parametrize("dtype", ("float64", "float32"))
def test_triangles_by_mma_are_right(dtype):
    for number, size in enumerate((1, 31, 64, 97)):
        compute("gpu-tensor-core", "plus_times", dtype, size, 23, accumulate=number % 2 == 1, **SMALL_TENSOR[dtype])


@pytest.mark.parametrize(("dtype", "tile"), (("float64", DOUBLE_TMA), ("float32", {**SPLIT, "blocks": 2})))
def test_triangles_of_tiles_that_the_copy_engine_brings_are_right(dtype, tile):
    for size in (20, 300):
        compute("gpu-tensor-core", "plus_times", dtype, size, 40, accumulate=size > 20, **tile)


def test_triangles_of_16_bit_operands_are_right():
    narrow = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    for tile in (HALF, {**HALF, "bn": 256, "tn": 16, "blocks": 1}):
        compute("gpu-tensor-core", "plus_times", "float32", 300, 72, narrow=narrow, accumulate=True, **tile)


_MAP = """
extern "C" __global__ void gemm(int* places, int m, int count)
{
    for (int index = 0; index < count; ++index) {
        const Tile tile = tile_at<BM, BN, GROUP>(index, m, m);
        places[2 * index] = tile.row, places[2 * index + 1] = tile.column;
    }
    places[2 * count] = count_tiles<BM, BN>(m, m);
}
"""


@pytest.mark.parametrize(("bm", "bn", "group"), ((64, 128, 8), (128, 128, 16), (128, 64, 3), (16, 64, 1)))
def test_every_tile_of_a_triangle_is_visited_once(monkeypatch, tmp_path, bm, bn, group):
    (tmp_path / "map.cu").write_text(f'#include "grid.cuh"\n{_MAP}')
    monkeypatch.setattr(host_kernels, "FOLDER", FOLDER)
    monkeypatch.setattr(host_kernels, "SHIM", tmp_path)
    kernel = Kernel("map", as_defines({"TRIANGLE": 1, "BM": bm, "BN": bn, "GROUP": group}), (1,))
    for m in (1, bm, bn + 1, 1000, 4096, 20011):
        count = count_tiles(m, m, bm, bn, triangle=True)
        places = np.full((count + 1, 2), -1, np.int32)
        arguments = [np.array([places.ctypes.data], np.uint64), np.array([m], np.int32), np.array([count], np.int32)]
        pointers = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in arguments))
        ones = (ctypes.c_uint * 3)(1, 1, 1)
        assert not host_kernels.load(kernel)(ones, ones, ctypes.c_size_t(0), pointers)
        found = {tuple(place) for place in places[:-1].tolist()}
        assert found == {(i, j) for i in range(0, m, bm) for j in range(0, min(i + bm, m), bn)}
        assert places[count, 0] == count == len(found)


def test_plans_count_the_tiles_of_the_triangle():
    problem = Problem(4096, 4096, 4096, dtype=np.dtype(np.float32), triangle="d")
    plan = RUNGS["gpu-tuned"].plan(problem, detect())
    tiles = count_tiles(4096, 4096, plan.launch.bm, plan.launch.bn, triangle=True)
    assert (tiles, plan.options["shares"]) == (8 * 132, 1)  # whole waves: none is left over
    small = RUNGS["gpu-tuned"].plan(dataclasses.replace(problem, m=1024, n=1024, k=1024), detect())
    assert small.options["shares"] > 1
    whole, triangle = (
        tensor_core_launch(Problem(1536, 1536, 1536, triangle=triangle), MEASURED) for triangle in ("", "d")
    )  # 144 tiles, 78 of a triangle
    assert (whole.bm, triangle.bm) == (64, 64)


@pytest.mark.parametrize(
    ("semiring", "dtype"), (("min_plus", "float32"), ("max_plus", "int32"), ("max_min", "float64"))
)
def test_a_triangle_of_few_waves_has_smaller_tiles_which_its_diagonal_cuts_less(semiring, dtype):
    def plan_of(n, k, triangle="d"):
        return RUNGS["gpu-tuned"].plan(
            Problem(n, n, k, SEMIRINGS[semiring], np.dtype(dtype), triangle=triangle), detect()
        )

    for n in (800, 1000, 1500, 1800):
        small, whole = plan_of(n, n).launch, plan_of(n, n, "").launch
        assert small.bm * small.bn < whole.bm * whole.bn
    shares = plan_of(300, 1000).options["shares"]  # of 15 tiles, or 30
    assert SHARES_OF_SCARCE < shares <= 1000 // LEAST_SHARE_OF_FEW
    assert plan_of(300, 40).options["shares"] == 1
    assert plan_of(4096, 4096).launch == plan_of(4096, 4096, "").launch


def test_who_computes_triangles_says_which():
    for name in ("gpu-tuned", "gpu-tensor-core"):
        assert RUNGS[name].refuses(Problem(9, 9, 9, triangle="d")) is None
        assert "not of A" in RUNGS[name].refuses(Problem(9, 1, 9, triangle="a"))
    bools = Problem(9, 9, 9, SEMIRINGS["lor_land"], np.dtype(bool), triangle="d")
    assert "bools" in RUNGS["gpu-tensor-core"].refuses(bools)
    assert RUNGS["gpu-tuned"].refuses(bools) is None
