"""Batches by the rungs of the GPU, played by the host: every kind of batch, in one launch where products are small."""

import itertools

import numpy as np
import pytest

from backends.gpu._program import program
from backends.gpu._program.program import Batch
from harness import SEMIRINGS, ProblemError, gemm, gemm_argk
from harness.proof import contract
from harness.tuning.choice import orders
from harness.tuning.gpu import rungs as tuning_gpu
from tests.gpu.host_gpu import CAPTURING
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.on_cpu import RUNGS, contract_findings

pytestmark = BY_THE_SHIM

SIMT = ("gpu-naive", "gpu-row", "gpu-tiled", "gpu-register-tiled", "gpu-warp-tiled", "gpu-pipelined", "gpu-tuned")


def numbers(gpu, *shape, dtype="float32", seed=0):
    return gpu.array(np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype))


def expected(semiring, a, b):
    if semiring == "plus_times":
        return a.get() @ b.get()
    return (a.get()[..., :, :, None] + b.get()[..., None, :, :]).min(-2)


def findings(monkeypatch, name, semiring, dtype):
    """Return what the contract finds about batches of one kernel."""
    cases = contract.cases
    monkeypatch.setattr(contract, "cases", lambda *given: (c for c in cases(*given) if c.aspect == "batches"))
    found = contract_findings(RUNGS[name], SEMIRINGS[semiring], np.dtype(dtype))
    monkeypatch.setattr(contract, "cases", cases)
    return [f for f in found if f.what.endswith("batches")]


@pytest.mark.deep(but=5)
@pytest.mark.parametrize(
    ("name", "semiring", "dtype"),
    [
        *((name, "min_plus", "float32") for name in SIMT),
        *(("gpu-tuned", *kind) for kind in (("plus_times", "float64"), ("min_plus", "int16"), ("lor_land", "bool"))),
        ("gpu-tuned", "min_plus", "float16"),
        ("gpu-tuned", "logaddexp_plus", "float32"),
        ("gpu-cublas", "plus_times", "float32"),
        ("gpu-paired", "min_plus", "int16"),
        ("gpu-bits", "lor_land", "bool"),
    ],
)
def test_every_rung_computes_every_kind_of_batch(gpu, monkeypatch, name, semiring, dtype):
    assert [(f.status, f.detail) for f in findings(monkeypatch, name, semiring, dtype)] == [("ok", "16 cases")]


@pytest.mark.parametrize("bug", ("no step", "dimensions exchanged"))
def test_the_contract_finds_a_batch_that_does_not_move(gpu, monkeypatch, bug):
    arguments = Batch.arguments

    def wrong(self, *matrices):
        steps = [(0, 0) if bug == "no step" else x.next[::-1] for x in matrices]
        return arguments(self, *(x._replace(next=step) for x, step in zip(matrices, steps, strict=True)))

    monkeypatch.setattr(Batch, "arguments", wrong)
    (found,) = findings(monkeypatch, "gpu-naive", "min_plus", "float32")
    assert found.status == "failed"


@pytest.mark.parametrize("semiring", ("plus_times", "min_plus"))
@pytest.mark.parametrize("name", ("gpu-tuned", "gpu-cublas"))
def test_a_further_call_is_one_launch(gpu, name, semiring):
    if name == "gpu-cublas" and semiring != "plus_times":
        return
    for seed in range(3):
        a, b = numbers(gpu, 20, 8, 8, seed=seed), numbers(gpu, 20, 8, 8, seed=seed + 9)
        out = gpu.empty((20, 8, 8), "float32")
        launches, allocated = len(gpu.launches), len(gpu.allocated)
        assert gemm(a, b, semiring=semiring, out=out, backend=name) is out
        assert np.array_equal(out.get(), expected(semiring, a, b))
        if seed:
            assert (len(gpu.launches) - launches, len(gpu.allocated) - allocated) == (1, 0)


def test_operands_are_read_where_they_lie(gpu):
    a, b, out = numbers(gpu, 3, 1, 9, 20), numbers(gpu, 4, 20, 7, seed=1), gpu.empty((3, 4, 9, 7), "float32")
    gemm(a, b, out=out, backend="gpu-tuned")
    gpu.allocated.clear()
    gemm(a, b, out=out, backend="gpu-tuned")
    views = numbers(gpu, 6, 9, 40)[::-2, :, 4:24], numbers(gpu, 3, 20, 9, seed=2)
    got = gemm(*views, semiring="min_plus", backend="gpu-tuned")
    assert np.array_equal(out.get(), expected("plus_times", a, b))
    assert np.array_equal(got.get(), expected("min_plus", *views))
    assert [size for size in gpu.allocated if size] == [got.size * 4]


def test_transposed_operands_and_results(gpu):
    a, b = numbers(gpu, 3, 4, 20, 9).swapaxes(-1, -2), numbers(gpu, 4, 7, 20, seed=1).swapaxes(-1, -2)
    for _ in range(2):
        out = gpu.empty((3, 4, 7, 9), "float32").swapaxes(-1, -2)
        gemm(a, b, semiring="min_plus", out=out, backend="gpu-tuned")
        assert np.array_equal(out.get(), expected("min_plus", a, b))


