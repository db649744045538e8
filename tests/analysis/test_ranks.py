"""The model beside measured cells: rate and link are found again in cells that were planted by them."""

import dataclasses
import itertools
import math

import pytest

from experiments._parts import ranks as parts
from harness.analysis import projection, ranks, rates
from harness.experiment import load_all
from tests._support.planted_rank_cells import COMMAND_S, RATES, planted
from tests._support.synthetic import MACHINE

EXPERIMENTS = load_all()


@pytest.fixture(autouse=True)
def with_mpi(monkeypatch):
    """Ask as on a machine that has MPI, whatever this one has."""
    monkeypatch.setattr(parts, "missing", lambda: None)


def scaling(off=1.0):
    return planted(EXPERIMENTS["dist_scaling"], off=off)


def test_link_and_local_rate_are_those_that_were_planted():
    cells = scaling()
    for count in (2, 3, 4):
        link = ranks.link(cells, count)
        assert link.latency_s == pytest.approx(RATES.link.latency_s, rel=0.01)
        # the latency of the large gather is in its bandwidth
        assert link.bytes_per_s == pytest.approx(RATES.link.bytes_per_s, rel=0.02)
        assert link.reduction == pytest.approx(RATES.link.reduction, rel=0.02)
    assert ranks.link(cells, 5) is None
    older = ranks.link([cell for cell in cells if cell.axes.get("link") != "reduction"], 2)
    assert older.reduction == pytest.approx(0.4 * older.bytes_per_s), "without a measurement the rule"
    alone = next(cell for cell in cells if cell.contender == "dist-2d, 1 rank")
    assert ranks.local_rate(alone) == pytest.approx(RATES.pairs_per_s)


def test_points_lie_on_the_model_they_were_planted_by():
    for title, own in ranks.products(scaling()).items():
        for method, points in ranks.curves(own).items():
            for point in points:
                if method == "cpu-simd":
                    assert math.isnan(point.modelled), title
                else:
                    assert point.measured.estimate == pytest.approx(point.modelled, rel=0.02), (title, method)


@pytest.mark.parametrize(("off", "error"), [(1.0, 0.0), (1.25, -20.0), (0.8, 25.0)])
def test_what_is_slower_than_the_model_is_told(off, error):
    errors = ranks.model_errors(scaling(off))
    assert {cell.arguments["backend"] for cell, _ in errors} == set(parts.STRATEGIES)
    assert {ranks.ranks_of(cell) for cell, _ in errors} == {2, 3, 4}
    assert [found for _, found in errors] == pytest.approx([error] * len(errors), abs=2.5)


def test_without_a_link_there_is_no_model_but_there_are_points():
    cells = [cell for cell in scaling() if not rates.is_roof(cell)]
    assert ranks.model_errors(cells) == []
    assert all(ranks.curves(own) for own in ranks.products(cells).values() if own[0].axes["mode"] != "all cores")


def test_rank_0_limits_whoever_begins_there_and_no_other():
    for own in ranks.products(scaling()).values():
        for method, points in ranks.curves(own).items():
            for point in points:
                is_limited = method == "dist-root" and point.ranks > 1
                assert math.isfinite(point.root_limit) == is_limited
                assert point.root_limit >= point.measured.estimate or point.cell.axes["mode"] == "weak"


def test_stages_of_a_warm_call_add_up_to_its_time():
    for cell in planted(EXPERIMENTS["dist_breakdown"]):
        found = ranks.warm_stages(cell)
        assert sum(found.values()) == pytest.approx(cell.median_ns / 1e6)
        assert found["rest"] == pytest.approx(1e3 * COMMAND_S)
        assert ranks.first_stages(cell)["start of ranks"] == 1000
        assert ranks.warm_stages(dataclasses.replace(cell, record={})) == {}


def test_more_dimensions_scale_further_and_one_rank_is_the_measure():
    cell = next(cell for cell in planted(EXPERIMENTS["dist_projection"]) if cell.is_ok)
    last = {}
    for form in (projection.ONE, projection.TWO, projection.THREE):
        points = projection.efficiencies(cell, form, 1 << 13, 10e9, 2e-6, 10e9)
        assert points[0] == (1, pytest.approx(100))
        assert points[-1][0] == 4096
        assert all(later <= earlier for (_, earlier), (_, later) in itertools.pairwise(points))
        last[form] = points[-1][1]
    assert last[projection.ONE] < last[projection.TWO] < last[projection.THREE]
    n, beta = 1 << 13, 8 / 10e9
    received = 3 * (n / 16) ** 2 * (15 / 16)  # on 16 x 16 x 16
    time_s = n**3 / 4096 / (cell.rate * 1e9 / 2) + received * beta + 45 * 2e-6
    assert last[projection.THREE] == pytest.approx(100 * n**3 / (cell.rate * 1e9 / 2) / 4096 / time_s)


def test_machines_of_any_number_of_cores_are_asked_for_that_many_ranks():
    assert parts.rank_counts(1) == [1]
    assert parts.rank_counts(2) == [1, 2]
    assert parts.rank_counts(6) == [1, 2, 3, 4, 6]
    assert parts.rank_counts(16) == [1, 2, 3, 4, 6, 8, 12, 16]
    assert max(c.threads for c in EXPERIMENTS["dist_ranks_threads"].cases("full", MACHINE)[0].contenders) == 4
