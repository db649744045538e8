"""The ladder: every CPU backend on the same float64 product, with one and with all threads."""

from __future__ import annotations

import pytest

from harness import machine
from harness.compare.pytest_bench import cells, race
from harness.experiment import Budget
from harness.problem import Problem

THREADS = sorted({1, machine.detect().cores})
CASES = [race(Problem(1024, 1024, 1024), reference="cpu-numpy", threads=threads) for threads in THREADS]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cell", cells(*CASES, budget=Budget(rounds=2, seconds=15.0, processes=3)))
def test_ladder(replay, cell):
    replay(cell)
