"""Tensors of PyTorch and arrays of JAX on a GPU: no copy, the right stream, results, graphs, and how they say no."""

import os
import sys

import numpy as np
import pytest

from backends.gpu._cuda import device
from harness import ProblemError, axpy, einsum, gemm, gemm_argk, gemv, ger, paths, registry, symv, syr, syrk
from harness.interface import Backend, HostExecution
from harness.linalg import hessenberg, qr, refine, trsm
from harness.plan import Plan
from tests._support.planted_registry import entry_of, plant_entries

pytestmark = pytest.mark.gpu

# Or JAX takes most of the GPU's memory, also from the other tests.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Spy(Backend):
    """Multiplies by CuPy, and keeps the arrays that it was given, and the stream."""

    name, step = "gpu-spy", 99
    idea = source = "a test"
    takes = frozenset({"mixed", "device arrays"})

    def plan(self, problem, machine):
        return Plan(problem, 1)

    def prepare(self, plan, operands):
        self.seen = operands

        def run():
            self.stream = sys.modules["cupy"].cuda.get_current_stream().ptr
            operands.out[...] = operands.a @ operands.b

        return HostExecution(operands, run)


@pytest.fixture
def spy(monkeypatch):
    planted = Spy()
    plant_entries(monkeypatch, [*registry.discover(), entry_of(planted)])
    return planted


def skip_without_gpu():
    pytest.importorskip("cupy", reason="CuPy is not installed")
    if reason := device.missing():
        pytest.skip(reason)


@pytest.fixture
def torch():
    skip_without_gpu()
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    skip_without_gpu()
    return pytest.importorskip("jax")


def numbers(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


class OfTorch:
    def __init__(self, torch):
        self.torch = torch

    def array(self, x):
        return self.torch.from_numpy(x.copy()).cuda()

    def host(self, x):
        return x.cpu().numpy()

    def pointer(self, x):
        return x.data_ptr()

    def owns(self, x):
        return type(x) is self.torch.Tensor and x.is_cuda


class OfJax:
    def __init__(self, jax):
        self.jax = jax

    def array(self, x):
        return self.jax.device_put(x, self.jax.devices("gpu")[0])

    def host(self, x):
        return np.asarray(x)

    def pointer(self, x):
        return x.unsafe_buffer_pointer()

    def owns(self, x):
        return isinstance(x, self.jax.Array) and "cuda" in str(x.devices()).lower()


@pytest.fixture(params=("torch", "jax"))
def library(request):
    return {"torch": OfTorch, "jax": OfJax}[request.param](request.getfixturevalue(request.param))


def test_the_memory_of_operands_and_of_the_result_is_that_of_the_arrays(library, spy):
    x, y = numbers(50, 70), numbers(70, 40, seed=1)
    a, b = library.array(x), library.array(y)
    result = gemm(a, b, backend="gpu-spy")
    assert library.owns(result)
    assert np.array_equal(library.host(result), x @ y)
    for given, seen in zip((a, b, result), (spy.seen.a, spy.seen.b, spy.seen.out), strict=True):
        assert library.pointer(given) == seen.data.ptr


@pytest.mark.parametrize("semiring", ("plus_times", "min_plus"))
def test_products_warm_and_cold(library, semiring):
    for seed in range(3):
        x, y = numbers(50, 70, seed=seed), numbers(70, 40, seed=seed + 1)
        result = gemm(library.array(x), library.array(y), semiring=semiring)
        assert library.owns(result)
        assert np.array_equal(library.host(result), gemm(x, y, semiring=semiring, backend="cpu-naive"))


def test_views_of_pytorch(torch, spy):
    x = torch.from_numpy(numbers(64, 64)).cuda()
    y = torch.from_numpy(numbers(64, 64, seed=1)).cuda()
    views = (lambda t: t, lambda t: t.T, lambda t: t[::2, 1:33], lambda t: t[:, ::2], lambda t: t[:1].expand(64, 64))
    for view in views:
        a = view(x)
        b = y[: a.shape[1]]
        gemm(a, b, backend="gpu-spy")
        assert spy.seen.a.data.ptr == a.data_ptr()
        assert spy.seen.a.strides == tuple(4 * step for step in a.stride())
        for semiring in ("plus_times", "min_plus"):
            for _ in range(2):
                got = gemm(a, b, semiring=semiring)
                want = gemm(a.cpu().numpy(), b.cpu().numpy(), semiring=semiring, backend="cpu-naive")
                assert np.array_equal(got.cpu().numpy(), want)


def test_out_is_written_in_place_and_may_overlap_an_operand_at_another_offset(torch):
    room = torch.from_numpy(numbers(80, 40)).cuda()
    a, b, out = room[:40], torch.from_numpy(numbers(40, 40, seed=1)).cuda(), room[20:60]
    for _ in range(2):
        want = (a.cpu() @ b.cpu()).numpy()
        version = out._version
        assert gemm(a, b, out=out) is out
        assert np.array_equal(out.cpu().numpy(), want)
        assert out._version > version
        room.copy_(torch.from_numpy(numbers(80, 40, seed=2)))


@pytest.mark.parametrize("semiring", ("plus_times", "min_plus"))
def test_work_is_in_pytorchs_current_stream(torch, semiring, spy):
    a, b = (torch.ones(256, 256, device="cuda") for _ in range(2))
    out = torch.empty(256, 256, device="cuda")
    gemm(a, b, semiring=semiring, out=out)
    gemm(a, b, backend="gpu-spy")  # the first product loads cuBLAS, for longer than the stream sleeps
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for value, options in ((2.0, {"out": out}), (3.0, {})):
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)  # whoever does not wait in this stream reads the old values
            a.fill_(value)
            result = gemm(a, b, semiring=semiring, **options)
            gemm(a, b, backend="gpu-spy")
        assert not side.query()  # the call has not waited either
        side.synchronize()
        assert spy.stream == side.cuda_stream
        assert (result == (value * 256 if semiring == "plus_times" else value + 1)).all()
        a.fill_(1.0)
        torch.cuda.synchronize()
    import cupy

    assert cupy.cuda.get_current_stream().ptr == 0


