"""Batches as one product: by the public calls, with a backend that takes them and with one that does not."""

import itertools
from typing import ClassVar

import numpy as np
import pytest

from harness import BackendUnavailable, ProblemError, gemm, gemm_argk, registry
from harness.api import gemm as gemm_module
from harness.interface import Backend, HostExecution
from harness.plan import Plan
from harness.problem import Problem
from harness.proof.reference import product

SHAPES = (  # of a and b without the matrices, and m, n, k
    ((7,), (7,), (3, 5, 4)),
    ((2, 3), (2, 3), (8, 8, 8)),
    ((5,), (), (4, 33, 6)),
    ((), (4,), (9, 1, 7)),
    ((2, 1), (1, 3), (1, 6, 5)),
    ((1,), (1,), (6, 6, 6)),
    ((0,), (0,), (2, 2, 2)),
    ((3,), (3,), (2, 3, 0)),
)


class _Plain(Backend):
    """Computes by the definition, and records the problems that it is given."""

    name, step, idea, source = "cpu-recorded", 1, "a test", "a test"
    seen: ClassVar[list[Problem]] = []

    def plan(self, problem, machine):
        return Plan(problem, 1)

    def prepare(self, plan, operands):
        type(self).seen.append(plan.problem)
        of_one = plan.problem.of_one()

        def run():
            for index in np.ndindex(plan.problem.batch):
                one = operands.at(index)
                one.out[...] = product(of_one, one.a, one.b, one.c)

        return HostExecution(operands, run)


class _Batched(_Plain):
    takes = frozenset({"batch"})
    seen: ClassVar[list[Problem]] = []


def numbers(rng, *shape, dtype=np.float64):
    return rng.integers(-9, 9, shape).astype(dtype)


def expected(a, b, semiring="plus_times"):
    if semiring == "plus_times":
        return np.matmul(a, b)
    return np.min(a[..., :, :, None] + b[..., None, :, :], axis=-2, initial=np.inf)


@pytest.mark.parametrize("semiring", ("plus_times", "min_plus"))
@pytest.mark.parametrize(("of_a", "of_b", "size"), SHAPES)
@pytest.mark.parametrize("threads", (1, 2))
def test_every_call_of_a_layout_is_right(rng, of_a, of_b, size, semiring, threads):
    (m, n, k) = size
    for _ in range(3):  # the first call prepares, the others take the short way
        a, b = numbers(rng, *of_a, m, k), numbers(rng, *of_b, k, n)
        got = gemm(a, b, semiring=semiring, threads=threads)
        assert np.array_equal(got, expected(a, b, semiring))


@pytest.mark.parametrize("threads", (1, 2))
def test_strides_of_any_kind(rng, threads):
    a, b = numbers(rng, 6, 10, 8), numbers(rng, 6, 8, 10)
    views = (
        lambda x: x, lambda x: x[::-1], lambda x: x[::2], lambda x: x[:, ::2, ::2], lambda x: x.swapaxes(-1, -2),
        lambda x: x[:, ::-1], lambda x: np.broadcast_to(x[2], x.shape), lambda x: x[:3, None],
    )  # fmt: skip
    tried = 0
    for left, right in itertools.product(views, repeat=2):
        x, y = left(a), right(b)
        if x.shape[-1] != y.shape[-2] or (x.ndim == y.ndim == 3 and len(x) != len(y)):
            continue
        tried += 1
        for _ in range(2):
            assert np.array_equal(gemm(x, y, threads=threads), x @ y)
    assert tried > 10


def test_many_products_are_shared_and_large_ones_are_cut(rng):
    for shape in ((300, 32, 32), (3, 130, 130)):
        a, b = numbers(rng, *shape), numbers(rng, *shape)
        for threads in (1, 2):
            assert np.array_equal(gemm(a, b, threads=threads), a @ b)


def test_scalars_c_and_out(rng):
    a, b, c = numbers(rng, 4, 3, 5, 6), numbers(rng, 3, 6, 2), numbers(rng, 5, 2)
    want = 2 * (a @ b) + 3 * c
    assert np.array_equal(gemm(a, b, c, alpha=2, beta=3), want)
    for out in (
        np.empty((4, 3, 5, 2)),
        np.empty((4, 3, 2, 5)).swapaxes(-1, -2),
        np.empty((8, 3, 5, 4))[::2, :, :, ::2],
    ):
        assert gemm(a, b, c, alpha=2, beta=3, out=out) is out
        assert np.array_equal(out, want)
    same = np.broadcast_to(c, want.shape).copy()
    assert np.array_equal(gemm(a, b, same, out=same), a @ b + c)


def test_an_out_that_overlaps_an_operand(rng):
    for _ in range(2):
        a, b = numbers(rng, 5, 4, 4), numbers(rng, 5, 4, 4)
        want = a @ b
        assert np.array_equal(gemm(a, b, out=a), want)
        shifted = np.concatenate([b, b])
        want = shifted[1:6] @ shifted[:5]
        assert np.array_equal(gemm(shifted[1:6], shifted[:5], out=shifted[:5]), want)


def test_an_out_whose_products_overlap_is_refused_in_every_call(rng):
    a, b = numbers(rng, 2, 4, 5), numbers(rng, 2, 5, 3)
    room = np.zeros(40)
    out = np.lib.stride_tricks.as_strided(room, (2, 4, 3), (48, 24, 8))
    good = np.empty((2, 4, 3))
    for _ in range(3):
        assert np.array_equal(gemm(a, b, out=good), a @ b)
        with pytest.raises(ProblemError, match="out cannot take the result"):
            gemm(a, b, out=out)
    assert not room.any()


