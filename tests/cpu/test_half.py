"""float16: over which semirings it is a dtype of products, and `cpu-half`, whose float32 must not be seen."""

import numpy as np
import pytest

from backends.cpu.half import prepare_convert
from harness import (
    SEMIRINGS,
    Operands,
    PlanError,
    Problem,
    ProblemError,
    Semiring,
    gemm,
    gemm_argk,
    registry,
    symv,
    syr,
    syrk,
)
from harness.api.arguments import choose_dtypes
from harness.errors import BackendUnavailable
from harness.machine import detect
from harness.paths import shortest_paths
from harness.proof import reference
from harness.semiring import DTYPES, HALF

SELECTIVE = ("min_plus", "max_plus", "max_min", "min_max", "max_times", "min_times")
TAKEN = (*(SEMIRINGS[name] for name in SELECTIVE), *(Semiring.of("max", x) for x in ("absdiff", "first", "pair")))
BACKEND = registry.find("cpu-half")

# Every float16, and what each of them is paired with: special values, halves of the last place, and some of each size.
ALL = np.arange(1 << 16, dtype=np.uint16).view(HALF)
# Without signalling NaN: whether np.fmax drops one depends on the processor.
QUIET = np.where(np.isnan(ALL), ALL.view(np.uint16) | np.uint16(0x200), ALL.view(np.uint16)).view(HALF)
SOME = np.array(
    [np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 65504, -65504, 6e-8, -6e-8, 6.1e-5, 2049, 0.5, 1e-3, 3.3, -777, 0.1], HALF
)


def same(x, y):
    return x.dtype == y.dtype == HALF and np.array_equal(x, y, equal_nan=True)


def compute(problem, a, b, c=None):
    """Return the product, its float32 part by NumPy, where nothing need be compiled."""
    operands = Operands(a, b, c, np.full((problem.m, problem.n), np.nan, HALF))
    execution = BACKEND.prepare(BACKEND.plan(problem, detect()).override({"base": "cpu-numpy"}), operands)
    execution.run()
    return execution.result()


class TestRule:
    @pytest.mark.parametrize("semiring", TAKEN, ids=lambda semiring: semiring.name)
    def test_float16_is_taken_where_nothing_is_rounded_twice(self, semiring):
        assert Problem(1, 1, 1, semiring, HALF).dtype == HALF

    @pytest.mark.parametrize(
        "semiring",
        [
            *(x for x in SEMIRINGS.values() if not x.add.is_selective and "f" in x.add.kinds),
            Semiring.of("min", "sqdiff"),
            Semiring.of("times", "max"),
            Semiring.from_functions("own", min, lambda x, y: x * y + x, zero=np.inf, is_selective=True),
        ],
        ids=lambda semiring: semiring.name,
    )
    def test_it_is_refused_where_something_would_be(self, semiring):
        with pytest.raises(ProblemError, match="does not take float16: elements would be rounded") as caught:
            Problem(1, 1, 1, semiring, HALF)
        assert "float32" in caught.value.expected or semiring.name == "own"

    def test_sums_are_offered_in_float32(self):
        with pytest.raises(ProblemError) as caught:
            gemm(SOME[:, None], SOME[None])
        assert "dtype='float32' in the call" in caught.value.fix

    def test_dtype_says_float16_or_nothing(self):
        half, byte, single = (np.ones((2, 2), dtype) for dtype in (HALF, np.int8, np.float32))
        assert choose_dtypes("gemm", {"a": half, "b": half}, "float16") == (HALF, None)
        assert choose_dtypes("gemm", {"a": half, "b": byte}, None) == (HALF, None)
        assert choose_dtypes("gemm", {"a": half, "b": single}, None) == (single.dtype, None)
        with pytest.raises(ProblemError, match="no mixed products"):
            gemm(half, half, semiring="min_plus", dtype="float32")

    def test_backends_see_it_only_if_they_say_so(self):
        able = {backend.name for backend in registry.able(Problem(4, 4, 4, "min_plus", HALF))}
        assert "cpu-half" in able
        assert able <= {entry.name for entry in registry.discover() if entry.backend and "half" in entry.backend.takes}
        with pytest.raises(BackendUnavailable, match="no arithmetic over float16"):
            gemm(SOME[:, None], SOME[None], semiring="min_plus", backend="cpu-numpy")

    def test_cpu_half_takes_nothing_else(self):
        others = [dtype for dtype in DTYPES if dtype != HALF and not SEMIRINGS["min_plus"].unsupported(dtype)]
        assert all(BACKEND.refuses(Problem(1, 1, 1, "min_plus", dtype)) == "float16 only" for dtype in others)


class TestTerms:
    @pytest.mark.parametrize("semiring", TAKEN, ids=lambda semiring: semiring.name)
    def test_every_value_with_some_others_is_rounded_as_if_once(self, semiring):
        a, b = QUIET[:, None], SOME[None]
        problem = Problem(QUIET.size, SOME.size, 1, semiring, HALF)
        assert same(compute(problem, a, b), reference.product(problem, a, b))

    @pytest.mark.parametrize("semiring", ("min_plus", "max_times"))
    def test_alpha_and_beta_round_as_operations_of_their_own(self, semiring, rng):
        a, b, c = (rng.standard_normal(shape).astype(HALF) for shape in ((40, 9), (9, 30), (40, 30)))
        a[0], a[1] = 60000, -60000  # alpha makes infinities of these
        for alpha, beta in ((1.1, None), (None, -0.3), (6000.0, 7000.0)):
            problem = Problem(40, 30, 9, semiring, HALF, alpha=alpha, beta=beta, accumulate=True)
            assert same(compute(problem, a, b, c), reference.product(problem, a, b, c))

    def test_what_overflows_only_when_it_is_rounded_is_infinite(self):
        largest = np.full((1, 1), 65504, HALF)
        assert compute(Problem(1, 1, 1, "min_plus", HALF), largest, largest)[0, 0] == np.inf
        assert compute(Problem(1, 1, 1, "max_times", HALF), largest, -largest)[0, 0] == -np.inf


