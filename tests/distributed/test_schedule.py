"""Panels where nobody names them: all of k on processors; on GPUs half of k, not too short, three in memory."""

import pytest

from harness.distributed.choice.model import Rates, choose_grid, rates_of
from harness.distributed.links import LINKS, PAIRS_PER_S_ON_GPU
from harness.distributed.transport.base import AUTO, Schedule


@pytest.mark.parametrize(("k", "panel"), [(0, 1024), (100, 1024), (2048, 1024), (16384, 8192), (65536, 32768)])
def test_automatic_panels_on_gpus_grow_with_k_from_the_least_on(k, panel):
    made = Schedule.of(AUTO, AUTO, k=k, on_device=True)
    assert (made.panel, made.in_flight) == (panel, 3)


def test_on_processors_all_of_k_is_gathered_at_once_and_nothing_ahead():
    made = Schedule.of(AUTO, AUTO, k=16384, on_device=False)
    assert (made.panel, made.in_flight) == (0, 1)


@pytest.mark.parametrize("on_device", [False, True])
def test_what_is_named_wins(on_device):
    made = Schedule.of(7, 2, "mpi", k=16384, on_device=on_device, transport="staged")
    assert (made.panel, made.in_flight, made.reduction, made.transport) == (7, 2, "mpi", "staged")


def test_grids_of_gpus_are_chosen_by_rates_of_gpus():
    assert rates_of(on_device=True) == Rates(PAIRS_PER_S_ON_GPU, LINKS["nvlink"])
    assert rates_of(on_device=False).pairs_per_s < PAIRS_PER_S_ON_GPU
    grid = choose_grid(8192, 8192, 8192, 4, 8, rates=rates_of(on_device=True), flat="k")
    assert str(grid) == "2x2x1"