def test_more_products_than_a_grid_is_long_and_more_dimensions_than_a_launch_has(gpu, monkeypatch):
    monkeypatch.setattr(program, "_MOST_ALONG_Y", 4)
    a, b = numbers(gpu, 11, 3, 5), numbers(gpu, 11, 5, 4, seed=1)
    for name, semiring in itertools.product(("gpu-naive", "gpu-tuned"), ("plus_times", "min_plus")):
        assert np.array_equal(gemm(a, b, semiring=semiring, backend=name).get(), expected(semiring, a, b))
    a, b = numbers(gpu, 2, 1, 3, 1, 4, 5), numbers(gpu, 1, 2, 1, 2, 5, 3, seed=1)
    for _ in range(2):
        assert np.array_equal(gemm(a, b, backend="gpu-tuned").get(), expected("plus_times", a, b))


@pytest.mark.parametrize("dtype", ("float64", "float32", "int8"))
def test_triangles_of_small_products(gpu, dtype):
    """Tiles of warps that the diagonal cuts, one or several a product: nothing above it is written."""
    for products, n, k in ((3, 4, 4), (2, 17, 17), (3, 33, 5)):
        a, b = numbers(gpu, products, n, k, dtype=dtype), numbers(gpu, products, k, n, dtype=dtype, seed=1)
        want = np.tril(a.get() @ b.get())
        for _ in range(2):
            assert np.array_equal(gemm(a, b, triangle="d").get(), want)
            out = gpu.full((products, n, n), 7, dtype)
            gemm(a, b, triangle="d", out=out)
            assert np.array_equal(out.get(), want + np.triu(np.full((n, n), 7, dtype), 1))
        c = gpu.full((products, n, n), 2, dtype)
        gemm(a, b, c, triangle="d", out=c)
        assert np.array_equal(c.get(), want + 2)


def test_the_k_that_elements_come_from(gpu):
    for of_a, of_b in (((4,), (4,)), ((2, 1), (3,))):
        a, b = numbers(gpu, *of_a, 5, 9), numbers(gpu, *of_b, 9, 6, seed=1)
        for turn in range(2):
            launches = len(gpu.launches)
            best, argk = gemm_argk(a, b)
            terms = a.get()[..., :, :, None] + b.get()[..., None, :, :]
            assert np.array_equal(best.get(), terms.min(-2))
            assert np.array_equal(argk.get(), terms.argmin(-2))
            if turn:
                assert len(gpu.launches) - launches == 2


def test_the_k_goes_to_arrays_of_the_caller(gpu):
    a, b = numbers(gpu, 7, 7), numbers(gpu, 7, 7, seed=1)
    terms = a.get()[:, :, None] + b.get()[None]
    for _ in range(3):
        for place in (lambda dtype: gpu.empty((7, 7), dtype), lambda dtype: gpu.empty((7, 7), dtype).T):
            out = place("float32"), place("int32")
            got = gemm_argk(a, b, out=out)
            assert got[0] is out[0]
            assert got[1] is out[1]
            assert np.array_equal(out[0].get(), terms.min(-2))
            assert np.array_equal(out[1].get(), terms.argmin(-2))
        mine = gpu.array(a.get())
        gemm_argk(mine, b, out=(mine, out[1]))
        assert np.array_equal(mine.get(), terms.min(-2))
    for bad, message in (
        ((out[0], np.empty((7, 7), np.int32)), "does not"),
        ((out[0], out[0]), r"out\[1\] cannot take"),
    ):
        with pytest.raises(ProblemError, match=message):
            gemm_argk(a, b, out=bad)
    with gpu.on_stream(CAPTURING), pytest.raises(ProblemError, match="copies its results"):
        gemm_argk(a, b, out=out)


def test_large_products_look_at_their_values_one_by_one(gpu, monkeypatch):
    monkeypatch.setattr(tuning_gpu, "SCANNED_FROM", dict.fromkeys(tuning_gpu.SCANNED_FROM, 0))
    a, b = numbers(gpu, 3, 20, 20), numbers(gpu, 3, 20, 20, seed=1)
    for _ in range(2):
        assert np.array_equal(gemm(a, b, semiring="min_plus", backend="gpu-tuned").get(), expected("min_plus", a, b))
    assert sum(name == "extremes_of_all" for name, _ in gpu.launches) == 6


def test_auto_takes_who_computes_small_products_together(gpu, monkeypatch):
    monkeypatch.setattr(orders, "tables_of", lambda place: ())  # nothing was measured
    cases = (
        ((4, 8, 8), "float32", "plus_times", "products"),
        ((4, 64, 64), "float32", "plus_times", "cublas"),
        ((4, 8, 8), "int16", "min_plus", "products"),  # not by words of two
        ((4, 8, 8), "bool", "lor_land", "products"),  # nor by words of bits
        ((4, 8, 8), "float16", "min_plus", "products"),
    )
    for shape, dtype, semiring, launched in cases:
        a = numbers(gpu, *shape, dtype=dtype)
        gpu.launches.clear()
        gemm(a, a, semiring=semiring)
        assert any(name == launched for name, _ in gpu.launches), (shape, dtype, gpu.launches)


def test_a_captured_call_and_streams(gpu):
    a, b, out = numbers(gpu, 5, 4, 4), numbers(gpu, 5, 4, 4, seed=1), gpu.empty((5, 4, 4), "float32")
    gemm(a, b, semiring="min_plus", out=out)
    for stream in (7, CAPTURING):
        gpu.launches.clear()
        with gpu.on_stream(stream):
            gemm(a, b, semiring="min_plus", out=out)
        assert [s for _, s in gpu.launches] == [stream]
