import csv
import dataclasses
import errno
import html
import math
import random
import re
from pathlib import Path

import pytest

from harness.analysis import answers, caveats, peaks, rates
from harness.analysis.calibration import FILE
from harness.catalogue import load_all
from harness.errors import HarnessError
from harness.report import machine_report, markers, tables
from harness.report.answers_by_place import anchor
from harness.report.figures import drawing
from harness.stats.statistics import Interval
from harness.store.journal import Journal
from tests._support import tracked
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
LADDER = EXPERIMENTS["ladder"]
MOST_LINES = 1050  # of a page of all experiments
MOST_LINES_FIRST = 75
MOST_LINES_STORED = 460  # a machine has a part of them
REPORTS = tracked.names(f"{tracked.RESULTS}/*/report.md")


def test_what_stands_beside_a_ladder_is_over_no_rung():
    over_below = {row.cell.contender: row.over_below for row in tables.rows_of(LADDER, cells(LADDER))}
    assert {"cpu-strassen", "cpu-numpy"} <= over_below.keys()
    assert over_below["cpu-strassen"] is over_below["cpu-numpy"] is None
    assert over_below["cpu-simd"] is not None


@pytest.mark.parametrize("slug", [Path(name).parent.name for name in REPORTS])
def test_the_report_of_a_machine_can_be_read_in_one_sitting(stored_results, slug):
    lines = (stored_results / slug / machine_report.REPORT).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES_STORED
    assert lines.index("## How to read") <= MOST_LINES_FIRST


def test_the_title_names_the_gpus(tmp_path):
    machine = dataclasses.replace(MACHINE, gpu={"name": "Test GPU", "count": "2"})
    text = machine_report.write([LADDER], cells(LADDER), machine, tmp_path, tmp_path).read_text(encoding="utf-8")
    assert text.startswith("# Results: Test CPU, 4 cores, 2 x Test GPU\n")
    assert "| GPU | 2 x Test GPU |" in text


