"""Figures of experiments on ranks, drawn from planted cells: what they say, and what they say when something lacks."""

import dataclasses
import re

import pytest

from experiments._parts import ranks as parts
from harness.analysis.ranks import ranks_of
from harness.catalogue import load_all
from tests._support.charts import charts, points, words
from tests._support.planted_rank_cells import TWO_GPUS, planted
from tests._support.synthetic import MACHINE

EXPERIMENTS = {name: found for name, found in load_all().items() if name.startswith("dist_")}


@pytest.fixture
def draw(monkeypatch):
    """Return what builds the charts of an experiment from cells, or from planted ones."""
    monkeypatch.setattr(parts, "missing", lambda: None)
    return lambda name, cells=None: charts(EXPERIMENTS[name], planted(EXPERIMENTS[name]) if cells is None else cells)


@pytest.mark.parametrize("machine", [MACHINE, TWO_GPUS], ids=["no GPU", "two GPUs"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_figure_says_what_came_out_and_where_it_was_measured(name, machine, draw, monkeypatch):
    monkeypatch.setattr("experiments.dist_peers.installed", list)
    others = planted(EXPERIMENTS["dist_scaling"], machine=machine) if name == "dist_projection" else []
    made = draw(name, [*planted(EXPERIMENTS[name], machine=machine), *others])
    of_gpus = ("dist_gpu_scaling", "dist_breakdown_gpu")
    asked = [figure for figure in EXPERIMENTS[name].figures if machine.gpus or figure.name not in of_gpus]
    assert set(made) == {figure.name for figure in asked}
    for figure in asked:
        chart = made[figure.name]
        assert "Test CPU, 4 cores" in chart.footer
        assert chart.subtitle.startswith(figure.title)
        assert chart.title != figure.title, "no finding"
        assert all(panel.x.label or panel.y.label or panel.title for panel in chart.panels)


def test_counts_of_other_sizes_stand_beside_each_other(draw):
    own = planted(EXPERIMENTS["dist_memory"])
    larger = [dataclasses.replace(cell, axes={**cell.axes, **dict.fromkeys("mnk", 480)}) for cell in own]
    panels = [len(draw("dist_memory", some)["dist_memory"].panels) for some in (own, [*own, *larger])]
    assert panels[1] == 2 * panels[0]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_missing_is_said(name, draw):
    absent = [
        dataclasses.replace(cell, status="missing", reason="mpi4py is not installed", samples_ns=[], facts={})
        for cell in planted(EXPERIMENTS[name])
    ]
    for figure, chart in draw(name, absent).items():
        wanted = "Nothing has been measured" if figure == "dist_model_error" else "mpi4py is not installed"
        assert wanted in words(chart), figure


def test_scaling_shows_the_model_and_the_limit_beside_the_points(draw):
    chart = draw("dist_scaling")["dist_strong_scaling"]
    (first, *_) = chart.panels
    assert {"model", "limit by rank 0", "ideal"} <= set(chart.legend)
    assert {"cpu-simd", "dist-root", "dist-3d"} <= {series.name for series in first.series}
    assert first.title.startswith("plus_times float64, n=1024\ndist-")
    assert "on 4 ranks" in first.title
    assert "Above 100 %" not in words(chart)
    measured = [p.value.estimate for series in first.series if series.name for p in series.points]
    assert max(measured) == pytest.approx(100, abs=2), "percent of as many times the speed of one"
    without_links = [c for c in planted(EXPERIMENTS["dist_scaling"]) if c.axes.get("role") != "link"]
    assert "model" not in draw("dist_scaling", without_links)["dist_strong_scaling"].legend


def test_more_than_as_many_times_one_is_explained(draw):
    cells = [
        dataclasses.replace(c, samples_ns=[[ns / 2 for ns in own] for own in c.samples_ns])
        if c.axes.get("mode") == "strong" and ranks_of(c) > 1
        else c
        for c in planted(EXPERIMENTS["dist_scaling"])
    ]
    assert "Above 100 %: " in words(draw("dist_scaling", cells)["dist_strong_scaling"])


def test_the_model_of_two_counts_of_ranks_is_no_line(draw):
    some = [c for c in planted(EXPERIMENTS["dist_scaling"]) if c.axes.get("role") == "link" or ranks_of(c) <= 2]
    for panel in draw("dist_scaling", some)["dist_strong_scaling"].panels:
        assert points(panel, linestyle="--") == [], "two points are joined"


def test_bars_of_stages_are_as_long_as_the_call(draw):
    cells = planted(EXPERIMENTS["dist_breakdown"])
    chart = draw("dist_breakdown", cells)["dist_breakdown"]
    (warm, *_) = chart.panels
    longest = max(point.value.estimate for series in warm.series for point in series.points)
    first_case = [cell for cell in cells if cell.case == cells[0].case]
    assert longest == pytest.approx(max(cell.median_ns for cell in first_case) / 1e6)
    stages = list(chart.legend)
    assert (
        stages.index("start of ranks") < stages.index("redistribute") < stages.index("compute") < stages.index("rest")
    )
    assert "exposed communication" in stages


def test_counts_are_held_against_formula_and_bound(draw):
    (panel,) = draw("dist_volume", planted(EXPERIMENTS["dist_volume"], "full"))["dist_volume"].panels
    assert re.fullmatch(r"16 ranks, n=240: all \d+ counts equal the formula", panel.title), "one panel says enough"
    assert panel.x.label.startswith("words a rank receives / lower bound")
    assert "2x2x4" in panel.y.names
    assert "0.50 to 0.50 of the formula" in words(draw("dist_memory")["dist_memory"])


def test_a_projection_calls_itself_a_model(draw):
    everything = [*planted(EXPERIMENTS["dist_projection"]), *planted(EXPERIMENTS["dist_scaling"], off=1.25)]
    made = draw("dist_projection", everything)
    assert made["dist_projection"].title.startswith("By a model, ")
    assert "A model, not a measurement" in words(made["dist_projection"])
    error = words(made["dist_model_error"])
    assert "strong scaling: 0 of" in error
    assert "within 15 %" in error
    assert "One rank alone differs by up to 0 % between cases." in made["dist_model_error"].notes


def test_a_projection_without_points_to_check_it_has_no_figure_of_them(draw):
    assert "dist_model_error" not in draw("dist_projection")
