"""Tensors of PyTorch and arrays by DLPack on GPUs, by stand-ins: places, streams, results, and what is kept."""

import ctypes
import sys
import types

import numpy as np
import pytest

from harness import ProblemError, einsum, gemm, gemm_argk, gemv, ger, syrk
from harness.api import libraries
from harness.api.libraries import gpu as of_gpu
from harness.api.remembered import repeats
from tests._support import shelf
from tests._support.fake_arrays import Array, Cupy, DType, Tensor, Torch, View
from tests._support.fake_backends import OnDevice
from tests._support.planted_registry import entry_of, plant_entries


class Spy(OnDevice):
    """Notes the GPU and the stream that are current while it computes, and its operands."""

    def prepare(self, plan, operands):
        execution = super().prepare(plan, operands)
        compute, cupy = execution.run, sys.modules["cupy"]

        def run():
            self.seen, self.where = operands, (cupy.current, cupy.stream)
            compute()

        execution.run = run
        return execution


@pytest.fixture
def spy(monkeypatch):
    planted = Spy()
    plant_entries(monkeypatch, [entry_of(planted)])
    repeats.forget()
    return planted


@pytest.fixture
def cupy(monkeypatch):
    stands = Cupy()
    stands.ndarray = View
    of_gpu._stream.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", stands)
    yield stands
    of_gpu._stream.cache_clear()
    of_gpu.in_flight.__init__()


@pytest.fixture
def torch(monkeypatch, cupy):
    stands = Torch()
    monkeypatch.setitem(sys.modules, "torch", stands)
    return stands


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype("f4")


@pytest.mark.parametrize("index", (0, 1))
@pytest.mark.parametrize("handle", (0, 7))
def test_on_the_gpu_and_in_the_stream_of_pytorch(index, handle, torch, cupy, spy):
    torch.streams[index] = handle
    a, b = Tensor(numbers(4, 5), index), Tensor(numbers(5, 3), index)
    with cupy.on(5):
        result = gemm(a, b)
        assert cupy.stream == 5
    assert spy.where == (index, handle)
    assert cupy.current == 0
    assert result is torch.made[-1]
    assert np.array_equal(result.values, a.values @ b.values)


def test_nothing_is_entered_that_is_in_force(torch, cupy, spy):
    cupy.entered.clear()
    a = Tensor(numbers(4, 4))
    gemm(a, a)
    assert cupy.used == []
    assert cupy.entered == []


def test_out_and_views_are_the_memory_of_the_tensors(torch, spy):
    a, b, out = Tensor(numbers(6, 6).T[::2]), Tensor(numbers(6, 4)), Tensor(numbers(3, 4))
    assert gemm(a, b, out=out) is out
    assert np.array_equal(out.values, a.values @ b.values)
    assert spy.seen.a.data.ptr == a.data_ptr()
    assert spy.seen.out.data.ptr == out.data_ptr()
    assert out.version == 1
    assert torch.made == []


def test_out_in_the_same_storage_is_seen_to_overlap(torch, spy):
    room = numbers(6, 4)
    a, out, b = Tensor(room[:4]), Tensor(room[2:]), Tensor(numbers(4, 4, seed=1))
    want = room[:4] @ b.values
    gemm(a, b, out=out)
    assert np.array_equal(out.values, want)


def test_other_results_become_tensors_without_a_copy(torch, spy, monkeypatch):
    def prepare_argk(self, plan, operands, argk):
        argk[...] = 3
        self.argk = argk
        return self.prepare(plan, operands)

    monkeypatch.setattr(Spy, "prepare_argk", prepare_argk)
    a = Tensor(numbers(4, 4))
    product, argk = gemm_argk(a, a)
    assert type(product) is type(argk) is Tensor
    assert product.data_ptr() == spy.seen.out.data.ptr
    assert (argk.values == 3).all()


