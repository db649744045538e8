"""Calls with arrays of a GPU that are remembered: what a warm call does, and that it holds nothing of earlier ones."""

import copy
import cProfile
import ctypes
import pstats
import threading
import weakref

import numpy as np
import pytest

from backends.gpu._base import tiled_rung
from backends.gpu._program.packed import PackedProgram
from harness import ProblemError, gemm, gemm_argk
from harness.api.remembered import repeats
from harness.tuning.gpu import rungs as tuning_gpu
from tests.gpu.host_gpu import CAPTURING
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.on_cpu import RUNGS

pytestmark = BY_THE_SHIM

NAMES = ("gpu-naive", "gpu-tiled", "gpu-tuned")


def numbers(gpu, *shape, dtype="float32", seed=0, order="C"):
    return gpu.array(np.asarray(np.random.default_rng(seed).integers(-9, 9, shape), dtype, order))


# Matrices that are used as they lie, by columns, and with rows in the other order.
LAYOUTS = {
    "rows": lambda gpu, m, n, seed: numbers(gpu, m, n, seed=seed),
    "columns": lambda gpu, m, n, seed: numbers(gpu, n, m, seed=seed).T,
    "backwards": lambda gpu, m, n, seed: numbers(gpu, m, n, seed=seed)[::-1],
}


def expected(semiring, a, b):
    if semiring == "plus_times":
        return a.get() @ b.get()
    return (a.get()[:, :, None] + b.get()[None]).min(1)


def warm(gpu, compute):
    """Return the result of a call, and what it launched and allocated; it may compile nothing."""
    before = len(gpu.launches), len(gpu.allocated), len(gpu.compiled)
    result = compute()
    assert len(gpu.compiled) == before[2]
    return result, gpu.launches[before[0] :], gpu.allocated[before[1] :]


@pytest.mark.parametrize("semiring", ("plus_times", "min_plus"))
@pytest.mark.parametrize("backend", NAMES)
def test_a_further_call_computes_with_other_arrays_and_prepares_nothing(gpu, backend, semiring, monkeypatch):
    shapes, options = ((70, 33), (33, 41)), {"semiring": semiring, "backend": backend}
    out = gpu.empty((70, 41), "float32")
    gemm(*(numbers(gpu, *shape) for shape in shapes), out=out, **options)
    monkeypatch.setattr("harness.api.gemm.prepare", lambda *_: pytest.fail("it was not remembered"))
    for seed in (1, 2):
        a, b = (numbers(gpu, *shape, seed=seed) for shape in shapes)
        other = gpu.empty((70, 41), "float32")
        result, launches, allocated = warm(gpu, lambda a=a, b=b, other=other: gemm(a, b, out=other, **options))
        assert result is other
        assert np.array_equal(other.get(), expected(semiring, a, b))
        assert launches
        assert len(allocated) <= 1  # scratch


class TestWhatChanges:
    """Between calls, without becoming another product."""

    @pytest.mark.parametrize("backend", ("gpu-tuned", "gpu-cublas"))
    def test_addresses_of_each_array_alone(self, gpu, backend):
        a, b, c = (numbers(gpu, 16, 16, seed=seed) for seed in range(3))
        for x, y, z in ((a, b, c), (b, a, c), (a, a, c), (c, b, a), (a, c, b), (a, b, a)):
            out = gpu.empty((16, 16), "float32")
            assert np.array_equal(gemm(x, y, z, out=out, backend=backend).get(), x.get() @ y.get() + z.get())

    @pytest.mark.deep(but=1)
    @pytest.mark.parametrize("is_scanned", (False, True))
    def test_values_that_decide_about_a_form(self, gpu, is_scanned, monkeypatch):
        scan = dict.fromkeys(tuning_gpu.SCANNED_FROM, 0 if is_scanned else 1 << 60)
        monkeypatch.setattr(tuning_gpu, "SCANNED_FROM", scan)
        for sign in (1, -1, 1):
            a = gpu.array(sign * np.abs(np.random.default_rng(sign + 1).normal(size=(200, 70))).astype("f4"))
            b = gpu.array(sign * np.abs(np.random.default_rng(sign + 5).normal(size=(70, 130))).astype("f4"))
            assert np.array_equal(gemm(a, b, semiring="min_plus", backend="gpu-tuned").get(), expected("", a, b))
        top = np.iinfo("i4").max
        for low, high in ((0, 9), (-top, top), (top - 3, top), (0, 9)):
            a, b = (gpu.array(np.random.default_rng(s).integers(low, high, (40, 40), "i4")) for s in (1, 2))
            want = gemm(a.get(), b.get(), semiring="min_plus", backend="cpu-naive")
            assert np.array_equal(gemm(a, b, semiring="min_plus", backend="gpu-tuned").get(), want)

        assert any("extremes" in name for name, _ in gpu.launches) == is_scanned

    def test_a_nan(self, gpu):
        a, b = numbers(gpu, 40, 40), numbers(gpu, 40, 40, seed=1)
        for spoiled in (False, True, False):
            a.values[3, 4] = np.nan if spoiled else 1
            want = gemm(a.get(), b.get(), semiring="min_plus", backend="cpu-naive")
            assert np.array_equal(gemm(a, b, semiring="min_plus", backend="gpu-tuned").get(), want)


