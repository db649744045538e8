"""einsum against loops over all indices, with operators written anew, and against numpy.einsum."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import operator
import random

import numpy as np
import pytest

from harness import Semiring, einsum
from harness.contraction import evaluation, recipes
from harness.contraction import path as paths
from harness.contraction.subscripts import read
from harness.errors import BackendUnavailable, ProblemError
from tests._support import fake_backends
from tests._support.bools import assert_bools, bools_of_any_byte, truth

RNG = np.random.default_rng(19)

# (+), (x) and the zero, for the loops. `most` counts no further than 2: neither idempotent nor invertible.
LOOPS = {
    "plus_times": (operator.add, operator.mul, 0.0),
    "min_plus": (min, operator.add, math.inf),
    "plus_pair": (operator.add, lambda *_: 1.0, 0.0),
    "plus_min": (operator.add, min, 0.0),
    "logaddexp_plus": (np.logaddexp, operator.add, -math.inf),
    "min_first": (min, lambda x, _: x, math.inf),
    "most": (lambda c, t: min(c + t, 2.0), lambda x, y: 1.0 if x > y else 0.0, 0.0),
}
SEMIRINGS = {
    "min_first": Semiring.of("min", "first"),
    "most": Semiring.from_functions("most", lambda c, t: min(c + t, 2.0), lambda x, y: 1.0 if x > y else 0.0, zero=0.0),
}
# Those of the table that few other tests compile vector code for are computed by the simplest loops.
BACKENDS = {"plus_times": "auto", "min_plus": "auto"}


def by_loops(name, subscripts, *operands):
    """Return the contraction, one term after the other."""
    add, multiply, zero = LOOPS[name]
    contraction = read(subscripts, tuple(x.shape for x in operands))
    result = np.full(contraction.shape, zero)
    labels = list(contraction.sizes)
    for index in itertools.product(*(range(contraction.sizes[label]) for label in labels)):
        at = dict(zip(labels, index, strict=True))
        factors = [
            float(x[tuple(at[label] if size > 1 else 0 for label, size in zip(axes, x.shape, strict=True))])
            for x, axes in zip(operands, contraction.inputs, strict=True)
        ]
        place = tuple(at[label] for label in contraction.output)
        result[place] = add(result[place], functools.reduce(multiply, factors))
    return result


def check(name, subscripts, *operands, **options):
    options = {"backend": BACKENDS.get(name, "cpu-naive"), **options}
    got = einsum(subscripts, *operands, semiring=SEMIRINGS.get(name, name), **options)
    np.testing.assert_allclose(got, by_loops(name, subscripts, *operands), atol=1e-13, err_msg=f"{name} {subscripts}")
    return got


def drawn(rng, count):
    """Return subscripts and operands: letters twice, letters of one operand alone, ellipses, sizes 0 and 1, views."""
    sizes = {letter: int(rng.choice([0, 1, 2, 3], p=[0.03, 0.17, 0.4, 0.4])) for letter in "abcd"}
    batch = [int(size) for size in rng.integers(1, 4, rng.integers(0, 3))]
    terms, operands = [], []
    for _ in range(count):
        letters = [str(letter) for letter in rng.choice(list("abcd"), rng.integers(0, 4))]
        hidden = batch[len(batch) - int(rng.integers(0, len(batch) + 1)) :]
        shape = [1 if rng.random() < 0.1 and letters.count(letter) == 1 else sizes[letter] for letter in letters]
        at = int(rng.integers(0, len(letters) + 1))
        terms.append("".join([*letters[:at], "...", *letters[at:]]))
        shape[at:at] = [1 if rng.random() < 0.1 else size for size in hidden]
        order = rng.permutation(len(shape))
        x = rng.standard_normal([2 * shape[axis] for axis in order])
        operands.append(x[tuple(slice(None, None, 2) for _ in shape)].transpose(np.argsort(order)))
    known = sorted({letter for term in terms for letter in term if letter.isalpha()})
    output = [letter for letter in known if rng.random() < 0.5]
    rng.shuffle(output)
    stated = "" if rng.random() < 0.1 else "->..." + "".join(output)
    return ",".join(terms) + stated, operands


class TestAnyContraction:
    @pytest.mark.deep(but=4)
    @pytest.mark.parametrize(
        ("name", "count", "number"),
        [
            *((name, 2, 60) for name in LOOPS),
            *((name, count, 15) for name in ("plus_times", "min_plus", "logaddexp_plus") for count in (3, 4)),
            *((name, 1, 30) for name in ("plus_times", "min_plus", "plus_pair")),
        ],
    )
    def test_of_operands_over(self, name, count, number):
        rng = np.random.default_rng(count)
        for _ in range(number):
            subscripts, operands = drawn(rng, count)
            check(name, subscripts, *operands)

    def test_as_numpy_does(self):
        rng = np.random.default_rng(4)
        for count in (1, 2, 2, 2, 3):
            for _ in range(40):
                subscripts, operands = drawn(rng, count)
                expected = np.einsum(subscripts, *operands)
                got = einsum(subscripts, *operands)
                np.testing.assert_allclose(got, expected, atol=1e-12, err_msg=subscripts)
                assert got.shape == np.shape(expected)

    def test_of_integers_that_stand_for_infinity(self):
        none = np.iinfo(np.int64).max
        x = np.array([[none, 3, -4], [none, none, 5]])
        best = einsum("ij,ik->jk", x, x, semiring="min_plus")
        assert best.tolist() == [[none, none, none], [none, 6, -1], [none, -1, -8]]
        assert einsum("ij->j", x, semiring="min_plus").tolist() == [none, 3, -4]

    def test_of_bools_of_any_byte(self):
        x = bools_of_any_byte(np.random.default_rng(5), (5, 5))
        assert_bools(einsum("ij->ji", x, semiring="lor_land"), truth(x).T)
        assert_bools(einsum("ii->i", x, semiring="lxor_land"), truth(x).diagonal())
        assert_bools(einsum("ij->i", x, semiring="lxor_land"), np.logical_xor.reduce(truth(x), axis=1))
        assert_bools(einsum("ij,ij->ij", x, x, semiring=Semiring.of("land", "lor")), truth(x))

    def test_of_bools(self):
        x = np.array([[True, False], [False, False]])
        assert einsum("ij,jk->ik", x, x, semiring="lor_land").tolist() == x.tolist()
        assert einsum("ij->", x, semiring="lor_land").item() is True


class TestSumsOfOneOperand:
    def test_counts_every_term(self):
        a, b = np.ones((2, 3, 4)), np.ones((4, 5))
        np.testing.assert_array_equal(check("plus_pair", "isk,kj->ij", a, b), 12.0)

    def test_is_the_zero_over_nothing(self):
        for name, zero in (("plus_times", 0.0), ("min_plus", np.inf), ("plus_pair", 0.0)):
            a, b = np.full((2, 0, 4), np.nan), np.full((4, 3), np.inf)
            np.testing.assert_array_equal(einsum("isk,kj->ij", a, b, semiring=name), np.full((2, 3), zero))
        np.testing.assert_array_equal(einsum("ij,jk,kl", np.ones((2, 0)), np.ones((0, 2)), np.full((2, 2), np.inf)), 0)


def every_path(count):
    """Yield each path for that number of operands."""
    if count == 1:
        yield []
    for step in itertools.combinations(range(count), 2):
        yield from ([step, *rest] for rest in every_path(count - 1))


def operations(path, inputs, output, sizes):
    """Return how many elements the operands of all steps of a path have together, that is, pairs to multiply."""
    count, inputs = 0, [{*labels} for labels in inputs]
    for i, j in path:
        both = inputs[i] | inputs[j]
        inputs = [labels for at, labels in enumerate(inputs) if at not in (i, j)]
        inputs.append({x for x in both if x in output or any(x in labels for labels in inputs)})
        count += math.prod(sizes[x] for x in both)
    return count


class TestPaths:
    OPERANDS = tuple(RNG.standard_normal(shape) for shape in ((3, 4), (4, 5), (5, 2), (2, 3)))

    @pytest.mark.parametrize("path", ([(0, 1), (0, 1), (0, 1)], [(2, 3), (1, 2), (0, 1)], [(0, 3), (1, 2), (0, 1)]))
    @pytest.mark.parametrize("name", ("plus_times", "min_plus"))
    def test_every_path_gives_the_contraction(self, path, name):
        check(name, "ab,bc,cd,de->ae", *self.OPERANDS, path=path)

    @pytest.mark.parametrize("optimize", (True, False, "greedy", "optimal"))
    def test_takes_the_path_of_numpy(self, optimize):
        path, _ = np.einsum_path("ab,bc,cd,de->ae", *self.OPERANDS, optimize=optimize)
        check("plus_times", "ab,bc,cd,de->ae", *self.OPERANDS, path=path)

    @pytest.mark.parametrize("path", ([(0, 1, 2, 3)], [(3, 1, 0), (0, 1)], [(0, 2), (0, 1, 2)]))
    def test_steps_of_more_than_two_operands_are_pairs_from_the_left(self, path):
        check("min_plus", "ab,bc,cd,de->ae", *self.OPERANDS, path=path)

    @pytest.mark.parametrize("has_opt_einsum", (False, True))
    @pytest.mark.parametrize("path", (None, True, False, *paths.WAYS))
    def test_ways_to_find_a_path_as_numpy_names_them(self, monkeypatch, path, has_opt_einsum):
        if has_opt_einsum:
            pytest.importorskip("opt_einsum")
        else:
            monkeypatch.setattr(paths, "_opt_einsum", lambda: None)
        check("min_plus", "ab,bc,cd,de->ae", *self.OPERANDS, path=path)
        check("plus_times", "a,b,c->abc", *(x[:, 0] for x in self.OPERANDS[:3]), path=path)
        check("plus_times", "ab,bc->ac", *self.OPERANDS[:2], path=path)
        check("plus_times", "ab->b", self.OPERANDS[0], path=path)

    @pytest.mark.parametrize("path", paths.OF_OPT_EINSUM)
    def test_ways_of_opt_einsum_say_what_they_need(self, monkeypatch, path):
        if importlib.util.find_spec("opt_einsum"):
            check("plus_times", "ab,bc,cd,de->ae", *self.OPERANDS, path=path)
        monkeypatch.setattr(paths, "_opt_einsum", lambda: None)
        with pytest.raises(ProblemError, match=r"(?s)expected  auto, greedy, optimal\n.*pip install opt_einsum"):
            einsum("ab,bc,cd,de->ae", *self.OPERANDS, path=path)

    def test_no_path_takes_fewer_operations_than_the_optimal_one(self):
        """Against all of them, over operands that share indices in pairs, in threes, or not at all."""
        for seed in range(30):
            rng = random.Random(seed)
            inputs = [tuple(rng.sample("abcdef", rng.randint(1, 3))) for _ in range(rng.randint(3, 5))]
            several = {x for labels in inputs for x in labels if sum(x in other for other in inputs) > 1}
            inputs = [tuple(x for x in labels if x in several) for labels in inputs]
            output, sizes = tuple(rng.sample(sorted(several), min(2, len(several)))), {x: ord(x) - 95 for x in "abcdef"}
            found = paths._optimal(inputs, output, sizes)
            assert operations(found, inputs, output, sizes) == min(
                operations(path, inputs, output, sizes) for path in every_path(len(inputs))
            )

    def test_without_opt_einsum_it_is_greedy(self, monkeypatch):
        monkeypatch.setattr(paths, "_opt_einsum", lambda: None)
        sizes = {"a": 100, "b": 2, "c": 100, "d": 2}
        assert paths.choose([("a", "b"), ("b", "c"), ("c", "d")], ("a", "d"), sizes) == [(1, 2), (0, 1)]
        check("min_plus", "ab,bc,cd,de->ae", *self.OPERANDS)

    def test_of_opt_einsum_where_it_is_installed(self):
        pytest.importorskip("opt_einsum")
        sizes = {"a": 100, "b": 2, "c": 100, "...0": 2}
        assert paths.choose([("a", "b"), ("b", "c"), ("c", "...0")], ("a", "...0"), sizes)[0] == (1, 2)


class TestCopies:
    """Products are of views: what `gemm` is given begins where the operands do, and its strides stay inside."""

    X, Y, FLAT = RNG.standard_normal((6, 7, 8)), RNG.standard_normal((6, 8, 5)), RNG.standard_normal((8, 5))

    @pytest.mark.parametrize(
        ("subscripts", "operands", "shapes"),
        (
            ("bik,bkj->bij", (X, Y), ((6, 7, 8), (6, 8, 5))),
            ("ij,kj->ik", (X[0], X[1]), ((7, 8), (8, 7))),
            ("ij,jk->ki", (X[0], FLAT), ((7, 8), (8, 5))),
            ("bik,kj->bij", (X, FLAT), ((42, 8), (8, 5))),  # one product: rows of all matrices of x
            ("jk,bkl->bjl", (X[0], Y), ((1, 7, 8), (6, 8, 5))),  # y is a batch, x is repeated along it
            ("bik,bkj->ij", (X, Y), 1),  # two summed axes, which lie apart in x
            ("bik,bkj->ij", (X, X.swapaxes(1, 2)), 2),
            ("bik,bil->kl", (X, Y.swapaxes(1, 2)[:, :1].repeat(7, 1)), ((8, 42), (42, 8))),
            ("bik,kj->bij", (X[:, ::2], FLAT), ((4, 6, 8), (1, 8, 5))),  # rows with gaps: a batch
            ("i,j->ij", (X[0, 0], X[1, 1]), ((8, 1), (1, 8))),
            ("iik,kj->ij", (X[:, :6], FLAT), ((6, 8), (8, 5))),  # a diagonal is a stride
        ),
    )
    def test_operands_are_read_where_they_lie(self, subscripts, operands, shapes, monkeypatch):
        given = []
        recipes.forget()

        def gemm(a, b, *, out, **options):
            given.append((a, b))
            return by_gemm(a, b, out=out, **options)

        by_gemm = evaluation.gemm
        monkeypatch.setattr(evaluation, "gemm", gemm)
        got = einsum(subscripts, *operands)
        np.testing.assert_allclose(got, np.einsum(subscripts, *operands), atol=1e-12)
        ((a, b),) = given
        copied = [not np.shares_memory(mine, x) for mine, x in zip((a, b), operands, strict=True)]
        assert sum(copied) == (shapes if isinstance(shapes, int) else 0)
        assert isinstance(shapes, int) or (a.shape, b.shape) == shapes

    def test_sums_over_axes_that_lie_apart_read_the_operand_where_it_lies(self, monkeypatch):
        given, by_gemm = [], evaluation.gemm
        monkeypatch.setattr(evaluation, "gemm", lambda a, *x, **o: given.append(a) or by_gemm(a, *x, **o))
        np.testing.assert_allclose(einsum("ijk->j", self.X), self.X.sum((0, 2)))
        assert len(given) == 2  # one axis after the other
        assert np.shares_memory(given[0], self.X)

    @pytest.mark.parametrize("subscripts", ("ij,jk->ik", "ij,jk->ki"))
    def test_products_are_written_to_out(self, subscripts, monkeypatch):
        written, by_gemm = [], evaluation.gemm

        def gemm(a, b, *, out, **options):
            written.append(out)
            return by_gemm(a, b, out=out, **options)

        monkeypatch.setattr(evaluation, "gemm", gemm)
        out = np.empty((7, 5) if subscripts.endswith("ik") else (5, 7))
        assert einsum(subscripts, self.X[0], self.FLAT, out=out) is out
        assert np.shares_memory(written[0], out)
        np.testing.assert_allclose(out, np.einsum(subscripts, self.X[0], self.FLAT))

    def test_the_result_never_is_an_operand(self):
        x = RNG.standard_normal((4, 4))
        for subscripts in ("ij", "ij->ji", "ii->i"):
            assert not np.shares_memory(einsum(subscripts, x), x)


class TestFurtherCalls:
    """A call with layouts of an earlier one skips the lowering, and nothing else."""

    def test_give_the_same(self):
        recipes.forget()
        for subscripts, shapes in (
            ("bik,kj->jbi", ((2, 3, 4), (4, 5))),
            ("ij,jk", ((3, 4), (4, 2))),
            ("i,j->ji", ((3,), (2,))),
        ):
            for name in ("plus_times", "min_plus", "plus_pair"):
                for _ in range(2):
                    check(name, subscripts, *(RNG.standard_normal(shape) for shape in shapes))
        assert len(recipes._recipes) == 3

    def test_depend_on_strides(self):
        x, y = RNG.standard_normal((4, 4)), RNG.standard_normal((4, 4))
        for a, b in ((x, y), (x.T, y), (x, y.T), (x[::-1], y[:, ::-1]), (x, y)):
            check("plus_times", "ij,jk->ik", a, b)

    def test_keep_no_contraction_that_is_more_than_views(self):
        recipes.forget()
        x, y = RNG.standard_normal((4, 4)), RNG.standard_normal((1, 4))
        for subscripts, operands in (
            ("ii,ij->j", (x, x)),
            ("ij,jk->k", (x, x)),
            ("ij,kj->ik", (y, x)),
            ("ij,jk", (x[:0], x)),
        ):
            check("plus_times", subscripts, *operands)
        assert len(recipes._recipes) == 0

    def test_check_what_gemm_checks(self):
        x = np.ones((3, 3))
        einsum("ij,jk", x, x)
        with pytest.raises(ProblemError, match="unknown semiring"):
            einsum("ij,jk", x, x, semiring="plus_plus")


class TestOnGpu:
    def test_arrays_of_cupy_stay_there(self, monkeypatch):
        cupy = fake_backends.install(monkeypatch)
        rng = np.random.default_rng(5)
        for subscripts, shapes in (
            ("bik,bkj->bij", ((2, 3, 4), (2, 4, 5))),
            ("isk,kj->ji", ((3, 2, 4), (4, 5))),
            ("ij,jk,kl->il", ((3, 4), (4, 5), (5, 2))),
            ("iij->j", ((3, 3, 4),)),
            ("ij->ji", ((3, 4),)),
            ("ik,kj->ij", ((3, 0), (0, 2))),
            ("ik,kj->ij", ((3, 1), (4, 2))),
        ):
            operands = [rng.standard_normal(shape) for shape in shapes]
            for _ in range(2):
                got = einsum(subscripts, *map(cupy.asarray, operands))
                assert isinstance(got, cupy.ndarray)
                np.testing.assert_allclose(got.get(), np.einsum(subscripts, *operands), atol=1e-12, err_msg=subscripts)

    def test_no_mixture(self, monkeypatch):
        cupy = fake_backends.install(monkeypatch)
        with pytest.raises(ProblemError, match=r"einsum: operands\[1\] lies on a GPU, operands\[0\] does not"):
            einsum("ij,jk", np.ones((2, 2)), cupy.asarray(np.ones((2, 2))))


class TestOtherLibraries:
    def test_tensors_give_tensors(self):
        torch = pytest.importorskip("torch")
        x, y = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((4, 3))
        for subscripts, operands in (
            ("bik,kj->jbi", (x, y)),
            ("bik->k", (x,)),
            ("ik,kj,bik", (y.T, y, x)),
            ("ij,ji->", (y, y.T)),
        ):
            tensors = [torch.as_tensor(operand) for operand in operands]
            got = einsum(subscripts, *tensors)
            assert isinstance(got, torch.Tensor)
            np.testing.assert_allclose(got.numpy(), np.einsum(subscripts, *operands))
            out = torch.empty_like(got)
            assert einsum(subscripts, *tensors, out=out) is out
            assert torch.equal(out, got)

    def test_no_mixture_and_no_gradient(self):
        torch = pytest.importorskip("torch")
        x = torch.ones(2, 2)
        with pytest.raises(ProblemError, match=r"einsum: operands\[0\] is an array of PyTorch, operands\[1\] is not"):
            einsum("ij,jk", x, np.ones((2, 2)))
        with pytest.raises(ProblemError, match=r"einsum: operands\[1\] requires gradients"):
            einsum("ij,jk", x, x.clone().requires_grad_())


class TestOut:
    def test_may_be_an_operand(self):
        x = RNG.standard_normal((4, 4))
        for subscripts, more in (("ij,jk->ik", (x,)), ("ij->ji", ()), ("ij,jk,kl->li", (x, x))):
            out = x.copy()
            expected = np.einsum(subscripts, x, *more)
            assert einsum(subscripts, out, *more, out=out) is out
            np.testing.assert_allclose(out, expected, err_msg=subscripts)

    def test_may_have_gaps_and_axes_of_size_one(self):
        x, y = RNG.standard_normal((1, 3, 4)), RNG.standard_normal((4, 5))
        out = np.full((10, 1, 6), np.nan)[::2, :, ::2]
        einsum("bik,kj->jbi", x, y, out=out)
        np.testing.assert_allclose(out, np.einsum("bik,kj->jbi", x, y))

    def test_takes_what_has_no_terms(self):
        out = np.ones((2, 3))
        einsum("ik,kj->ij", np.ones((2, 0)), np.ones((0, 3)), out=out, semiring="min_plus")
        assert np.isposinf(out).all()


class TestDtypes:
    def test_are_promoted_over_all_operands(self):
        big = np.full((2, 2), 2**30, np.int32)
        got = einsum("ij,jk,kl->il", big, big, np.eye(2), path=[(0, 1), (0, 1)])
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, 2.0**61)  # int32 would have wrapped

    def test_narrow_operands_have_wide_sums(self):
        x = np.full((3, 200), 100, np.int8)
        assert einsum("ik,jk->ij", x, x, dtype="int32")[0, 0] == 2_000_000
        assert einsum("ik->i", x, dtype="int32").tolist() == [20_000] * 3
        half = np.ones((3, 3), np.float16)
        assert einsum("ij,jk,kl->il", half, half, half, dtype="float32").dtype == np.float32


# One message each: what is wrong, and of which call.
WRONG = (
    (("ik,kj=>ij", 2), "does not parse"),
    (("i..k,kj->ij", 2), "does not parse"),
    (("ik,kj->ij->i", 2), "does not parse"),
    (("ik,kj->ij", 1), "the terms are not as many as the operands"),
    (("ikl,kj->ij", 2), "term 0 does not fit its operand"),
    (("i,kj->ij", 2), "term 0 does not fit its operand"),
    (("ik,ij->kj", 2), None),
    (("ik,kj->iz", 2), "index 'z' of the result is in no operand"),
    (("ik,kj->ii", 2), "index 'i' occurs more than once in the result"),
    (("...k,kj->j", 2), "the result has no place for the axes of '...'"),
    (("ii,kj->ij", 2), "index 'i' has two sizes"),
    (("ik,ij", 2), "index 'i' has two sizes"),
)


@pytest.mark.parametrize(("call", "message"), WRONG, ids=str)
def test_bad_subscripts(call, message):
    subscripts, count = call
    operands = (np.ones((4, 3)), np.ones((3, 5)))[:count]
    if message is None:
        message = "index 'i' has two sizes"
    with pytest.raises(ProblemError, match=f"einsum '{subscripts.replace('.', '[.]')}': .*{message}"):
        einsum(subscripts, *operands)


@pytest.mark.parametrize(
    ("call", "message"),
    (
        (lambda x: einsum(x, "ij"), "einsum: a string of subscripts comes first"),
        (lambda x: einsum("ij"), "einsum: a string of subscripts comes first"),
        (lambda x: einsum("ij,jk", x, x.astype(object)), r"einsum: operands\[1\] does not hold numbers"),
        (lambda x: einsum("ij,jk", x, np.ma.masked_array(x)), r"einsum: operands\[1\] is a masked array"),
        (lambda x: einsum("ij,jk", x, x, out=np.empty((2, 3))), "einsum: out cannot take the result"),
        (lambda x: einsum("ij,jk", x, x, dtype="float32"), "einsum: dtype='float32' is not that"),
        (lambda x: einsum("ij,jk", x, x, dtype="nonsense"), "einsum: no common dtype"),
        (lambda x: einsum("ij,jk", x, x, semiring="plus_plus"), "unknown semiring 'plus_plus'"),
        (lambda x: einsum("ij,jk", x, x, semiring="lor_land"), "does not take float64"),
        (lambda x: einsum("ij,jk", x[:, :0], x[:0], semiring="lor_land"), "does not take float64"),
        (lambda x: einsum("ij,jk,kl", x, x, x, semiring="plus_pair"), "over 'plus_pair' 3 operands cannot"),
        (lambda x: einsum("ij,jk,kl", x, x, x, semiring="max_times"), "over 'max_times' 3 operands cannot"),
        (lambda x: einsum("ij,jk,kl", x, x, x, path=[(0, 1)]), "path does not contract 3 operands"),
        (lambda x: einsum("ij,jk,kl", x, x, x, path=[(0, 1), (0, 2)]), "path does not contract 3 operands"),
        *(
            (lambda x, path=path: einsum("ij,jk,kl", x, x, x, path=path), "path does not contract 3 operands")
            for path in (3, (), [(0,), (0, 1), (0, 1)], [(0.0, 1.0), (0, 1)], [(-1, 0), (0, 1)], [(0, 0), (0, 1)])
        ),
        (lambda x: einsum("ij,jk,kl", x, x, x, path="optimall"), "(?s)einsum: unknown path.*did you mean 'optimal'"),
        (lambda x: einsum("ij,jk", x, x) is einsum("ij,jk", x, x, path="nonsense"), "einsum: unknown path 'nonsense'"),
    ),
)
def test_bad_arguments(call, message):
    with pytest.raises(ProblemError, match=message):
        call(np.ones((3, 3)))


@pytest.mark.parametrize("subscripts", ("ij, jk -> ik", "ij,jk", "ij,...jk->...ik"))
def test_the_subscripts_of_a_batch_are_told(subscripts):
    x, y = np.ones((2, 3, 4)), np.ones((4, 5))
    with pytest.raises(ProblemError, match="term 0 does not fit its operand") as caught:
        einsum(subscripts, x, y)
    told = caught.value.fix.partition(" if ")[0].strip("'")
    assert np.array_equal(einsum(told, x, y), np.full((2, 3, 5), 4.0))


@pytest.mark.parametrize(
    ("call", "advice"),
    (
        (lambda x: einsum("ij,jk", x, x.astype(object)), "operands[1].astype(float), if its elements are numbers"),
        (lambda x: einsum("ij,jk", x, [["1"] * 3] * 3), "numpy.array(operands[1], float), if its elements are numbers"),
        (
            lambda x: einsum("ij,jk", x * 1j, x, semiring="min_plus"),
            "a real number of each: a.real, a.imag or abs(a), in the same way for b",
        ),
        (lambda x: einsum("hh->", x[:2]), "two letters, unless a diagonal is meant"),
        (
            lambda x: einsum("i...j->i...i", x),
            "'->...i'; with out=numpy.einsum('i...i->...i', d) it goes to the diagonal of an array d of zeros",
        ),
    ),
)
def test_advice_is_python(call, advice):
    with pytest.raises(ProblemError) as raised:
        call(np.ones((3, 3)))
    assert raised.value.fix == advice


def test_the_advice_for_a_diagonal_helps():
    x, d = RNG.standard_normal((3, 4, 2)), np.zeros((2, 3, 3))
    einsum("hij->hj", x, out=np.einsum("jhh->hj", d))
    for j in range(2):
        np.testing.assert_allclose(d[j], np.diag(x[..., j].sum(axis=1)))


def test_two_sizes_of_an_index_are_named_with_their_operands():
    with pytest.raises(ProblemError, match=r"index 'j' has two sizes(.|\n)*4 in operands\[1\], 3 in operands\[2\]"):
        einsum("ij,jk,jl", np.ones((2, 1)), np.ones((4, 2)), np.ones((3, 2)))


def test_options_reach_every_product():
    x = np.ones((3, 3))
    with pytest.raises(BackendUnavailable, match="cpu-nonsense"):
        einsum("ij,jk", x, x, backend="cpu-nonsense")
    with pytest.raises(ProblemError, match="threads"):
        einsum("ij->i", x, threads=0)


@pytest.mark.parametrize(("subscripts", "operands"), [("ij->ji", [np.ones((3, 3))]), ("i,i", [np.ones(0)] * 2)])
def test_options_are_checked_where_there_is_no_product(subscripts, operands):
    with pytest.raises(BackendUnavailable, match="cpu-nonsense"):
        einsum(subscripts, *operands, backend="cpu-nonsense")
    with pytest.raises(ProblemError, match="threads"):
        einsum(subscripts, *operands, threads=-5)


def test_a_semiring_of_the_users_own_that_is_commutative():
    least = Semiring.of("min", "plus").add.function
    declared = Semiring.from_functions(
        "capped", least, lambda x, y: min(x + y, 9.0), zero=math.inf, one=0.0, is_commutative=True
    )
    x = RNG.random((3, 3)) * 5
    got = einsum("ij,jk,kl->il", x, x, x, semiring=declared, backend="cpu-naive")
    terms = np.minimum(x[:, :, None, None] + x[:, :, None] + x, 9.0)
    np.testing.assert_allclose(got, terms.min((1, 2)))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_nan_is_copied_and_absent_from_a_sum_of_any_length(rows):
    x = np.array([[np.nan, 1.0, -np.inf]] * rows)
    np.testing.assert_array_equal(einsum("ij->ji", x, semiring="min_plus"), x.T)
    out = np.empty(3)
    for semiring, zero in (("min_plus", np.inf), ("max_times", -np.inf), ("plus_pair", np.nan)):
        for result in (einsum("ij->j", x, semiring=semiring), einsum("ij->j", x, semiring=semiring, out=out)):
            expected = [zero, rows, -np.inf] if semiring == "plus_pair" else [zero, 1.0, -np.inf]
            np.testing.assert_array_equal(result, expected)