class Repeats(Spy):
    """A product that is remembered, and computed again from addresses alone."""

    takes_addresses = True
    takes = OnDevice.takes | {"batch", "triangle", "complex"}

    def prepare_argk(self, plan, operands, argk):
        return self.prepare(plan, operands, argk)

    def prepare(self, plan, operands, *others):
        execution = super().prepare(plan, operands)
        self.prepared += 1

        layouts = [(x.shape, x.strides, x.dtype) for x in (operands.a, operands.b, operands.out, *others)]

        def at(addresses, stream=None):
            self.where = sys.modules["cupy"].current, sys.modules["cupy"].stream
            assert stream in (None, self.where[1])
            a, b, out, *argk = (in_memory(x, *layout) for x, layout in zip(addresses, layouts, strict=True))
            if plan.problem.triangle == "d":
                np.copyto(out, a @ b, where=np.tri(len(out), dtype=bool))
            else:
                out[...] = a.astype(out.dtype) @ b.astype(out.dtype)
            for x in argk:
                x[...] = 3

        def repeat(*arrays):
            at([x.data.ptr for x in arrays])

        repeat.takes_addresses, repeat.at = self.takes_addresses, at
        execution.repeat = lambda: repeat
        execution.run = lambda: repeat(operands.a, operands.b, operands.out, *others)
        return execution

    prepared = 0


def in_memory(address, shape, strides, dtype):
    """Return the array that lies there."""
    span = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + dtype.itemsize
    return np.ndarray(shape, dtype, (ctypes.c_char * span).from_address(address), strides=strides)


@pytest.fixture
def remembered(monkeypatch, torch):
    planted = Repeats()
    plant_entries(monkeypatch, [entry_of(planted)])
    monkeypatch.setattr(repeats, "classes", set())
    repeats.forget()
    yield planted
    repeats.forget()


@pytest.fixture
def cupy_makes(cupy):
    """Have CuPy make its arrays of the class that it says."""

    def full(shape, value, dtype):
        made = Tensor(np.full(shape, value, dtype), cupy.current)
        return libraries.library_of(made).view(made, cupy.current)

    cupy.full, cupy.empty = full, lambda shape, dtype: full(shape, 0, dtype)