def test_sums_of_exponentials_integers_and_bools(rng):
    a, b = rng.normal(size=(3, 1, 4, 5)), rng.normal(size=(2, 5, 6))
    want = np.logaddexp.reduce(a[..., None] + b[:, None], axis=-2)
    assert np.allclose(gemm(a, b, semiring="logaddexp_plus"), want)
    top = np.iinfo(np.int32).max
    x, y = numbers(rng, 3, 4, 5, dtype=np.int32), numbers(rng, 3, 5, 6, dtype=np.int32)
    x[1, 2], y[2, :, 3] = top, top - 1  # the zero absorbs, and other sums saturate
    one = Problem(4, 6, 5, "min_plus", np.dtype(np.int32))
    for u in (x, x[:, ::-1], np.broadcast_to(x[1], x.shape)):
        got = gemm(u, y, semiring="min_plus")
        assert all(np.array_equal(got[i], product(one, u[i], y[i])) for i in range(3))
    p, q = a[:, 0] > 0, numbers(rng, 5, 6) > 0
    assert np.array_equal(gemm(p, q, semiring="lor_land"), p @ q)


@pytest.mark.parametrize("size", ((3, 4, 5), (40, 41, 42)))  # by the definition, and by numbered blocks of k
def test_the_k_that_elements_come_from(rng, size):
    m, n, k = size
    for of_a, of_b in (((4,), (4,)), ((2, 1), (3,)), ((), (2,))):
        a, b = numbers(rng, *of_a, m, k), numbers(rng, *of_b, k, n)
        terms = a[..., :, :, None] + b[..., None, :, :]
        for y in (b, np.asfortranarray(b)):
            best, argk = gemm_argk(a, y)
            assert np.array_equal(best, terms.min(-2))
            assert np.array_equal(argk, terms.argmin(-2))
    best, argk = gemm_argk(np.array([[[np.nan, 1.0, np.inf]]]), np.array([[[1.0], [np.nan], [2.0]]]))
    assert (best[0, 0, 0], argk[0, 0, 0]) == (np.inf, -1)


@pytest.fixture
def recorded(monkeypatch):
    """Return the two backends of this file as if they were installed."""
    both = {"one by one": _Plain(), "at once": _Batched()}
    for backend in both.values():
        type(backend).seen.clear()
    monkeypatch.setattr(registry, "find", lambda name: both[name])
    return both


def test_a_backend_without_the_ability_gets_product_after_product(rng, recorded):
    a, b, c = numbers(rng, 2, 3, 4, 5), numbers(rng, 5, 6), numbers(rng, 3, 4, 6)
    for name, problems in (("one by one", 6), ("at once", 1)):
        assert np.array_equal(gemm(a, b, c, beta=2, backend=name), a @ b + 2 * c)
        seen = recorded[name].seen
        assert len(seen) == problems
        assert seen[0].batch == ((2, 3) if name == "at once" else ())
        best, argk = gemm_argk(a, b, backend=name)
        assert np.array_equal(best, expected(a, b, "min_plus"))
        assert np.array_equal(argk, (a[..., :, :, None] + b).argmin(-2))


def test_an_empty_batch_reaches_no_backend(recorded):
    for name, backend in recorded.items():
        assert gemm(np.ones((0, 2, 3)), np.ones((3, 4)), backend=name).shape == (0, 2, 4)
        assert backend.seen == []


def test_a_backend_that_takes_no_batch_is_asked_for_none(recorded):
    plain = recorded["one by one"]
    batch = Problem(2, 2, 2, batch=(3,))
    assert "one product at a time" in plain.refuses(batch)
    assert plain.refuses(batch.of_one()) is None
    with pytest.raises(BackendUnavailable, match="one product at a time"):
        gemm_module.choose(batch, "one by one")


@pytest.mark.parametrize("products", (1 << 40, 1 << 55))
def test_a_batch_too_large_for_memory_is_one_message(products):
    a, b = np.broadcast_to(np.ones((4, 4)), (products, 4, 4)), np.ones((4, 4))
    for call in (gemm, gemm_argk):
        with pytest.raises(ProblemError, match="does not fit into memory") as raised:
            call(a, b, semiring="min_plus")
        assert "parts of the batch" in str(raised.value)


@pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
def test_a_product_too_large_for_memory_is_one_message_in_later_calls_too(semiring):
    gemm(np.ones((4, 4)), np.ones((4, 4)), semiring=semiring)
    a = np.broadcast_to(np.ones(()), (1 << 24, 4))
    for _ in range(2):
        with pytest.raises(ProblemError, match=r"does not fit into memory(.|\n)*call it for parts of rows of a"):
            gemm(a, a.T, semiring=semiring)


def test_nothing_is_written_where_memory_ends(rng, monkeypatch):
    a, b = numbers(rng, 3, 4, 4), numbers(rng, 3, 4, 4)
    before = a.copy()
    monkeypatch.setattr(gemm_module, "_aside", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(ProblemError, match="does not fit into memory"):
        gemm(a, b, a, out=a)
    assert np.array_equal(a, before)


def test_a_broadcast_operand_is_not_copied():
    import tracemalloc

    a, b = np.broadcast_to(np.ones((64, 64)), (500, 64, 64)), np.broadcast_to(np.ones((64, 64)), (500, 64, 64))
    out = np.empty((500, 64, 64))
    for options in ({}, {"alpha": 2.0}, {"semiring": "min_plus"}):
        gemm(a, b, out=out, **options)
        tracemalloc.start()
        gemm(a, b, out=out, **options)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < out.nbytes / 100
