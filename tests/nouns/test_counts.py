"""Counts that callers give: NumPy's integers are as good as Python's, True is none, and what is kept is an int."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness import Blocking, PlanError, Problem, ProblemError, gemm, gemm_argk, threads
from harness.distributed.grid import Grid
from harness.distributed.offers import Options
from harness.linalg import trsm
from harness.paths import shortest_paths
from harness.scalars import as_count

ONE, EYE = np.int64(1), np.eye(3)


class Three:
    """An integer of no known class."""

    def __index__(self) -> int:
        return 3


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3), Three()])
def test_integers_of_any_class_are_counts(value: Any) -> None:
    count = as_count(value)
    assert (count, type(count)) == (3, int)


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float64(3), "3", None, 0, -1, 5, np.array([3, 3])])
def test_all_else_is_none(value: Any) -> None:
    assert as_count(value, most=4) is None


def limited(count: Any) -> None:
    with threads.limit(count, libraries=False):
        pass


TAKERS: dict[str, Callable[[Any], object]] = {
    "gemm": lambda count: gemm(EYE, EYE, threads=count),
    "gemm_argk": lambda count: gemm_argk(EYE, EYE, semiring="min_plus", threads=count),
    "shortest_paths": lambda count: shortest_paths(EYE, block=count, threads=count),
    "trsm": lambda count: trsm(EYE, EYE, block=count, threads=count),
    "limit": limited,
    "strassen": lambda count: gemm(EYE, EYE, backend="cpu-strassen", threads=count),
    "Blocking": lambda count: Blocking(mc=count, nc=count, kc=count),
    "Grid": lambda count: Grid(count, count, count),
    "Problem": lambda count: Problem(count, count, count),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_public_calls_take_integers_of_numpy_and_refuse_true(taker: str) -> None:
    TAKERS[taker](ONE)
    for wrong in (True, 1.0):
        with pytest.raises((ProblemError, PlanError)):
            TAKERS[taker](wrong)


def test_what_is_kept_is_an_int() -> None:
    kept = [*vars(Grid(ONE, ONE, ONE)).values(), *vars(Blocking(mc=ONE, nc=ONE, kc=ONE)).values(), Problem(ONE, 1, 1).m]
    options = Options("rows", "auto", "auto", ONE, ONE, "auto", "ring", "auto", False, np.int32(0), None)
    kept += [options.threads, options.panel, options.memory_cap]
    assert {type(count) for count in kept} == {int}
    assert options.in_flight == "auto"


def test_a_wrong_number_of_threads_is_told_how_to_mend_it() -> None:
    with pytest.raises(ProblemError) as caught:
        gemm(EYE, EYE, threads=0)
    assert caught.value.fix.startswith("threads=")
