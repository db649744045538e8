"""Which measured peak holds for a cell: that of its own run or of the last before it, whatever is measured later."""

from __future__ import annotations

import dataclasses

import pytest

from harness.analysis import answers, caveats, peaks, rates
from harness.catalogue import load_all
from harness.cli import options
from harness.report import closing, machine_report
from harness.store.store import Store
from tests._support import planted_store
from tests._support.charts import charts
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
(PRODUCT,) = [
    c
    for c in cells(EXPERIMENTS["ladder"])
    if c.contender == "cpu-simd" and rates.axis(c, "problem") == "plus_times float64"
][:1]
(PEAK,) = [
    c for c in cells(EXPERIMENTS["ladder"]) if rates.is_peak(c) and rates.axis(c, "problem") == "plus_times float64"
]


def product(run):
    return dataclasses.replace(PRODUCT, run=run)


def peak(run, rate, **changes):
    samples = [[PEAK.facts["operations"] / rate] * 3]
    return dataclasses.replace(PEAK, run=run, samples_ns=samples, time=f"{run}T10:00:00", **changes)


def test_a_peak_of_the_same_run_holds_the_fastest_of_them_whatever_experiment_measured_it():
    known = [peak("2026-01-02", 50.0), peak("2026-01-02", 60.0, experiment="roofline"), peak("2026-01-03", 90.0)]
    assert peaks.roof_rate(peaks.peak_of(product("2026-01-02"), known)) == pytest.approx(60)


def test_else_that_of_the_last_run_before_holds_and_only_else_the_first_after():
    known = [peak("2026-01-01", 70.0), peak("2026-01-03", 50.0), peak("2026-01-06", 90.0), peak("2026-01-07", 95.0)]
    found = [peaks.roof_rate(peaks.peak_of(product(f"2026-01-0{day}"), known)) for day in (2, 4, 5, 8)]
    assert found == pytest.approx([70, 50, 50, 95])
    assert peaks.peak_of(product("2026-01-05"), known[2:]) is known[2]


@pytest.mark.parametrize("experiment", ["ladder", "a sooner name", "roofline"])
def test_what_is_measured_later_changes_no_percentage(experiment):
    old = [product("2026-01-02"), peak("2026-01-01", 50.0)]
    later = peak("2026-02-01", 80.0, experiment=experiment)
    assert peaks.interval_of_peak(old[0], [later, *old]) == peaks.interval_of_peak(old[0], old)


def test_the_peak_of_complex_numbers_is_that_of_their_parts():
    of_complex = dataclasses.replace(PRODUCT, run="2026-01-02", axes={**PRODUCT.axes, "dtype": "complex128"})
    known = peak("2026-01-02", 60.0)
    assert peaks.peak_of(of_complex, [known]) is known
    narrow = dataclasses.replace(of_complex, axes={**of_complex.axes, "dtype": "complex64"})
    assert peaks.peak_of(narrow, [known]) is None


def test_a_peak_in_turns_comes_before_all_others():
    own = dataclasses.replace(peak("2026-01-02", 40.0), case=PRODUCT.case)
    assert peaks.peak_of(product("2026-01-02"), [peak("2026-01-02", 60.0), own]) is own


def reaching(rate, run, **changes):
    """Return the product at a rate [G operations/s]."""
    return dataclasses.replace(product(run), samples_ns=[[PRODUCT.facts["operations"] / rate] * 3], **changes)


def test_a_peak_that_a_product_beats_holds_for_nothing_and_the_report_says_so():
    beaten, other = peak("2026-01-02", 50.0), peak("2026-01-01", 70.0)
    faster, slower = reaching(51.0, "2026-01-02"), reaching(40.0, "2026-01-02")
    checked = peaks.without_missed([faster, slower, beaten, other])
    assert [peaks.percent_of_peak(cell, checked) for cell in checked[:2]] == pytest.approx(
        [100 * 51 / 70, 100 * 40 / 70]
    )
    (said,) = closing._missed_peaks(checked)
    assert "plus_times float64 on 1 thread (cpu-simd reaches 102 % of it (n=" in said
    again = peaks.without_missed([reaching(72.0, "2026-01-02"), beaten, other])
    assert peaks.percent_of_peak(again[0], again) is None


def test_a_peak_of_another_run_is_refuted_in_that_run_alone():
    known = peak("2026-01-01", 50.0)
    checked = peaks.without_missed([reaching(60.0, "2026-01-02"), reaching(40.0, "2026-01-03"), known])
    assert [peaks.percent_of_peak(cell, checked) for cell in checked[:2]] == [None, pytest.approx(80)]


