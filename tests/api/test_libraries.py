"""Arrays of any library in the public calls: no copy in, none out, what they return, and how they say no."""

import sys

import numpy as np
import pytest

from harness import (
    BackendUnavailable,
    Operands,
    ProblemError,
    axpy,
    einsum,
    gemm,
    gemm_argk,
    gemv,
    ger,
    paths,
    registry,
    symv,
    syr,
    syrk,
)
from harness.interface import Backend, HostExecution
from harness.linalg import hessenberg, qr, refine, trsm
from harness.plan import Plan
from harness.proof.reference import product
from tests._support import shelf
from tests._support.planted_registry import entry_of, plant_entries
from tests._support.processes import python

OF_ML_DTYPES = "bfloat16", "float8_e4m3fn", "float8_e5m2"


class Spy(Backend):
    """Computes by the definition, and keeps the arrays that it was given."""

    name, step = "cpu-spy", 99
    idea = source = "a test"
    takes = frozenset({"mixed", "half", "triangle"})
    seen: Operands

    def plan(self, problem, machine):
        return Plan(problem, 1)

    def prepare(self, plan, operands):
        self.seen = operands

        def run():
            operands.out[...] = product(plan.problem, operands.a, operands.b, operands.c)

        return HostExecution(operands, run)


@pytest.fixture
def spy(monkeypatch):
    planted = Spy()
    plant_entries(monkeypatch, [*registry.discover(), entry_of(planted)])
    return planted


class Numpy:
    """Arrays of NumPy, for which all of this holds as well."""

    def array(self, x):
        return x.copy(order="K")

    def host(self, x):
        return x

    def owns(self, x):
        return type(x) is np.ndarray

    def has(self, dtype):
        return True


class OfShelf(Numpy):
    def __init__(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "shelf", shelf.Shelf())

    def array(self, x):
        return shelf.Array(x.copy(order="K"))

    def host(self, x):
        return x.values()

    def owns(self, x):
        return type(x) is shelf.Array


class OfTorch(Numpy):
    def __init__(self, monkeypatch):
        self.torch = pytest.importorskip("torch")

    def array(self, x):
        if x.dtype.name in OF_ML_DTYPES:
            bits = x.view(f"i{x.itemsize}").copy(order="K")
            return self.torch.from_numpy(bits).view(getattr(self.torch, x.dtype.name))
        return self.torch.from_numpy(x.copy(order="K"))

    def host(self, x):
        return x.numpy()

    def owns(self, x):
        return type(x) is self.torch.Tensor and x.device.type == "cpu"


class OfJax(Numpy):
    def __init__(self, monkeypatch):
        self.jax = pytest.importorskip("jax")

    def array(self, x):
        return self.jax.device_put(x, self.jax.devices("cpu")[0])

    def host(self, x):
        return np.asarray(x)

    def owns(self, x):
        return isinstance(x, self.jax.Array)

    def has(self, dtype):
        return dtype not in {"float64", "int64"}  # only when asked to


class OfStandard(Numpy):
    def __init__(self, monkeypatch):
        self.standard = pytest.importorskip("array_api_strict")

    def array(self, x):
        return self.standard.asarray(x.copy(order="K"))

    def host(self, x):
        return np.from_dlpack(x)

    def owns(self, x):
        return type(x).__module__.startswith("array_api_strict")

    def has(self, dtype):
        return dtype != "float16"


LIBRARIES = {
    "numpy": lambda _: Numpy(),
    "shelf": OfShelf,
    "torch": OfTorch,
    "jax": OfJax,
    "array-api-strict": OfStandard,
}


