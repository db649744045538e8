"""The model beside measured cells: rate and link are found again in cells that were planted by them."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from experiments._parts import ranks as parts
from harness.analysis import ranks, rates
from harness.analysis.ranks import model as rank_model
from harness.analysis.ranks import projection
from harness.catalogue import load_all
from harness.distributed.choice.model import predict
from harness.distributed.grid import Decomposition, Grid
from tests._support.planted_rank_cells import COMMAND_S, RATES, TWO_GPUS, planted
from tests._support.synthetic import MACHINE

EXPERIMENTS = load_all()


@pytest.fixture(autouse=True)
def with_mpi(monkeypatch):
    """Ask as on a machine that has MPI, whatever this one has."""
    monkeypatch.setattr(parts, "missing", lambda: None)


def scaling(off=1.0):
    return planted(EXPERIMENTS["dist_scaling"], off=off)


# Two H200s of one host, 2026-11-22 (`dist_scaling`, medians of six samples): ms of a call on one GPU and of its
# product, and of a call on two, in panels of an eighth of k, but at least 1024, three in flight. The courses' sizes are
# of the next day, medians of ten: n = 18432 is 36864 x 18432 x 4608, min_plus over float64 is 8192 x 8192 x 2048.
ON_H200 = {
    ("plus_times", "float64"): {
        4096: (2.72, 2.396, 1.77),
        8192: (18.73, 18.143, 10.26),
        16384: (161.69, 160.867, 80.32),
        18432: (111.10, 110.321, 58.75),
    },
    ("plus_times", "float32"): {
        4096: (1.48, 1.230, 1.25),
        8192: (11.70, 11.104, 6.52),
        16384: (109.66, 108.720, 40.99),
    },
    ("min_plus", "float32"): {
        4096: (4.79, 4.410, 3.01),
        8192: (34.99, 34.265, 18.69),
        16384: (271.68, 270.695, 138.86),
    },
    ("min_plus", "float64"): {8192: (26.11, 25.696, 13.36)},
}
# Its links: ms in which 512 MiB, and a word, are gathered there, and ms of a product of 2 pairs.
LINK_OF_H200 = {"bandwidth": (0.7288, 0.2242), "latency": (0.0206, 0.1250)}


def on_h200():
    """Return cells of GPUs with the times that were measured."""
    cells = [c for c in planted(EXPERIMENTS["dist_scaling"], machine=TWO_GPUS) if c.axes.get("device") == "gpu"]
    return [_as_measured(cell) for cell in cells]


def _as_measured(cell):
    """Return a cell with the times of `ON_H200` and `LINK_OF_H200`."""
    if cell.axes.get("role"):
        gathered, computed = LINK_OF_H200[cell.axes["link"]]
        return _timed(cell, gathered + computed, {"gather B": gathered, "compute": computed})
    alone, computed, of_two = ON_H200[cell.axes["semiring"], cell.axes["dtype"]][cell.axes["n"]]
    one = rank_model.ranks_of(cell) == 1
    return _timed(cell, alone if one else of_two, {"compute": computed} if one else {})


def _timed(cell, ms, readings):
    readings = {name: [[1e6 * value]] for name, value in readings.items()}
    facts = {**cell.facts, "panel": min(4096, max(1024, cell.facts["problem"]["k"] // 8))}  # as they were then
    record = {**cell.record, "readings": readings}
    return dataclasses.replace(cell, samples_ns=[[1e6 * ms]], record=record, facts=facts)


def test_link_and_local_rate_are_those_that_were_planted():
    cells = scaling()
    for count in (2, 3, 4):
        link = rank_model.link(rank_model.links(cells, count))
        assert link.latency_s == pytest.approx(RATES.link.latency_s, rel=0.01)
        # the latency of the large gather is in its bandwidth
        assert link.bytes_per_s == pytest.approx(RATES.link.bytes_per_s, rel=0.02)
        assert link.reduction == pytest.approx(RATES.link.reduction, rel=0.02)
    assert rank_model.link(rank_model.links(cells, 5)) is None
    measured = rank_model.links(cells, 2)
    older = rank_model.link({name: cell for name, cell in measured.items() if name != "reduction"})
    assert older.reduction == pytest.approx(0.4 * older.bytes_per_s), "without a measurement the rule"
    alone = next(cell for cell in cells if cell.contender == "dist-2d, 1 rank")
    assert rank_model.start_s(measured) == pytest.approx(RATES.start_s, rel=0.01)
    assert rank_model.local_rate(alone, rank_model.start_s(measured)) == pytest.approx(RATES.pairs_per_s)


@pytest.mark.parametrize("command_s", [COMMAND_S, 5e-3])
def test_points_lie_on_the_model_they_were_planted_by(command_s, monkeypatch):
    monkeypatch.setattr("tests._support.planted_rank_cells.COMMAND_S", command_s)
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
    assert {rank_model.ranks_of(cell) for cell, _ in errors} == {2, 3, 4}
    assert [found for _, found in errors] == pytest.approx([error] * len(errors), abs=2.5)


def test_the_model_is_within_its_tolerance_of_all_that_two_gpus_measured(subtests):
    errors = {
        ranks.size_of(cell) + cell.axes["semiring"] + cell.axes["dtype"]: e for cell, e in ranks.model_errors(on_h200())
    }
    assert len(errors) == 11
    for product, error in errors.items():
        with subtests.test(product):
            assert abs(error) <= ranks.TOLERANCE


def test_the_rate_of_panels_is_that_of_the_product_whose_k_is_nearest():
    cells = on_h200()
    alike = [c for c in cells if c.axes.get("n") and (c.axes["semiring"], c.axes["dtype"]) == ("plus_times", "float32")]
    by_place = {(cell.axes["n"], rank_model.ranks_of(cell)): cell for cell in alike}
    largest = by_place[16384, 2]
    assert largest.facts["panel"] == 2048
    own = by_place[16384, 1]
    near = rank_model.modelled_s(largest, own, cells)
    links = [cell for cell in cells if rates.is_roof(cell)]
    assert rank_model.modelled_s(largest, own, [own, *links]) > 1.3 * near, "a GPU computes that of all of k slower"
    assert rank_model.modelled_s(own, own, cells) * 1e3 == pytest.approx(109.66), "all of k at once: its own rate"


def test_every_panel_pays_the_start_of_a_product():
    sizes, rates_ = Decomposition(4096, 4096, 4096, Grid(1, 2, 1)), RATES._replace(start_s=1e-3)
    compute_s = [predict(sizes, 8, rates_, panel=panel).compute_s for panel in (0, 1024, 1000)]
    assert np.diff([compute_s[0], *compute_s]) == pytest.approx([0, 3e-3, 1e-3], abs=1e-9)


def slower(cells, link, factor):
    """Return `cells`; those of several ranks that measured `link` took `factor` times as long."""
    return [
        dataclasses.replace(cell, samples_ns=[[factor * x for x in cell.all_samples_ns]])
        if str(cell.axes.get("link")).startswith(link) and rank_model.ranks_of(cell) > 1
        else cell
        for cell in cells
    ]


def strong(cells):
    return [cell for cell in cells if cell.axes.get("mode", "strong") == "strong"]


def points_of(cells, method):
    """Return the points of strong scaling on most ranks."""
    curves = [ranks.curves(own) for own in ranks.products(strong(cells)).values()]
    return [own[method][-1] for own in curves if method in own]


def test_what_ranks_lose_that_all_compute_is_in_the_model():
    expected = points_of(scaling(), "dist-2d")
    for factor in (1.25, 2.0):
        found = points_of(slower(scaling(), rank_model.BLOCK, factor), "dist-2d")
        ratios = [before.modelled / after.modelled for before, after in zip(expected, found, strict=True)]
        assert ratios == pytest.approx([factor] * len(found), rel=0.08), "most of the time is computing"


def test_blocks_in_between_are_interpolated_by_words_to_a_pair():
    own = next(own for title, own in ranks.products(strong(scaling())).items() if title.startswith("plus_times"))
    (alone, *_, most) = ranks.curves(own)["dist-2d"]
    small, large = (
        rank_model.slowdown(most.cell, alone.cell, slower(own, f"{rank_model.BLOCK} {side}", 2.0))
        for side in parts.BLOCK_SIDES
    )
    assert rank_model.slowdown(most.cell, alone.cell, own) == pytest.approx(1.0, rel=0.05)
    assert 1.05 < small < 1.95
    assert small + large == pytest.approx(3.0, rel=0.05), "a blend of the two"


def test_words_of_rank_0_cost_what_they_did_at_a_smaller_product():
    cells = scaling()
    for point in points_of(cells, "dist-root"):
        stages = ranks.warm_stages(point.cell)
        planted_s = 1e-3 * sum(stages.get(stage, 0.0) for stage in ("redistribute", "gather A", "gather B", "reduce"))
        assert rank_model.root_s(point.cell, cells) == pytest.approx(planted_s, rel=0.05)
    slow = points_of(slower(cells, "root 1024", 3.0), "dist-root")
    assert all(point.root_limit < point.ranks for point in slow)
    one = [cell for cell in cells if cell.axes.get("link") != "root 256"]
    for point in points_of(one, "dist-root"):
        assert rank_model.root_s(point.cell, one) == pytest.approx(rank_model.root_s(point.cell, cells), rel=0.05)
    without = [cell for cell in cells if not str(cell.axes.get("link")).startswith("root")]
    assert all(math.isnan(point.modelled) for point in points_of(without, "dist-root"))


def test_a_machine_is_as_unsteady_as_one_rank_between_cases():
    cells = scaling()
    assert ranks.unsteadiness(cells) == pytest.approx(0)
    slow = [
        dataclasses.replace(c, samples_ns=[[1.2 * x for x in c.all_samples_ns]])
        if c.axes.get("method") == "dist-2d" and c.axes["mode"] == "strong" and rank_model.ranks_of(c) == 1
        else c
        for c in cells
    ]
    assert ranks.unsteadiness(slow) == pytest.approx(20)
    two = [c for c in slow if c.axes.get("mode") == "strong" and c.axes["method"] in ("dist-2d", "dist-root")]
    assert ranks.unsteadiness(two) is None, "from rank 0 is other work"


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
