"""logaddexp_plus by a product of exponentials: against the definition, above all where such a product loses terms."""

import itertools
import tracemalloc

import numpy as np
import pytest
from numba.core import event

from backends.cpu._ladder.execution import KernelExecution
from backends.cpu._log_sum import product as log_sum_product
from backends.cpu._log_sum.lines import LINE_BYTES, ROWS, Code
from backends.cpu._log_sum.product import LogSumExp
from backends.cpu._log_sum.scaling import Scale
from harness import SEMIRINGS, Backend, Operands, Problem, VerificationError, gemm, threads
from harness.plan import Plan
from harness.proof.contract import check_kernel
from harness.proof.magnitude import magnitude_of
from harness.proof.verify import allowed_error, verify

LOG = SEMIRINGS["logaddexp_plus"]
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
FLOAT32, FLOAT64 = DTYPES


def blas(x, y, out, accumulate):
    assert not accumulate
    np.matmul(x, y, out=out)


class OnBlas(Backend):
    """What a backend makes of the part."""

    name, step, idea, source = "cpu-log-sum-exp", 1, "exponentials", "this test"

    def plan(self, problem, machine):
        return Plan(problem, machine.threads)

    def prepare(self, plan, operands):
        problem = plan.problem
        kernel = LogSumExp(problem.semiring, problem.dtype, (problem.m, problem.n, problem.k), blas)
        return KernelExecution(plan, operands, kernel)


def compute(a, b, c=None):
    """Return the product of `a` and `b`, verified, and the kernel that computed it."""
    (m, k), n = a.shape, b.shape[1]
    problem = Problem(m, n, k, LOG, a.dtype, accumulate=c is not None)
    operands = Operands(a, b, c, np.full((m, n), np.nan, a.dtype))
    kernel = LogSumExp(LOG, a.dtype, (m, n, k), blas)
    with np.errstate(all="ignore"):  # BLAS reports the NaN that it is given
        KernelExecution(Plan(problem, 1), operands, kernel).run()
    verify(problem, operands, operands.out, seed=1)
    return operands.out, kernel


def apart(rng, shape, gap, dtype):
    """Return A and B whose largest terms do not meet: the even terms of A, the odd ones of B, lie lower by `gap`."""
    m, n, k = shape
    low = np.where(np.arange(k) % 2 == 0, -gap, 0.0)
    a = rng.uniform(-2, 0, (m, k)) + low
    b = rng.uniform(-2, 0, (k, n)) - gap - low[:, None]
    return a.astype(dtype), b.astype(dtype)


def far(rng, shape, size, dtype):
    """Return A and B of that size, each row and column of its own, whose terms are small where those are equal.

    All are multiples of 1/16, so that 0.5 can be added to A without rounding.
    """
    m, n, k = shape
    of_rows, of_columns = (size * rng.choice([1, 1, 0.5, -1], count) for count in (m, n))
    a, b = rng.integers(-32, 32, (m, k)) / 16 + of_rows[:, None], rng.integers(-32, 32, (k, n)) / 16 - of_columns
    return a.astype(dtype), b.astype(dtype)


def meeting_below(rng, shape, gap, dtype):
    """Return A and B whose terms are small, though the maxima of their rows and columns add up to about `gap`."""
    m, n, k = shape
    a, b = rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (k, n))
    a[:, 0] += gap
    b[0] -= gap + 1
    return a.astype(dtype), b.astype(dtype)


def by_definition(a, b, c=None):
    """Return log sum exp(a + b) in long double, for finite operands."""
    terms = a.astype(np.longdouble)[..., None] + b.astype(np.longdouble)[..., None, :, :]
    if c is not None:
        terms = np.concatenate([terms, c.astype(np.longdouble)[..., None, :]], -2)
    top = terms.max(-2)
    return top + np.log(np.exp(terms - top[..., None, :]).sum(-2))


def assert_accurate(got, exact, k):
    """Assert that errors are a few roundings of the result and of each sum, whatever the operands are."""
    assert (np.abs(got - exact) <= (k + 8) * np.finfo(got.dtype).eps * (np.abs(exact) + 1)).all()


# --------------------------------------------------------------------------------------------------------- the contract


