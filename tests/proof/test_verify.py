"""Planted bugs: verify must catch every one, say where, and name the mistake; and it must pass what is right."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from harness import SEMIRINGS, Operands, Problem, Semiring, VerificationError
from harness.operands import poison
from harness.proof.magnitude import magnitude_of
from harness.proof.reference import product
from harness.proof.verify import allowed_error, verify

DTYPES = [np.dtype(name) for name in ("float32", "float64", "int16", "uint8", "bool")]
KERNELS = [
    pytest.param(name, dtype, id=f"{name}-{dtype.name}")
    for name, semiring in SEMIRINGS.items()
    for dtype in DTYPES
    if semiring.unsupported(dtype) is None
]
each_kernel = pytest.mark.parametrize(("name", "dtype"), KERNELS)


def _solved(problem: Problem, seed: int = 1) -> tuple[Operands, np.ndarray]:
    operands = Operands.generate(problem, seed)
    return operands, product(problem, operands.a, operands.b, operands.c)


def _message(problem: Problem, operands: Operands, result: np.ndarray) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(problem, operands, result, seed=3)
    return str(caught.value)


def _other_value(result: np.ndarray, i: int, j: int) -> None:
    """Change one element by more than rounding."""
    if result.dtype.kind == "b":
        result[i, j] ^= True
    elif result.dtype.kind == "f":
        result[i, j] = result[i, j] * 1.01 + 0.1
    else:
        result[i, j] ^= 1


@each_kernel
def test_what_is_right_passes(name: str, dtype: np.dtype) -> None:
    problem = Problem(9, 10, 11, name, dtype, accumulate=True)
    said = verify(problem, *_solved(problem), seed=3)
    assert said.startswith("all 90 elements, ")
    assert ("exactly" in said) == problem.is_exact


@each_kernel
def test_one_wrong_element_is_caught_where_it_is(name: str, dtype: np.dtype) -> None:
    problem = Problem(9, 10, 11, name, dtype)
    operands, result = _solved(problem)
    _other_value(result, 4, 7)
    message = _message(problem, operands, result)
    assert "element [4, 7] is wrong" in message
    assert "1 of 90 elements compared are wrong: in this element alone" in message


@each_kernel
def test_an_output_that_nobody_wrote_is_caught(name: str, dtype: np.dtype) -> None:
    problem = Problem(9, 10, 11, name, dtype)
    operands, _ = _solved(problem)
    assert "the output was not written" in _message(problem, operands, operands.out)


@each_kernel
def test_another_seed_is_caught(name: str, dtype: np.dtype) -> None:
    if name == "plus_pair":
        return  # its product does not depend on any value
    problem = Problem(9, 10, 11, name, dtype)
    operands, _ = _solved(problem)
    _message(problem, operands, _solved(problem, seed=2)[1])


def _nan(result: np.ndarray) -> None:
    result[3, 5] = np.nan


def _unwritten_last_row(result: np.ndarray) -> None:
    poison(result[-1:])


def _unwritten_last_column(result: np.ndarray) -> None:
    poison(result[:, -1:])


def _wrong_edge(result: np.ndarray) -> None:
    result[8:] *= 2


def _infinite(result: np.ndarray) -> None:
    result[2, 2] = np.inf


def _negated(result: np.ndarray) -> None:
    result *= -1


PLANTED = [
    (_nan, r"\[3, 5\] is wrong[\s\S]*NaN, or output that was not written, in this element alone"),
    (_unwritten_last_row, "in the last row alone"),
    (_unwritten_last_column, "in the last column alone"),
    (_wrong_edge, "from row 8 to the last"),
    (_infinite, r"\[2, 2\] is wrong"),
    (_negated, "the sign is wrong"),
]


@pytest.mark.parametrize(("plant", "says"), PLANTED, ids=[plant.__name__.strip("_") for plant, _ in PLANTED])
@pytest.mark.parametrize("name", ["plus_times", "min_plus"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_planted_bug_is_caught_and_named(plant: Callable[[np.ndarray], None], says: str, name: str, dtype: str) -> None:
    problem = Problem(10, 12, 11, name, np.dtype(dtype))
    operands, result = _solved(problem)
    plant(result)
    assert re.search(says, _message(problem, operands, result))


def _mistakes() -> dict[str, Callable[[Operands], np.ndarray]]:
    """Return wrong products of a problem with alpha=2, beta=3 over min_plus, by what they should be called."""

    def of(semiring: str = "min_plus", **options: object) -> Callable[[Operands], np.ndarray]:
        settings = {"alpha": 2.0, "beta": 3.0, "accumulate": True, **options}
        return lambda o: product(Problem(8, 8, 6, semiring, **settings), o.a, o.b, o.c)

    def shorter(part: slice) -> Callable[[Operands], np.ndarray]:
        problem = Problem(8, 8, 5, "min_plus", alpha=2.0, beta=3.0, accumulate=True)
        return lambda o: product(problem, o.a[:, part], o.b[part], o.c)

    return {
        "alpha was left out": of(alpha=None),
        "beta was left out": of(beta=None),
        "C was left out": of(beta=None, accumulate=False),
        "the transpose of the product": lambda o: of()(o).T,
        "the product over plus_times": of("plus_times"),
        "the last step of k was left out": shorter(slice(None, -1)),
        "the first step of k was left out": shorter(slice(1, None)),
        "C itself, as if k were 0": lambda o: np.array(o.c),
        "the semiring's zero, as if k were 0": lambda o: np.full((8, 8), np.inf),
    }


@pytest.mark.parametrize("name", _mistakes())
def test_common_mistakes_are_recognised(name: str) -> None:
    problem = Problem(8, 8, 6, "min_plus", alpha=2.0, beta=3.0, accumulate=True)
    operands = Operands.generate(problem, 4)
    assert name in _message(problem, operands, _mistakes()[name](operands))


@pytest.mark.parametrize(("dtype", "lower"), [("float64", "float32"), ("float32", "float16")])
def test_a_lower_precision_is_recognised(dtype: str, lower: str) -> None:
    problem = Problem(20, 20, 16, "plus_times", np.dtype(dtype))
    operands, _ = _solved(problem)
    result = (operands.a.astype(lower) @ operands.b.astype(lower)).astype(dtype)
    assert re.search(f"the precision of .*{lower}", _message(problem, operands, result))


@pytest.mark.parametrize("name", ["plus_times", "min_plus", "max_times"])
def test_infinities_and_nan_must_stand_where_they_should(name: str) -> None:
    problem = Problem(6, 6, 5, name)
    operands, _ = _solved(problem)
    operands.a[2, :], operands.b[:, 4] = np.inf, 2.0
    right = product(problem, operands.a, operands.b)
    assert np.isinf(right).any()
    verify(problem, operands, right, seed=1)
    for wrong in (-right[2, 4], np.nan, 1e300):
        result = right.copy()
        result[2, 4] = wrong
        assert "[2, 4]" in _message(problem, operands, result)
    operands.a[1, 1] = np.nan
    verify(problem, operands, product(problem, operands.a, operands.b), seed=1)
    if name == "plus_times":
        _message(problem, operands, right)


def test_zeros_of_either_sign_are_equal() -> None:
    problem = Problem(2, 2, 2, "min_plus")
    operands, _ = _solved(problem)
    operands.a[...], operands.b[...] = 0, 0
    verify(problem, operands, np.full((2, 2), -0.0), seed=1)


@pytest.mark.parametrize(
    "result",
    [np.zeros((3, 2)), np.zeros((2, 3), np.float32), np.zeros((2, 3, 1)), [[0.0] * 3] * 2, None],
    ids=["turned", "other dtype", "three dimensions", "list", "nothing"],
)
def test_another_form_is_refused(result: object) -> None:
    problem = Problem(2, 3, 0)
    operands = Operands.generate(problem, 1)
    with pytest.raises(VerificationError, match="has not the form of the product"):
        verify(problem, operands, result, seed=1)  # type: ignore[arg-type]


def test_sums_in_any_order_pass_and_a_lost_term_does_not(rng: np.random.Generator) -> None:
    for dtype in ("float32", "float64"):
        problem = Problem(8, 9, 3000, dtype=np.dtype(dtype))
        operands, right = _solved(problem)
        order = rng.permutation(3000)
        shuffled = np.zeros_like(right)
        for p in order:
            shuffled += np.outer(operands.a[:, p], operands.b[p])
        verify(problem, operands, shuffled, seed=1)
        lost = shuffled - np.outer(operands.a[:, 77], operands.b[77])
        _message(problem, operands, lost)


def test_overflow_that_depends_on_the_order_passes_in_either_form() -> None:
    problem = Problem(1, 1, 3, dtype=np.dtype(np.float32))
    operands, _ = _solved(problem)
    operands.a[...], operands.b[:, 0] = np.float32(3e38), [1.0, 1.0, -1.0]
    for value in (np.float32(3e38), np.float32(np.inf), np.float32(np.nan)):
        verify(problem, operands, np.array([[value]]), seed=1)
    with pytest.raises(VerificationError):
        verify(problem, operands, np.array([[np.float32(1e38)]]), seed=1)


def test_bound_is_that_of_the_docstring() -> None:
    problem = Problem(1, 1, 100, dtype=np.dtype(np.float32))
    unit = 2.0**-24
    expected, size = np.array([[1.0]], np.float32), np.array([[50.0]])
    gamma = 103 * unit / (1 - 103 * unit)
    assert allowed_error(problem, expected, size)[0, 0] == pytest.approx(gamma * 50)
    log = Problem(1, 1, 100, "logaddexp_plus", np.dtype(np.float32))
    assert allowed_error(log, expected, size)[0, 0] == pytest.approx(2 * gamma * 5 + 3 * unit * 50, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1e4, 1e6])
def test_sums_of_exponentials_are_compared_as_accurately_as_their_results(
    dtype: str, size: float, rng: np.random.Generator
) -> None:
    problem = Problem(6, 7, 5, "logaddexp_plus", np.dtype(dtype))
    operands, _ = _solved(problem)
    operands.a[...], operands.b[...] = rng.uniform(-1, 1, (6, 5)) + size, rng.uniform(-1, 1, (5, 7)) - size
    u, v = operands.a.max(1, keepdims=True), operands.b.max(0)
    logarithm = np.log(np.exp(operands.a - u) @ np.exp(operands.b - v))
    verify(problem, operands, logarithm + (u + v), seed=1)
    _message(problem, operands, (logarithm + u) + v)  # rounded to the digits of u


def test_roundings_of_alpha_plus_a_count_for_sums_of_exponentials() -> None:
    for alpha, size in ((None, 0), (1e6, 1e6 + 3), (-3.0, 0)):
        problem = Problem(1, 2, 2, "logaddexp_plus", alpha=alpha)
        a, b = np.array([[3.0, -np.inf]]), np.array([[-1e6, 1.0], [2.0, 3.0]])
        assert magnitude_of(problem, a, b).tolist() == [[size, size]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("where", [(0, 0), (299, 249), (171, 103), (5, 248)])
def test_one_wrong_element_anywhere_in_a_large_ordinary_product_is_caught(dtype: str, where: tuple[int, int]) -> None:
    problem = Problem(300, 250, 100, dtype=np.dtype(dtype), alpha=3, beta=2, accumulate=True)
    operands, result = _solved(problem)
    said = verify(problem, operands, result, seed=1)
    assert "16 rows and 16 columns of 300x250" in said
    assert said.endswith("every element by projection")
    _other_value(result, *where)
    assert f"element [{where[0]}, {where[1]}] is wrong" in _message(problem, operands, result)


@pytest.mark.parametrize("name", ["min_plus", "plus_min", "lxor_land"])
def test_a_wrong_row_or_column_of_any_large_product_is_caught(name: str) -> None:
    dtype = np.dtype(bool if name == "lxor_land" else np.float32)
    problem = Problem(300, 250, 100, name, dtype)
    operands, result = _solved(problem)
    verify(problem, operands, result, seed=1)
    for part in (np.s_[137:138], np.s_[:, 211:212], np.s_[-1:], np.s_[:, -1:]):
        wrong = result.copy()
        poison(wrong[part])
        _message(problem, operands, wrong)


def test_products_of_the_user_are_compared_too() -> None:
    own = Semiring.from_functions("own", lambda c, t: c + t, lambda x, y: x * y, zero=0)
    problem = Problem(5, 6, 7, own)
    operands, result = _solved(problem)
    verify(problem, operands, operands.a @ operands.b, seed=1)
    result[4, 5] += 1e-9
    _message(problem, operands, result)


def test_empty_products_pass() -> None:
    for size in ((0, 3, 2), (3, 0, 2), (0, 0, 0)):
        problem = Problem(*size)
        verify(problem, *_solved(problem), seed=1)


def test_the_squares_of_a_scaled_operand_are_right_though_they_round_nine_times() -> None:
    semiring, f32, alpha = Semiring.of("plus", "sqdiff"), np.float32, np.float32(0.1)
    problem = Problem(40, 40, 1, semiring, np.dtype(f32), alpha=float(alpha))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = rng.random((40, 1), f32) * 4 - 2, rng.random((1, 40), f32) * f32(1e-3)
        right = (b - (a - alpha) ** 2) ** 2
        verify(problem, Operands(a, b, None, right), right, seed=1)
        with pytest.raises(VerificationError):
            verify(problem, Operands(a, b, None, right), right * f32(1 + 1e-5), seed=1)


def test_sums_of_an_own_semiring_may_overflow_in_the_oracle_alone() -> None:
    own = Semiring.from_functions("own_sum", lambda c, t: c + t, lambda x, y: x - y, zero=0, kinds="f")
    large = np.finfo(np.float32).max
    a, b = np.float32([[-large, -large, large, large]]), np.zeros((4, 1), np.float32)
    got, problem = np.float32([[0.0]]), Problem(1, 1, 4, own, np.dtype(np.float32))
    verify(problem, Operands(a, b, None, got), got, seed=1)
    infinite = np.float32([[-np.inf, 1, 1, 1]])  # whatever the order
    with pytest.raises(VerificationError, match="is wrong"):
        verify(problem, Operands(infinite, b, None, got), got, seed=1)


def test_sums_of_narrow_operands_may_overflow_before_alpha_shrinks_them() -> None:
    narrow = np.dtype(ml_dtypes.bfloat16)
    problem = Problem(1, 1, 2, dtype=np.dtype(np.float32), operand_dtype=narrow, alpha=0.75)
    a, b = np.full((1, 2), 1.5e19, narrow), np.full((2, 1), 1.5e19, narrow)
    overflowed = np.full((1, 1), np.inf, np.float32)
    verify(problem, Operands(a, b, None, overflowed), overflowed, seed=1)
    with pytest.raises(VerificationError):
        verify(problem, Operands(a / narrow.type(2), b, None, overflowed), overflowed, seed=1)
