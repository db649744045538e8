"""Whole calls over float8 on a GPU that the host plays: natively, and widened to float16."""

import numpy as np
import pytest

from harness import gemm
from harness.api.remembered import repeats
from harness.dtypes import named_dtype
from tests.gpu.host_gpu import install
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = BY_THE_SHIM

KINDS = ("float8_e4m3fn", "float8_e5m2")


@pytest.fixture
def gpu(monkeypatch):
    """Return a GPU that the host plays, on which nothing is remembered."""
    repeats.forget()
    yield install(monkeypatch)
    repeats.forget()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ("gpu-cublas", "gpu-tensor-core"))
def test_every_number_is_read_as_it_is(kind, backend, gpu):
    numbers = np.arange(256, dtype=np.uint8).view(named_dtype(kind))
    for a in (numbers[:, None], np.asfortranarray(np.stack([numbers, numbers], axis=1))[:, ::2]):
        found = gemm(gpu.array(a), gpu.array(np.ones((1, 3), a.dtype)), dtype="float32", backend=backend)
        np.testing.assert_array_equal(found.values, np.repeat(numbers.astype(np.float32)[:, None], 3, axis=1))


def test_whole_calls(gpu, rng):
    a, b = (rng.integers(-3, 4, shape).astype(named_dtype("float8_e4m3fn")) for shape in ((3, 9, 20), (20, 7)))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(gemm(gpu.array(a), gpu.array(b), dtype="float32").values, expected)
        other = gpu.array(b.astype(named_dtype("float8_e5m2")))  # of two formats: by bfloat16
        np.testing.assert_array_equal(gemm(gpu.array(a), other, dtype="float32").values, expected)
        c = gpu.array(np.ones((9, 7), np.float32))
        found = gemm(gpu.array(a[0]), gpu.array(b), c, alpha=2, beta=-1, out=c)
        np.testing.assert_array_equal(found.values, 2 * expected[0] - 1)