@pytest.fixture(params=LIBRARIES)
def library(request, monkeypatch):
    return LIBRARIES[request.param](monkeypatch)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def numbers(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def at(x):
    return x.__array_interface__["data"][0]


@pytest.mark.parametrize("width", range(3, 50, 7))  # some of them where malloc aligns less than JAX wants
def test_the_memory_of_operands_and_of_the_result_is_that_of_the_arrays(library, width, spy):
    x, y, z = numbers(5, 7), numbers(7, width, seed=1), numbers(5, width, seed=2)
    a, b, c = map(library.array, (x, y, z))
    result = gemm(a, b, c, semiring="min_plus", backend="cpu-spy")
    assert library.owns(result)
    assert np.array_equal(library.host(result), np.minimum((x[:, :, None] + y[None]).min(1), z))
    for given, seen in zip((a, b, c, result), (spy.seen.a, spy.seen.b, spy.seen.c, spy.seen.out), strict=True):
        assert at(library.host(given)) == at(seen)


VIEWS = {
    "transposed": lambda x: x.T,
    "sliced": lambda x: x[1:6, 2:7],
    "every other row": lambda x: x[::2, :],
    "columns": lambda x: x[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "empty": lambda x: x[:0, :],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ("shelf", "torch", "array-api-strict"))
def test_views_keep_memory_and_strides(name, view, spy, monkeypatch):
    library = LIBRARIES[name](monkeypatch)
    x = VIEWS[view](numbers(8, 8))
    if name == "shelf":
        a = shelf.Array(x)
    elif view == "broadcast":
        module = library.torch if name == "torch" else library.standard
        a = module.broadcast_to(library.array(numbers(8, 8))[:1, :], (8, 8))
    else:
        a = VIEWS[view](library.array(numbers(8, 8)))
    y = numbers(x.shape[1], 3, seed=1)
    result = gemm(a, library.array(y), backend="cpu-spy")
    assert np.array_equal(library.host(result), x @ y)
    if x.size:
        assert (at(spy.seen.a), spy.seen.a.strides) == (at(library.host(a)), x.strides)


def test_reversed_rows_of_a_library_that_has_them(spy, monkeypatch):
    library = OfShelf(monkeypatch)
    x, y = numbers(6, 6)[::-1, ::-1], numbers(6, 6, seed=1)
    assert np.array_equal(library.host(gemm(shelf.Array(x), library.array(y), backend="cpu-spy")), x @ y)
    assert (at(spy.seen.a), spy.seen.a.strides) == (at(x), x.strides)


@pytest.mark.parametrize("name", ("numpy", "shelf", "torch", "array-api-strict"))
def test_out_is_written_in_place_and_returned_and_may_be_an_operand(name, monkeypatch):
    library = LIBRARIES[name](monkeypatch)
    x, y, z = numbers(6, 6), numbers(6, 6, seed=1), numbers(6, 6, seed=2)
    a, b, out = map(library.array, (x, y, z))
    before = at(library.host(out))
    assert gemm(a, b, out, beta=2, out=out, backend="cpu-numpy") is out
    assert np.array_equal(library.host(out), x @ y + 2 * z)
    assert at(library.host(out)) == before
    assert gemm(a, b, out=b, backend="cpu-numpy") is b
    assert np.array_equal(library.host(b), x @ y)


@pytest.mark.parametrize("dtype", ("float16", "float64", "int8", "int32", "int64", "uint8", "bool"))
def test_dtypes(library, dtype, spy):
    if not library.has(dtype):
        return
    semiring = "lor_land" if dtype == "bool" else "max_min"
    x, y = numbers(4, 5, dtype=dtype), numbers(5, 3, dtype=dtype, seed=1)
    result = library.host(gemm(library.array(x), library.array(y), semiring=semiring, backend="cpu-spy"))
    assert result.dtype == dtype
    assert np.array_equal(result, gemm(x, y, semiring=semiring, backend="cpu-spy"))


@pytest.mark.parametrize("dtype", OF_ML_DTYPES)
@pytest.mark.parametrize("name", ("numpy", "torch", "jax"))
def test_mixed_products_of_narrow_floats_without_a_copy(name, dtype, spy, monkeypatch):
    library = LIBRARIES[name](monkeypatch)
    narrow = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype))
    x, y = numbers(4, 5).astype(narrow), numbers(5, 3, seed=1).astype(narrow)
    a, b = library.array(x), library.array(y)
    result = gemm(a, b, dtype="float32", backend="cpu-spy")
    assert spy.seen.a.dtype == narrow
    assert at(spy.seen.a) == (a.data_ptr() if name == "torch" else at(np.asarray(a)))
    assert np.array_equal(library.host(result), x.astype("f4") @ y.astype("f4"))


@pytest.mark.parametrize("of_b", OF_ML_DTYPES[1:])
@pytest.mark.parametrize("of_a", OF_ML_DTYPES[1:])
@pytest.mark.parametrize("name", ("numpy", "torch", "jax"))
def test_every_number_of_float8_times_every_one(name, of_a, of_b, monkeypatch):
    library, ml_dtypes = LIBRARIES[name](monkeypatch), pytest.importorskip("ml_dtypes")
    x, y = (np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, dtype)) for dtype in (of_a, of_b))
    result = gemm(library.array(x[:, None]), library.array(y[None]), dtype="float32")
    assert library.owns(result)
    with np.errstate(invalid="ignore"):
        exact = np.multiply.outer(x.astype(float), y.astype(float))
    np.testing.assert_array_equal(library.host(result), exact)