def test_what_has_no_verdict_is_named_after_what_came_out(tmp_path):
    sweep, own = EXPERIMENTS["size_sweep"], cells(LADDER)
    few = [dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:2]]) for cell in cells(sweep)]
    text = machine_report.write([LADDER, sweep], [*own, *few], MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")
    first, _, rest = text.partition("## How to read")
    assert f"- [ladder](#{anchor(LADDER.question)}): " in first
    assert "- [size_sweep]" not in first
    assert first.rstrip().endswith(f"Undecided yet: [size_sweep](#{anchor(sweep.question)})")
    section = rest.partition(f"## {sweep.question}")[2]
    assert section.strip().startswith("**"), "its sentence stands in its section"
    some = [cell if cell.axes["n"] > 200 else little for cell, little in zip(cells(sweep), few, strict=True)]
    text = machine_report.write([sweep], some, MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")
    assert re.search(r"- \[size_sweep\]\(#.*\): .* \(\d+ of \d+ ", text), "a verdict on some is told"


def test_rows_hold_rate_peak_and_ratios():
    rows = {(row.where, row.cell.contender): row for row in tables.summary_rows(cells(LADDER))}
    row = rows["plus_times, float64, n=800", "cpu-packed"]
    assert row.rate.estimate == pytest.approx(10, rel=0.02)
    assert row.unit == "GFLOP/s"
    assert row.percent_of_peak == pytest.approx(20, rel=0.03)
    assert row.over_below.estimate == pytest.approx(2.5, rel=0.03)
    assert row.over_reference.estimate == pytest.approx(10, rel=0.03)
    assert (row.cell.reference, len(row.cell.all_samples_ns), len(row.cell.samples_ns)) == ("cpu-naive", 8, 1)
    assert "peak" not in {contender for _, contender in rows}


def test_a_rung_is_compared_with_the_next_lower_one_that_has_a_time():
    rows = tables.summary_rows(cells(LADDER, failing=("cpu-tiled",)))
    packed = next(row for row in rows if row.cell.contender == "cpu-packed")
    assert packed.over_below.estimate == pytest.approx(5, rel=0.03)
    failed = next(row for row in rows if row.cell.status == "failed")
    assert failed.rate is failed.over_below is failed.over_reference is failed.percent_of_peak is None


def test_a_reference_that_counts_no_operations_is_compared_by_time():
    own = next(cell for cell in cells(LADDER) if cell.facts.get("operations"))
    idle = dataclasses.replace(own, facts={"operations": 0})
    assert rates.work_ratio(own, idle) == rates.work_ratio(idle, own) == 1
    assert rates.speed_up(own, idle).estimate == pytest.approx(1)


def test_the_page_shows_every_experiment_figure_and_failure(tmp_path):
    every = [
        cell for e in EXPERIMENTS.values() if e.name != "shortest_paths" for cell in cells(e, failing=("cpu-tiled",))
    ]
    figures, results = tmp_path / "figures" / "slug", tmp_path / "results" / "slug"
    drawing.draw(LADDER, every, MACHINE, figures)
    page = machine_report.write(EXPERIMENTS.values(), every, MACHINE, figures, results)
    text = page.read_text(encoding="utf-8")
    assert page == results / "report.md"
    assert re.search(r"!\[cpu-simd reaches \d+ % of its measured peak[^]]*\]\(../../figures/slug/ladder.svg\)", text)
    assert "size_sweep.svg" not in text, "it was not drawn"
    for experiment in EXPERIMENTS.values():
        assert (experiment.question in text) == (experiment.name != "shortest_paths")
    assert ": cpu-tiled reuse=1 (2); cpu-tiled reuse=2 (2): element [3, 4] differs | by much" in text
    assert "Not run: shortest_paths." in text
    assert "Test CPU, 4 cores" in text
    assert "L1d 32 KiB, L2 1 MiB, L3 8 MiB" in text
    assert text.count("<b>One process</b>, all") == len(EXPERIMENTS) - 1
    measured = [experiment.name for experiment in EXPERIMENTS.values() if experiment.name != "shortest_paths"]
    told = re.findall(r"^- \[(\w+)\]\(#\S+\): ", text.partition("## How to read")[0], re.MULTILINE)
    prominence = [max(figure.prominence for figure in EXPERIMENTS[name].figures) for name in told]
    assert prominence == sorted(prominence, reverse=True), "what matters most comes first"
    (without,) = re.findall(r"^- Measured without an answer: (.*)\.$", text, re.MULTILINE)
    assert sorted([*told, *re.sub(r" \(.*?\)", "", without).split(", ")]) == sorted(measured), (
        "no question stands there"
    )
    assert len(told) <= 60
    assert len(text.splitlines()) <= MOST_LINES
    assert text.count("![") <= machine_report.MOST_FIGURES
    with (results / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["experiment"] for row in rows} == set(measured)
    assert len(rows) == len([cell for cell in every if not rates.is_roof(cell)])
    assert {row["rate"] for row in rows if row["contender"] == "cpu-tiled reuse=1"} == {"failed"}


def test_a_page_shows_the_most_prominent_figures_and_links_to_the_others(tmp_path, monkeypatch):
    sweep = EXPERIMENTS["size_sweep"]
    own = [*cells(sweep), *cells(LADDER)]
    for experiment in (sweep, LADDER):
        drawing.draw(experiment, own, MACHINE, tmp_path)
    monkeypatch.setattr(machine_report, "MOST_FIGURES", 1)
    text = machine_report.write([LADDER, sweep], own, MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")
    assert re.findall(r"!\[[^]]*\]\((\w+).svg\)", text) == ["ladder"]
    for figure in sweep.figures:
        assert f"[{figure.title}]({figure.name}.svg)" in text
    assert "| case | contender |" not in text, "figures show what rows would"
    for figure in [*sweep.figures, *LADDER.figures]:
        (tmp_path / f"{figure.name}.svg").unlink()
    text = machine_report.write([LADDER, sweep], own, MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")
    assert text.count("| case | contender |") == 2, "without a figure there are rows"


def test_a_page_shows_no_figure_that_was_drawn_from_other_cells(tmp_path):
    ladder = dataclasses.replace(LADDER, figures=LADDER.figures[:1])

    def page_of(own):
        return machine_report.write([ladder], own, MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")

    first = cells(LADDER)
    of_smoke = [dataclasses.replace(cell, preset="smoke") for cell in first]
    slower = [dataclasses.replace(first[0], samples_ns=[[9e9]]), *first[1:]]
    drawing.draw(ladder, first, MACHINE, tmp_path)
    assert page_of(first).count("![") == 1
    for own in (of_smoke, slower, first[1:]):
        text = page_of(own)
        assert "ladder.svg" not in text
        assert f"Drawn from other cells, so not shown: {LADDER.figures[0].title}" in text
        assert "| case | contender |" in text, "its rows stand there"
    (tmp_path / "ladder.svg").write_text("<svg/>", encoding="utf-8")
    assert "ladder.svg" not in page_of(first), "of unknown cells"


def section(text: str) -> list[str]:
    """Return the caveats in the section of the page's first experiment."""
    folded = text.partition("<summary>Caveats</summary>")[2].partition("</details>")[0]
    return [re.sub("</?b>", "**", html.unescape(line)) for line in folded.split("<br>")] if folded else []


def remarks(folder) -> dict[str, str]:
    """Return the remarks of the rows in the file of cells, by contender; of one with several rows, joined."""
    with (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["contender"]: " ".join(r["remarks"] for r in rows if r["contender"] == row["contender"]) for row in rows
    }


def page(own, folder) -> str:
    return machine_report.write([LADDER], own, MACHINE, folder, folder).read_text(encoding="utf-8")


def changed(cell, **record):
    return dataclasses.replace(cell, record={**cell.record, **record})


def test_a_budget_that_was_not_met_is_said_below_the_figure_and_in_the_row(tmp_path):
    own = cells(LADDER)
    own[0] = changed(own[0], unmet="rounds: 1 of 3 in 20 s; precision: interval is ±3 %, wanted ±1 %")
    own[1] = changed(own[1], unmet="2 of 3 rounds in 20 s")  # as older records say it
    text = page(own, tmp_path)
    assert f"**Budget not met**, 2 of {len(own)}: {own[0].contender}; {own[1].contender}" in section(text)
    assert remarks(tmp_path)[own[0].contender].strip() == "not met: rounds, precision"


def test_disturbed_samples_are_said_below_the_figure_and_in_the_row(tmp_path):
    own = cells(LADDER)
    own[2] = changed(own[2], readings={"cpu_share": [[1.0, 0.5]]}, threads=1)
    text = page(own, tmp_path)
    said = "descheduled in 1 of 2 samples"
    assert f"**Disturbed**, 1 of {len(own)}: {own[2].contender}" in section(text)
    assert remarks(tmp_path)[own[2].contender].strip() == said


def test_one_process_is_said_below_each_figure(tmp_path):
    own = cells(LADDER)
    assert f"**One process**, all {len(own)}" in section(page(own, tmp_path))
    twice = [dataclasses.replace(cell, samples_ns=cell.samples_ns * 2) for cell in own[1:]]
    assert f"**One process**, 1 of {len(own)}: {own[0].contender}" in section(page([own[0], *twice], tmp_path))
    assert "One process" not in "".join(section(page(twice, tmp_path)))


def like_the_reference(own, index, samples):
    """Return cells of which one has times widely around those of its reference, the first: `samples` of them."""
    (times,) = own[0].samples_ns
    noise = random.Random(3)
    near = [[ns * noise.uniform(0.5, 1.5) for ns in (times * 9)[:samples]]]
    reference = dataclasses.replace(own[0], samples_ns=[(times * 9)[:samples]])
    return [reference, *own[1:index], dataclasses.replace(own[index], samples_ns=near), *own[index + 1 :]]


def test_a_ratio_that_may_be_one_is_undecided_and_of_too_few_samples_too(tmp_path):
    own = cells(LADDER)
    text = page(like_the_reference(own, 1, 20), tmp_path)
    (line,) = (line for line in section(text) if "Undecided" in line)
    assert line.startswith("**Undecided**, 1 of")
    assert own[1].contender in line
    assert "undecided: level" in remarks(tmp_path)[own[1].contender]
    few = [dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:3]]) for cell in own]
    (line,) = (line for line in section(page(few, tmp_path)) if "Undecided" in line)
    assert line.startswith("**Undecided**, all")
    assert "undecided: few samples" in remarks(tmp_path)[own[1].contender]


def test_a_figure_that_is_not_published_is_named_with_its_reason(tmp_path):
    few = [dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:3]]) for cell in cells(LADDER)]
    drawing.draw(LADDER, few, MACHINE, tmp_path, decided=True)
    text = machine_report.write([LADDER], few, MACHINE, tmp_path, tmp_path / "results").read_text(encoding="utf-8")
    assert f"Not drawn: {', '.join(f'{figure.title} (undecided)' for figure in LADDER.figures)}." in text
    assert "![" not in text
    drawing.draw(LADDER, cells(LADDER), MACHINE, tmp_path, decided=True)
    text = machine_report.write([LADDER], cells(LADDER), MACHINE, tmp_path, tmp_path / "results").read_text("utf-8")
    assert "Not drawn" not in text


