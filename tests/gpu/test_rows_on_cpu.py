"""Operands by columns, and float32 operands of float64 sums: one launch copies them as the kernel reads them."""

import numpy as np
import pytest

from harness import SEMIRINGS, gemm
from harness.errors import VerificationError
from harness.problem import Problem
from tests._support.fake_cupy import Array
from tests.gpu.host_gpu import install
from tests.gpu.host_kernels import COMPILER, KernelFault
from tests.gpu.simt_products import check, use_the_cpu, with_options, with_small_tiles

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here"),
    pytest.mark.no_cover,
]

# Less than a tile, several, and rows that begin anywhere.
SIZES = ((1, 1, 1), (3, 40, 65), (70, 33, 97))
DOUBLE = {"bm": 32, "bn": 32, "bk": 8, "wm": 32, "wn": 16, "tm": 4, "tn": 4, "stages": 2}


def problem(size, dtype, semiring="min_plus", layout="FFC", narrow=None, **more):
    return Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), layout=layout, operand_dtype=narrow, **more)


@pytest.mark.parametrize(
    ("dtype", "semiring"),
    [("float64", "min_plus"), ("float32", "min_plus"), ("int16", "max_plus"), ("bool", "lor_land")],
)
def test_operands_by_columns_are_copied_by_rows(monkeypatch, dtype, semiring):
    use_the_cpu(monkeypatch)
    for size, layout in zip(SIZES, ("FFC", "CFC", "FCC"), strict=True):
        check(with_small_tiles("gpu-naive"), problem(size, dtype, semiring, layout, accumulate=layout == "CFC"))


@pytest.mark.parametrize("layout", ("CCC", "FFC"))
def test_float32_with_sums_of_float64_is_a_product_of_float64(monkeypatch, layout):
    use_the_cpu(monkeypatch)
    narrow = np.dtype(np.float32)
    for size in SIZES:
        one = problem(size, "float64", "plus_times", layout, narrow, alpha=-1.5, accumulate=size[0] > 3)
        check(with_options("gpu-tensor-core", **DOUBLE), one)


PLANTED = {
    "a tile as it was read": ("? tile[j][i]", "? tile[i][j]"),
    "read before all have written": ("__syncthreads();\n#pragma unroll", "#pragma unroll"),
    "rows past the end": ("if (row + i < copy.rows && column", "if (column"),
    "the other matrix": ("blockIdx.y ? Copy{b", "true ? Copy{b"),
    "rows of the copy without their distance": ("* copy.ld_to + column", "* copy.columns + column"),
}


@pytest.mark.parametrize("edit", PLANTED.values(), ids=PLANTED)
def test_planted_mistake_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        check(with_small_tiles("gpu-naive"), problem((70, 33, 97), "float32", layout="FFC"))


@pytest.mark.parametrize("backend", ("gpu-cublas", "gpu-tensor-core"))
def test_a_call_converts_once_and_is_remembered(monkeypatch, backend):
    gpu = install(monkeypatch)
    rng = np.random.default_rng(1)
    a, b = (Array(rng.random(shape, np.float32), 0) for shape in ((20, 30), (40, 30)))
    for _ in range(2):
        gpu.launches.clear()
        got = gemm(a, b.T, dtype="float64", backend=backend)
        assert next(name for name, _ in gpu.launches) == "rows"
        assert len(gpu.launches) == 2
        expected = a.get().astype(float) @ b.get().T.astype(float)
        assert got.dtype == np.float64
        assert np.allclose(got.get(), expected, rtol=1e-14, atol=0)
