"""Small products of NumPy arrays that are remembered: the second call of a kind makes a stage, others compute on it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from harness import einsum, free_memory, gemm, gemm_argk, registry, syrk
from harness.api.remembered import staged
from harness.errors import ProblemError

M, N, K = 6, 5, 7
SIMD = type(registry.find("cpu-simd"))


@pytest.fixture(autouse=True)
def _nothing_is_remembered():
    staged.forget()
    yield
    staged.forget()


@pytest.fixture
def prepared(monkeypatch):
    """The numbers of times that products were prepared, and that stages were computed."""
    counts = {"prepare": 0, "compute": 0}

    def counted(name, function):
        def call(*arguments):
            counts[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(SIMD, "prepare", counted("prepare", SIMD.prepare))
    monkeypatch.setattr(staged.Stage, "compute", counted("compute", staged.Stage.compute))
    return counts


def matrix(rng, *shape):
    return rng.normal(size=shape)


def scattered(rng, *shape):
    """Return a matrix that has no short path."""
    return np.repeat(matrix(rng, *shape), 2, axis=1)[:, ::2]


def padded(rng):
    return matrix(rng, M, K + 3)[:, 1 : K + 1]


def by_columns(rng):
    return matrix(rng, K, M).T


def backwards(rng):
    return matrix(rng, M, 2 * K)[::-1, ::-2]


def broadcast(rng):
    return np.broadcast_to(matrix(rng, K), (M, K))


def read_only(rng):
    x = matrix(rng, M, K)
    x.flags.writeable = False
    return x


def unaligned(rng):
    x = np.empty(M * K * 8 + 1, np.uint8)[1:].view(np.float64).reshape(M, K)
    x[...] = matrix(rng, M, K)
    return x


LAYOUTS = (padded, by_columns, backwards, broadcast, read_only, unaligned)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: x.__name__)
@pytest.mark.parametrize("options", ({}, {"alpha": -2.0}, {"beta": 0.5}), ids=str)
def test_every_call_has_the_bits_of_the_first(layout, options, rng):
    a, b, c = layout(rng), matrix(rng, K, N), matrix(rng, M, N)
    c = c if "beta" in options else None
    first = gemm(a, b, c, **options)
    np.testing.assert_allclose(
        first, options.get("alpha", 1) * (a @ b) + (0 if c is None else options["beta"] * c), rtol=1e-13, atol=1e-13
    )
    for _ in range(3):
        assert gemm(a, b, c, **options).tobytes() == first.tobytes()


def test_values_are_those_of_the_call_not_of_the_first(rng):
    for _ in range(4):
        a, b, c = matrix(rng, M, K), matrix(rng, K, N), matrix(rng, M, N)
        np.testing.assert_allclose(gemm(a, b, c, alpha=3.0), 3 * (a @ b) + c, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("semiring", "dtypes", "options"),
    (
        ("min_plus", ("float64", "float64"), {"alpha": 1.0}),
        ("max_times", ("float64", "float64"), {}),
        ("logaddexp_plus", ("float64", "float64"), {"alpha": 0.5}),
        ("lor_land", ("bool", "bool"), {}),
        ("min_plus", ("float16", "float16"), {}),
        ("plus_times", ("float16", "float16"), {"dtype": "float32"}),
        ("plus_times", ("int8", "int8"), {"dtype": "int32"}),
        ("plus_times", ("int32", "float64"), {}),
    ),
)
def test_every_kind_reads_its_operands_anew(semiring, dtypes, options, rng):
    for _ in range(4):
        a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape, dtype in zip(((M, K), (K, N)), dtypes, strict=True))
        strided, (again, fresh) = np.repeat(a, 2, axis=1)[:, ::2], (b.copy(), a.copy())
        got = gemm(strided, b, semiring=semiring, **options)
        staged.forget()
        np.testing.assert_array_equal(got, gemm(fresh, again, semiring=semiring, **options))
        for _ in range(2):  # so that the stage is there for the next round's values
            gemm(strided, b, semiring=semiring, **options)


def test_third_call_prepares_nothing(prepared, rng):
    for _ in range(5):
        gemm(scattered(rng, M, K), matrix(rng, K, N), matrix(rng, M, N))
    assert prepared == {"prepare": 3, "compute": 3}  # the two calls, and the stage


def test_results_are_arrays_of_their_own(rng):
    a, b, c = scattered(rng, M, K), matrix(rng, K, N), matrix(rng, M, N)
    results = [gemm(a, b, c) for _ in range(4)]
    kept = [x.copy() for x in results]
    gemm(2 * a, b, c)
    for x, copy in zip(results, kept, strict=True):
        assert x.flags.owndata
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("wide", ("a", "b"))
def test_two_dtypes_are_promoted_every_time(wide, rng):
    for _ in range(3):
        a, b = matrix(rng, M, K), matrix(rng, K, N)
        if wide == "a":
            b = b.astype(np.float32)
        else:
            a = a.astype(np.float32)
        result = gemm(a, b)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, a.astype(float) @ b.astype(float), rtol=1e-13, atol=1e-13)


class TestOut:
    def test_in_place(self, rng):
        a, b, c = matrix(rng, M, K), matrix(rng, K, N), matrix(rng, M, N)
        expected, out = c.copy(), c
        for _ in range(5):
            assert gemm(a, b, out, out=out) is out
            expected = expected + a @ b
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)

    def test_with_and_without_c_in_place(self, rng):
        a, b = matrix(rng, M, K), matrix(rng, K, N)
        for _ in range(4):
            c, out = matrix(rng, M, N), np.full((M, N), np.nan)
            expected = a @ b + c
            np.testing.assert_allclose(gemm(a, b, c, out=out), expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(gemm(a, b, c, out=c), expected, rtol=1e-12, atol=1e-12)

    def test_memory_of_an_operand(self, rng):
        for _ in range(4):
            a, b = matrix(rng, K, K), matrix(rng, K, K)
            expected = 2 * (a @ b)
            assert gemm(a, b, alpha=2.0, out=a) is a
            np.testing.assert_allclose(a, expected, rtol=1e-12, atol=1e-12)

    def test_columns_in_a_wider_matrix(self, rng):
        a, b = matrix(rng, M, K), matrix(rng, K, N)
        for _ in range(4):
            room = np.full((M, 2 * N), 7.0)
            gemm(a, b, alpha=2.0, out=room[:, ::2])
            np.testing.assert_allclose(room[:, ::2], 2 * (a @ b), rtol=1e-12, atol=1e-12)
            assert (room[:, 1::2] == 7).all()

    def test_wrong_out_is_reported_though_the_product_is_remembered(self, rng):
        a, b, c = matrix(rng, M, K), matrix(rng, K, N), matrix(rng, M, N)
        out = np.empty((M, N))
        for _ in range(3):
            gemm(a, b, c, out=out)
        out.flags.writeable = False
        for wrong in (out, np.empty((M, N + 1)), np.empty((M, N), np.float32), [[0.0] * N] * M):
            with pytest.raises(ProblemError, match="out cannot take the result"):
                gemm(a, b, c, out=wrong)


def test_above_the_diagonal_nothing_is_written(rng):
    a = matrix(rng, M, K)
    for _ in range(4):
        out = np.full((M, M), 9.0)
        syrk(a, out=out, alpha=2.0)
        np.testing.assert_allclose(out, np.where(np.tri(M, dtype=bool), 2 * (a @ a.T), 9.0), rtol=1e-12)
        np.testing.assert_allclose(syrk(a, alpha=2.0), np.tril(2 * (a @ a.T)), rtol=1e-12)


def test_batches_that_are_broadcast(rng):
    for _ in range(4):
        a, b, c = matrix(rng, 3, 1, M, K), matrix(rng, 2, K, N), matrix(rng, M, N)
        np.testing.assert_allclose(gemm(a, b, c), a @ b + c, rtol=1e-12, atol=1e-12)


def test_equal_keys_of_other_arguments_are_told_apart(rng):
    a, b, c = (rng.integers(0, 3, shape) for shape in ((M, K), (K, N), (M, N)))
    for _ in range(3):
        assert gemm(a, b, c, alpha=1).dtype == a.dtype
        np.testing.assert_array_equal(gemm(a, b, c, alpha=2), 2 * (a @ b) + c)
        np.testing.assert_array_equal(gemm(a, b, c, alpha=2, beta=0), 2 * (a @ b))
        np.testing.assert_array_equal(
            gemm(a.astype(float), b.astype(float), c.astype(float), semiring="min_plus", alpha=2.0),
            np.minimum((2.0 + a[:, :, None] + b[None]).min(axis=1), c),
        )


def test_threads_in_the_same_kind_of_call_share_no_stage(rng):
    work = [(scattered(rng, 40, 30), matrix(rng, 30, 20), matrix(rng, 40, 20)) for _ in range(8)]
    start = threading.Barrier(4)

    def compute(number):
        start.wait()
        for _ in range(200):
            a, b, c = work[number]
            np.testing.assert_allclose(gemm(a, b, c, beta=2.0), a @ b + 2 * c, rtol=1e-11, atol=1e-11)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compute, range(4)))


def test_no_more_kinds_are_kept_than_said(rng):
    for m in range(1, 2 * staged.MOST):
        gemm(scattered(rng, m + 1, 2), matrix(rng, 2, 2), matrix(rng, m + 1, 2))
    assert len(staged._kinds) <= staged.MOST


def test_memory_is_given_back(prepared, rng):
    for _ in range(3):
        gemm(scattered(rng, M, K), matrix(rng, K, N), alpha=2.0)
    assert prepared["compute"] == 1
    free_memory()
    gemm(scattered(rng, M, K), matrix(rng, K, N), alpha=2.0)
    assert prepared["compute"] == 1


def test_long_copies_are_not_made(prepared):
    a, b = np.broadcast_to(1.0, (400, 200)), np.ones((200, 1))  # few bytes, many elements
    for _ in range(3):
        assert gemm(a, b, alpha=2.0)[0, 0] == 400
    assert prepared["compute"] == 0


def test_large_results_of_small_operands_are_not_kept(prepared):
    x, y = np.ones((400, 4))[:, ::2], np.ones((2, 400))
    for _ in range(3):
        assert gemm(x, y, alpha=2.0)[-1, -1] == 4
    assert prepared["compute"] == 0


def test_backends_that_may_keep_operands_are_not_remembered(monkeypatch, prepared, rng):
    monkeypatch.setattr(SIMD, "rereads_operands", False)
    for _ in range(4):
        gemm(scattered(rng, M, K), matrix(rng, K, N), alpha=2.0, backend="cpu-simd")
    assert prepared["compute"] == 0


def test_options_that_are_not_hashable_are_reported(rng):
    a, b, c = matrix(rng, M, K), matrix(rng, K, N), matrix(rng, M, N)
    with pytest.raises(ProblemError, match="threads is no number"):
        gemm(a, b, c, threads=[1])
    with pytest.raises(ProblemError, match="semiring"):
        gemm(a, b, c, semiring=["plus_times"])


class TestArgk:
    """`gemm_argk`: tracked, searched, and over integers that carry k."""

    KINDS = (("float64", 7), ("float64", 200), ("int32", 7), ("int32", 200))  # dtype and k

    @staticmethod
    def operands(rng, dtype, k):
        return tuple(rng.integers(-9, 9, shape).astype(dtype) for shape in ((M, k), (k, N)))

    @pytest.mark.parametrize(("dtype", "k"), KINDS)
    def test_values_are_those_of_the_call(self, dtype, k, rng):
        for _ in range(5):
            a, b = self.operands(rng, dtype, k)
            product, argk = gemm_argk(a, b)
            terms = a[:, :, None] + b[None]
            np.testing.assert_array_equal(product, terms.min(axis=1))
            np.testing.assert_array_equal(argk, terms.argmin(axis=1))
            assert product.flags.owndata
            assert argk.flags.owndata

    def test_integers_that_leave_room_one_time_and_none_the_next(self, rng):
        for round_number in range(6):
            a, b = self.operands(rng, "int32", 200)
            if round_number % 2:
                a[2, 3] = np.iinfo(np.int32).max  # no path
            product, argk = gemm_argk(a, b)
            terms = a[:, :, None].astype(np.int64) + b[None]
            np.testing.assert_array_equal(product, terms.min(axis=1))
            np.testing.assert_array_equal(argk, terms.argmin(axis=1))

    @pytest.mark.parametrize("layout", LAYOUTS, ids=lambda x: x.__name__)
    def test_every_layout(self, layout, rng):
        a, b = layout(rng), matrix(rng, K, N)
        terms = a[:, :, None] + b[None]
        for _ in range(4):
            product, argk = gemm_argk(a, b)
            np.testing.assert_array_equal(product, terms.min(axis=1))
            np.testing.assert_array_equal(argk, terms.argmin(axis=1))

    def test_batches_and_two_dtypes(self, rng):
        for _ in range(4):
            a, b = matrix(rng, 3, 1, M, K), matrix(rng, 2, K, N).astype(np.float32)
            product, argk = gemm_argk(a, b)
            terms = a[..., :, :, None] + b[..., None, :, :]
            np.testing.assert_array_equal(product, terms.min(axis=-2))
            np.testing.assert_array_equal(argk, terms.argmin(axis=-2))

    def test_third_call_prepares_nothing(self, monkeypatch, rng):
        calls, whole = [], SIMD.prepare_argk
        monkeypatch.setattr(SIMD, "prepare_argk", lambda *given: calls.append(given) or whole(*given))
        for _ in range(5):
            gemm_argk(matrix(rng, M, K), matrix(rng, K, N))
        assert len(calls) == 3  # the two calls, and the stage

    def test_threads_share_no_work_memory(self, rng):
        work = [self.operands(rng, "float64", 200) for _ in range(4)]
        start = threading.Barrier(4)

        def compute(number):
            a, b = work[number]
            argmin = (a[:, :, None] + b[None]).argmin(axis=1)
            start.wait()
            for _ in range(200):
                np.testing.assert_array_equal(gemm_argk(a, b)[1], argmin)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(compute, range(4)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_no_cast_is_reported_by_numpy(dtype):
    """Of a signalling NaN each is, in the first call, in that which makes a stage, and in those that copy to it."""
    a, b = np.ones((M, K), dtype), np.ones((K, N))
    a.view(f"u{a.itemsize}")[0, 0] = np.array(np.inf, dtype).view(f"u{a.itemsize}") + 1
    wide = {"float16": "float32", "float32": "float64"}[dtype]
    calls = (
        lambda: gemm(a, b),
        lambda: gemm(a, b, np.ones((M, N)), alpha=2),
        lambda: gemm(a, b.astype(dtype), dtype=wide),
        lambda: gemm_argk(a, b)[0],
        lambda: einsum("ik,kj->ij", a, b),
    )
    for call in calls:
        with np.errstate(all="raise"):
            results = [call() for _ in range(4)]
            assert np.geterr() == dict.fromkeys(("divide", "over", "under", "invalid"), "raise")
        for result in results:
            assert (result[1:] == results[0][1:]).all()
            assert np.isfinite(result[1:]).all()