def test_a_reason_cannot_break_the_page(tmp_path):
    own = cells(LADDER, failing=("cpu-tiled",))
    bad = [cell if cell.is_ok else dataclasses.replace(cell, reason="<b>|" + "x" * 10_000) for cell in own]
    (line,) = (line for line in section(page(bad, tmp_path)) if "Failed" in line)
    assert "&lt;b>|xxx" in line
    assert len(line) < 600


def test_figures_count_what_they_cannot_show():
    own = cells(LADDER)
    assert caveats.in_figure(own) == []
    own = like_the_reference(own, 1, 20)
    own[2] = changed(own[2], unmet="rounds: 1 of 3 in 20 s", readings={"cpu_share": [[1.0, 0.5]]})
    (said,) = caveats.in_figure(own)
    timed = len(rates.contenders(own))
    ratios = timed - len({cell.case for cell in rates.contenders(own)})
    assert said == (
        f"To keep in mind: 1 of {ratios} ratios undecided, 1 of {timed} times taken on a throttled or shared machine, "
        f"1 of {timed} times with fewer samples than asked for; the report says which"
    )


def test_the_calibration_of_the_machine_is_quoted(tmp_path):
    assert "- Not calibrated: `python -m harness calibrate`" in page(cells(LADDER), tmp_path)
    found = {"kind": "calibration", "cells": 200, "false": 1, "false_rate": [0.005, 0.001, 0.028]}
    Journal(tmp_path / FILE).append([{**found, "detectable": [0.031, 0.074], "processes": 3}])
    (line,) = (line for line in page(cells(LADDER), tmp_path).splitlines() if line.startswith("- Calibrated"))
    assert "1 of 200 cells" in line
    assert "0.5 % [0.1, 2.8]" in line
    assert "a change of 3.1 % is found in the median cell, of 7.4 % in nine cells of ten" in line


