"""Semirings: every CPU backend on one product each, compared to the lowest rung that packs."""

from __future__ import annotations

import pytest

from harness.compare.pytest_bench import cells, race
from harness.experiment import Budget
from harness.problem import Problem

N = 512
PRODUCTS = [
    ("min_plus", "float64"),
    ("min_plus", "float32"),
    ("max_plus", "float32"),
    ("max_times", "float64"),
    ("max_min", "int32"),
    ("lor_land", "bool"),
    ("plus_pair", "int64"),
    ("logaddexp_plus", "float64"),
]
CASES = [race(Problem(N, N, N, semiring, dtype), reference="cpu-packed") for semiring, dtype in PRODUCTS]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cell", cells(*CASES, budget=Budget(rounds=2, seconds=3.0, processes=3)))
def test_semirings(replay, cell):
    replay(cell)