class TestRemembered:
    """Products of tensors that have been computed before, by addresses."""

    def test_a_further_call_makes_no_view_and_prepares_nothing(self, remembered, torch, cupy):
        for handle in (0, 7):
            torch.streams[1] = handle
            for seed in range(3):
                a, b = Tensor(numbers(4, 5, seed=seed), 1), Tensor(numbers(9, 3, seed=seed + 1)[::2], 1)
                out = Tensor(numbers(4, 3), 1)
                before = View.made
                assert gemm(a, b, out=out) is out
                assert np.array_equal(out.values, a.values @ b.values)
                assert out.version == 1
                assert np.array_equal(gemm(a, b).values, out.values)
                assert remembered.where == (1, handle)
                assert (View.made == before) == (handle == 7 or seed > 0)
        assert cupy.current == cupy.stream == 0
        assert remembered.prepared <= 2  # results of both begin at a multiple of 16 bytes, or not

    @pytest.mark.parametrize(
        ("shapes", "dtypes", "options"),
        (
            (((4, 5), (5, 3)), ("float32", "float32"), {"dtype": "float64"}),
            (((4, 5), (5, 3)), ("float32", "float32"), {"dtype": DType("float64")}),
            (((4, 5), (5, 3)), ("int8", "int8"), {"dtype": np.int32}),
            (((4, 5), (5, 3)), ("float32", "float32"), {"dtype": "float32", "alpha": None}),
            (((6, 4, 5), (6, 5, 3)), ("float32", "float32"), {}),
            (((2, 1, 4, 5), (3, 5, 3)), ("float64", "float64"), {}),
            (((6, 4, 5), (5, 3)), ("float32", "float32"), {"dtype": "float64"}),
            (((4, 4), (4, 4)), ("float32", "float32"), {"triangle": "d"}),
        ),
    )
    def test_so_does_one_with_a_dtype_of_a_batch_or_for_a_triangle(
        self, shapes, dtypes, options, remembered, cupy_makes
    ):
        for seed in range(4):
            a, b = (
                Tensor(numbers(*shape, seed=seed + number).astype(dtype))
                for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
            )
            before = View.made
            got = gemm(a, b, **options)
            wide = str(options.get("dtype", a.values.dtype)).rpartition(".")[2]
            want = a.values.astype(np.float64) @ b.values.astype(np.float64)
            assert np.array_equal(got.values, np.tril(want) if options.get("triangle") else want)
            assert got.values.dtype == (np.dtype(np.int32) if options.get("dtype") is np.int32 else np.dtype(wide))
            if seed > 1:  # results of both begin at a multiple of 16 bytes, or not
                assert View.made == before

    def test_so_does_one_that_says_where_terms_come_from(self, remembered, cupy_makes):
        for seed in range(4):
            a, before = Tensor(numbers(4, 4, seed=seed)), View.made
            product, argk = gemm_argk(a, a, semiring="min_plus")
            assert np.array_equal(product.values, a.values @ a.values), "as the stand-in repeats it"
            assert (argk.values == 3).all()
            assert argk.values.dtype == np.int32
            if seed > 1:
                assert View.made == before

    def test_results_are_made_as_compiled_programs_make_theirs_where_their_gpu_is_current(self, remembered, torch):
        def empty(shape, strides, dtype):
            made.append((shape, strides, dtype))
            return Tensor(np.empty(shape, dtype), 0)

        made, a = [], Tensor(numbers(2, 3, 4))
        guards = types.SimpleNamespace(_empty_strided_cuda=empty)
        torch._C = types.SimpleNamespace(_dynamo=types.SimpleNamespace(guards=guards))
        for _ in range(4):
            assert np.array_equal(gemm(a, a.swapaxes(1, 2)).values, a.values @ a.values.swapaxes(1, 2))
        assert set(made) == {((2, 3, 3), (9, 3, 1), "float32")}
        known = len(made)
        torch.streams[0] = 7
        gemm(a, a.swapaxes(1, 2))
        assert len(made) == known, "another stream is entered first"

    def test_lazily_conjugated_tensors_and_those_without_memory_are_not_taken_for_others(self, remembered, monkeypatch):
        a = Tensor(numbers(4, 4).astype(np.complex64))
        for _ in range(3):
            gemm(a, a)
        other, seen = Tensor(a.values), []
        other.is_conj = lambda: True
        other.conj = lambda: seen.append("conj") or Tensor(a.values)
        gemm(other, a)
        assert seen == ["conj"]
        sparse = Tensor(a.values)
        sparse.layout, sparse.to_dense = "sparse", lambda: a

        def no_memory():
            raise RuntimeError("no storage")

        sparse.data_ptr = no_memory
        with pytest.raises(ProblemError, match="dense"):
            gemm(sparse, a)

    def test_so_does_a_further_call_of_the_vector_family(self, remembered, torch):
        for seed in range(3):
            a, x, y = (Tensor(numbers(*shape, seed=seed), 1) for shape in ((4, 5), (5,), (4,)))
            out, before = Tensor(numbers(4), 1), View.made
            assert gemv(a, x, out=out) is out
            assert np.array_equal(out.values, a.values @ x.values)
            assert np.array_equal(gemv(a, x).values, out.values)
            assert np.array_equal(ger(y, x).values, np.outer(y.values, x.values))
            assert (View.made == before) == (seed > 0)

    def test_bad_vectors_are_reported_in_the_words_of_the_call(self, remembered):
        a, x = Tensor(numbers(4, 5)), Tensor(numbers(5))
        for _ in range(2):
            gemv(a, x)
            with pytest.raises(ProblemError, match=r"gemv: the length of x(.|\n)*x of shape \(..., 5\)(.|\n)*x \(4,\)"):
                gemv(a, Tensor(numbers(4)))
            with pytest.raises(
                ProblemError, match=r"gemv: out cannot take the result(.|\n)*shape \(4,\)(.|\n)*shape \(3,\)"
            ):
                gemv(a, x, out=Tensor(numbers(3)))
            with pytest.raises(ProblemError, match="gemv: a and x lie on different devices"):
                gemv(a, Tensor(numbers(5), 1))
            with pytest.raises(ProblemError, match="syrk: a is no matrix"):
                syrk(x)

    def test_another_layout_dtype_option_or_device_is_another_product(self, remembered):
        a, b = numbers(4, 4), numbers(4, 4, seed=1)
        calls = (
            (Tensor(a), Tensor(b), {}),
            (Tensor(a.T), Tensor(b), {}),
            (Tensor(a.astype("f8")), Tensor(b.astype("f8")), {}),
            (Tensor(a), Tensor(b.astype("f8")), {}),
            (Tensor(a, 1), Tensor(b, 1), {}),
            (Tensor(a), Tensor(b), {"alpha": 2}),
        )
        for _ in range(2):
            for x, y, options in calls:
                got = gemm(x, y, **options)
                if not options:  # the stand-in knows no alpha when it repeats
                    assert np.array_equal(got.values, x.values @ y.values)
                assert got.get_device() == x.get_device()

    def test_out_that_overlaps_an_operand_is_computed_aside(self, remembered):
        for _ in range(3):
            room, b = numbers(6, 4), Tensor(numbers(4, 4, seed=1))
            want = room[:4] @ b.values
            gemm(Tensor(room[:4]), b, out=Tensor(room[2:]))
            assert np.array_equal(room[2:], want)

    def test_a_product_that_copies_is_given_views(self, remembered):
        remembered.takes_addresses = False
        for seed in range(3):
            a, before = Tensor(numbers(4, 4, seed=seed)), View.made
            assert np.array_equal(gemm(a, a).values, a.values @ a.values)
            assert View.made == before + 3

    def test_bad_arguments_are_reported_all_the_same(self, remembered):
        a = Tensor(numbers(4, 4))
        for _ in range(2):
            gemm(a, a)
        with pytest.raises(ProblemError, match="different devices"):
            gemm(a, Tensor(numbers(4, 4), 1))
        with pytest.raises(ProblemError, match="inner sizes"):
            gemm(a, Tensor(numbers(3, 4)))
        with pytest.raises(ProblemError, match="alpha"):
            gemm(a, a, alpha="2")
        with pytest.raises(ProblemError, match="out cannot take"):
            gemm(a, a, out=Tensor(numbers(4, 5)))
        a.requires_grad = True
        with pytest.raises(ProblemError, match="requires gradients"):
            gemm(a, a)


