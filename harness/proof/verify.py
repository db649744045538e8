"""Compare a product with its definition, exactly or within a bound, and report the first mismatch.

* Integers, bool, and semirings whose (+) selects (min, max): every value must be equal. Zeros of either sign are equal.
* Floats under a (+) that rounds: within the bound of `allowed_error`; NaN and infinities must stand where they should.
* Complex numbers: each part within that bound. Where a part should be no finite number, one of the two must be none:
  which of them depends on when alpha is applied, and libraries multiply by an alpha of 1 as well.

Small products are compared in full. Of larger ones whole rows and whole columns are compared, first and last among
them, so that no strip of rows or columns escapes. Nothing is compared above the diagonal of a D that is computed as a
triangle. Of plus_times the rows that a projection finds most suspect
(`harness.proof.freivalds`) are compared as well, so that no single element escapes. Of a batch some products are
compared, the first and the last among them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.dtypes import is_complex
from harness.errors import VerificationError
from harness.operands import Operands
from harness.problem import Problem
from harness.proof import diagnosis, reference
from harness.proof.freivalds import most_suspect_rows
from harness.proof.magnitude import magnitude_of, measured

# Pairs up to which every element is compared, and that a sample of rows or of columns may cost. A user's own function
# is called from Python, a thousand times slower than a NumPy operation on an element.
FULL_PAIRS, SAMPLE_PAIRS = 1 << 22, 3 << 24
FULL_CALLS, SAMPLE_CALLS = 1 << 18, 1 << 18
FEWEST_SAMPLES, MOST_SAMPLES, MOST_PRODUCTS = 2, 16, 64

# Roundings of one term, and of alpha, beta and the final sum, on top of the k - 1 sums. The second square doubles the
# three roundings that sqdiff gave alpha times A.
EXTRA_ROUNDINGS, OF_SCALED_SQUARES = 3, 6


def verify(problem: Problem, operands: Operands, result: np.ndarray, *, seed: int, extra_error: float = 0.0) -> str:
    """Compare `result` with the definition of the product.

    Parameters
    ----------
    problem : Problem
    operands : Operands
        What the result was computed from.
    result : (m, n) array of problem.dtype
    seed : int
        Of the choice of rows and columns to compare.
    extra_error : float
        `Backend.extra_error` of this product, added to the bound of every element of floats. 0: none.

    Returns
    -------
    str
        What was compared, for the record: ``"all 4096 elements, exactly"``.

    Raises
    ------
    VerificationError
        At the first element that differs. The message has its index, the expected and the actual value, the number of
        wrong elements compared, and the mistake if it is recognised.
    """
    _check_form(problem, result)
    if problem.batch:
        return _verify_batch(problem, operands, result, seed, extra_error)
    if problem.conjugate or problem.triangle in ("a", "h"):  # from here on an ordinary product
        a, b = reference.as_read(problem, operands.a, operands.b)
        operands = dataclasses.replace(operands, a=a, b=b)
        problem = dataclasses.replace(problem, triangle=problem.triangle.strip("ah"), conjugate="")
    rng = np.random.default_rng(seed)
    worst, compared = 0.0, []
    for rows, columns, name in _samples(problem, rng):
        worst = max(worst, _compare(problem, operands, result, rows, columns, extra_error))
        compared.append(name)
    if problem.is_exact:
        how = "exactly"
    elif extra_error:
        how = f"within {worst:.2g} of the bound for ordinary sums plus {extra_error:.2g}"
    else:
        unit = float(np.finfo(problem.dtype).eps) / 2
        units = _gamma(_roundings(problem), unit) / unit
        how = f"within {worst * units:.2g} of {units:.0f} units of rounding"
    summary = f"{' and '.join(compared)}, {how}"
    is_linear = problem.semiring.is_ordinary and problem.semiring.is_tabled
    if len(compared) == 1 or not is_linear:  # projections are for linear maps
        return summary
    suspects = most_suspect_rows(problem, operands, result, rng)
    _compare(problem, operands, result, suspects, np.arange(problem.n), extra_error)
    return f"{summary}; every element by projection"


def _verify_batch(problem: Problem, operands: Operands, result: np.ndarray, seed: int, extra_error: float) -> str:
    """Compare some products of a batch; raises as `verify`, which names the product."""
    of_one, compared = problem.of_one(), ""
    chosen = _choose(problem.products, MOST_PRODUCTS, np.random.default_rng(seed), most=MOST_PRODUCTS)
    for index in zip(*np.unravel_index(chosen, problem.batch), strict=True):
        try:
            compared = verify(of_one, operands.at(index), result[index], seed=seed, extra_error=extra_error)
        except VerificationError as error:
            at = ", ".join(map(str, index))
            what = f"{error.what} in product [{at}] of {problem.products}"
            raise VerificationError(what, expected=error.expected, got=error.got) from None
    return f"{len(chosen)} of {problem.products} products, each: {compared}" if compared else "no product"


def allowed_error(problem: Problem, expected: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    """Return the allowed distance of a float result from `expected`, element by element. All arrays have one shape.

    With u the unit roundoff of the dtype, gamma_n = n u / (1 - n u), and s the smallest normal number:

    * plus: ``gamma_(k+3) (|alpha||A||B| + |beta||C|) + (k + 3) s``. It covers k - 1 sums in any order, a rounding each
      for the term, alpha, and the sum with C, and underflow. Of sqdiff with alpha k + 9. Source: Higham, "Accuracy and
      Stability" (2002), 3.5.
    * logaddexp: ``2 gamma_(k+3) (|D| + 4) + gamma_3 M``, M the largest ``|alpha (x) A|`` of the row, 0 without alpha.
      A rounding of r, a term or a partial sum, passes to D with its weight ``w = exp(r - D)``. So it counts ``u w |r|
      <= u (w |D| + 1/e)``, and those of all terms ``u (|D| + log(k+1))``, however large A and B are. k sums, with 3 u
      each for exp and log, and 3 roundings of a term. Twice, since the oracle rounds too. M is no term and has no such
      weight, but passes undiminished at most.
    * plus over complex numbers: the same of 2k + 6 for k + 3, since a part is a sum of 2k products of parts, whose
      absolute values sum to |A||B| at most.
    * times, or an operation of the user's own: ``gamma_(4k+12)`` times the sum of |D| and all absolute terms.
    """
    info = np.finfo(problem.dtype)
    unit, tiny, steps = float(info.eps) / 2, float(info.smallest_normal), _roundings(problem)
    if problem.semiring.multiply.name == "sqdiff" and problem.alpha is not None:
        steps += OF_SCALED_SQUARES
    size = np.where(np.isfinite(expected), np.abs(measured(expected)), 0.0)
    largest = float(info.max)
    magnitude = np.minimum(magnitude, largest)
    with np.errstate(over="ignore"):
        if not problem.semiring.is_tabled or problem.semiring.add.name == "times":
            return _gamma(4 * steps, unit) * (magnitude + size) + steps * tiny
        if problem.semiring.is_log_sum:
            return 2 * _gamma(steps, unit) * (size + 4) + _gamma(3, unit) * magnitude
        return _gamma(steps, unit) * magnitude + steps * tiny


def _roundings(problem: Problem) -> int:
    return (2 if is_complex(problem.dtype) else 1) * (problem.k + EXTRA_ROUNDINGS)


def _check_form(problem: Problem, result: Any) -> None:
    form, shape = (
        (getattr(result, "shape", None), getattr(result, "dtype", None)),
        (*problem.batch, problem.m, problem.n),
    )
    if not isinstance(result, np.ndarray) or form != (shape, problem.dtype):
        raise VerificationError(
            f"{problem}: the result has not the form of the product",
            expected=f"a {shape} array of {problem.dtype.name}",
            got=f"{type(result).__name__} of shape {form[0]} and dtype {form[1]}",
        )


def _samples(problem: Problem, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, str]]:
    """Yield rows and columns of D whose crossings are compared, and the name of that sample."""
    m, n, k = problem.m, problem.n, problem.k
    all_rows, all_columns = np.arange(m), np.arange(n)
    calls = not problem.semiring.is_tabled
    if problem.pairs <= (FULL_CALLS if calls else FULL_PAIRS):
        yield all_rows, all_columns, f"all {m * n} elements"
        return
    affordable = SAMPLE_CALLS if calls else SAMPLE_PAIRS
    rows = _choose(m, affordable // (n * k), rng)
    columns = _choose(n, affordable // (m * k), rng)
    yield rows, all_columns, f"{rows.size} rows"
    yield all_rows, columns, f"{columns.size} columns of {m}x{n}"


def _choose(size: int, affordable: int, rng: np.random.Generator, most: int = MOST_SAMPLES) -> np.ndarray:
    """Return indices below `size`: the first, the last, and one at random from each of equal parts of the rest."""
    count = min(max(affordable, FEWEST_SAMPLES), most)
    if size <= count:
        return np.arange(size)
    edges = np.linspace(1, size - 1, count - 1).astype(int)
    between = [rng.integers(low, high) for low, high in itertools.pairwise(edges) if low < high]
    return np.unique([0, *between, size - 1])


def _compare(
    problem: Problem,
    operands: Operands,
    result: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    extra_error: float,
) -> float:
    """Compare the crossings of some rows and columns; return the largest error as a fraction of what is allowed.

    Raises
    ------
    VerificationError
        If an element of it differs.
    """
    part = {"rows": rows, "columns": columns}
    arrays = operands.a, operands.b, operands.c
    expected = reference.product(problem, *arrays, **part)
    got = result[np.ix_(rows, columns)]
    if problem.is_exact:
        allowed, worst = None, 0.0
        right = (got == expected) | ((got != got) & (expected != expected))  # noqa: PLR0124 x != x: NaN
    else:
        magnitude = magnitude_of(problem, *arrays, **part)
        allowed = allowed_error(problem, expected, magnitude) + extra_error
        compare = _compare_complex if is_complex(problem.dtype) else _compare_floats
        right, worst = compare(problem, expected, got, allowed, magnitude)
    if problem.triangle == "d":
        right |= rows[:, None] < columns[None, :]
    if right.all():
        return worst
    i, j = np.argwhere(~right)[0]
    margin = "" if allowed is None else f" +- {allowed[i, j]:.3g}"
    looks_like = diagnosis.recognise(problem, operands, result, rows, columns, expected, ~right)
    raise VerificationError(
        f"{problem}: element [{rows[i]}, {columns[j]}] is wrong",
        expected=f"{expected[i, j]!s}{margin}",
        got=f"{got[i, j]!s}; {np.count_nonzero(~right)} of {right.size} elements compared are wrong"
        + (f": {looks_like}" if looks_like else ""),
    )


def _compare_complex(
    problem: Problem, expected: np.ndarray, got: np.ndarray, allowed: np.ndarray, magnitude: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the same of complex numbers, of which each part is compared."""
    parts = [
        _compare_floats(problem, expected_part, got_part, allowed, magnitude)
        for expected_part, got_part in ((expected.real, got.real), (expected.imag, got.imag))
    ]
    right = parts[0][0] & parts[1][0]
    return right | (~np.isfinite(expected) & ~np.isfinite(got)), max(worst for _, worst in parts)