def test_a_backend_made_of_it_keeps_the_contract():
    """On BLAS; on generated kernels it is cpu-simd's, which the contract tests have."""
    with np.errstate(all="ignore"):
        findings = list(check_kernel(OnBlas(), LOG, FLOAT32))
    assert [finding.detail for finding in findings if finding.status != "ok"] == []
    assert {"sizes", "layouts", "alpha and beta", "special values", "identity"} <= {
        finding.what.split(": ")[-1] for finding in findings
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes_around_the_blocks_of_rows_and_the_strips_of_columns(dtype, rng):
    width = LINE_BYTES // dtype.itemsize
    for m, n, k in itertools.product((1, ROWS - 1, ROWS + 1), (1, width - 1, width, 2 * width + 1), (1, 2, ROWS + 1)):
        for accumulate in (False, True):
            c = rng.standard_normal((m, n)).astype(dtype) if accumulate else None
            compute(rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype), c)
            compute(*apart(rng, (m, n, k), 3000.0, dtype), c)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_pair_of_special_values_at_two_places_of_k(dtype):
    info = np.finfo(dtype)
    values = [np.nan, np.inf, -np.inf, 0.0, 3.0, -900.0, 900.0, info.max, info.min]
    a = np.array(list(itertools.product(values, repeat=2)), dtype)
    compute(a, a.T)
    for column in a:  # one column, so that no line is computed pairwise for the sake of another column
        compute(a, column[:, None])
    compute(a, a.T, np.resize(np.array(values, dtype), (a.shape[0], a.shape[0])))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_added_to_c_near_equal_and_far(dtype, rng):
    a, b = rng.uniform(-1, 1, (9, 1)).astype(dtype), rng.uniform(-1, 1, (1, 300)).astype(dtype)
    gaps = np.concatenate([np.linspace(-40, 40, 299), [0]])
    c = ((a + b).astype(np.float64) + gaps).astype(dtype)
    result, _ = compute(a, b, c)
    expected = np.logaddexp(c.astype(np.longdouble), (a + b).astype(np.longdouble))
    assert np.abs(result - expected).max() < 4 * np.finfo(dtype).eps * np.abs(expected).max()


def test_one_thread_and_two_agree(rng):
    a, b = apart(rng, (37, 300, 40), 100.0, FLOAT32)
    a[::3], b[:, ::3] = rng.uniform(-9, 0, a[::3].shape), rng.uniform(-9, 0, b[:, ::3].shape)
    results = []
    for count in (1, 2):
        with threads.limit(count):
            results.append(compute(a, b)[0])
    np.testing.assert_allclose(*results, rtol=1e-5)


# --------------------------------------------------------------------------------------------------------- what cancels


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", (1e4, 1e6, 1e30))
def test_rows_and_columns_that_cancel_lose_nothing(dtype, size, rng):
    width = LINE_BYTES // dtype.itemsize
    for m, n, k in itertools.product((1, ROWS + 1), (1, width - 1, width + 1), (1, 2, ROWS + 1)):
        a, b = far(rng, (m, n, k), size, dtype)
        c = rng.standard_normal((m, n)).astype(dtype)
        for c_or_none in (None, c):
            assert_accurate(compute(a, b, c_or_none)[0], by_definition(a, b, c_or_none), k)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_calls_with_alpha_batches_vectors_and_strides_lose_nothing_either(dtype, rng):
    log = {"semiring": "logaddexp_plus", "backend": "cpu-simd"}
    a, b = far(rng, (9, 33, 20), 1e4, dtype)
    c = rng.standard_normal((9, 33)).astype(dtype)
    assert_accurate(gemm(a, b, c, alpha=0.5, beta=0.25, **log), by_definition(a + dtype.type(0.5), b, c + 0.25), 20)
    assert_accurate(gemm(b.T, a.T, **log), by_definition(b.T, a.T), 20)
    assert_accurate(gemm(a[::2, ::-1], b[::-1, 1:2], **log), by_definition(a[::2], b[:, 1:2]), 20)
    batch_a, batch_b = np.stack([a, a[::-1]]), np.stack([b, b[::-1]])
    assert_accurate(gemm(batch_a, batch_b, **log), by_definition(batch_a, batch_b), 20)