class TestWhatIsAnotherProduct:
    """Each of two calls that differ in one thing is computed as it should be, in any order."""

    @pytest.mark.deep(but=3)
    @pytest.mark.parametrize(
        "options",
        [
            ({"alpha": 1}, {"alpha": 2}),
            ({"alpha": 2}, {"alpha": 2.0}),
            ({"alpha": 3.0}, {"alpha": np.float32(3)}),
            ({"beta": 0}, {"beta": 1}),
            ({"beta": 2}, {"beta": 3}),
            ({"semiring": "min_plus"}, {"semiring": "max_plus"}),
            ({"backend": "gpu-tuned"}, {"backend": "gpu-tiled"}),
        ],
        ids=str,
    )
    def test_options(self, gpu, options):
        a, b, c = (numbers(gpu, 20, 20, seed=seed) for seed in range(3))
        for _ in range(2):
            for given in options:
                got = gemm(a, b, c, **{"backend": "gpu-tuned", **given}).get()
                on_host = {**given, "backend": "cpu-naive"}
                assert np.array_equal(got, gemm(a.get(), b.get(), c.get(), **on_host)), given

    def test_signs_of_zero(self, gpu):
        a, b = (gpu.array(np.ones((4, 4), "f4")) for _ in range(2))
        for alpha in (0.0, -0.0, 0.0):
            got = gemm(a, b, alpha=alpha, backend="gpu-naive").get()
            assert (np.signbit(got) == np.signbit(gemm(a.get(), b.get(), alpha=alpha, backend="cpu-naive"))).all()

    def test_layouts(self, gpu):
        wide, tall = numbers(gpu, 24, 60), numbers(gpu, 60, 24, seed=1)
        views = [lambda x: x[:, :24], lambda x: x[:, 1:25], lambda x: x[::-1, :24], lambda x: x[:, 24:0:-1]]
        views += [lambda x: x[:, ::2][:, :24]]
        others = [lambda x: x[:24], lambda x: x[24:48].T, lambda x: x[::2][:24]]
        for _ in range(2):
            for view in views:
                for other in others:
                    a, b = view(wide), other(tall)
                    got = gemm(a, b, semiring="min_plus", backend="gpu-tuned").get()
                    assert np.array_equal(got, expected("min_plus", a, b))

    @pytest.mark.parametrize(("backend", "triangle"), [("gpu-tuned", ""), ("gpu-tuned", "d"), ("gpu-rank-update", "d")])
    def test_layouts_of_out(self, gpu, backend, triangle):
        a, b = numbers(gpu, 24, 9), numbers(gpu, 9, 24, seed=1)
        room, written = gpu.empty((60, 60), "float32"), np.tri(24, dtype=bool) | (not triangle)
        for _ in range(2):
            for view in (room[:24, :24], room[1:25, 1:25], room[:24, :24].T, room[::2, ::2][:24, :24]):
                room.fill(77)
                assert gemm(a, b, backend=backend, out=view, triangle=triangle) is view
                assert np.array_equal(view.get()[written], (a.get() @ b.get())[written])
                assert (room.get() == 77).sum() >= 60 * 60 - written.sum()
                assert (view.get()[~written] == 77).all()

    def test_a_new_triangle_holds_the_zero_above_the_diagonal(self, gpu):
        above = ~np.tri(24, dtype=bool)
        for seed in range(3):  # the first call prepares, the others repeat it
            a, b = numbers(gpu, 24, 9, seed=seed), numbers(gpu, 9, 24, seed=1)
            got = gemm(a, b, semiring="min_plus", backend="gpu-tuned", triangle="d").get()
            assert np.isposinf(got[above]).all()
            assert np.isfinite(got[~above]).all()

    def test_layouts_of_a_symmetric_matrix(self, gpu):
        x = numbers(gpu, 70, 1, seed=1)
        for seed in range(2):
            for order in "CF":
                a = numbers(gpu, 70, 70, seed=seed, order=order)
                lower = np.tril(a.get())
                got = gemm(a, x, backend="gpu-symv", triangle="a").get()
                assert np.array_equal(got, (lower + np.tril(lower, -1).T) @ x.get())

    def test_sizes_share_kernels(self, gpu):
        def compute(n, semiring):
            gemm(numbers(gpu, n, n), numbers(gpu, n, n, seed=1), semiring=semiring, backend="gpu-tuned")

        for semiring in ("min_plus", "logaddexp_plus"):
            compute(65, semiring)
            known = set(gpu.compiled)
            for n in (67, 69, 71, 101):
                compute(n, semiring)
            assert gpu.compiled == known