def test_tables_of_other_pages_have_no_remarks():
    own = [changed(cell, unmet="rounds: 1 of 3 in 20 s") for cell in cells(LADDER)]
    assert "not met" in tables.table(LADDER, tables.rows_of(LADDER, own, {}))
    assert "not met" not in tables.table(LADDER, tables.rows_of(LADDER, own))


def test_of_many_rows_the_highest_middle_and_lowest_ratio_are_shown(tmp_path):
    sweep = EXPERIMENTS["size_sweep"]
    own = cells(sweep)
    text = machine_report.write([sweep], own, MACHINE, tmp_path, tmp_path).read_text(encoding="utf-8")
    ratios = [
        float(line.split("|")[-3].split()[0]) for line in text.splitlines() if line.startswith("| plus_times, float64")
    ]
    assert len(ratios) == 3
    assert ratios == sorted(ratios, reverse=True)
    others = [row.over_reference.estimate for row in tables.rows_of(sweep, own) if row.cell.contender != "cpu-numpy"]
    assert (ratios[0], ratios[-1]) == pytest.approx((max(others), min(others)), rel=0.01)


def test_a_table_keeps_its_columns_whatever_the_reason():
    lines = tables.markdown_table(["a", "b"], [["1|2", "3"]], right=["b"]).splitlines()
    assert lines == ["| a | b |", "| --- | ---: |", "| 1\\|2 | 3 |"]


def test_markers_are_idempotent_and_leave_the_rest_alone():
    before = "# Top\n<!-- ladder:begin -->\nold\n<!-- ladder:end -->\nrest \\1\n"
    once = markers.update_markers(before, "ladder", "| new \\d |\n")
    assert once == "# Top\n<!-- ladder:begin -->\n| new \\d |\n<!-- ladder:end -->\nrest \\1\n"
    assert markers.update_markers(once, "ladder", "| new \\d |") == once


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
        markers.update_markers(text, "x", "new")


