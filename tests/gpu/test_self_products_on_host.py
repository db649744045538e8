"""A matrix by its own transpose on a GPU: one triangle is computed and mirrored, if B really is A transposed."""

import numpy as np
import pytest

from harness import ProblemError, gemm
from harness.api.remembered import repeats
from harness.tuning.gpu import triangles as tuning_gpu
from tests.gpu.host_gpu import CAPTURING, install
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.test_repeats_on_host import numbers

pytestmark = BY_THE_SHIM

N, K = 70, 33
OPTIONS = {"semiring": "min_plus", "backend": "gpu-tuned"}


@pytest.fixture
def gpu(monkeypatch):
    repeats.forget()
    monkeypatch.setattr(repeats, "classes", set())
    monkeypatch.setattr(tuning_gpu, "MIRRORED_FROM", 16)
    monkeypatch.setattr(tuning_gpu, "MIRRORED_DEPTH", 4)
    yield install(monkeypatch)
    repeats.forget()


def min_plus(a, b):
    return (a.get()[:, :, None] + b.get()[None]).min(1)


def launched(gpu, compute):
    gpu.launches.clear()
    result = compute()
    return result, [name for name, _ in gpu.launches]


def test_addresses_say_in_each_call_whether_it_is_one(gpu):
    a, b = numbers(gpu, N, K), numbers(gpu, N, K, seed=1)
    for x, y, is_mirrored in ((a, b, False), (a, a, True), (b, a, False), (b, b, True), (a, a, True)):
        got, names = launched(gpu, lambda x=x, y=y: gemm(x, y.T, **OPTIONS))
        assert np.array_equal(got.get(), min_plus(x, y.T))
        assert ("mirror" in names) is is_mirrored


def test_the_transpose_may_come_first_and_out_may_have_gaps(gpu):
    a, out = numbers(gpu, K, N), numbers(gpu, N, N + 5)
    before = out.get().copy()
    for _ in range(2):
        got, names = launched(gpu, lambda: gemm(a.T, a, out=out[:, 2 : N + 2], **OPTIONS))
        assert names[-1] == "mirror"
        assert np.array_equal(got.get(), min_plus(a.T, a))
    assert np.array_equal(np.delete(out.get(), np.s_[2 : N + 2], 1), np.delete(before, np.s_[2 : N + 2], 1))


@pytest.mark.parametrize(
    ("semiring", "options", "is_mirrored"),
    [
        ("max_times", {}, True),
        ("plus_times", {}, True),
        ("logaddexp_plus", {}, False),
        ("min_plus", {"alpha": 2.0}, False),
        ("min_plus", {"triangle": "d"}, False),
    ],
)
def test_only_what_is_symmetric_to_the_last_bit_is_mirrored(gpu, semiring, options, is_mirrored):
    x = numbers(gpu, N, K, dtype="float64")
    _, names = launched(gpu, lambda: gemm(x, x.T, semiring=semiring, backend="gpu-tuned", **options))
    assert ("mirror" in names) is is_mirrored


def test_a_capture_of_the_other_kind_says_so(gpu):
    a, b, out = numbers(gpu, N, K), numbers(gpu, N, K, seed=1), gpu.empty((N, N), "float32")
    gemm(a, a.T, out=out, **OPTIONS)
    with gpu.on_stream(CAPTURING):
        gemm(a, a.T, out=out, **OPTIONS)
        with pytest.raises(ProblemError, match="by its own transpose has another program"):
            gemm(a, b.T, out=out, **OPTIONS)
    gemm(a, b.T, out=out, **OPTIONS)
    with gpu.on_stream(CAPTURING):
        gemm(a, b.T, out=out, **OPTIONS)
    assert np.array_equal(out.get(), min_plus(a, b.T))