class TestOutThatOverlaps:
    @pytest.mark.parametrize("which", "abc")
    def test_an_operand(self, gpu, which):
        for seed in (0, 3, 6):
            given = {name: numbers(gpu, 20, 20, seed=seed + i) for i, name in enumerate("abc")}
            want = given["a"].get() @ given["b"].get() + given["c"].get()
            out = given[which]
            assert gemm(*given.values(), out=out, backend="gpu-tuned") is out
            assert np.array_equal(out.get(), want)
            own = {name: numbers(gpu, 20, 20, seed=seed + i) for i, name in enumerate("abc")}
            into = gpu.empty((20, 20), "float32")
            assert np.array_equal(gemm(*own.values(), out=into, backend="gpu-tuned").get(), want)

    def test_a_part_of_an_operand(self, gpu):
        room = numbers(gpu, 60, 20)
        b = numbers(gpu, 20, 20, seed=1)
        out = gpu.empty((20, 20), "float32")
        gemm(room[:20], b, out=out, backend="gpu-tuned")  # not overlapping, in the same layouts
        want = room.get()[:20] @ b.get()
        gemm(room[:20], b, out=room[10:30], backend="gpu-tuned")
        assert np.array_equal(room.get()[10:30], want)

    def test_is_prepared_once(self, gpu, monkeypatch):
        a, b, c = (numbers(gpu, 20, 20, seed=seed) for seed in range(3))
        gemm(a, b, c, out=c, backend="gpu-tuned")
        monkeypatch.setattr("harness.api.gemm.prepare", lambda *_: pytest.fail("it was not remembered"))
        gemm(a, b, c, out=c, backend="gpu-tuned")
        gemm(a, b, c, backend="gpu-tuned")


def test_scratch_that_is_to_hold_zeros_does_in_every_call(gpu, monkeypatch):
    """Of a rung whose partial sums begin with zeros: here the copy of A in whole tiles."""
    pad = tiled_rung.add_pass

    def add_pass(program, problem, function, elements, *arguments):
        program.zeroed.update(program.scratch)
        seen.append(program)
        pad(program, problem, function, elements, *arguments)

    seen, launch = [], PackedProgram.launch

    def checked(packed, addresses, stream):
        assert packed.numbers.zeroed_bytes
        assert not any(ctypes.string_at(addresses[-1], packed.numbers.zeroed_bytes))
        launch(packed, addresses, stream)

    monkeypatch.setattr(tiled_rung, "add_pass", add_pass)
    monkeypatch.setattr(PackedProgram, "launch", checked)
    rung = copy.copy(RUNGS["gpu-tiled"])
    rung.plan = lambda problem, machine: RUNGS["gpu-tiled"].plan(problem, machine).override({"edge": "padded"})
    monkeypatch.setattr("harness.api.gemm.choose", lambda *_: rung)
    for seed in (0, 2):
        a, b = numbers(gpu, 40, 37, seed=seed), numbers(gpu, 37, 21, seed=seed + 1)
        assert np.array_equal(gemm(a, b).get(), a.get() @ b.get())
    assert seen


def test_which_k_it_was(gpu, monkeypatch):
    pairs = [(numbers(gpu, 40, 37, seed=seed), numbers(gpu, 37, 21, seed=seed + 1)) for seed in (0, 4)]
    want = [gemm_argk(a.get(), b.get(), backend="cpu-simd") for a, b in pairs]
    for (a, b), (product, argk) in zip(pairs, want, strict=True):
        got = gemm_argk(a, b, backend="gpu-tuned")
        assert np.array_equal(got[0].get(), product)
        assert np.array_equal(got[1].get(), argk)
        monkeypatch.setattr("harness.api.argk.Locator", lambda *_: pytest.fail("it was not remembered"))


