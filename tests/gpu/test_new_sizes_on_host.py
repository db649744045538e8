"""Calls on a GPU of new sizes, after one of the same kind: prepared without the checks, and right all the same."""

import threading

import numpy as np
import pytest

from harness import ProblemError, gemm
from harness.api.remembered import kinds
from tests.gpu.host_gpu import CAPTURING
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = BY_THE_SHIM

# Those of a call are drawn among these: whole tiles and ragged ones, few and many.
SIZES = (1, 2, 3, 8, 16, 31, 33, 64, 70, 96)


def numbers(gpu, m, n, seed, dtype):
    return gpu.array(np.random.default_rng(seed).integers(-9, 9, (m, n)).astype(dtype))


LAYOUTS = {
    "rows": numbers,
    "columns": lambda gpu, m, n, *rest: numbers(gpu, n, m, *rest).T,
    "rows with gaps": lambda gpu, m, n, *rest: numbers(gpu, m, n + 4, *rest)[:, :n],
    "anywhere": lambda gpu, m, n, *rest: numbers(gpu, m, n + 1, *rest)[:, 1:],  # no multiple of 16 bytes
    "backwards": lambda gpu, m, n, *rest: numbers(gpu, m, n, *rest)[::-1],
    "every other": lambda gpu, m, n, *rest: numbers(gpu, m, 2 * n, *rest)[:, ::2],
}


def product(semiring, a, b):
    a, b = a.get(), b.get()
    return a @ b if semiring == "plus_times" else (a[:, :, None] + b[None]).min(1)


@pytest.fixture
def prepared(monkeypatch):
    """Return the results of `kinds.prepared`: an entry where a product was prepared by its kind."""
    seen, ours = [], kinds.prepared
    monkeypatch.setattr(kinds, "prepared", lambda *given: seen.append(ours(*given)) or seen[-1])
    return seen


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("semiring", ("plus_times", "min_plus"))
@pytest.mark.parametrize(
    ("backend", "dtype"), (("gpu-tuned", "float32"), ("gpu-tuned", "float64"), ("auto", "float64"))
)
def test_of_any_layout(gpu, prepared, semiring, backend, dtype):
    rng = np.random.default_rng(5)
    options = {"semiring": semiring, "backend": backend}
    for seed in range(60):
        m, n, k = (int(x) for x in rng.choice(SIZES, 3))
        of_a, of_b, of_out = (LAYOUTS[name] for name in rng.choice([*LAYOUTS], 3))
        for _ in range(2):
            a, b = of_a(gpu, m, k, seed, dtype), of_b(gpu, k, n, seed + 1, dtype)
            out = of_out(gpu, m, n, 1, dtype) if seed % 3 else None
            got = gemm(a, b, out=out, **options)
            assert out is None or got is out
            assert np.array_equal(got.get(), product(semiring, a, b)), (m, n, k)
    assert sum(x is not None for x in prepared) >= 20


@pytest.mark.parametrize("name", ("alpha", "beta", "both"))
def test_with_scalars_and_c(gpu, prepared, name):
    scalars = {"alpha": {"alpha": 2.0}, "beta": {"beta": -0.5}, "both": {"alpha": 2.0, "beta": -0.5}}[name]
    for seed, (m, n, k) in enumerate(((9, 8, 7), (33, 20, 65), (64, 64, 64), (70, 3, 16))):
        a, b, c = (numbers(gpu, *shape, seed, "float32") for shape in ((m, k), (k, n), (m, n)))
        want = scalars.get("alpha", 1) * (a.get() @ b.get()) + scalars.get("beta", 1) * c.get()
        assert np.array_equal(gemm(a, b, c, backend="gpu-tuned", **scalars).get(), want)
        assert np.array_equal(gemm(a, b, c, out=c, backend="gpu-tuned", **scalars).get(), want)
    assert any(prepared)


@pytest.mark.parametrize("which", (0, 1))
def test_out_that_overlaps_an_operand(gpu, prepared, which):
    for n in (16, 20, 33):
        given = [numbers(gpu, n, n, seed, "float32") for seed in range(2)]
        want = given[0].get() @ given[1].get()
        assert np.array_equal(gemm(*given, out=given[which], backend="gpu-tuned").get(), want)
    assert prepared


def test_wrong_sizes_are_reported(gpu, prepared):
    def of(*shape):
        return numbers(gpu, *shape, 1, "float32")

    gemm(of(4, 5), of(5, 6), backend="gpu-tuned")
    gemm(of(4, 5), of(5, 6), out=of(4, 6), backend="gpu-tuned")
    for a, b, out, message in (
        (of(4, 5), of(6, 5), None, "inner sizes"),
        (of(4, 5), of(5, 7), of(4, 6), "out cannot take"),
        (of(4, 5), of(5, 7), gpu.array(np.ones((4, 7))), "out cannot take"),
        (of(4, 5), of(5, 7), np.ones((4, 7), "f4"), "lies on a GPU, out does not"),
    ):
        with pytest.raises(ProblemError, match=message):
            gemm(a, b, out=out, backend="gpu-tuned")
    assert not any(prepared)
    launched = len(gpu.launches)
    with gpu.on_stream(CAPTURING), pytest.raises(ProblemError, match="has not been computed before"):
        gemm(of(8, 5), of(5, 6), backend="gpu-tuned")
    assert len(gpu.launches) == launched
    empty = gemm(of(4, 0), of(0, 6), backend="gpu-tuned").get()
    assert np.array_equal(empty, np.zeros((4, 6)))


def test_on_each_gpu_and_in_each_stream(gpu):
    for n in (9, 17, 30):
        for index in (0, 1):
            with gpu.cuda.Device(index):
                a, b = (numbers(gpu, n, n, seed, "float32") for seed in range(2))
            gpu.launches.clear()
            with gpu.on_stream(7):
                got = gemm(a, b, semiring="min_plus", backend="gpu-tuned")
            assert got.device.id == index
            assert {stream for _, stream in gpu.launches} == {7}
            assert np.array_equal(got.get(), product("min_plus", a, b))


def test_threads_with_sizes_of_their_own(gpu):
    gemm(numbers(gpu, 9, 9, 1, "float32"), numbers(gpu, 9, 9, 2, "float32"), backend="gpu-tuned")
    wrong = []

    def work(number):
        for n in range(10 + number, 70, 4):
            a, b = (numbers(gpu, n, n, seed, "float32") for seed in (number, n))
            wrong.append(not np.array_equal(gemm(a, b, backend="gpu-tuned").get(), a.get() @ b.get()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [False] * 60


def test_rows_that_vectors_of_four_narrow_elements_cut_or_not(gpu):
    """Kernels are kept by how rows are cut: 16 elements cut none of these, four those of 12 and of 8."""
    rng = np.random.default_rng(5)
    for n in (12, 5, 8, 6, 7):
        a, b = (rng.integers(-9, 9, shape, np.int8) for shape in ((3, 1), (1, n)))
        np.testing.assert_array_equal(gemm(gpu.array(a), gpu.array(b), backend="gpu-tuned").get(), a * b)
