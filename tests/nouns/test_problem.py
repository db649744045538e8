"""What a Problem accepts, what it refuses and how it says so, its normal form, its work and its record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness import Problem, ProblemError, Semiring
from tests._support.processes import python


def test_defaults_are_an_ordinary_product_of_doubles() -> None:
    problem = Problem(2, 3, 4)
    assert problem.semiring.name == "plus_times"
    assert problem.dtype == np.float64
    assert not problem.accumulate
    assert str(problem) == "plus_times float64 2x3x4"


@pytest.mark.parametrize("size", [-1, 2.0, True, None, "3", np.float64(2)])
def test_sizes_are_integers_from_zero(size: Any) -> None:
    for sizes in ((size, 1, 1), (1, size, 1), (1, 1, size)):
        with pytest.raises(ProblemError, match="is not a size"):
            Problem(*sizes)


def test_zero_and_numpy_integers_are_sizes() -> None:
    problem = Problem(np.int32(0), np.uint8(5), 0)
    assert (problem.m, problem.n, problem.k) == (0, 5, 0)
    assert type(problem.m) is int


@pytest.mark.parametrize("dtype", ["complex256", "object", "U3", "datetime64[s]", "longdouble"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(ProblemError, match="not supported"):
        Problem(1, 1, 1, "plus_times", np.dtype(dtype))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *(({"layout": x}, "layout is not understood") for x in ("", "CC", "ccc", "CFX", "CCCC", 3, None)),
        *(({"batch": x}, r"batch is no tuple of sizes\n.*\(3,\)") for x in (3, "3", None)),
        ({"dtype": "flaot64"}, "not a NumPy dtype"),
        ({"dtype": "float32", "operand_dtype": "bfloat17"}, "operand_dtype is not a dtype"),
    ],
    ids=str,
)
def test_what_is_no_layout_no_batch_and_no_dtype_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        Problem(1, 1, 1, **given)


def test_a_dtype_without_sense_in_the_semiring_is_refused_with_those_that_have_it() -> None:
    with pytest.raises(ProblemError, match="lor_land does not take int64") as caught:
        Problem(1, 1, 1, "lor_land", np.dtype(np.int64))
    assert caught.value.expected == "bool"
    with pytest.raises(ProblemError, match="max_plus does not take uint8"):
        Problem(1, 1, 1, "max_plus", np.dtype(np.uint8))


def test_byte_order_is_made_native() -> None:
    assert Problem(1, 1, 1, "min_plus", np.dtype(">f4")).dtype == np.dtype("=f4")
    assert Problem(1, 1, 1, "min_plus", np.dtype(">f4")).dtype.isnative


@pytest.mark.parametrize(
    ("dtype", "alpha"),
    [
        ("int16", 40000),
        ("int16", 1.5),
        ("uint8", -1),
        ("uint8", 256),
        ("int16", np.inf),
        ("float32", 1e300),
        ("float64", 1j),
        ("float64", "2"),
        ("float64", [2.0]),
        ("float64", np.array([2.0])),
        ("float64", True),
        ("int64", False),
        ("float64", object()),
        ("float64", 10**400),
        ("uint64", 2**64),
    ],
)
def test_a_scalar_that_the_dtype_cannot_hold_is_refused(dtype: str, alpha: Any) -> None:
    with pytest.raises(ProblemError, match="alpha is no value"):
        Problem(1, 1, 1, "plus_times", np.dtype(dtype), alpha=alpha)
    with pytest.raises(ProblemError, match="beta is no value"):
        Problem(1, 1, 1, "plus_times", np.dtype(dtype), beta=alpha, accumulate=True)


def test_nan_scalars_are_refused_and_infinite_ones_taken() -> None:
    with pytest.raises(ProblemError, match="alpha is NaN"):
        Problem(1, 1, 1, alpha=float("nan"))
    with pytest.raises(ProblemError, match="beta is NaN"):
        Problem(1, 1, 1, beta=np.float32("nan"), accumulate=True)
    assert Problem(1, 1, 1, alpha=float("inf")).alpha == np.inf


def test_scalars_get_the_dtype_and_the_one_becomes_none() -> None:
    alpha = Problem(1, 1, 1, dtype=np.dtype(np.float32), alpha=0.1).alpha
    assert alpha == np.float32(0.1)
    assert alpha.dtype == np.float32
    assert Problem(1, 1, 1, alpha=10**20).alpha == 1e20
    assert Problem(1, 1, 1, alpha=1).alpha is None
    assert Problem(1, 1, 1, "min_plus", alpha=0.0).alpha is None
    assert Problem(1, 1, 1, "min_plus", alpha=1).alpha == 1
    assert Problem(1, 1, 1, "max_min", np.dtype(np.int8), alpha=127).alpha is None
    assert Problem(1, 1, 1, "lor_land", np.dtype(bool), alpha=True).alpha is None


def test_beta_needs_a_c_and_a_zero_beta_drops_it() -> None:
    with pytest.raises(ProblemError, match="beta is given without a C"):
        Problem(1, 1, 1, beta=2.0)
    dropped = Problem(1, 1, 1, beta=0.0, accumulate=True)
    assert (dropped.accumulate, dropped.beta) == (False, None)
    dropped = Problem(1, 1, 1, "min_plus", beta=np.inf, accumulate=True)
    assert not dropped.accumulate
    for semiring, beta in ((Semiring.of("plus", "plus"), 0.0), (Semiring.of("max", "max"), -np.inf)):
        kept = Problem(1, 1, 1, semiring, beta=beta, accumulate=True)  # the one as well: no factor
        assert (kept.accumulate, kept.beta) == (True, None)
    assert Problem(1, 1, 1, "min_plus", beta=0.0, accumulate=True).accumulate


def test_work_and_traffic() -> None:
    problem = Problem(2, 3, 5, "plus_times", np.dtype(np.float32))
    assert (problem.pairs, problem.operations, problem.bytes_moved) == (30, 60, 4 * (10 + 15 + 6))
    assert Problem(2, 3, 5, accumulate=True).bytes_moved == 8 * (10 + 15 + 12)


def test_record_makes_an_equal_problem() -> None:
    for problem in (
        Problem(2, 3, 5),
        Problem(1, 0, 7, "min_plus", np.dtype(np.int16), alpha=3, beta=-2, accumulate=True, layout="FAC"),
        Problem(4, 4, 4, "lor_land", np.dtype(bool), alpha=False),
    ):
        assert Problem.from_json(problem.to_json()) == problem
    with pytest.raises(ProblemError, match="no name in the table"):
        Problem(1, 1, 1, Semiring.of("max", "absdiff")).to_json()


def test_bfloat16_is_known_by_name_whoever_has_imported_it() -> None:
    pytest.importorskip("ml_dtypes")
    make = "from harness import Problem; print(Problem(2, 2, 2, dtype='float32', operand_dtype='bfloat16').input_dtype)"
    assert python("-c", make).stdout == "bfloat16\n"


def test_lines_are_rows_or_columns_as_they_lie() -> None:
    lines = {layout: Problem(2, 3, 5, layout=layout).lines for layout in ("CCC", "FCC", "CFC", "CCF", "AAA")}
    assert lines == {"CCC": (5, 3, 3), "FCC": (2, 3, 3), "CFC": (5, 5, 3), "CCF": (5, 3, 2), "AAA": (5, 3, 3)}