def _compare_floats(
    problem: Problem, expected: np.ndarray, got: np.ndarray, allowed: np.ndarray, magnitude: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return which elements are right, and the largest error of right numbers as a fraction of what is allowed."""
    largest = float(np.finfo(problem.dtype).max)
    numbers = np.isfinite(expected) & np.isfinite(got)
    with np.errstate(all="ignore"):
        wide_got, wide_expected = measured(got), measured(expected)
        error = np.abs(wide_got - wide_expected)
        right = (numbers & (error <= allowed)) | (got == expected) | (np.isnan(got) & np.isnan(expected))
        # Where the terms are so large that their sum may overflow, the order of summation decides whether it does. Of
        # narrow operands alpha multiplies the sums. Of a user's own operation the oracle's sums are no wider.
        shrinks = problem.is_mixed and problem.alpha is not None and 0 < abs(problem.alpha) < 1
        may_overflow = (magnitude / abs(problem.alpha) if shrinks else magnitude) + allowed >= largest
        is_far = np.sign(wide_expected) * wide_got + allowed >= largest
        reached = np.isinf(expected) & (is_far | (not problem.semiring.is_tabled))
        right |= may_overflow & (reached | ~np.isfinite(got))
        scale = np.where(numbers & (allowed > 0), allowed, np.inf)
        return right, float((error / scale).max(initial=0, where=numbers & right))


def _gamma(roundings: int, unit: float) -> float:
    """Return the relative error that `roundings` roundings can add up to."""
    error = min(roundings * unit, 0.5)
    return error / (1 - error)
