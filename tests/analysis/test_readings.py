"""What is made of the readings beside times: clock and power in tables, and which sizes are bound by their launch."""

from __future__ import annotations

import dataclasses

import pytest

from harness.analysis import caveats, conditions
from harness.catalogue import load_all
from harness.report import tables
from harness.report.figures import lines
from tests._support.findings import of_figure
from tests._support.synthetic import MACHINE, cells

GPU = dataclasses.replace(MACHINE, gpu={"name": "NVIDIA H200"})
EXPERIMENT = load_all()["gpu_small_products"]
US = 1e3
BOUND = "gpu-tuned at n=16, n=32, n=64, n=128"


def read(cell, took_us, **values):
    """Return `cell` with samples of `took_us` in two processes, and readings that are the same with each."""
    own = {name: [[value] * 3] * 2 for name, value in values.items()}
    return dataclasses.replace(cell, samples_ns=[[took_us * US] * 3] * 2, record={**cell.record, "readings": own})


@pytest.fixture
def sweep():
    """Return the plus_times cells of the experiment: 2 us and more of time, 9 us of launch by all but the library."""
    own = [cell for cell in cells(EXPERIMENT, machine=GPU) if cell.facts["problem"]["semiring"] == "plus_times"]
    times = {n: max(2.0, n * n / 4096) for n in (cell.facts["problem"]["n"] for cell in own)}
    launch = {"gpu-tuned": 9.0 * US, "gpu-cublas": 1.0 * US}
    return [
        read(cell, times[cell.facts["problem"]["n"]], launch_ns=launch[cell.contender], mhz=1754.6, watts=698.0)
        for cell in own
    ]


def test_a_reading_is_the_median_over_all_samples_that_have_one(sweep):
    record = {"readings": {"mhz": [[1000, None], [3000, 2000]], "watts": [[None], [None]]}}
    cell = dataclasses.replace(sweep[0], record=record)
    assert conditions.reading(cell, "mhz") == 2000
    assert conditions.reading(cell, "watts") is conditions.reading(cell, "launch_ns") is None
    assert conditions.clock_and_power(cell) == "2000 MHz"
    assert conditions.clock_and_power(dataclasses.replace(cell, record={})) == ""


def test_a_product_is_launch_bound_if_its_launch_takes_as_long(sweep):
    for took_us, is_bound in ((2.0, True), (9.0, True), (9.9, True), (10.1, False), (300.0, False)):
        assert conditions.is_launch_bound(read(sweep[0], took_us, launch_ns=9.0 * US)) is is_bound, took_us
    assert not conditions.is_launch_bound(read(sweep[0], 1.0, is_queued=0))
    failed = dataclasses.replace(read(sweep[0], 1.0, launch_ns=9.0 * US), status="failed", samples_ns=[])
    assert not conditions.is_launch_bound(failed)


def test_launch_bound_sizes_are_named_by_contender(sweep):
    assert conditions.launch_bound(sweep) == [f"plus_times float32: {BOUND}"]
    assert conditions.launch_bound(sweep[6:]) == ["plus_times float32: gpu-tuned at n=128"]
    assert conditions.launch_bound([]) == []
    assert conditions.launch_bound(sweep[::-1]) == conditions.launch_bound(sweep), "the smallest first"
    every = [read(cell, 1.0, launch_ns=2.0 * US) for cell in cells(EXPERIMENT, machine=GPU)]
    assert conditions.launch_bound(every) == [
        "plus_times float32: gpu-tuned, gpu-cublas at n=16 to n=1024 (9 sizes)",
        "min_plus float32: gpu-tuned at n=16 to n=1024 (9 sizes)",
    ]


def test_sizes_of_one_problem_are_not_those_of_another(sweep):
    other = [cell for cell in cells(EXPERIMENT, machine=GPU) if cell.facts["problem"]["semiring"] == "min_plus"]
    bound = [read(cell, 1.0, launch_ns=2.0 * US) for cell in other]
    assert conditions.launch_bound([*sweep, bound[-1]])[1] == "min_plus float32: gpu-tuned at n=1024"
    assert conditions.launch_bound([*sweep, bound[-1]])[0].endswith(BOUND)


def test_report_and_figures_name_them(sweep):
    (line,) = (line for line in caveats.of_section(sweep, {}) if "Launch-bound" in line)
    assert line.startswith("**Launch-bound**, 4 of 18: gpu-tuned (4): ")
    assert line.endswith(BOUND)
    (note,) = (note for note in caveats.in_figure(sweep) if "Launch-bound" in note)
    assert note.endswith(BOUND)
    assert caveats.of_cell(sweep[0], {}) == "launch-bound"
    assert caveats.of_cell(sweep[1], {}) == ""


def test_tables_have_columns_for_launch_clock_and_power_where_they_are_known(sweep):
    lines = tables.table(EXPERIMENT, tables.rows_of(EXPERIMENT, sweep, {})).splitlines()
    heads = [entry.strip() for entry in lines[0].split("|")]
    entries = [entry.strip() for entry in lines[2].split("|")]
    assert entries[heads.index("launch, us")] == "9.00"
    assert entries[heads.index("clock and power")] == "1755 MHz, 698 W"
    assert entries[heads.index("remarks")] == "launch-bound"
    bare = tables.table(EXPERIMENT, tables.rows_of(EXPERIMENT, [dataclasses.replace(c, record={}) for c in sweep], {}))
    assert "launch" not in bare
    assert "clock" not in bare


def test_a_figure_shows_launches_beside_the_times_they_bound(sweep):
    (figure,) = EXPERIMENT.figures
    chart = lines.lines(sweep, figure.options)
    bare = lines.lines([dataclasses.replace(cell, record={}) for cell in sweep], figure.options)
    assert (list(chart.legend), list(bare.legend)) == (["launching a call, on the host"], [])
    (panel,) = chart.panels
    assert [series.name for series in panel.series if series.name] == ["gpu-tuned", "gpu-cublas"]
    dotted = [series for series in panel.series if series.look["linestyle"] == ":"]
    heights = [{point.value.estimate for point in series.points} for series in dotted]
    assert heights == [{0.009}, {0.001}]  # ms, as the times
    assert (panel.y.label, panel.y.scale, panel.y.factor) == ("microseconds a call", "log", 1e3)
    assert not [series for series in bare.panels[0].series if series.look["linestyle"] == ":"]


def test_up_to_which_size_a_product_takes_no_longer_than_its_launch_is_said(sweep):
    def told(own):
        return of_figure(load_all()["gpu_small_products"], "gpu_small_products", own).values[0].words

    assert told(sweep) == "up to n=128"
    assert told([read(cell, 1e3, launch_ns=9.0 * US) for cell in sweep]) == "at no size"


def test_many_launch_bound_sizes_are_counted_below_a_figure(sweep, monkeypatch):
    assert BOUND in " ".join(caveats.in_figure(sweep))
    monkeypatch.setattr(caveats, "LONGEST_SIZES", 10)
    bound = sum(map(conditions.is_launch_bound, sweep))
    assert f": {bound} of {len(sweep)} times; the report says which" in " ".join(caveats.in_figure(sweep))
