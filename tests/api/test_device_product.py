"""The public calls with arrays of CuPy: where they compute, what they return, and how they say no; by a stand-in."""

import sys
import types

import numpy as np
import pytest

from harness import BackendUnavailable, Operands, Problem, ProblemError, gemm, gemm_argk, registry
from harness.api.arrays import kind_of
from harness.api.choice import choose
from harness.tuning import static_order
from tests._support.fake_arrays import Array, Cupy
from tests._support.fake_backends import OnDevice
from tests._support.planted_registry import plant_entries
from tests._support.processes import python
from tests.api.test_argk import by_definition


class Better(OnDevice):
    name, step = "gpu-tuned", 20  # named before those that are not on the list, whatever their steps


class Slower(OnDevice):
    name, step = "gpu-slower", 10


class OnHost(OnDevice):
    name, step = "cpu-best", 99
    takes = OnDevice.takes - {"device arrays"}


BACKENDS = [OnHost(), OnDevice(), Better(), Slower()]
REAL = registry.discover()


def plant(monkeypatch, *backends):
    """Let these be all backends, beside the real ones of the host."""
    planted = [registry.Entry(backend.name, "planted", backend) for backend in backends]
    found = (*[entry for entry in REAL if entry.name.startswith("cpu-")], *planted)
    plant_entries(monkeypatch, found)


@pytest.fixture(autouse=True)
def gpus(monkeypatch):
    found = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", found)
    plant(monkeypatch, *BACKENDS)
    return found


def numbers(*shape, dtype="float64", index=0):
    return Array(np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(dtype), index)


def test_the_result_is_an_array_of_the_same_gpu(gpus):
    a, b = numbers(3, 4, index=1), numbers(4, 5, index=1)
    got = gemm(a, b, semiring="min_plus")
    assert type(got) is Array
    assert got.device.id == 1
    assert gpus.entered == [1]
    assert np.array_equal(got.get(), (a.values[:, :, None] + b.values[None]).min(1))


def test_batches_broadcast_dtypes_are_promoted_and_scalars_hold():
    a, b, c = numbers(2, 1, 3, 4, dtype="float32"), numbers(5, 4, 6), numbers(3, 6)
    got = gemm(a, b, c, alpha=2, beta=3)
    assert got.dtype == np.float64
    assert np.array_equal(got.get(), 2 * (a.values @ b.values) + 3 * c.values)


def test_mixed_products_keep_narrow_operands():
    a, b = numbers(3, 4, dtype="float16"), numbers(4, 5, dtype="float16")
    got = gemm(a, b, dtype="float32")
    assert got.dtype == np.float32
    assert np.array_equal(got.get(), a.values.astype("f4") @ b.values.astype("f4"))


@pytest.mark.parametrize("call", [gemm, gemm_argk])
def test_what_cannot_be_captured_names_its_call(call, gpus):
    stream = types.SimpleNamespace(ptr=9, is_capturing=lambda: True)
    gpus.cuda.get_current_stream = lambda: stream
    with pytest.raises(ProblemError, match=rf"^{call.__name__}: this product has not been computed before, and a CUDA"):
        call(numbers(3, 4), numbers(4, 5), semiring="min_plus")


def test_results_that_are_copied_to_out_cannot_be_captured(gpus):
    stream = types.SimpleNamespace(ptr=9, is_capturing=lambda: True)
    gpus.cuda.get_current_stream = lambda: stream
    out = numbers(3, 5), numbers(3, 5, dtype="int32")
    with pytest.raises(ProblemError, match=r"^gemm_argk: it copies its results to out, and a CUDA graph captures"):
        gemm_argk(numbers(3, 4), numbers(4, 5), out=out)


@pytest.mark.parametrize("which", ["a", "b", "c", "all of a"])
def test_out_is_returned_and_may_be_any_operand(which):
    a, b, c = numbers(4, 4), numbers(4, 4), numbers(4, 4)
    expected = a.values @ b.values + c.values
    out = {"a": a.T, "b": b, "c": c, "all of a": a}[which]
    assert gemm(a, b, c, out=out) is out
    assert np.array_equal(out.get(), expected)


def test_columns_first_is_noted_in_the_problem_and_computed():
    a, b = Array(np.asfortranarray(numbers(3, 4).values)), numbers(5, 4).T
    assert np.array_equal(gemm(a, b).get(), a.values @ b.values)


class KnowsWhich(OnDevice):
    """Says which k it was, by the definition."""

    def prepare_argk(self, plan, operands, argk):
        execution = self.prepare(plan, operands)
        compute = execution.run

        def run():
            compute()
            product, which = by_definition(plan.problem.semiring, *(host(x) for x in (operands.a, operands.b)))
            assert np.array_equal(product, host(operands.out))
            host(argk)[...] = which

        execution.run = run
        return execution


def host(x):
    return x.values if isinstance(x, Array) else x


def test_which_k_it_was_comes_back_on_the_same_gpu(monkeypatch):
    plant(monkeypatch, KnowsWhich())
    a, b = numbers(2, 5, 7, index=1), numbers(7, 3, index=1, dtype="int32")
    product, argk = gemm_argk(a, b)
    assert type(product) is type(argk) is Array
    assert argk.device.id == 1
    assert argk.dtype == np.int32
    expected, where = gemm_argk(a.get(), b.get(), backend="cpu-simd")
    assert np.array_equal(product.get(), expected)
    assert np.array_equal(argk.get(), where)


