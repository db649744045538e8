"""What is wrong in a call is told in its name, also where something below it finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import harness
from harness.errors import ProblemError
from harness.paths import closure, shortest_paths

A, COUNTS = np.ones((3, 3)), np.ones((3, 3), int)
CALLS: dict[str, Any] = {
    "gemm": lambda a, **options: harness.gemm(a, a, **options),
    "gemm_argk": lambda a, **options: harness.gemm_argk(a, a, **{"semiring": "min_plus", **options}),
    "gemv": lambda a, **options: harness.gemv(a, a[0], **options),
    "syrk": harness.syrk,
    "axpy": lambda a, **options: harness.axpy(a[0], a[0], **options),
    "einsum": lambda a, **options: harness.einsum("ij,jk", a, a, **options),
    "closure": closure,
}


@pytest.mark.parametrize("call", CALLS)
def test_semirings_and_threads(call: str) -> None:
    with pytest.raises(ProblemError, match=rf"^{call}: unknown semiring 'MIN_PLUS'\n(.|\n)*did you mean 'min_plus'"):
        CALLS[call](A, semiring="MIN_PLUS")
    with pytest.raises(ProblemError, match=f"^{call}: semiring is neither a name nor a Semiring"):
        CALLS[call](A, semiring=None)
    for threads in (0, -1, 10**6, True, "2", 2.0):
        with pytest.raises(ProblemError, match=f"^{call}: threads is no number of threads of this machine"):
            CALLS[call](A, threads=threads)


@pytest.mark.parametrize("call", CALLS)
def test_dtypes(call: str) -> None:
    with pytest.raises(ProblemError, match=f"^{call}: "):
        CALLS[call](A.astype(np.longdouble))


@pytest.mark.parametrize(("call", "added"), [("gemv", "y"), ("syrk", "c"), ("gemm", "c")])
def test_a_beta_without_what_it_multiplies(call: str, added: str) -> None:
    with pytest.raises(ProblemError, match=f"^{call}: beta is given without a (?i:{added})\n.*give {added}, or"):
        CALLS[call](A, beta=2.0)


def test_paths() -> None:
    with pytest.raises(ProblemError, match=r"^shortest_paths: semiring min_plus does not take bool"):
        shortest_paths(A > 0)
    with pytest.raises(ProblemError, match=r"^shortest_paths: threads is no number"):
        shortest_paths(A, threads=0)
    with pytest.raises(ProblemError, match=r"^shortest_paths: the matrix is not square\n.*\n.*NoneType"):
        shortest_paths(None)


@pytest.mark.parametrize("call", ["gemm", "gemv", "syrk"])
@pytest.mark.parametrize(
    ("alpha", "fix"),
    [
        ("2", "a number"),
        ([2.0], "a number"),
        (True, "a number"),
        (2j, "or a real number"),
        (0.5, "a wider dtype"),
        (10**400, ""),
    ],
)
def test_scalars(call: str, alpha: object, fix: str) -> None:
    with pytest.raises(ProblemError, match=f"^{call}: alpha is no value of the product's dtype") as caught:
        CALLS[call](COUNTS, alpha=alpha)
    assert fix in caught.value.fix
    assert len(caught.value.got) < 80


def test_a_row_that_is_meant_for_all_rows_comes_with_the_call_that_repeats_it() -> None:
    row = np.ones((1, 3))
    with pytest.raises(ProblemError, match="c does not have the shape") as caught:
        harness.gemm(A, A, row)
    repeated = eval(caught.value.fix, {"numpy": np, "c": row})
    assert np.array_equal(harness.gemm(A, A, repeated), A @ A + row)
    with pytest.raises(ProblemError, match="c does not have the shape") as caught:
        harness.gemm(A, A, np.ones((2, 3)))
    assert caught.value.fix == ""


def test_a_mapping_comes_with_its_values() -> None:
    with pytest.raises(ProblemError, match=r"numpy.array\(list\(a.values\(\)\), float\)"):
        harness.gemm({0: 1.0}, A)


@pytest.mark.parametrize("semiring", ["min_plus", harness.SEMIRINGS["min_plus"]])
@pytest.mark.parametrize(
    ("call", "operands"),
    [(harness.gemm, (A, A)), (harness.gemv, (A, A[0])), (harness.syrk, (A,)), (harness.einsum, ("ij,jk", A, A))],
)
def test_a_semiring_in_the_place_of_an_array_comes_with_its_keyword(call: Any, operands: Any, semiring: Any) -> None:
    with pytest.raises(ProblemError, match="did you mean semiring='min_plus'"):
        call(*operands, semiring)