@pytest.mark.parametrize("of_b", LAYOUTS)
@pytest.mark.parametrize("of_a", LAYOUTS)
def test_which_k_it_was_of_operands_that_are_copied(gpu, of_a, of_b):
    """The second call is the first that is repeated; it gets other values, the third those of the first."""
    for seed in (0, 4, 0):
        a, b = LAYOUTS[of_a](gpu, 7, 9, seed), LAYOUTS[of_b](gpu, 9, 6, seed + 1)
        best, argk = gemm_argk(a, b)
        terms = a.get()[:, :, None] + b.get()[None]
        assert np.array_equal(best.get(), terms.min(1))
        assert np.array_equal(argk.get(), terms.argmin(1))


def test_every_step_goes_to_the_current_stream(gpu):
    a, b = numbers(gpu, 200, 200), numbers(gpu, 200, 200, seed=1)
    for backend, semiring in (("gpu-tuned", "min_plus"), ("gpu-cublas", "plus_times")):
        for handle in (0, 7, 8, 7):
            gpu.launches.clear()
            with gpu.on_stream(handle):
                gemm(a, b, semiring=semiring, backend=backend)
            assert {stream for _, stream in gpu.launches} == {handle}


@pytest.mark.parametrize(("backend", "semiring"), (("gpu-tuned", "min_plus"), ("gpu-cublas", "plus_times")))
def test_threads_in_the_same_remembered_call_share_neither_arguments_nor_scratch(gpu, backend, semiring):
    calls, count = 12, 4
    pairs = [[numbers(gpu, 130, 90, seed=9 * t + i) for i in range(calls)] for t in range(count)]
    b = numbers(gpu, 90, 70, seed=99)
    gemm(pairs[0][0], b, semiring=semiring, backend=backend)
    wrong = []

    def work(mine):
        for a in mine:
            got = gemm(a, b, semiring=semiring, backend=backend).get()
            wrong.append(not np.array_equal(got, expected(semiring, a, b)))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [False] * calls * count
    assert len(gpu.contexts) <= count


def test_each_gpu_has_its_own(gpu):
    for _ in range(2):
        for index in (0, 1):
            with gpu.cuda.Device(index):
                a, b = numbers(gpu, 20, 20, seed=index), numbers(gpu, 20, 20, seed=index + 5)
            got = gemm(a, b, backend="gpu-cublas")
            assert got.device.id == index
            assert np.array_equal(got.get(), a.get() @ b.get())
    assert gpu.current == 0
    assert len(gpu.contexts) == 2
    other = numbers(gpu, 20, 20)
    with pytest.raises(ProblemError, match="different GPUs"):
        gemm(other, b, backend="gpu-cublas")


class TestCapture:
    def captured(self, gpu, *arguments, **options):
        with gpu.on_stream(CAPTURING):
            return gemm(*arguments, backend="gpu-tuned", semiring="min_plus", **options)

    def test_takes_scratch_from_the_graph(self, gpu):
        a, b, out = numbers(gpu, 200, 200), numbers(gpu, 200, 200, seed=1), gpu.empty((200, 200), "float32")
        gemm(a, b, out=out, semiring="min_plus", backend="gpu-tuned")
        gpu.allocated.clear()
        self.captured(gpu, a, b, out=out)
        assert np.array_equal(out.get(), expected("min_plus", a, b))
        assert gpu.allocated == []
        assert gpu.graph == [("malloc", CAPTURING), ("free", CAPTURING)]

    def test_of_a_new_product_is_refused_and_nothing_is_launched(self, gpu):
        a, b = numbers(gpu, 20, 20), numbers(gpu, 20, 20, seed=1)
        with pytest.raises(ProblemError, match=r"has not been computed before(.|\n)*call it once before"):
            self.captured(gpu, a, b)
        with gpu.on_stream(CAPTURING), pytest.raises(ProblemError, match="has not been computed before"):
            gemm_argk(a, b, backend="gpu-tuned")
        assert gpu.launches == []

    def test_of_transposed_operands_is_launched(self, gpu):
        a, b, out = numbers(gpu, 20, 30), numbers(gpu, 25, 20, seed=1), gpu.empty((30, 25), "float32")
        gemm(a.T, b.T, out=out, semiring="min_plus", backend="gpu-tuned")
        gpu.allocated.clear()
        out.fill(0)
        self.captured(gpu, a.T, b.T, out=out)
        assert np.array_equal(out.get(), expected("min_plus", a.T, b.T))
        assert gpu.allocated == []

    def test_of_copies_is_refused(self, gpu):
        a, b, wide = numbers(gpu, 20, 20), numbers(gpu, 20, 20, seed=1), numbers(gpu, 20, 40)
        for given, message in (((wide[:, ::2], b, None, None), "not contiguous"), ((a, b, None, a), "shares memory")):
            a_, b_, _, out = given
            gemm(a_, b_, out=out, semiring="min_plus", backend="gpu-tuned")
            launched = len(gpu.launches)
            with pytest.raises(ProblemError, match=message):
                self.captured(gpu, a_, b_, out=out)
            assert len(gpu.launches) == launched


