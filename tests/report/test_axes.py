"""Axes of figures: which points a line joins, ticks of ratios, percentages; and what is not published."""

from matplotlib.figure import Figure as Canvas

from harness.experiment import load_all
from harness.report.figures import drawing, values
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()


def test_a_line_passes_by_sizes_beside_a_whole_tile():
    sizes = [256, 257, 511, 512, 513, 1000, 1024, 1025]
    assert [n for n, is_joined in zip(sizes, values.joined(sizes), strict=True) if is_joined] == [256, 512, 1000, 1024]
    assert all(values.joined([511, 512, 513])), "too few whole tiles for a line of their own"


def test_what_is_above_the_peak_is_told_as_it_was_measured():
    assert [values.percent(part) for part in (84.2, 103.4, 194.0)] == ["84 %", "103 %", "194 %"]


def test_a_short_axis_of_ratios_has_more_ticks_than_powers_of_two():
    for high, fewest in ((1.4, 4), (64.0, 4)):
        chart = Canvas().subplots()
        chart.set_xlim(0.9, high)
        values.log_ticks(chart)
        low, end = chart.get_xlim()
        assert len([tick for tick in chart.get_xticks() if low <= tick <= end]) >= fewest


def test_of_figures_to_publish_those_without_their_subject_are_left_out(tmp_path):
    workloads = EXPERIMENTS["workloads"]
    others = [cell for cell in cells(workloads) if cell.contender != "cpu-simd"]
    drawn = drawing.draw(workloads, others, MACHINE, tmp_path)
    assert all(path.exists() for path in drawn)
    assert drawing.draw(workloads, others, MACHINE, tmp_path, decided=True) == []
    assert not any(path.exists() for path in drawn)