def test_the_headline_names_every_rung_and_what_has_no_time():
    heads, rows = tables.headline(LADDER, cells(LADDER, failing=("cpu-tiled",)))
    assert heads[-3:] == tables.HEADLINE_NUMBERS
    assert rows[0][1] == "cpu-naive"
    assert rows[0][2].endswith("GFLOP/s")
    assert "failed" in [row[2] for row in rows]
    assert all(len(row) == len(heads) for row in rows)


def test_tables_of_a_page_are_rewritten_between_their_markers_only(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before <!-- ladder:begin -->old<!-- ladder:end --> after")
    markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER))
    text = page.read_text()
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert "cpu-packed" in text
    assert "old" not in text


def test_a_finding_stands_within_the_item_of_a_list_where_its_markers_are_indented(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("- **Here:**\n  <!-- finding ladder:begin -->\n  <!-- finding ladder:end -->\n- next\n")
    for _ in range(2):  # again nothing changes
        markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER))
        first, begin, sentence, end, last = page.read_text().splitlines()
        assert (first, last) == ("- **Here:**", "- next")
        assert (begin, end) == ("  <!-- finding ladder:begin -->", "  <!-- finding ladder:end -->")
        assert sentence.startswith("  cpu-simd reaches ")


def test_a_table_of_a_page_has_the_first_case_and_no_intervals(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("<!-- ladder:begin -->old<!-- ladder:end -->")
    own = cells(LADDER, failing=("cpu-tiled",))
    markers.write_tables(page, EXPERIMENTS.values(), own)
    first, heads, _, *rows = [line for line in page.read_text().splitlines() if line and "<!--" not in line]
    assert first == "plus_times, float64, n=300-800, 1 thread:"
    assert heads == "| contender | rate | of peak | speed over step below | over cpu-naive |"
    left_out = answers.shown(LADDER.figures[0], "ladder", own).left_out
    of_case = [cell.contender for cell in own if cell.case == own[0].case and cell.contender not in left_out]
    assert [row.split("|")[1].strip() for row in rows] == of_case
    packed = next(row for row in rows if "cpu-packed" in row).split("|")[2:-1]
    expected = [10, 20, 5, 10]  # GFLOP/s, percent of the peak, over cpu-transposed, over cpu-naive
    assert [float(entry.split()[0]) for entry in packed] == pytest.approx(expected, rel=0.03)
    assert any(row.endswith("| failed |  |  |  |") for row in rows)


def test_markers_that_name_a_machine_show_what_that_one_measured(tmp_path):
    page = tmp_path / "README.md"
    other = "ladder of far-away"
    before = f"<!-- ladder:begin -->own<!-- ladder:end --> <!-- {other}:begin -->old<!-- {other}:end -->"
    page.write_text(before)
    markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER), "elsewhere")
    assert page.read_text() == before
    markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER), "far-away")
    own, table = page.read_text().split("<!-- ladder of far-away:begin -->")
    assert own == before.partition("<!-- ladder of")[0]
    assert "cpu-packed" in table
    assert "old" not in table


def test_a_page_that_is_not_utf8_is_one_message_and_stays_as_it_is(tmp_path):
    page = tmp_path / "README.md"
    content = "caf\xe9\r\n".encode() + b"<!-- ladder:begin -->old<!-- ladder:end -->\r\nna\xefve"
    page.write_bytes(content)
    with pytest.raises(HarnessError, match=rf"{page}: the page cannot be read(.|\n)*byte 0xef in line 3(.|\n)*iconv"):
        markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER))
    assert page.read_bytes() == content


def test_a_page_keeps_the_ends_of_its_lines(tmp_path):
    page = tmp_path / "README.md"
    page.write_bytes(b"\xef\xbb\xbfbefore\r\n<!-- ladder:begin -->old<!-- ladder:end -->\r\nafter\r\n")
    markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER))
    content = page.read_bytes()
    assert content.startswith(b"\xef\xbb\xbfbefore\r\n<!-- ladder:begin -->\r\n")
    assert content.count(b"\n") == content.count(b"\r\n") > 10


