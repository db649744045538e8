"""The model of a product beside grids that were measured, on 16 ranks of one thread on 16 processors."""

import itertools

import pytest

from harness.distributed.grid import Decomposition, Grid
from harness.distributed.links import LINKS, Link
from harness.distributed.model import Rates, choose_grid, predict, rates_of

N, WORD = 4096, 8
# Milliseconds of a product over float64, panels and partial sums by MPI (docs/lab/2026-11-22-distributed.md).
MEASURED_MS = {"4x4x1": 254.4, "4x2x2": 256.6, "8x2x1": 260.0, "2x2x4": 278.7, "16x1x1": 289.8, "1x1x16": 329.6}
# What a rank computes and receives in a second there: fitted, as no cell measured it.
RATES = Rates(N**3 / 16 / 245.4e-3, Link(3.55e9, 1.6e-6))
TOLERANCE = 0.15


def modelled_ms(grid: str, rates: Rates = RATES) -> float:
    return 1e3 * predict(Decomposition(N, N, N, Grid.parse(grid)), WORD, rates).total_s


@pytest.mark.parametrize("grid", MEASURED_MS)
def test_the_model_is_within_its_tolerance_of_what_was_measured(grid):
    assert modelled_ms(grid) == pytest.approx(MEASURED_MS[grid], rel=TOLERANCE)


def test_grids_are_in_the_order_that_was_measured():
    assert sorted(MEASURED_MS, key=modelled_ms) == sorted(MEASURED_MS, key=MEASURED_MS.get)


def test_a_word_that_is_reduced_costs_more_than_one_that_is_gathered():
    assert modelled_ms("2x2x4") > 1.02 * modelled_ms("4x2x2"), "as many words in all, three times as many of them sums"
    for link in LINKS.values():
        assert link.reduction < link.bytes_per_s


def test_the_automatic_grid_reduces_only_where_that_pays():
    assert str(choose_grid(N, N, N, 16, WORD)) == "4x4x1"
    assert str(choose_grid(N, N, N, 2, WORD, rates=rates_of(on_device=True))) == "1x2x1"
    assert str(choose_grid(512, 512, 1 << 17, 16, WORD)) == "1x1x16", "k is long, so that sums are what is small"
    on_a_network = Rates(RATES.pairs_per_s, LINKS["network"])
    assert str(choose_grid(1 << 15, 1 << 15, 1 << 15, 64, WORD, rates=on_a_network)) == "4x4x4"


def test_what_is_reduced_is_slower_by_the_rule_or_as_measured():
    by_rule, measured = Link(5e9, 0.0), Link(5e9, 0.0, 1e9)
    assert (by_rule.reduction, measured.reduction) == (2e9, 1e9)
    times = [
        predict(Decomposition(64, 64, 64, Grid(1, 1, 4)), 8, Rates(1e9, link)).reduce_s for link in (by_rule, measured)
    ]
    assert all(later > earlier for earlier, later in itertools.pairwise(times))
