"""harness.torch.gemm: gradients by finite differences, by loops, and by PyTorch's own operations."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("package torch is not installed", allow_module_level=True)

import torch

from harness import BackendUnavailable, ProblemError, Semiring
from harness import gemm as arrays_gemm
from harness.semiring import as_semiring
from harness.torch import gemm, product

SELECTING = ("min_plus", "max_plus", "min_max", "max_min", "max_times")
SEMIRINGS = ("plus_times", *SELECTING, "logaddexp_plus")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def drawn(*shape, **options):
    return torch.randn(*shape, dtype=torch.float64, **options).requires_grad_()


def gradients(semiring, a, b, g, **options):
    a, b = (x.detach().clone().requires_grad_() for x in (a, b))
    result = gemm(a, b, semiring=semiring, **options)
    return result.detach(), *torch.autograd.grad(result, (a, b), g)


class TestFiniteDifferences:
    @pytest.mark.parametrize("semiring", SEMIRINGS)
    @pytest.mark.parametrize(
        "shapes", (((3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((1, 3), (2, 3, 1)), ((2, 3, 4), (4, 2)))
    )
    def test_agree(self, semiring, shapes):
        assert torch.autograd.gradcheck(lambda a, b: gemm(a, b, semiring=semiring), [drawn(*shape) for shape in shapes])

    @pytest.mark.parametrize("semiring", ("plus_times", *SELECTING))
    def test_of_second_order_agree(self, semiring):
        operands = [drawn(2, 3, 4), drawn(4, 3)]
        assert torch.autograd.gradgradcheck(lambda a, b: gemm(a, b, semiring=semiring), operands)

    def test_agree_with_c_alpha_and_beta(self):
        operands = [drawn(2, 3, 4), drawn(4, 2), drawn(3, 2)]
        for scalars in ({}, {"alpha": 2.0}, {"beta": -0.5}, {"alpha": -1.5, "beta": 3.0}):
            assert torch.autograd.gradcheck(lambda a, b, c, o=scalars: gemm(a, b, c, **o), operands)

    @pytest.mark.parametrize("name", ("alpha", "beta"))
    def test_a_scalar_that_is_a_tensor_is_refused(self, name):
        for value in (torch.tensor(2.0, requires_grad=True), torch.tensor(2.0)):
            with pytest.raises(ProblemError, match=rf"harness.torch.gemm: {name} is a tensor(.|\n)*{name}.item"):
                gemm(drawn(3, 4), drawn(4, 2), drawn(3, 2), **{name: value})

    @pytest.mark.parametrize("semiring", SEMIRINGS)
    def test_of_views_agree(self, semiring):
        a, b = drawn(8, 6), drawn(3, 8)
        assert torch.autograd.gradcheck(lambda a, b: gemm(a.T[::2], b.T, semiring=semiring), [a, b])


class TestSubgradients:
    @pytest.mark.parametrize("semiring", ("min_plus", "max_plus"))
    def test_of_equal_terms_the_smallest_k_counts(self, semiring):
        a, b = torch.zeros(3, 4, dtype=torch.float64), torch.zeros(4, 5, dtype=torch.float64)
        g = torch.rand(3, 5, dtype=torch.float64)
        _, of_a, of_b = gradients(semiring, a, b, g)
        assert torch.equal(of_a, torch.stack([g.sum(1), *[torch.zeros(3)] * 3], 1).double())
        assert torch.equal(of_b, torch.stack([g.sum(0), *[torch.zeros(5)] * 3]).double())

    @pytest.mark.parametrize("semiring", ("min_max", "max_min"))
    def test_of_equal_operands_the_first_counts(self, semiring):
        ones = torch.ones(1, 1, dtype=torch.float64)
        _, of_a, of_b = gradients(semiring, ones, ones, ones)
        assert (of_a.item(), of_b.item()) == (1.0, 0.0)

    @pytest.mark.parametrize("semiring", ("min_plus", "max_plus"))
    def test_where_no_term_counts_they_are_zero(self, semiring):
        none = float("inf") if semiring == "min_plus" else -float("inf")
        a = torch.tensor([[none, none], [1.0, none]], dtype=torch.float64)
        result, of_a, of_b = gradients(semiring, a, torch.ones(2, 2).double(), torch.ones(2, 2).double())
        assert torch.isinf(result[0]).all()
        assert of_a.tolist() == [[0.0, 0.0], [2.0, 0.0]]
        assert of_b.tolist() == [[1.0, 1.0], [0.0, 0.0]]

    @pytest.mark.parametrize("semiring", SELECTING)
    def test_are_those_of_loops(self, semiring):
        add, multiply = semiring.split("_")
        best = {"min": np.argmin, "max": np.argmax}[add]
        of_pair = {
            "plus": lambda x, y: (1, 1),
            "times": lambda x, y: (y, x),
            "min": lambda x, y: (float(x <= y), float(x > y)),
            "max": lambda x, y: (float(x >= y), float(x < y)),
        }[multiply]
        ufunc = {"plus": np.add, "times": np.multiply, "min": np.minimum, "max": np.maximum}[multiply]
        a, b, g = (torch.randint(-2, 3, shape).double() for shape in ((6, 7), (7, 5), (6, 5)))
        expected_a, expected_b = np.zeros((6, 7)), np.zeros((7, 5))
        for i, j in itertools.product(range(6), range(5)):
            q = best(ufunc(a[i].numpy(), b[:, j].numpy()))
            by_a, by_b = of_pair(a[i, q].item(), b[q, j].item())
            expected_a[i, q] += g[i, j] * by_a
            expected_b[q, j] += g[i, j] * by_b
        _, of_a, of_b = gradients(semiring, a, b, g)
        np.testing.assert_array_equal(of_a.numpy(), expected_a)
        np.testing.assert_array_equal(of_b.numpy(), expected_b)


class TestWeights:
    """logaddexp_plus against torch.logsumexp."""

    @staticmethod
    def by_torch(a, b, g):
        a, b = (x.detach().clone().requires_grad_() for x in (a, b))
        result = torch.logsumexp(a[..., :, :, None] + b[..., None, :, :], -2)
        return result.detach(), *torch.autograd.grad(result, (a, b), g)

    @pytest.mark.parametrize("scale", (1.0, 50.0, 2000.0))
    def test_neither_overflow_nor_vanish(self, scale):
        a, b, g = (torch.randn(*shape).double() for shape in ((9, 17), (17, 8), (9, 8)))
        for got, expected in zip(
            gradients("logaddexp_plus", scale * a, scale * b, g), self.by_torch(scale * a, scale * b, g), strict=True
        ):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-10)

    def test_of_float32_are_as_good_as_pytorchs(self):
        a, b, g = (30 * torch.randn(*shape) for shape in ((9, 17), (17, 8), (9, 8)))
        exact = self.by_torch(a.double(), b.double(), g.double())
        for got, expected in zip(gradients("logaddexp_plus", a, b, g), exact, strict=True):
            torch.testing.assert_close(got.double(), expected, rtol=2e-4, atol=2e-3)

    @pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
    @pytest.mark.parametrize("size", (1e4, 1e6))
    def test_of_operands_that_cancel_lose_nothing(self, size, dtype):
        a, b, g = (torch.randn(*shape).double() for shape in ((2, 9, 17), (17, 8), (2, 9, 8)))
        of_k = size * torch.randn(17).double()  # every k has a size of its own
        a, b = (a + of_k).to(dtype), (b - of_k[:, None]).to(dtype)
        for of_one in (a[0], b, g[0].to(dtype)), (a, b, g.to(dtype)):
            exact = self.by_torch(*(x.double() for x in of_one))
            for got, expected in zip(gradients("logaddexp_plus", *of_one), exact, strict=True):
                torch.testing.assert_close(got.double(), expected, rtol=0, atol=64 * torch.finfo(dtype).eps)

    def test_without_columns_or_rows_they_are_zero(self):
        for m, n in (3, 0), (0, 2):
            a, b, g = (torch.ones(*shape).double() for shape in ((m, 4), (4, n), (m, n)))
            _, of_a, of_b = gradients("logaddexp_plus", a, b, g)
            assert torch.equal(of_a, torch.zeros(m, 4))
            assert torch.equal(of_b, torch.zeros(4, n))

    def test_where_no_term_counts_they_are_zero(self):
        none = -float("inf")
        a = torch.tensor([[none, none], [0.0, none]], dtype=torch.float64)
        _, of_a, of_b = gradients("logaddexp_plus", a, torch.zeros(2, 2).double(), torch.ones(2, 2).double())
        assert of_a.tolist() == [[0.0, 0.0], [2.0, 0.0]]
        assert of_b.tolist() == [[1.0, 1.0], [0.0, 0.0]]

    def test_nan_that_comes_from_above_stays_nan(self):
        a, b, g = torch.rand(3, 2), torch.rand(2, 3), torch.ones(3, 3)
        g[1, 2] = torch.nan
        _, of_a, of_b = gradients("logaddexp_plus", a, b, g)
        assert of_a.isnan().tolist() == [[False] * 2, [True] * 2, [False] * 2]
        assert of_b.isnan().tolist() == [[False, False, True]] * 2

    def test_cannot_be_differentiated_again(self):
        a, b = drawn(2, 3), drawn(3, 2)
        (of_a,) = torch.autograd.grad(gemm(a, b, semiring="logaddexp_plus").sum(), a, create_graph=True)
        assert torch.equal(of_a, gradients("logaddexp_plus", a, b, torch.ones(2, 2).double())[1])
        with pytest.raises(ProblemError, match="cannot be differentiated again"):
            torch.autograd.grad(of_a.sum(), b)


class TestTensors:
    def test_are_read_where_they_lie(self, monkeypatch):
        given, by_gemm = [], product.product_of_arrays
        monkeypatch.setattr(product, "product_of_arrays", lambda *x, **o: given.extend(x) or by_gemm(*x, **o))
        a, b = drawn(4, 6), drawn(5, 4)
        gemm(a[:, ::2], b.T[:3])
        assert given[0].ctypes.data == a.data_ptr()
        assert given[1].ctypes.data == b.data_ptr()
        assert (given[0].strides, given[1].strides) == ((48, 16), (8, 32))

    def test_without_gradients_take_every_semiring(self):
        a = torch.tensor([[1, 2], [3, 4]])
        assert gemm(a, a).tolist() == (a @ a).tolist()
        assert gemm(a > 2, a > 1, semiring="lor_land").tolist() == [[False, False], [True, True]]
        x = drawn(2, 2)
        with torch.no_grad():
            assert gemm(x, x, semiring="plus_pair").tolist() == [[2.0, 2.0], [2.0, 2.0]]

    def test_only_gradients_that_are_asked_for_are_computed(self):
        for semiring in SEMIRINGS:
            a, b = drawn(3, 4), drawn(4, 2).detach()
            gemm(a, b, semiring=semiring).sum().backward()
            assert a.grad.shape == (3, 4)
            assert b.grad is None

    @pytest.mark.parametrize("semiring", (*SEMIRINGS, "min_times"))
    @pytest.mark.parametrize(
        "shapes",
        (
            *(((m, k), (k, n)) for m, k, n in ((0, 3, 2), (2, 3, 0), (2, 0, 3), (0, 0, 0))),
            *(((2, 3, 0), (0, 5)), ((3, 0), (2, 0, 5)), ((0, 3, 4), (4, 5)), ((3, 0), (0, 0, 5))),
        ),
    )
    @pytest.mark.parametrize("create_graph", (False, True))
    def test_of_no_elements_or_no_terms(self, semiring, shapes, create_graph):
        a, b = (drawn(*shape) for shape in shapes)
        result = gemm(a, b, semiring=semiring)
        if a.shape[-1] == 0:
            assert (result == float(as_semiring(semiring).zero(np.dtype(float)))).all()
        g = torch.ones_like(result, requires_grad=True)
        for x, of_x in zip((a, b), torch.autograd.grad(result, (a, b), g, create_graph=create_graph), strict=True):
            assert torch.equal(of_x.detach(), torch.zeros_like(x))
            if create_graph and semiring != "logaddexp_plus":
                (of_g,) = torch.autograd.grad(of_x.sum(), g, retain_graph=True)
                assert torch.equal(of_g, torch.zeros_like(g))


def by_torch(a, b, semiring):
    """The same products from operations of PyTorch, which transforms of torch.func know."""
    add, multiply = semiring.split("_")
    terms = {"plus": torch.add, "times": torch.mul, "min": torch.minimum, "max": torch.maximum}[multiply](
        a[..., :, :, None], b[..., None, :, :]
    )
    return {"plus": torch.sum, "min": torch.amin, "max": torch.amax, "logaddexp": torch.logsumexp}[add](terms, -2)


class TestTransforms:
    """torch.func, under which tensors are wrappers without memory."""

    @pytest.mark.parametrize("semiring", SEMIRINGS)
    @pytest.mark.parametrize("by", (0, 1, (0, 1)))
    def test_grad_by_some_operands(self, semiring, by):
        a, b = drawn(3, 4).detach(), drawn(4, 2).detach()
        got = torch.func.grad(lambda a, b: gemm(a, b, semiring=semiring).square().sum(), by)(a, b)
        expected = torch.func.grad(lambda a, b: by_torch(a, b, semiring).square().sum(), by)(a, b)
        torch.testing.assert_close(got, expected)

    @pytest.mark.parametrize("semiring", ("plus_times", *SELECTING))
    def test_grad_of_grad(self, semiring):
        a, b = drawn(3, 4).detach(), drawn(4, 2).detach()

        def of_both(product):
            of_a = torch.func.grad(lambda a, b: product(a, b, semiring=semiring).square().sum())
            return torch.func.grad(lambda b: of_a(a, b).square().sum())(b)

        torch.testing.assert_close(of_both(gemm), of_both(by_torch))

    @pytest.mark.parametrize("semiring", SEMIRINGS)
    def test_jacrev(self, semiring):
        a, b = drawn(2, 3, 4).detach(), drawn(4, 2).detach()
        for by in 0, 1:
            got = torch.func.jacrev(lambda a, b: gemm(a, b, semiring=semiring), by)(a, b)
            torch.testing.assert_close(got, torch.func.jacrev(lambda a, b: by_torch(a, b, semiring), by)(a, b))

    @pytest.mark.parametrize("semiring", SEMIRINGS)
    @pytest.mark.parametrize(
        ("a", "b", "in_dims"),
        (
            ((5, 3, 4), (4, 2), (0, None)),
            ((3, 4), (4, 5, 2), (None, 1)),
            ((5, 3, 4), (4, 2, 5), (0, -1)),
            ((5, 3, 4), (6, 5, 4, 2), (0, 1)),
            ((6, 3, 5, 4), (4, 2, 5), (2, -1)),
        ),
    )
    def test_vmap_of_products_and_gradients(self, semiring, a, b, in_dims):
        a, b = drawn(*a).detach(), drawn(*b).detach()
        for got, expected in (
            (lambda a, b: gemm(a, b, semiring=semiring), lambda a, b: by_torch(a, b, semiring)),
            *(
                tuple(
                    torch.func.grad(lambda a, b, f=f: f(a, b, semiring=semiring).square().sum(), by)
                    for f in (gemm, by_torch)
                )
                for by in (0, 1)
            ),
        ):
            torch.testing.assert_close(torch.vmap(got, in_dims)(a, b), torch.vmap(expected, in_dims)(a, b))

    def test_vmap_of_c_alone(self):
        a, b, c = drawn(3, 4).detach(), drawn(4, 2).detach(), drawn(5, 3, 2).detach()
        got = torch.vmap(lambda c: gemm(a, b, c, alpha=2.0, beta=3.0))(c)
        torch.testing.assert_close(got, 2 * a @ b + 3 * c)
        got = torch.vmap(torch.func.grad(lambda c: gemm(a, b, c, beta=3.0).sum()))(c)
        torch.testing.assert_close(got, torch.full_like(c, 3))

    def test_products_that_depend_on_nothing_inside(self):
        a, x = torch.tensor([[True, False], [True, True]]), torch.tensor(2.0)
        assert torch.func.grad(lambda x: (x * gemm(a, a, semiring="lor_land")).sum())(x) == 3.0
        b = drawn(2, 2).detach()
        for semiring in ("plus_times", "max_plus"):
            of_x = torch.func.grad(lambda x, s=semiring: (x * gemm(b, b, semiring=s)).sum())(x)
            torch.testing.assert_close(of_x.double(), by_torch(b, b, semiring).sum(), atol=1e-6, rtol=1e-6)

    def test_gradients_that_are_not_there_are_refused_when_asked_for(self):
        x = drawn(2, 2).detach()
        with pytest.raises(ProblemError, match="no gradients over plus_pair"):
            torch.func.grad(lambda x: gemm(x, x, semiring="plus_pair").sum())(x)
        with pytest.raises(ProblemError, match="gradients over min_plus take no c, alpha or beta"):
            torch.func.grad(lambda x: gemm(x + 1, x, x, semiring="min_plus").sum())(x)
        assert torch.vmap(lambda x: gemm(x, x, semiring="plus_pair"))(x[None]).tolist() == [[[2.0, 2.0], [2.0, 2.0]]]

    @pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by PyTorch itself
    @pytest.mark.parametrize("multiply", (gemm, arrays_gemm))
    def test_a_tangent_of_forward_mode_is_not_lost(self, multiply):
        a = drawn(2, 2).detach()
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(a, a)
            with pytest.raises((NotImplementedError, ProblemError), match="forward mode"):
                multiply(dual, a)
            assert torch.equal(multiply(a, a), multiply(a.clone(), a))

    @pytest.mark.filterwarnings("ignore")  # of the compiler itself
    def test_compiled_functions_call_it_as_it_is(self):
        a, b = drawn(3, 4), drawn(4, 2)

        def both(a, b):
            return gemm(a.relu() + 1, b, semiring="max_plus").square() @ gemm(b.T, a.T)

        got, expected = torch.compile(both, backend="eager")(a, b), both(a, b)
        assert torch.equal(got, expected)
        for x, y in zip(*(torch.autograd.grad(x.sum(), (a, b)) for x in (got, expected)), strict=True):
            assert torch.equal(x, y)


@pytest.mark.parametrize(
    ("call", "message"),
    (
        (lambda a: gemm(a, a.detach().numpy()), "b is no tensor"),
        (lambda a: gemm(a, a.float()), "a and b have not the same dtype"),
        (lambda a: gemm(a, a.to("meta")), "b cannot be read in place"),
        (lambda a: gemm(a.bfloat16(), a.bfloat16()), "a has a dtype that is not read here"),
        (lambda a: gemm(a, a + 0j), "a and b have not the same dtype"),
        (lambda a: gemm(a, a.detach().to_sparse()), "b cannot be read in place"),
        (lambda a: gemm(a, a[:1]), "the inner sizes of a and b differ"),
        (lambda a: gemm(a, a, semiring="plus_pair"), "no gradients over plus_pair"),
        (lambda a: gemm(a, a, semiring=Semiring.of("max", "absdiff")), "no gradients over max_absdiff"),
        (lambda a: gemm(a, a, a, semiring="min_plus"), "gradients over min_plus take no c, alpha or beta"),
        (lambda a: gemm(a, a, semiring="max_plus", alpha=1.0), "gradients over max_plus take no c, alpha or beta"),
    ),
)
def test_bad_input(call, message):
    with pytest.raises(ProblemError, match=message):
        call(drawn(3, 3))


@pytest.mark.parametrize("semiring", ["plus_times", "max_plus", "logaddexp_plus"])
def test_tensors_of_inference_mode(semiring):
    with torch.inference_mode():
        x = torch.ones(2, 2)
        assert torch.equal(gemm(x, x, semiring=semiring), gemm(x.clone(), x, semiring=semiring))
    w = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(ProblemError, match=r"b was made in torch\.inference_mode(.|\n)*b\.clone\(\)"):
        gemm(w, x, semiring=semiring)
    gemm(w, x.clone(), semiring=semiring).sum().backward()
    assert gemm(w, w, x).requires_grad  # nothing keeps c


def test_a_backend_that_is_not_there():
    with pytest.raises(BackendUnavailable, match="cpu-nonsense"):
        gemm(drawn(2, 2), drawn(2, 2), backend="cpu-nonsense")


@pytest.mark.gpu
class TestOnGpu:
    @pytest.fixture(autouse=True)
    def _gpu(self):
        pytest.importorskip("cupy", reason="CuPy is not installed")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")

    @pytest.mark.parametrize("semiring", SEMIRINGS)
    @pytest.mark.parametrize(
        "shapes", (((33, 41), (41, 29)), ((3, 33, 41), (41, 29)), ((2, 1, 9, 7), (3, 7, 5)), ((3, 0), (0, 5)))
    )
    @pytest.mark.parametrize("is_deterministic", (False, True))
    def test_gradients_are_those_of_the_cpu(self, semiring, shapes, is_deterministic):
        a, b = (torch.randn(*shape, dtype=torch.float64) for shape in shapes)
        g = torch.randn_like(gemm(a, b, semiring=semiring))
        torch.use_deterministic_algorithms(is_deterministic, warn_only=True)
        try:
            got = gradients(semiring, *(x.cuda() for x in (a, b, g)))
        finally:
            torch.use_deterministic_algorithms(False)
        for on_gpu, expected in zip(got, gradients(semiring, a, b, g), strict=True):
            assert on_gpu.is_cuda
            torch.testing.assert_close(on_gpu.cpu(), expected)

    def test_work_is_done_in_the_current_stream(self):
        a, stream = torch.randn(256, 256, device="cuda"), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)  # what is computed before it, elsewhere, would be seen
            x = (a + 1).requires_grad_()
            gemm(x, x, semiring="max_plus").sum().backward()
        stream.synchronize()
        expected = (a + 1).cpu().requires_grad_()
        gemm(expected, expected, semiring="max_plus").sum().backward()
        torch.testing.assert_close(x.grad.cpu(), expected.grad)