@pytest.mark.parametrize(("dtype", "gaps"), ((FLOAT32, (9, 50, 75)), (FLOAT64, (50, 300, 600))), ids=str)
def test_terms_far_below_the_largest_ones_of_row_and_column_lose_nothing(dtype, gaps, rng):
    """The exponentials are of large negative numbers, whose roundings are large beside the sum."""
    for gap in gaps:
        a, b = meeting_below(rng, (9, 70, 5), gap, dtype)
        result, kernel = compute(a, b)
        assert not kernel._doubt.any()
        assert_accurate(result, by_definition(a, b), 5)


def test_maxima_whose_sum_overflows(rng):
    most = np.finfo(FLOAT32).max
    a = np.array([[most, -np.inf], [most, most], [-most, -most], [-np.inf, most]], FLOAT32)
    result, _ = compute(a, a.T.copy())
    assert np.isneginf([result[0, 3], result[2, 2]]).all()
    assert np.isposinf(result[1, :2]).all()
    assert result[1, 2] == np.float32(np.log(2))


PLANTED = {
    "u and v are not rounded": ("shift_of", lambda self, x: x),
    "the logarithm is": ("log_and", lambda self, x, e, shift: self.b.fadd(self.log(x, e), shift)),
    "differences are": ("exp_of_difference", lambda self, x, y, *how: self.exp(self.b.fsub(x, y), *how)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("planted", PLANTED)
def test_the_proof_sees_what_cancels(planted, dtype, monkeypatch, rng):
    passes = log_sum_product.scale_rows, log_sum_product.scale_columns, log_sum_product.logarithms
    name = f"planted {planted}"
    monkeypatch.setattr(Code, *PLANTED[planted])
    monkeypatch.setattr(log_sum_product, "compile_passes", lambda of: log_sum_product._compile(name, of, *passes))
    with pytest.raises(VerificationError):
        compute(*meeting_below(rng, (9, 70, 2), 75 if dtype == FLOAT32 else 600, dtype))


# --------------------------------------------------------------------------------------------------------- what is lost


@pytest.mark.parametrize(("dtype", "gaps"), ((FLOAT32, range(0, 240, 2)), (FLOAT64, range(0, 1800, 12))), ids=str)
@pytest.mark.parametrize("k", (2, 3, 64))
def test_no_gap_between_what_the_largest_terms_meet_loses_a_digit(dtype, gaps, k, rng):
    """From gaps where X Y is exact over those where it loses digits to those where nothing is left of it."""
    doubts = set()
    for gap in gaps:
        result, kernel = compute(*apart(rng, (3, 5, k), float(gap), dtype))
        assert np.isfinite(result).all()
        doubts.add(bool(kernel._doubt.any()))
    assert doubts == {False, True}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_that_loses_terms_beside_a_narrow_column_and_the_other_way_round(dtype):
    """The row's largest term meets nothing, so what is left of the others is the sum, and must not be trusted."""
    low = float(Scale.of(dtype, 3).floor)
    b = np.array([[-np.inf, -np.inf], [0.0, -1.0], [-1.0, -3.0]], dtype)
    for offset in np.linspace(-30, 30, 61):
        a = np.array([[0.0, low + offset, low + offset + 0.5], [0.0, -1.0, -2.0]], dtype)
        compute(a, b)
        compute(b.T.copy(), a.T.copy())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_the_test_for_doubt_the_result_is_wrong(dtype, rng, monkeypatch):
    """Plants the mistake: every sum is trusted."""
    trusting = Scale.of
    monkeypatch.setattr(Scale, "of", lambda dtype, k: trusting(dtype, k)._replace(limit=dtype.type(0)))
    last = -float(trusting(dtype, 64).floor)
    for gap in (last - 1, last + 1):  # some of the terms are lost, and all
        with pytest.raises(VerificationError):
            compute(*apart(rng, (9, 10, 64), gap, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_the_test_for_narrow_rows_the_result_is_wrong(dtype, rng, monkeypatch):
    """Plants the mistake: every row and column passes for narrow."""
    careful = Scale.of
    monkeypatch.setattr(Scale, "of", lambda dtype, k: careful(dtype, k)._replace(narrow=dtype.type(-np.inf)))
    with pytest.raises(VerificationError):
        compute(*apart(rng, (9, 10, 64), 3000.0, dtype))


# ------------------------------------------------------------------------------------------------- what is not in doubt


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lowest", (-20.0, -200.0))
def test_log_probabilities_are_not_in_doubt(dtype, lowest, rng):
    a, b = rng.uniform(lowest, 0, (40, 256)).astype(dtype), rng.uniform(lowest, 0, (256, 300)).astype(dtype)
    _, kernel = compute(a, b)
    assert not kernel._doubt.any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_transitions_that_are_impossible_are_not_in_doubt(dtype, rng):
    """A left-to-right model: most terms are -inf, and so are most sums, which the products show exactly."""
    i = np.arange(200)
    a = np.where((i >= i[:, None]) & (i <= i[:, None] + 3), rng.uniform(-20, 0, (200, 200)), -np.inf).astype(dtype)
    result, kernel = compute(a, a)
    assert not kernel._doubt.any()
    assert np.isneginf(result).mean() > 0.9


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_and_columns_of_nothing_or_of_nan_are_settled_by_their_maxima(dtype, rng):
    a, b = rng.uniform(-20, 0, (11, 30)).astype(dtype), rng.uniform(-20, 0, (30, 90)).astype(dtype)
    a[3], a[5, 7], b[:, 4], b[9, 80] = -np.inf, np.nan, -np.inf, np.nan
    a[8, 1:], b[1:, 60] = -np.inf, -np.inf  # single terms beside NaN
    result, kernel = compute(a, b)
    assert not kernel._doubt.any()
    assert np.isneginf(np.delete(result[3], 80)).all()
    assert np.isnan(result[5]).all()
    assert np.isnan(result[:, 80]).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_single_term_comes_through_bit_for_bit(dtype, rng):
    n = 2 * LINE_BYTES // dtype.itemsize + 3
    a, order = rng.uniform(-20, 0, (17, n)).astype(dtype), rng.permutation(n)
    permutation = np.full((n, n), -np.inf, dtype)
    permutation[order, np.arange(n)] = 0
    np.testing.assert_array_equal(compute(a, permutation)[0], a[:, order])
    np.testing.assert_array_equal(compute(permutation.T.copy(), a.T.copy())[0], a.T[order])
    mixed = permutation.copy()
    mixed[:, ::2] = rng.uniform(-20, 0, mixed[:, ::2].shape)
    np.testing.assert_array_equal(compute(a, mixed)[0][:, 1::2], a[:, order[1::2]])


# ------------------------------------------------------------------------------------------------------------ resources


@pytest.mark.parametrize("gap", (0.0, 3000.0))
def test_a_run_allocates_nothing(gap, rng):
    m, n, k = 120, 130, 140
    a, b = apart(rng, (m, n, k), gap, FLOAT32)
    kernel, out = LogSumExp(LOG, FLOAT32, (m, n, k), blas), np.empty((m, n), FLOAT32)
    kernel(a, b, out, False)
    tracemalloc.start()
    try:
        kernel(a, b, out, False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < m * n  # bytes: a quarter of a matrix


def test_a_second_dtype_needs_nothing_of_numba(rng):
    a, b = apart(rng, (9, 10, 11), 3000.0, FLOAT64)
    compute(a, b)
    compiled = []

    class Listener(event.Listener):
        def on_start(self, happened):
            compiled.append(happened.data["dispatcher"])

        def on_end(self, happened):
            pass

    with event.install_listener("numba:compile", Listener()):
        kernel = LogSumExp(LOG, FLOAT32, (9, 10, 11), blas)
        kernel(a.astype(FLOAT32), b.astype(FLOAT32), np.empty((9, 10), FLOAT32), False)
    assert compiled == []


@pytest.mark.parametrize("k", (1, 2, 3, 1000, 1 << 20))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_largest_scale_leaves_room_for_k_products(dtype, k):
    exponent = int(Scale.of(dtype, k).exponent)
    largest = float(np.finfo(dtype).max)
    assert k * 2.0 ** min(exponent, 1000) < largest
    assert exponent + np.log2(k) > np.finfo(dtype).maxexp - 6


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pairwise_lines_are_right_within_a_fraction_of_the_bound(dtype, rng):
    a, b = apart(rng, (20, 150, 200), 5000.0, dtype)
    result, kernel = compute(a, b)
    assert kernel._doubt.all()
    problem, terms = Problem(20, 150, 200, LOG, dtype), (a[:, :, None] + b[None]).astype(np.longdouble)
    top = terms.max(axis=1)
    exact = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    allowed = allowed_error(problem, exact, magnitude_of(problem, a, b))
    assert (np.abs(result - exact) / allowed).max() < 0.25