class TestTriangles:
    """Only what lies on and below a diagonal is used and written, though NaN lies above."""

    @pytest.mark.parametrize(
        ("semiring", "add", "multiply"),
        (("min_plus", np.minimum, np.add), ("max_times", np.maximum, np.multiply)),
    )
    @pytest.mark.parametrize("order", ("C", "F"))
    def test_are_those_of_the_definition(self, semiring, add, multiply, order, rng):
        n = 37
        a, c = (np.asarray(rng.standard_normal((n, n)), HALF, order=order) for _ in "ac")
        x, y, above = a[:, 3].copy(), a[5].copy(), ~np.tri(n, dtype=bool)
        whole = np.where(above, a.T, a)
        a[above], c[above] = np.nan, 7
        scaled = multiply(HALF.type(1.5), whole)
        assert same(symv(a, x, semiring=semiring), add.reduce(multiply(whole, x), -1))
        assert same(symv(a, x, y, alpha=1.5, semiring=semiring), add(y, add.reduce(multiply(scaled, x), -1)))
        terms = add.reduce(multiply(scaled[:, None], whole), -1)
        assert same(gemm(a, whole.T, alpha=1.5, triangle="a", semiring=semiring), terms)
        updated = syrk(whole, c, alpha=1.5, out=c.copy("K"), semiring=semiring)
        assert same(updated, np.where(above, c, add(c, terms)))
        assert same(syr(x, c, out=c, semiring=semiring), np.where(above, 7, add(c, multiply.outer(x, x))))
        zero = SEMIRINGS[semiring].zero(HALF)
        assert same(syr(x, semiring=semiring), np.where(above, zero, multiply.outer(x, x)))


class TestConversion:
    """Between all float16, and float32 of every kind, against NumPy; in rows, in columns, and with gaps."""

    def test_every_float16_is_widened_exactly(self):
        for source in (ALL.reshape(256, 256), ALL.reshape(256, 256).T, ALL.reshape(64, 1024)[:, ::2]):
            target = np.zeros_like(source, np.float32)
            with np.errstate(invalid="ignore"):  # on ARM, of a signalling NaN
                prepare_convert(source, target)()
                right = source.astype(np.float32)
            assert np.array_equal(target, right, equal_nan=True)
            assert np.array_equal(np.signbit(target), np.signbit(source))

    def test_float32_are_rounded_to_nearest_and_ties_to_even(self, rng):
        numbers = np.sort(ALL[ALL >= 0][:0x7C00].astype(np.float64))
        ties = ((numbers[:-1] + numbers[1:]) / 2).astype(np.float32)
        ends = np.array([65519.996, 65520, 65520.004, 3e38, np.inf, np.nan, 0, 1e-45, 2**-25], np.float32)
        near = [f(ties, np.float32(to)) for f, to in ((np.nextafter, 0), (np.nextafter, np.inf))]
        any_bits = rng.integers(0, 2**32, 1 << 16, np.uint32).view(np.float32)
        given = np.concatenate([ties, *near, ends, any_bits])
        for source in (given[None], -given[:, None], np.repeat(given, 2)[None, ::2]):
            target = np.zeros_like(source, HALF)
            with np.errstate(all="ignore"):
                prepare_convert(source, target)()
                expected = source.astype(HALF)
            assert same(target, expected)
            assert np.array_equal(np.signbit(target), np.signbit(expected))


class TestBase:
    def test_is_the_default_backend_unless_another_is_named(self):
        plan = BACKEND.plan(Problem(8, 9, 7, "min_plus", HALF), detect())
        assert plan.options["base"] == "cpu-simd"
        operands = Operands.generate(plan.problem, 1)
        expected = reference.product(plan.problem, operands.a, operands.b)
        for name in ("cpu-naive", "cpu-numpy"):
            execution = BACKEND.prepare(plan.override({"base": name}), operands)
            execution.run()
            assert same(execution.result(), expected)

    @pytest.mark.parametrize("name", ("cpu-half", "cpu-mixed", "nothing"))
    def test_must_compute_the_product_over_float32(self, name):
        plan = BACKEND.plan(Problem(8, 9, 7, "min_plus", HALF), detect()).override({"base": name})
        with pytest.raises(PlanError, match="base is no backend"):
            BACKEND.prepare(plan, Operands.generate(plan.problem, 1))


def test_closures_follow_and_which_k_it_was_is_asked_of_wider_floats():
    a = np.array([[0, 1.5, np.inf], [np.inf, 0, 2], [3, np.inf, 0]], HALF)
    assert shortest_paths(a).tolist() == [[0, 1.5, 3.5], [5, 0, 2], [3, 4.5, 0]]
    with pytest.raises(BackendUnavailable, match="no float16 is searched"):
        gemm_argk(a, a)