def test_bad_arguments_are_reported_whatever_is_remembered(gpu):
    a, b = numbers(gpu, 20, 20), numbers(gpu, 20, 20, seed=1)
    gemm(a, b, backend="gpu-tuned")
    for given, options in (
        ((a, b), {"threads": 0}),
        ((a, b), {"alpha": np.nan}),
        ((a, b), {"alpha": "2"}),
        ((a, b), {"out": gpu.empty((20, 21), "float32")}),
        ((a, b.get()), {}),
        ((a, numbers(gpu, 21, 20)), {}),
    ):
        with pytest.raises(ProblemError):
            gemm(*given, backend="gpu-tuned", **options)


def test_one_fold_serves_both_forms_where_they_share_alike(gpu, monkeypatch):
    monkeypatch.setattr(tuning_gpu, "SCANNED_FROM", {"f": 0, "i": 0})
    for dtype in ("float32", "int32"):
        gpu.launches.clear()
        a, b = numbers(gpu, 130, 600, dtype=dtype), numbers(gpu, 600, 70, dtype=dtype, seed=1)
        c = numbers(gpu, 130, 70, dtype=dtype, seed=2)
        got = gemm(a, b, c, semiring="min_plus", backend="gpu-tuned")
        assert [name for name, _ in gpu.launches][1:] == [
            "extremes_of_shares", "extremes_of_all", "gemm", "gemm", "fold",
        ]  # fmt: skip
        assert np.array_equal(got.get(), np.minimum(expected("min_plus", a, b), c.get()))


def test_only_so_many_are_kept_and_those_in_use_stay(gpu, monkeypatch):
    monkeypatch.setattr(repeats, "MOST", 6)
    for n in range(1, 20):
        for size in (n, 1):
            gemm(numbers(gpu, size, size), numbers(gpu, size, size), backend="gpu-naive")
        assert len(repeats._entries) <= 6
    monkeypatch.setattr("harness.api.gemm.prepare", lambda *_: pytest.fail("it was not remembered"))
    for n in (19, 18, 1):
        gemm(numbers(gpu, n, n), numbers(gpu, n, n), backend="gpu-naive")


def test_no_array_is_kept(gpu):
    for order in "CF":
        arrays = [numbers(gpu, 20, 20, order=order), numbers(gpu, 20, 20, order=order)]
        arrays.append(gemm(*arrays, backend="gpu-tuned"))
        arrays.extend(gemm_argk(*arrays[:2], backend="gpu-tuned"))
        alive = [weakref.ref(x) for x in arrays]
        arrays.clear()
        assert [ref() for ref in alive] == [None] * 5


@pytest.mark.parametrize(("backend", "semiring"), (("gpu-cublas", "plus_times"), ("gpu-tuned", "min_plus")))
def test_a_warm_call_makes_few_calls_of_functions(gpu, backend, semiring):
    a, b, out = numbers(gpu, 16, 16), numbers(gpu, 16, 16, seed=1), gpu.empty((16, 16), "float32")
    options = {"semiring": semiring, "backend": backend, "out": out}
    gemm(a, b, **options)
    gpu.cuda.driver.launchKernel = lambda *_: None
    profile = cProfile.Profile()
    profile.runcall(gemm, a, b, **options)
    ours = [
        entry[0]
        for (file, *_), entry in pstats.Stats(profile).stats.items()
        if "/harness/" in file or "/backends/" in file
    ]
    assert sum(ours) <= 30


@pytest.mark.parametrize("backend", ("gpu-cublas", "gpu-tensor-core"))
def test_a_call_converts_once_and_is_remembered(gpu, backend):
    rng = np.random.default_rng(1)
    a, b = (gpu.array(rng.random(shape, np.float32)) for shape in ((20, 30), (40, 30)))
    for _ in range(2):
        gpu.launches.clear()
        got = gemm(a, b.T, dtype="float64", backend=backend)
        assert next(name for name, _ in gpu.launches) == "rows"
        assert len(gpu.launches) == 2
        expected = a.get().astype(float) @ b.get().T.astype(float)
        assert got.dtype == np.float64
        assert np.allclose(got.get(), expected, rtol=1e-14, atol=0)