def test_a_backend_may_look_up_host_arrays_by_itself_too(monkeypatch):
    class OnHostToo(KnowsWhich):
        def prepare(self, plan, operands):
            execution = super().prepare(plan, Operands(*map(Array, (operands.a, operands.b)), None, operands.out))
            execution.wait = lambda: None
            execution.result = lambda: operands.out
            return execution

    a, b = numbers(5, 7).get(), numbers(7, 3).get()
    expected, where = gemm_argk(a, b, backend="cpu-simd")
    plant(monkeypatch, OnHostToo())
    product, argk = gemm_argk(a, b, backend="gpu-fake")
    assert np.array_equal(product, expected)
    assert np.array_equal(argk, where)


def test_a_backend_that_does_not_say_which_k_is_named():
    with pytest.raises(BackendUnavailable, match="'gpu-tuned' does not say which k"):
        gemm_argk(numbers(2, 2), numbers(2, 2))
    with pytest.raises(ProblemError, match="gemm_argk: a lies on a GPU, b does not"):
        gemm_argk(numbers(2, 2), np.ones((2, 2)))


def chosen(name="auto"):
    return choose(Problem(2, 2, 2), name, kind_of("gemm", {"a": numbers(2, 2)}))


class TestWhoComputes:
    def test_automatically_the_first_on_the_list(self):
        assert chosen().name == "gpu-tuned"

    def test_then_by_falling_step(self, monkeypatch):
        plant(monkeypatch, OnHost(), OnDevice(), Slower())
        assert chosen().name == "gpu-fake"

    def test_none_that_loosens_the_bound_not_even_the_first_on_the_list(self, monkeypatch):
        class Loose(OnDevice):
            name, step = "gpu-cublas", 99

            def extra_error(self, plan, operands):
                return 1.0

        loose = Loose()
        plant(monkeypatch, loose, *BACKENDS)
        assert chosen().name == "gpu-tuned"
        assert chosen("gpu-cublas") is loose

    def test_nobody(self, monkeypatch):
        plant(monkeypatch, OnHost())
        with pytest.raises(BackendUnavailable, match=r"no backend computes .* on this GPU\n.*x\.get\(\)"):
            gemm(numbers(2, 2), numbers(2, 2))

    def test_complex_numbers_are_computed_on_the_host(self):
        says = r"no backend computes plus_times complex128 .*GPU\n.*no arithmetic over complex numbers\n.*x\.get\(\)"
        for options in ({}, {"conjugate": "a"}):
            with pytest.raises(BackendUnavailable, match=says):
                gemm(Array(np.ones((2, 2), complex)), numbers(2, 2), **options)

    def test_a_backend_of_the_host_declines(self):
        with pytest.raises(BackendUnavailable, match=r"'cpu-best' declines.*\n.*computes on the host"):
            gemm(numbers(2, 2), numbers(2, 2), backend="cpu-best")

    def test_every_rung_of_the_gpu_takes_them_and_no_other(self):
        for entry in REAL:
            if entry.backend is not None:
                assert ("device arrays" in entry.backend.takes) == entry.name.startswith("gpu-"), entry.name

    def test_names_that_are_tried_first_exist(self):
        assert {*static_order.AUTO_FIRST, *static_order.AUTO_FIRST_ON_GPU} <= {entry.name for entry in REAL}


REFUSED = {
    "host b": (lambda: gemm(numbers(2, 2), np.ones((2, 2))), r"a lies on a GPU, b does not\n.*\n.*numpy\.ndarray\n"),
    "host a": (lambda: gemm(np.ones((2, 2)), numbers(2, 2)), "b lies on a GPU, a does not"),
    "list": (lambda: gemm([[1.0]], numbers(1, 1)), "builtins.list"),
    "host out": (lambda: gemm(numbers(2, 2), numbers(2, 2), out=np.ones((2, 2))), "out does not"),
    "device out": (lambda: gemm(np.ones((2, 2)), np.ones((2, 2)), out=numbers(2, 2)), "out lies on a GPU, a does not"),
    "other GPU": (lambda: gemm(numbers(2, 2), numbers(2, 2, index=1)), r"different GPUs\n.*GPU 0.*\n.*b on GPU 1"),
    "vector": (lambda: gemm(numbers(2), numbers(2, 2)), "a is not a matrix"),
    "sizes": (lambda: gemm(numbers(2, 3), numbers(2, 3)), "inner sizes"),
    "out's dtype": (lambda: gemm(numbers(2, 2), numbers(2, 2), out=numbers(2, 2, dtype="float32")), r"cupy\.empty"),
    "out repeats": (
        lambda: gemm(numbers(2, 2), numbers(2, 2), out=Array(np.broadcast_to(np.ones(2), (2, 2)))),
        "share memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_done_raises_before_any_work(what, monkeypatch):
    monkeypatch.setattr(OnDevice, "prepare", lambda *_: pytest.fail("work has begun"))
    call, message = REFUSED[what]
    with pytest.raises(ProblemError, match=message):
        call()


def test_arrays_of_others_on_a_gpu_are_told_how_to_become_cupys():
    class Tensor:
        __cuda_array_interface__ = ()

    with pytest.raises(ProblemError, match=r"a lies on a GPU\n.*\n.*Tensor\n.*cupy\.asarray\(a\)"):
        gemm(Tensor(), np.ones((2, 2)))


def test_host_arrays_load_no_cupy():
    program = (
        "import sys, numpy as np; from harness import gemm; "
        "gemm(np.ones((2, 2)), np.ones((2, 2)), backend='cpu-naive', alpha=2); print('cupy' in sys.modules)"
    )
    assert python("-c", program).stdout == "False\n"