def test_what_pytorch_has_on_two_devices_or_beside_cupy_is_refused(torch):
    a = Tensor(numbers(2, 2))
    with pytest.raises(ProblemError, match=r"different devices(.|\n)*b on GPU 1(.|\n)*b\.to\('cuda:0'\)"):
        gemm(a, Tensor(numbers(2, 2), 1))
    with pytest.raises(ProblemError, match=r"different devices(.|\n)*a on the host, b on GPU 0(.|\n)*b\.cpu\(\)"):
        gemm(Tensor(numbers(2, 2), None), a)
    with pytest.raises(ProblemError, match=r"a is an array of PyTorch, b is not(.|\n)*cupy\.ndarray(.|\n)*'cuda:0'\)"):
        gemm(a, Array(numbers(2, 2)))
    with pytest.raises(ProblemError, match="b is an array of PyTorch, a is not"):
        gemm(Array(numbers(2, 2)), a)


CALLS = {
    "gemm": (lambda a: gemm(a, a, alpha=2.0), {"alpha": 2.0}),
    "gemm_argk": (lambda a: gemm_argk(a, a, threads=1), {"threads": 1}),
    "gemv": (lambda a: gemv(a, a, beta=1.0), {"beta": 1.0}),
    "einsum": (lambda a: einsum("ij,jk", a, a, dtype="float32"), {"dtype": "float32"}),
}


@pytest.mark.parametrize(("name", "call", "options"), [(name, *rest) for name, rest in CALLS.items()], ids=CALLS)
def test_a_call_that_pytorch_compiles_is_left_to_its_interpreter(name, call, options, torch, monkeypatch):
    a = Tensor(numbers(2, 2))
    torch.compiler.is_compiling = lambda: True
    uncompiled = types.SimpleNamespace(call=lambda *arguments, **options: (arguments, options))
    monkeypatch.setattr(libraries, "uncompiled", uncompiled, raising=False)
    (function, *arguments), given = call(a)
    assert function.__name__ == name
    assert [x for x in arguments if x is a] == [a, a]
    assert given | options == given


def test_a_library_by_dlpack_on_a_gpu_keeps_its_arrays_until_the_work_is_done(cupy, spy, monkeypatch):
    class Event:
        done = False

        def __init__(self, **_):
            events.append(self)

        def record(self, stream):
            self.stream = stream.ptr

    events = []
    cupy.cuda.Event, cupy.ndarray = Event, Array
    cupy.from_dlpack = lambda x: Array(x.values(), x.__dlpack_device__()[1])
    stands = shelf.Shelf()
    stands.from_dlpack = lambda x: shelf.Array(x.values, (2, x.device.id))
    monkeypatch.setitem(sys.modules, "shelf", stands)
    a, b = (shelf.Array(numbers(4, 4, seed=seed), (2, 1)) for seed in (1, 2))
    result = gemm(a, b)
    assert result.__dlpack_device__() == (2, 1)
    assert np.array_equal(result.values(), a.values() @ b.values())
    assert spy.where[0] == 1
    ((event, views),) = of_gpu.in_flight._held
    assert views[0].values is a.values()
    gemm(a, b)
    assert len(of_gpu.in_flight._held) == 2
    for event in events:
        event.done = True
    gemm(a, b)
    assert len(of_gpu.in_flight._held) == 1