@pytest.mark.parametrize(
    "changes",
    [{"contender": "cpu-strassen"}, {"contender": "scipy CSR"}, {"axes": {**PRODUCT.axes, "operands": "float16"}}],
    ids=["strassen", "sparse", "narrow"],
)
def test_less_work_than_is_counted_refutes_no_peak_and_has_no_percentage(changes):
    cells = [reaching(80.0, "2026-01-02", **changes), peak("2026-01-02", 50.0)]
    assert peaks.without_missed(cells) == cells
    assert peaks.percent_of_peak(cells[0], cells) is None


@pytest.mark.deep
def test_no_stored_product_is_above_its_peak(stored_results):
    for _, recorded, _ in options.recorded(stored_results, None):
        by_kind = peaks.peaks_by_kind(recorded)
        for cell in recorded:
            if not rates.is_on_device(cell):
                assert (peaks.percent_of_peak(cell, by_kind.get(peaks.kind(cell), ())) or 0) <= peaks.MOST_PERCENT


def test_a_superseded_peak_holds_for_cells_of_its_time_and_is_shown_nowhere():
    (figure, *_) = EXPERIMENTS["ladder"].figures
    past, now = dataclasses.replace(peak("2026-01-02", 50.0), is_current=False), peak("2026-01-05", 90.0)
    shown = answers.shown(figure, "ladder", [now, product("2026-01-02"), past])
    assert shown.cells == [now, product("2026-01-02")]
    assert shown.peaks == [past]
    assert peaks.peak_of(shown.cells[1], [*shown.cells, *shown.peaks]) is past


def test_a_peak_of_another_run_is_told_in_reports_and_dated_in_figures(tmp_path, monkeypatch):
    own = [c for c in cells(EXPERIMENTS["ladder"]) if not rates.is_peak(c)]
    elsewhere = [
        dataclasses.replace(c, run="20250101T000000", time="2025-01-01T10:00:00", experiment="roofline")
        for c in cells(EXPERIMENTS["ladder"])
        if rates.is_peak(c)
    ]
    lines = caveats.of_section(own, {}, elsewhere)
    assert any(line.startswith("**Peak of another run**, all ") for line in lines)
    assert not any("Peak of another run" in line for line in caveats.of_section(own, {}))
    notes = charts(EXPERIMENTS["ladder"], [*own, *elsewhere])["ladder"].notes
    assert any(note.startswith("The peak is of another run, measured on 2025-01-01 (for all ") for note in notes)
    alone = charts(EXPERIMENTS["ladder"], cells(EXPERIMENTS["ladder"]))["ladder"]
    assert not any("another run" in note for note in alone.notes)


def test_a_report_counts_and_names_no_superseded_peak(tmp_path):
    own = cells(EXPERIMENTS["ladder"])
    past = dataclasses.replace(peak("2025-01-01", 50.0), is_current=False, record={"unmet": "", "commit": "of-old"})
    texts = [
        machine_report.write([EXPERIMENTS["ladder"]], known, MACHINE, tmp_path, tmp_path).read_text()
        for known in (own, [*own, past])
    ]
    assert texts[0] == texts[1]


def test_superseded_peaks_are_read_with_the_cells_of_a_machine(tmp_path):
    problem = {"m": 64, "n": 64, "k": 64, "semiring": "plus_times", "dtype": "float64"}
    role = {"role": "peak", "semiring": "plus_times", "dtype": "float64"}

    def record(store, run, ns, experiment="ladder", **changes):
        found = planted_store.cell(run=run, experiment=experiment, samples_ns=[[ns]], time=run, **changes)
        store.append(found, machine=planted_store.MACHINE)

    def of_peak():
        ((_, known, _),) = options.recorded(tmp_path, None)
        (own,) = [cell for cell in known if cell.experiment == "sweep"]
        return peaks.percent_of_peak(own, known), sum(rates.is_peak(cell) for cell in known if cell.is_current)

    store = Store(tmp_path / "one" / "quick")
    for run, ns in (("2026-01-01", 2.0), ("2026-01-02", 1.0)):
        store.append(planted_store.begun(run, experiments=["ladder"]))
        record(store, run, ns, contender="peak", axes=role, case="peak")
        if run == "2026-01-01":
            record(store, run, 4.0, "sweep", facts={"operations": 6, "problem": problem}, axes={"n": 64})
            before = of_peak()
        store.append(planted_store.done(run))
    assert before == of_peak() == (pytest.approx(50.0), 1)