def test_results_are_memory_of_pytorch(torch):
    a = torch.ones(512, 512, device="cuda")
    gemm(a, a)
    before = torch.cuda.memory_allocated()
    result = gemm(a, a)
    assert torch.cuda.memory_allocated() - before == result.nbytes
    del result
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("semiring", ("plus_times", "min_plus"))
def test_a_call_in_a_cuda_graph_of_pytorch(torch, semiring):
    a, b = (torch.from_numpy(numbers(96, 96, seed=seed)).cuda() for seed in (1, 2))
    out = torch.empty(96, 96, device="cuda")
    gemm(a, b, semiring=semiring, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gemm(a, b, semiring=semiring, out=out)
        new = gemm(a, b, semiring=semiring)
    for seed in (3, 4):
        x = numbers(96, 96, seed=seed)
        a.copy_(torch.from_numpy(x))
        graph.replay()
        want = gemm(x, b.cpu().numpy(), semiring=semiring, backend="cpu-naive")
        assert np.array_equal(out.cpu().numpy(), want)
        assert np.array_equal(new.cpu().numpy(), want)


def test_a_size_never_seen_cannot_be_captured(torch):
    a = torch.ones(93, 71, device="cuda")
    graph = torch.cuda.CUDAGraph()
    message = r"has not been computed before(.|\n)*call it once before"
    with pytest.raises(ProblemError, match=message), torch.cuda.graph(graph):  # noqa: PT012
        a.add_(0)  # or PyTorch warns of an empty graph
        gemm(a, a.T, semiring="min_plus")


@pytest.mark.parametrize("dtype", ("float16", "float64", "int8", "int32", "int64", "uint8", "bool"))
def test_dtypes(torch, dtype):
    semiring = "lor_land" if dtype == "bool" else "max_min"
    x, y = numbers(40, 50, dtype=dtype), numbers(50, 30, dtype=dtype, seed=1)
    result = gemm(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(), semiring=semiring)
    assert np.array_equal(result.cpu().numpy(), gemm(x, y, semiring=semiring))


@pytest.mark.parametrize("name", ("torch", "jax"))
def test_mixed_products_of_bfloat16(name, request):
    module = request.getfixturevalue(name)
    x, y = numbers(40, 50), numbers(50, 30, seed=1)
    if name == "torch":
        a, b = (torch_x.cuda().bfloat16() for torch_x in map(module.from_numpy, (x, y)))
    else:
        a, b = (OfJax(module).array(z).astype("bfloat16") for z in (x, y))
    result = gemm(a, b, dtype="float32")
    assert np.array_equal(result.cpu().numpy() if name == "torch" else np.asarray(result), x @ y)


def test_batches_argk_vectors_paths_and_linear_algebra(library):
    array, host = library.array, library.host
    x, y = numbers(2, 1, 4, 5), numbers(3, 5, 4, seed=1)
    assert np.array_equal(host(gemm(array(x), array(y))), x @ y)
    a, b = numbers(40, 30), numbers(30, 20, seed=1)
    for given, want in zip(gemm_argk(array(a), array(b)), gemm_argk(a, b), strict=True):
        assert library.owns(given)
        assert np.array_equal(host(given), want)
    v, w = numbers(30, seed=2), numbers(40, seed=3)
    assert np.array_equal(host(gemv(array(a), array(v))), a @ v)
    assert np.array_equal(host(ger(array(w), array(v))), np.multiply.outer(w, v))
    assert np.array_equal(host(axpy(array(v), array(v))), 2 * v)
    assert np.array_equal(host(syrk(array(a))), np.tril(a @ a.T))
    assert np.array_equal(host(syr(array(v))), np.tril(np.multiply.outer(v, v)))
    square = numbers(30, 30)
    assert np.array_equal(host(symv(array(square), array(v))), (np.tril(square) + np.tril(square, -1).T) @ v)
    weights = np.abs(numbers(70, 70)) + 1
    given = paths.shortest_paths(array(weights), return_predecessors=True)
    assert all(library.owns(x) for x in given)
    lengths, before = map(host, given)
    assert np.array_equal(lengths, paths.shortest_paths(weights))
    i, j = np.nonzero(~np.eye(70, dtype=bool))
    last = before[
        i, j
    ]  # of equally good ones another than on the CPU; all edges are longer than 0, so none is circular
    assert np.array_equal(lengths[i, last] + weights[last, j], lengths[i, j])
    assert (before.diagonal() == -9999).all()


def test_linear_algebra(library):
    array, host = library.array, library.host
    a, b = (np.random.default_rng(seed).standard_normal((60, 60)).astype("f4") for seed in (1, 2))
    a += 8 * np.eye(60, dtype="f4")
    factors = qr(array(a))
    assert library.owns(factors.r)
    np.testing.assert_allclose(host(factors.q()) @ host(factors.r), a, atol=1e-4)
    np.testing.assert_allclose(host(factors.apply_q(factors.apply_q_transposed(array(b)))), b, atol=1e-4)
    np.testing.assert_allclose(np.tril(a) @ host(trsm(array(a), array(b))), b, atol=1e-3)
    reduced = hessenberg(array(a))
    np.testing.assert_allclose(host(reduced.q) @ host(reduced.h) @ host(reduced.q).T, a, atol=1e-3)
    if isinstance(library, OfTorch):
        np.testing.assert_allclose(a @ host(refine(array(a), array(b)).x), b, atol=1e-10)


def test_operands_of_jax_live_as_long_as_the_gpu_reads_them(jax):
    library = OfJax(jax)
    x = numbers(2048, 2048)
    a = library.array(x)
    want = gemm(a, a, semiring="min_plus")
    want.block_until_ready()
    for _ in range(20):
        a = library.array(x)
        result = gemm(a, a, semiring="min_plus")
        del a
        other = library.array(np.full((2048, 2048), -1e9, "f4")) + 1  # takes the memory if it is free
        assert (result == want).all()
        del other


def test_what_does_not_go_together(torch):
    import cupy

    there, here = torch.ones(2, 2, device="cuda"), torch.ones(2, 2)
    with pytest.raises(ProblemError, match=r"a and b lie on different devices(.|\n)*b\.to\('cuda:0'\)"):
        gemm(there, here)
    with pytest.raises(
        ProblemError, match=r"a is an array of PyTorch, b is not(.|\n)*torch\.asarray\(b, device='cuda:0'"
    ):
        gemm(there, cupy.ones((2, 2)))
    with pytest.raises(ProblemError, match="b is an array of PyTorch, a is not"):
        gemm(cupy.ones((2, 2)), there)
    with pytest.raises(ProblemError, match="a requires gradients"):
        gemm(there.requires_grad_(), there)
    negated = torch.ones(2, 2, dtype=torch.complex64, device="cuda").conj().imag
    assert (gemm(there.detach(), negated) == 0).all()
    with pytest.raises(ProblemError, match="out does not hold its elements in memory as they are"):
        gemm(there.detach(), there.detach(), out=negated)
    with pytest.raises(ProblemError, match=r"out=torch\.empty"):
        gemm(there.detach(), there.detach(), out=torch.empty(3, 3, device="cuda"))


def test_subnormal_numbers_of_float32_are_kept_where_they_are_converted():
    cupy = pytest.importorskip("cupy")
    x = np.array([[1e-40, -1e-45], [3e-39, np.inf]], np.float32)
    narrow, one = cupy.asarray(x), cupy.eye(2, dtype=np.float64)
    assert np.array_equal(einsum("ij->ji", narrow, dtype="float64").get(), x.T.astype(np.float64))
    narrow[1, 1] = x[1, 1] = 2
    for _ in range(2):
        assert np.array_equal(gemm(narrow, one).get(), x.astype(np.float64))
