import dataclasses

import pytest

from harness import derived, plots, report, tables
from harness.errors import HarnessError
from harness.experiment import load_all
from harness.statistics import Interval
from tests.unit.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
LADDER = EXPERIMENTS["ladder"]


def test_rows_hold_rate_peak_and_ratios():
    rows = {(row.where, row.contender): row for row in tables.summary_rows(cells(LADDER))}
    row = rows["plus_times, float64, n=1024", "cpu-packed"]
    assert row.rate.estimate == pytest.approx(10, rel=0.02)
    assert row.unit == "GFLOP/s"
    assert row.percent_of_peak == pytest.approx(20, rel=0.03)
    assert row.over_below.estimate == pytest.approx(2.5, rel=0.03)
    assert row.over_reference.estimate == pytest.approx(10, rel=0.03)
    assert (row.reference, row.samples, row.processes) == ("cpu-naive", 8, 1)
    assert "peak" not in {contender for _, contender in rows}


def test_a_rung_is_compared_with_the_next_lower_one_that_has_a_time():
    rows = tables.summary_rows(cells(LADDER, failing=("cpu-tiled",)))
    packed = next(row for row in rows if row.contender == "cpu-packed")
    assert packed.over_below.estimate == pytest.approx(5, rel=0.03)
    failed = next(row for row in rows if row.status == "failed")
    assert failed.rate is failed.over_below is failed.over_reference is failed.percent_of_peak is None


def test_the_page_shows_every_experiment_figure_and_failure(tmp_path):
    every = [
        cell for e in EXPERIMENTS.values() if e.name != "shortest_paths" for cell in cells(e, failing=("cpu-tiled",))
    ]
    figures, results = tmp_path / "figures" / "slug", tmp_path / "results" / "slug"
    plots.draw(LADDER, every, MACHINE, figures)
    page = report.write(EXPERIMENTS.values(), every, MACHINE, figures, results)
    text = page.read_text(encoding="utf-8")
    assert page == results / "report.md"
    assert "![The ladder: what each step buys](../../figures/slug/ladder.svg)" in text
    assert "size_sweep.svg" not in text, "it was not drawn"
    for experiment in EXPERIMENTS.values():
        assert (experiment.question in text) == (experiment.name != "shortest_paths")
    assert "- failed, 4 cells: cpu-tiled reuse=1, cpu-tiled reuse=2: element [3, 4] differs | by much" in text
    assert "Not run: shortest_paths." in text
    assert "Test CPU, 4 cores" in text
    assert f"One process: {sum(c.is_ok for c in every)} of" in text


def test_the_page_tells_unmet_budgets_and_counts_one_process(tmp_path):
    own = cells(LADDER)
    own[0] = dataclasses.replace(own[0], record={"unmet": "1 of 3 rounds in 20 s"})
    own[1] = dataclasses.replace(own[1], samples_ns=own[1].samples_ns * 2)
    text = report.write([LADDER], own, MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")
    assert "- Budget not met, ladder: 1 of 3 rounds in 20 s (1 cell)" in text
    assert f"- One process: {len(own) - 1} of {len(own)} timed cells" in text


def test_a_long_table_is_folded(tmp_path):
    sweep = EXPERIMENTS["size_sweep"]
    assert "<details>" in report.write([sweep], cells(sweep), MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")


def test_a_table_keeps_its_columns_whatever_the_reason():
    lines = tables.markdown_table(["a", "b"], [["1|2", "3"]], right=["b"]).splitlines()
    assert lines == ["| a | b |", "| --- | ---: |", "| 1\\|2 | 3 |"]


def test_markers_are_idempotent_and_leave_the_rest_alone():
    before = "# Top\n<!-- ladder:begin -->\nold\n<!-- ladder:end -->\nrest \\1\n"
    once = report.update_markers(before, "ladder", "| new \\d |\n")
    assert once == "# Top\n<!-- ladder:begin -->\n| new \\d |\n<!-- ladder:end -->\nrest \\1\n"
    assert report.update_markers(once, "ladder", "| new \\d |") == once


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- x:begin -->",
        "<!-- x:end --><!-- x:begin -->",
        "<!-- x:begin --><!-- x:end --><!-- x:begin --><!-- x:end -->",
    ],
)
def test_markers_that_are_not_in_place_are_refused(text):
    with pytest.raises(HarnessError, match="markers of 'x' are not in place"):
        report.update_markers(text, "x", "new")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Interval(1.5, 1.48, 1.6), "1.50 [1.48, 1.60]"),
        (Interval(1.0, 1.0, 1.0), "1.00"),
        (Interval(1234.5, 1200.0, 1300.0), "1234 [1200, 1300]"),
        (None, ""),
    ],
)
def test_numbers_come_with_their_interval(value, text):
    assert tables.number(value) == text


def test_the_headline_names_every_rung_and_what_has_no_time():
    heads, rows = tables.headline(cells(LADDER, failing=("cpu-tiled",)))
    assert heads[-3:] == tables.HEADLINE_NUMBERS
    assert rows[0][1] == "cpu-naive"
    assert rows[0][2].endswith("GFLOP/s")
    assert "failed" in [row[2] for row in rows]
    assert all(len(row) == len(heads) for row in rows)


def test_tables_of_a_page_are_rewritten_between_their_markers_only(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before <!-- ladder:begin -->old<!-- ladder:end --> after")
    report.write_tables(page, EXPERIMENTS.values(), cells(LADDER))
    text = page.read_text()
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert "cpu-packed" in text
    assert "old" not in text


def test_a_roof_is_what_the_fastest_call_shows():
    peak = next(cell for cell in cells(LADDER) if cell.axes["role"] == "peak")
    slowed = dataclasses.replace(peak, samples_ns=[[100.0, 50.0, 400.0]], facts={"operations": 200})
    assert derived.roof_rate(slowed) == 4.0