def test_a_table_of_what_was_not_measured_stays_as_it_is(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("<!-- ladder:begin -->old<!-- ladder:end -->")
    markers.write_tables(page, EXPERIMENTS.values(), [])
    assert page.read_text() == "<!-- ladder:begin -->old<!-- ladder:end -->"


def test_a_roof_is_what_the_fastest_call_shows():
    peak = next(cell for cell in cells(LADDER) if cell.axes["role"] == "peak")
    slowed = dataclasses.replace(peak, samples_ns=[[100.0, 50.0, 400.0]], facts={"operations": 200})
    assert peaks.roof_rate(slowed) == 4.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Interval(1.523, 1.48, 1.6), "1.52 [1.48, 1.60]"),
        (Interval(1.0, 1.0, 1.0), "1.00"),
        (Interval(1234.5, 1200.0, 1300.0), "1234 [1200, 1300]"),
        (Interval(0.0, 0.0, 0.0), "0"),
        (Interval(0.491, 0.0, math.inf), "0.491 [?]"),  # too few samples for any bound
        (Interval(math.nan, math.nan, math.nan), "nan [?]"),
        (None, ""),
    ],
)
def test_an_interval_is_shown_with_three_digits_or_as_unknown(value, text):
    assert tables.number(value) == text


def test_a_finding_within_a_line_stays_in_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("| there | <!-- finding ladder:begin --><!-- finding ladder:end --> | here |\n")
    for _ in range(2):
        markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER))
        said = r"\| there \| <!-- finding ladder:begin --> (cpu-simd .+\.) <!-- finding ladder:end --> \| here \|\n"
        assert re.fullmatch(said, page.read_text())


def test_a_page_quotes_findings_between_their_markers(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- finding ladder:begin -->old<!-- finding ladder:end -->\nb")
    markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER))
    assert re.search(r"^- cpu-simd reaches \d+ % of its measured peak.*\.$", page.read_text(), re.MULTILINE)
    assert "old" not in page.read_text()


def test_an_experiment_without_any_time_is_one_line_with_its_reason(tmp_path):
    timed = cells(LADDER)
    idle = [
        dataclasses.replace(c, status="missing", reason="no GPU here\nat all", samples_ns=[], facts={})
        for name in ("size_sweep", "strassen")
        for c in cells(EXPERIMENTS[name])
    ]
    failed = dataclasses.replace(idle[-1], status="failed", reason="wrong")
    for shown, has_failed in (([*timed, *idle], False), ([*timed, *idle, failed], True)):
        page = machine_report.write(EXPERIMENTS.values(), shown, MACHINE, tmp_path / "figures", tmp_path / "results")
        text = page.read_text(encoding="utf-8")
        assert "Experiment `strassen`" not in text
        assert "Experiment `size_sweep`" not in text
        assert f"- Not possible here (no GPU here): size_sweep{'' if has_failed else ', strassen'}." in text
        assert ("- Failed (wrong): strassen." in text) == has_failed
        assert "size_sweep" in (tmp_path / "results" / machine_report.CELLS).read_text()


@pytest.mark.parametrize("write", (
    lambda page: markers.write_tables(page, EXPERIMENTS.values(), cells(LADDER)),
    lambda page: machine_report.write([LADDER], cells(LADDER), MACHINE, page.parent, page.parent),
))  # fmt: skip
def test_a_page_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch, write):
    page = tmp_path / machine_report.REPORT
    page.write_text("old <!-- ladder:begin -->x<!-- ladder:end -->", encoding="utf-8")
    before = page.read_text(encoding="utf-8")

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match=f"No space left on device.*{machine_report.REPORT}"):
        write(page)
    assert page.read_text(encoding="utf-8") == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_numbers_of_results_stand_between_markers(name):
    text = (Path(__file__).parents[2] / name).read_text(encoding="utf-8")
    told = re.compile(r"<!-- finding (.+?):begin -->.*?<!-- finding \1:end -->", re.DOTALL)
    assert told.search(text)
    assert re.findall(r".*\d(?:\.\d+)? (?:times|%).*", told.sub("", text)) == []