@pytest.mark.parametrize("name", ("torch", "jax"))  # the former's capsules have a version, the latter's have none
def test_bfloat16_by_dlpack_alone(name, monkeypatch):
    from harness.api.libraries.dlpack import AsUnsigned

    x = np.array([[1.5, -2.0]], pytest.importorskip("ml_dtypes").bfloat16)
    given = LIBRARIES[name](monkeypatch).array(x)
    got = np.from_dlpack(AsUnsigned(given))
    assert got.dtype == np.uint16
    assert at(got) == (given.data_ptr() if name == "torch" else at(np.asarray(given)))
    assert np.array_equal(got, x.view(np.uint16))


def test_batches_promotion_and_other_calls(library):
    x, y = numbers(2, 1, 4, 5), numbers(3, 5, 4, seed=1)
    result = gemm(library.array(x), library.array(y), backend="cpu-numpy", threads=1)
    assert np.array_equal(library.host(result), x @ y)
    wide = gemm(library.array(x), library.array(y.astype("i2")), backend="cpu-numpy")
    assert library.owns(wide)
    assert library.host(wide).dtype == "f4"
    value, argk = gemm_argk(library.array(x[0, 0]), library.array(y[0]))
    assert all(map(library.owns, (value, argk)))
    assert library.host(argk).dtype == np.int32
    assert np.array_equal(library.host(value), (x[0, 0][:, :, None] + y[0][None]).min(1))


def test_two_results_in_arrays_of_the_caller(library):
    x, y = numbers(4, 5), numbers(5, 3, seed=1)
    a, b, out = (
        library.array(x),
        library.array(y),
        (library.array(numbers(4, 3)), library.array(np.zeros((4, 3), "i4"))),
    )
    if isinstance(library, OfJax):
        with pytest.raises(ProblemError, match="nobody may write"):
            gemm_argk(a, b, out=out)
        return
    for _ in range(3):
        got = gemm_argk(a, b, out=out)
        assert got[0] is out[0]
        assert got[1] is out[1]
        terms = x[:, :, None] + y[None]
        assert np.array_equal(library.host(out[0]), terms.min(1))
        assert np.array_equal(library.host(out[1]), terms.argmin(1))


def test_vectors_and_triangles(library):
    array, host = library.array, library.host
    a, x, y, square = numbers(4, 5), numbers(5, seed=1), numbers(4, seed=2), numbers(4, 4, seed=3)
    options = {"backend": "cpu-numpy"}
    assert np.array_equal(host(gemv(array(a), array(x), array(y), **options)), a @ x + y)
    assert np.array_equal(host(gemv(x=array(x), a=array(a), **options)), a @ x)
    lower = np.tril(square)
    assert np.array_equal(host(symv(array(square), array(y))), (lower + np.tril(square, -1).T) @ y)
    assert np.array_equal(host(ger(array(y), array(x), **options)), np.multiply.outer(y, x))
    assert np.array_equal(host(axpy(array(x), array(x), alpha=2, **options)), 3 * x)
    assert np.array_equal(host(syrk(array(a))), np.tril(a @ a.T))
    assert np.array_equal(host(syr(array(y))), np.tril(np.multiply.outer(y, y)))
    if not isinstance(library, OfJax):
        out = array(y)
        assert gemv(array(a), array(x), out=out, **options) is out
        assert np.array_equal(host(out), a @ x)


def test_paths(library):
    weights = np.abs(numbers(6, 6)) + 1
    distances, predecessors = paths.shortest_paths(library.array(weights), return_predecessors=True)
    want = paths.shortest_paths(weights, return_predecessors=True)
    assert all(map(library.owns, (distances, predecessors)))
    assert np.array_equal(library.host(distances), want[0])
    assert np.array_equal(library.host(predecessors), want[1])


