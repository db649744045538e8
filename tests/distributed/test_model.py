"""The model of a product beside grids that were measured, on 16 ranks of one thread on 16 processors."""

import functools
import itertools

import numpy as np
import pytest

from harness import PlanError
from harness.distributed import grids, lower_bound, pieces, volume
from harness.distributed.choice import model
from harness.distributed.choice.model import Rates, choose_grid, memory_bytes, predict, rates_of
from harness.distributed.choice.volumes import candidate_grids
from harness.distributed.grid import BLOCKS, FACES, Decomposition, Grid
from harness.distributed.links import LINKS, Link

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


@pytest.mark.parametrize("layout", [BLOCKS, FACES])
@pytest.mark.parametrize("link", ["network", "nvlink"])
@pytest.mark.parametrize("memory_cap", [0, 200_000])
def test_the_automatic_grid_is_the_best_of_all(layout, link, memory_cap):
    rates = Rates(2.0e10, LINKS[link], start_s=1e-6)
    for ranks, extents in itertools.product((1, 7, 12, 18), ((64, 64, 64), (100, 1, 511), (3, 0, 7), (4000, 63, 16))):
        shapes = [Decomposition(*extents, grid, layout) for grid in candidate_grids(ranks)]
        fitting = [x for x in shapes if not memory_cap or memory_bytes(x, WORD) <= memory_cap]
        choice = functools.partial(choose_grid, *extents, ranks, WORD, rates=rates, layout=layout)
        if fitting:
            best = min(fitting, key=lambda x: (predict(x, WORD, rates).total_s, -x.grid.size))
            assert choice(memory_cap=memory_cap) == best.grid
        else:
            least = min(memory_bytes(x, WORD) for x in shapes)
            with pytest.raises(PlanError, match=f"no grid of {ranks} ranks(.|\n)*{least:,} bytes a rank"):
                choice(memory_cap=memory_cap)


def test_of_hundreds_of_ranks_few_grids_are_looked_at_rank_by_rank(monkeypatch):
    looked_at = []
    monkeypatch.setattr(model, "predict", lambda *x: looked_at.append(x) or predict(*x))
    assert choose_grid(1 << 15, 1 << 15, 1 << 15, 240, WORD, rates=Rates(2.0e10, LINKS["network"])).size > 200
    assert len(looked_at) < len(list(candidate_grids(240))) / 50


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pieces(6, 4, 8, "2x2x1", rank=-1), "pieces: rank is no such number"),
        (lambda: pieces(6, 4, 8, "2x2x1", rank=1.0), "pieces: rank is no such number"),
        (lambda: pieces(6, -4, 8, "2x2x1", rank=0), "pieces: n is no such number"),
        (lambda: pieces(6, 4, 8, (2, 2, 1), rank=0), "the grid is not understood"),
        (lambda: volume(4, 4, 4, "2x2"), "the grid is not understood"),
        (lambda: volume("4", 4, 4, "2x2x1"), "volume: m is no such number"),
        (lambda: lower_bound(4, 4, 4, ranks=0), "lower_bound: ranks is no such number"),
        (lambda: lower_bound(4, 4, -4, ranks=2), "lower_bound: k is no such number"),
        (lambda: grids(0), "grids: ranks is no such number"),
        (lambda: choose_grid(4, 4, 4, 0, WORD), "choose_grid: ranks is no such number"),
        (lambda: choose_grid(4, 4, 4, 4, "float64"), "choose_grid: word_bytes is no such number"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, memory_cap=-1), "choose_grid: memory_cap is no such number"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, rates=LINKS["network"]), "choose_grid: rates cannot be taken"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, rates=Rates(0)), "choose_grid: rates cannot be taken"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, rates=Rates(1e9, "network")), "choose_grid: rates cannot be taken"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, layout="rows"), "choose_grid: layout cannot be taken"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, hosts=(0,)), "choose_grid: hosts cannot be taken"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, flat="x"), "choose_grid: flat cannot be taken"),
        (lambda: choose_grid(4, 4, 4, 4, WORD, flat="mnk"), "choose_grid: no grid of 4 ranks has one rank along m"),
    ],
)
def test_arguments_that_are_none_are_named(call, message):
    with pytest.raises(PlanError, match=rf"^{message}(.|\n)*expected(.|\n)*got"):
        call()


def test_a_grid_may_be_written_and_numbers_may_be_numpys():
    assert volume(8, 8, 8, "2x2x1") == volume(*map(np.int64, (8, 8, 8)), Grid(2, 2, 1))
    assert pieces(6, 4, 8, "2x2x1", np.int64(1)) == pieces(6, 4, 8, Grid(2, 2, 1), 1)