def test_linear_algebra(library):
    array, host, options = library.array, library.host, {"backend": "cpu-numpy"}
    a, b = (np.random.default_rng(seed).standard_normal((6, 6)).astype("f4") for seed in (1, 2))
    a += 6 * np.eye(6, dtype="f4")
    factors = qr(array(a), **options)
    q, r = host(factors.q()), host(factors.r)
    assert all(map(library.owns, (factors.r, factors.reflectors, factors.taus, factors.q())))
    np.testing.assert_allclose(q @ r, a, atol=1e-5)
    np.testing.assert_allclose(host(factors.apply_q_transposed(array(b))), q.T @ b, atol=1e-5)
    np.testing.assert_allclose(np.tril(a) @ host(trsm(array(a), array(b), **options)), b, atol=1e-5)
    reduced = hessenberg(array(a), **options)
    np.testing.assert_allclose(host(reduced.q) @ host(reduced.h) @ host(reduced.q).T, a, atol=1e-4)
    if isinstance(library, OfJax):
        with pytest.raises(ProblemError, match=r"float64, and JAX has no such arrays now(.|\n)*jax_enable_x64"):
            refine(array(a), array(b), **options)
        return
    solution = refine(array(a), array(b), **options)
    assert library.owns(solution.x)
    np.testing.assert_allclose(a @ host(solution.x), b, atol=1e-12)


class TestRefused:
    def test_arrays_of_two_libraries(self, library):
        if type(library) is Numpy:
            return
        for call in (
            lambda: gemm(library.array(numbers(2, 2)), numbers(2, 2)),
            lambda: gemm(numbers(2, 2), library.array(numbers(2, 2))),
            lambda: gemm([[1.0]], library.array(numbers(1, 1))),
            lambda: gemm_argk(numbers(2, 2), library.array(numbers(2, 2))),
            lambda: gemv(numbers(2, 2), library.array(numbers(2))),
            lambda: trsm(library.array(numbers(2, 2)), numbers(2, 2)),
            lambda: gemm(numbers(2, 2), numbers(2, 2), out=library.array(numbers(2, 2))),
            lambda: gemm(library.array(numbers(2, 2)), library.array(numbers(2, 2)), out=numbers(2, 2)),
        ):
            with pytest.raises(ProblemError, match=r"an array of .*, \w+ is not\n.*one library\n(.|\n)*fix"):
                call()

    def test_by_the_name_of_the_argument(self, monkeypatch):
        library = OfShelf(monkeypatch)
        with pytest.raises(ProblemError, match=r"gemv: x is an array of shelf, a is not(.|\n)*shelf\.from_dlpack\(a\)"):
            gemv(numbers(2, 2), library.array(numbers(2)))

    def test_a_device_that_nobody_can_read(self, monkeypatch):
        OfShelf(monkeypatch)
        x = shelf.Array(numbers(2, 2), device=(14, 0))
        with pytest.raises(ProblemError, match=r"gemm: a, an array of shelf, cannot be read where it lies(.|\n)*14"):
            gemm(x, x)

    def test_two_devices(self, monkeypatch):
        OfShelf(monkeypatch)
        a, b = shelf.Array(numbers(2, 2)), shelf.Array(numbers(2, 2), device=(2, 1))
        with pytest.raises(ProblemError, match=r"a and b lie on different devices(.|\n)*a on the host, b on GPU 1"):
            gemm(a, b)

    def test_a_gpu_without_cupy(self, monkeypatch):
        OfShelf(monkeypatch)
        monkeypatch.setitem(sys.modules, "cupy", None)
        a = shelf.Array(numbers(2, 2), device=(2, 0))
        with pytest.raises(BackendUnavailable, match=r"CuPy, which is not installed(.|\n)*-m pip install 'cupy-"):
            gemm(a, a)

    def test_gradients(self, torch):
        a = torch.ones(2, 2, requires_grad=True)
        for call in (lambda: gemm(a, a), lambda: gemm_argk(torch.ones(2, 2), a), lambda: trsm(a, a)):
            with pytest.raises(ProblemError, match=r"requires gradients(.|\n)*harness\.torch\.gemm(.|\n)*\.detach\(\)"):
                call()
        with torch.no_grad():
            assert gemm(a, a, backend="cpu-numpy").tolist() == [[2, 2], [2, 2]]
        with pytest.raises(ProblemError, match="out requires gradients"):
            gemm(torch.ones(2, 2), torch.ones(2, 2), out=a)

    def test_a_backward_pass_that_would_read_what_was_overwritten(self, torch):
        x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
        loss = (x * w).sum()
        gemm(torch.ones(2, 2), torch.ones(2, 2), out=x, backend="cpu-numpy")
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    def test_tensors_that_hold_no_plain_elements(self, torch):
        b = torch.ones(2, 2)
        cases = {
            "dense": torch.eye(2).to_sparse(),
            "cannot be read": torch.ones(2, 2, device="meta"),
            "Float8_e4m3fnuz": torch.ones(2, 2).to(torch.float8_e4m3fnuz),
        }
        for message, a in cases.items():
            with pytest.raises(ProblemError, match=message):
                gemm(a, b)

    def test_remedies_are_spelled_as_the_library_spells_them(self, torch):
        a, out = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)
        with pytest.raises(ProblemError, match=r"out=torch\.empty\(\(2, 2\), dtype=torch\.float32\)"):
            gemm(a, a, out=out)

        with pytest.raises(ProblemError) as caught:
            gemm(a.half(), a.half())
        assert caught.value.fix.endswith("or convert with .to(torch.float64)")
        with pytest.raises(ProblemError) as caught:
            gemm(a[0, 0], a)
        assert caught.value.fix == "torch.multiply for a scalar; torch.atleast_2d(a) for a matrix of one element"

    @pytest.mark.parametrize(
        "call", [lambda x: gemm(x, x), lambda x: gemv(x, x[0]), lambda x: einsum("ij,jk", x, x), lambda x: trsm(x, x)]
    )
    def test_what_maps_a_call_over_tensors_is_told_of_the_one_that_can(self, torch, call):
        with pytest.raises(ProblemError, match=r": \S+ is transformed by torch\.func") as caught:
            torch.func.vmap(call)(torch.ones(3, 2, 2))
        assert caught.value.fix == "harness.torch.gemm, which torch.func transforms"

    def test_out_of_jax_and_arrays_without_values(self):
        jax = pytest.importorskip("jax")
        with pytest.raises(ProblemError, match=r"jax\.numpy\.multiply for a scalar; jax\.numpy\.atleast_2d\(b\)"):
            gemm(jax.numpy.ones((2, 2)), jax.numpy.float32(2))
        a = jax.numpy.ones((2, 2))
        with pytest.raises(ProblemError, match="out is an array of JAX, which nobody may write to"):
            gemm(a, a, out=a)
        with pytest.raises(ProblemError, match=r"a is traced(.|\n)*jax\.pure_callback"):
            jax.jit(lambda x: gemm(x, x))(a)


def test_dtypes_of_pytorch_name_the_result(torch, spy):
    a = torch.ones(2, 2, dtype=torch.float16)
    assert gemm(a, a, dtype=torch.float32, backend="cpu-spy").dtype is torch.float32
    with pytest.raises(ProblemError, match="dtype is not a NumPy dtype"):
        gemm(a, a, dtype=torch.strided)


CALLS = {
    "gemm": lambda a, b: gemm(a, b, semiring="min_plus", out=a.new_empty(3, 2)) + 1,
    "gemm_argk": lambda a, b: gemm_argk(a, b)[1],
    "gemv": lambda a, b: gemv(a, b[:, 0], dtype=a.dtype).cos(),
    "einsum": lambda a, b: einsum("ij,jk->ki", a, b, semiring="max_plus"),
    "trsm": lambda a, b: trsm(a[:, :3], b[:3]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.filterwarnings("ignore")  # of the compiler itself
def test_functions_that_pytorch_compiles_call_it_as_it_is(torch, call):
    a, b = torch.rand(3, 4) + torch.eye(3, 4), torch.rand(4, 2)

    def function(a, b):
        return call(a.tril(), b * 2)

    compiled = torch.compile(function, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(a, b), function(a, b))
    with pytest.raises(ProblemError, match="inner sizes of a and b"):
        torch.compile(lambda a: gemm(a, a), backend="eager")(a)


def test_dtypes_of_pytorch_name_the_result_of_every_call(torch):
    a, b = torch.rand(3, 4).half(), torch.rand(4, 2).half()
    results = [
        gemv(a, b[:, 0], dtype=torch.float32),
        syrk(a, dtype=torch.float32),
        einsum("ij,jk->ik", a, b, dtype=torch.float32),
    ]
    assert {x.dtype for x in results} == {torch.float32}


def test_subclasses_and_parameters_of_pytorch(torch):
    parameter = torch.nn.Parameter(torch.ones(2, 2), requires_grad=False)
    result = gemm(parameter, torch.ones(2, 2), backend="cpu-numpy")
    assert type(result) is torch.Tensor
    assert result.tolist() == [[2, 2], [2, 2]]


def test_other_libraries_are_not_loaded():
    program = (
        "import sys, numpy as np; from harness import gemm\n"
        "gemm(np.ones((2, 2)), [[1, 2], [3, 4]], backend='cpu-numpy')\n"
        "print(*(name for name in ('torch', 'jax', 'cupy') if name in sys.modules))"
    )
    assert python("-c", program).stdout.split() == []
