"""Charts of stored cells: what their panels, rows, lines and tables hold, and what is said around them."""

import dataclasses
import itertools
import math
import re

import pytest

from harness.analysis import answers, peaks, ragged_sizes, rivals
from harness.analysis import rates as analysis_rates
from harness.analysis.findings import regret
from harness.catalogue import load_all
from harness.dtypes import mixed_dtypes
from harness.experiment import Figure
from harness.report.figures import drawing, ticks, values
from harness.report.figures.looks import COLOURS, PALETTE, Looks
from harness.report.figures.values import short
from harness.report.tables import byte_size
from tests._support.charts import charts, points, words
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
MANY_CORES = dataclasses.replace(MACHINE, cores=8, threads=8)
DRAWN = [
    *("ladder", "size_sweep", "block_size", "thread_scaling", "semiring_cost", "roofline", "intensity", "workloads"),
    *("vs_peers", "percent_of_peak", "dense_sweep", "thin_shapes", "small_products", "mixed_precision"),
]
PRESETS = {"mixed_precision": "full"}  # of which quick has one size, and no figure by size


def chart(name, own=None, figure=None):
    """Return the chart of an experiment from its cells or given ones: that of its own name, or of another figure."""
    made = charts(EXPERIMENTS[name], cells(EXPERIMENTS[name]) if own is None else own)
    return made[figure or name]


def one(name, kind, options, own=None):
    """Return the chart of a figure that an experiment does not have."""
    experiment = dataclasses.replace(EXPERIMENTS[name], figures=(Figure("one", kind, "One", options),))
    return charts(experiment, cells(EXPERIMENTS[name]) if own is None else own).get("one")


@pytest.mark.parametrize("name", DRAWN)
def test_every_chart_names_its_axes_its_machine_and_who_failed(name):
    experiment = EXPERIMENTS[name]
    preset = PRESETS.get(name, "quick")
    made = charts(experiment, cells(experiment, preset, failing=("cpu-tiled",), machine=MANY_CORES))
    assert list(made) == [figure.name for figure in experiment.figures]
    for figure in experiment.figures:
        own, shown = made[figure.name], answers.shown(figure, name, cells(experiment, preset, machine=MANY_CORES)).cells
        assert "Test CPU, 4 cores" in own.footer
        assert ("2026-01-01" in own.footer) == (not own.is_computed)
        assert ("of 8 samples, 1 process" in own.footer) == (not own.is_computed)
        assert all(panel.x.label or panel.y.label for panel in own.panels if panel.series)
        has_tiled = any(cell.arguments.get("backend") == "cpu-tiled" for cell in shown)
        assert any(note.startswith("Failed") for note in own.notes) == (has_tiled and not own.is_computed), figure
        assert all(math.isfinite(point.value.estimate) for point in own.points), "what has no value is no point"


@pytest.mark.parametrize("value", ["rate", "time", "time_ratio", "speed_up"])
@pytest.mark.parametrize("kind", ["bars", "dots", "lines", "heatmap"])
def test_a_chart_shows_every_value_as_it_was_measured(kind, value):
    options = {"value": value, "rows": "n", "columns": "contender", "x": "n", "panels": "n"}
    every = cells(EXPERIMENTS["size_sweep"], "smoke")
    own = [cell for cell in every if cell.case == every[-1].case]
    made = one("size_sweep", kind, options, own)
    wanted = [
        values.estimate(value, cell, own).estimate
        for cell in analysis_rates.contenders(own)
        if kind != "heatmap" or value in ("rate", "time") or cell.contender != cell.reference
    ]
    if kind == "heatmap":
        factor = values.scale(value, own)
        found = [number for field in made.panels[0].fields.numbers for number in field]
        wanted = [math.log2(number * factor) if value != "rate" else number * factor for number in wanted]
    else:
        found = [point.value.estimate for point in made.points]
    assert sorted(found) == pytest.approx(sorted(wanted))


def test_the_footer_promises_intervals_only_where_enough_processes_give_them():
    one = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:4]]) for c in cells(EXPERIMENTS["ladder"])]
    three = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:4]] * 3) for c in one]
    assert drawing.provenance(one, MACHINE).endswith("median of 4 samples, 1 process; dots: samples")
    assert drawing.provenance(three, MACHINE).endswith("median of 12 samples, 3 processes; bars: 95 % interval")
    assert drawing.provenance([*one, *three], MACHINE).endswith(
        "median of 4 to 12 samples, 1 to 3 processes; bars: 95 % interval; dots: samples of fewer processes"
    )
    assert drawing.provenance(one, MACHINE, has_intervals=False).endswith("median of 4 samples, 1 process")


def test_backends_keep_their_colour_and_new_ones_get_free_ones():
    ladder = cells(EXPERIMENTS["ladder"])
    strangers = [
        dataclasses.replace(ladder[0], contender=f"new-{i}", arguments={"backend": f"new-{i}"}) for i in range(3)
    ]
    looks = Looks([*ladder, *strangers])
    assert looks.of("cpu-packed")["color"] == COLOURS["cpu-packed"]
    assert looks.of("cpu-tiled reuse=1")["color"] == looks.of("cpu-tiled reuse=2")["color"]
    assert looks.of("cpu-tiled reuse=1") != looks.of("cpu-tiled reuse=2")
    chosen = [looks.of(f"new-{i}")["color"] for i in range(3)]
    assert len(set(chosen)) == 3
    assert set(chosen) <= set(PALETTE) - {COLOURS["cpu-packed"], COLOURS["cpu-numpy"]}


def test_variants_of_the_only_backend_of_a_figure_have_colours_of_their_own():
    one = cells(EXPERIMENTS["ladder"])[0]
    variants = [dataclasses.replace(one, contender=name, arguments={"backend": "cpu-simd"}) for name in "abc"]
    looks = Looks(variants)
    assert looks.of("a")["color"] == COLOURS["cpu-simd"]
    assert len({looks.of(name)["color"] for name in "abc"}) == 3
    assert len({Looks(variants[:2]).of(name)["color"] for name in "ab"}) == 1
    assert len({Looks([*variants, one]).of(name)["color"] for name in "abc"}) == 1


def test_percent_of_peak_is_of_the_peak_of_the_same_semiring():
    ladder = cells(EXPERIMENTS["ladder"])
    packed = next(cell for cell in ladder if cell.contender == "cpu-packed")
    assert peaks.percent_of_peak(packed, ladder) == pytest.approx(20, rel=0.03)
    without = [cell for cell in ladder if cell.axes.get("semiring") != packed.axes["semiring"]]
    assert peaks.percent_of_peak(packed, [packed, *without]) is None


def test_a_peak_of_the_same_case_is_paired_with_the_product():
    product, peak = cells(EXPERIMENTS["percent_of_peak"])[:2]
    assert (analysis_rates.is_roof(product), analysis_rates.is_roof(peak)) == (False, True)
    peak = dataclasses.replace(peak, samples_ns=[[10.0, 20.0, 10.0, 20.0]], facts={**peak.facts, "operations": 100})
    product = dataclasses.replace(
        product, samples_ns=[[50.0, 100.0, 50.0, 100.0]], facts={**product.facts, "operations": 400}
    )
    assert peaks.interval_of_peak(product, [product, peak]) == (80.0, 80.0, 80.0)
    elsewhere = dataclasses.replace(peak, case="another", samples_ns=[[10.0]])
    assert peaks.peak_of(product, [elsewhere, product, peak]) is peak
    assert rivals.fastest_peer(product, [product, peak]) is None


def test_ratios_are_paired_within_a_process():
    first, second = cells(EXPERIMENTS["ladder"])[:2]
    reference = dataclasses.replace(first, samples_ns=[[1.0, 2.0, 3.0], [10.0]])
    cell = dataclasses.replace(second, samples_ns=[[2.0, 4.0], [20.0, 99.0]])
    assert analysis_rates.time_ratio(cell, reference) == (2.0, 2.0, 2.0)
    assert analysis_rates.speed_up(cell, reference).estimate == 0.5


def test_work_differs_so_speed_is_of_rates():
    one, *_ = cells(EXPERIMENTS["ladder"])
    twice = dataclasses.replace(one, facts={**one.facts, "operations": 2 * one.facts["operations"]})
    assert analysis_rates.speed_up(twice, one).estimate == pytest.approx(2)


def timed(cell, *elapsed_ns):
    """Return `cell` with these samples, one process."""
    return dataclasses.replace(cell, status="ok", reason="", samples_ns=[list(elapsed_ns)])


def a_case(**rates):
    """Return the cells of one case of vs_peers: the subject and its peers, at these rates."""
    place = {"n": 257, "dtype": "float64", "shared_by": "one thread"}
    some = analysis_rates.select(cells(EXPERIMENTS["vs_peers"], "full"), place)
    own = {cell.contender.removeprefix("cpu-"): cell for cell in some if cell.axes["semiring"] == "plus_times"}
    return {name: timed(own[name], *[own[name].facts["operations"] / rate] * 8) for name, rate in rates.items()}


def test_the_fastest_peer_is_found_in_each_case_and_ratios_are_paired():
    case = a_case(simd=30.0, numpy=20.0, scipy=25.0)
    assert rivals.fastest_peer(case["simd"], case.values()) is case["scipy"]
    assert rivals.over_fastest(case["simd"], case.values()).estimate == pytest.approx(1.2)
    other_case = dataclasses.replace(a_case(blis=90.0)["blis"], case="another")
    assert rivals.fastest_peer(case["simd"], [*case.values(), other_case]) is case["scipy"]
    alternating = timed(case["simd"], *(ns * 2 for ns in [1.0, 9.0, 1.0, 9.0]))
    peer = timed(case["numpy"], 1.0, 9.0, 1.0, 9.0)
    assert rivals.over_fastest(alternating, [alternating, peer]) == (0.5, 0.5, 0.5)


def test_without_a_peer_or_a_time_there_is_no_ratio():
    case = a_case(simd=30.0, numpy=20.0)
    absent = dataclasses.replace(case["numpy"], status="missing", samples_ns=[])
    assert rivals.over_fastest(case["simd"], [case["simd"], absent]) is None
    failed = dataclasses.replace(case["simd"], status="failed", samples_ns=[])
    assert rivals.over_fastest(failed, [failed, case["numpy"]]) is None


def test_percent_of_peak_has_the_interval_of_the_rate():
    some = cells(EXPERIMENTS["ladder"])
    product = next(cell for cell in some if not analysis_rates.is_roof(cell))
    rate, percent = analysis_rates.rate_interval(product), peaks.interval_of_peak(product, some)
    scale = 100 / peaks.roof_rate(peaks.peak_of(product, some))
    assert percent == pytest.approx([scale * bound for bound in rate])
    assert peaks.interval_of_peak(product, analysis_rates.contenders(some)) is None


def test_cells_are_kept_at_one_of_several_places_and_named_by_several_axes():
    some = cells(EXPERIMENTS["vs_peers"], "full")
    assert {cell.axes.get("n") for cell in analysis_rates.select(some, {"n": [257, 512]})} == {257, 512}
    place = {"n": 1025, "dtype": "float64", "threads": MACHINE.cores}
    (title,) = {analysis_rates.words(cell, ["problem", "threads"]) for cell in analysis_rates.select(some, place)}
    assert title == "plus_times float64, 4 threads"


def test_a_peak_of_another_experiment_is_drawn_across_rates():
    sweep, ladder = cells(EXPERIMENTS["size_sweep"]), cells(EXPERIMENTS["ladder"])
    assert chart("size_sweep", sweep).panels[0].rules == []
    made = chart("size_sweep", [*sweep, *ladder])
    peak = next(cell for cell in ladder if analysis_rates.is_roof(cell) and cell.axes["semiring"] == "plus_times")
    ((rule,),) = [panel.rules for panel in made.panels]
    assert (rule.at, rule.across, rule.words) == (peaks.roof_rate(peak), "y", "measured peak")
    assert "10 samples" not in made.footer, "the footer is about the figure's own samples"


def test_narrow_operands_of_one_size_are_a_row_a_dtype():
    made = charts(EXPERIMENTS["mixed_precision"], cells(EXPERIMENTS["mixed_precision"]))
    assert "mixed_precision_sizes" not in made
    (panel,) = made["mixed_precision"].panels
    assert panel.y.names == [dtype.name for dtype, _ in mixed_dtypes()]


def test_where_sums_are_wider_than_operands_the_peak_names_the_dtype_of_sums():
    both = [*cells(EXPERIMENTS["mixed_precision"], "full"), *cells(EXPERIMENTS["ladder"])]
    assert "measured peak of float64" in words(chart("mixed_precision", both, "mixed_precision_sizes"))
    several = {"panels": "semiring", "where": {"shared_by": "one thread"}}
    assert "measured peak" not in words(one("vs_peers", "lines", several)), "one of the dtypes has it"


def test_a_field_that_was_declined_has_a_dash():
    first, *others = [c for c in cells(EXPERIMENTS["workloads"]) if c.contender == "cpu-simd"]
    numpy = [c for c in cells(EXPERIMENTS["workloads"]) if c.contender == "cpu-numpy"]
    made = chart("workloads", [*numpy, dataclasses.replace(first, status="declined", samples_ns=[]), *others])
    (panel,) = made.panels
    assert panel.x.names == ["cpu-simd"], "the reference is 1 everywhere"
    said = [field for row in panel.fields.words for field in row]
    assert said.count("\N{EN DASH}") == 1
    assert "declined" not in said
    assert "\N{EN DASH}: declined." in made.notes


def test_a_figure_that_compares_is_not_drawn_of_one_value_alone():
    options = {"rows": "contender", "columns": "workload", "value": "speed_up", "compares": "workload"}
    some = cells(EXPERIMENTS["workloads"])
    assert one("workloads", "heatmap", options)
    place = some[0].axes["workload"]
    alone = [c if c.axes.get("workload") == place else dataclasses.replace(c, status="missing") for c in some]
    assert one("workloads", "heatmap", options, alone) is None


@pytest.mark.parametrize("name", ["thread_scaling", "block_size", "size_sweep", "dense_sweep"])
def test_peaks_of_other_experiments_are_no_contenders(name):
    experiment = EXPERIMENTS[name]
    figures = tuple(figure for figure in experiment.figures if figure.kind != "lines")
    experiment, own = dataclasses.replace(experiment, figures=figures), cells(experiment, "smoke")
    ladder = [dataclasses.replace(cell, run="20250101T000000") for cell in cells(EXPERIMENTS["ladder"])]
    alone, beside = (charts(experiment, some) for some in (own, [*own, *ladder]))
    assert [made.to_json() for made in alone.values()] == [made.to_json() for made in beside.values()]


def test_the_fastest_peer_is_named_with_mean_and_lowest_ratio():
    made = charts(EXPERIMENTS["vs_peers"], list(a_case(simd=30.0, numpy=20.0, scipy=25.0).values()))
    (series,) = (series for series in made["vs_peers"].panels[0].series if series.name)
    assert series.name == "fastest library: cpu-scipy"
    assert [(point.at, round(point.value.estimate, 6)) for point in series.points] == [(257, 1.2)]
    assert made["vs_peers"].panels[0].title.endswith("geom. mean 1.20, lowest 1.20 at n=257")
    assert made["vs_peers_semirings"].panels[0].table.rows == [["1.20", "scipy"]]


def test_a_row_without_a_dot_says_why():
    made = charts(EXPERIMENTS["vs_peers"], [a_case(simd=30.0)["simd"]])
    assert all("no library has a time" in words(made[name]) for name in ("vs_peers", "vs_peers_semirings"))
    unrelated = analysis_rates.contenders(cells(EXPERIMENTS["percent_of_peak"]))
    assert "no peak was measured" in words(chart("percent_of_peak", unrelated))


def slower(own, factors, samples=None):
    """Return the cells of a sweep, those of cpu-simd at some sizes with a longer time, and with few samples."""
    return [
        dataclasses.replace(c, samples_ns=[[factors[c.axes["size"]] * ns for ns in c.samples_ns[0][:samples]]])
        if c.contender == "cpu-simd" and c.axes["size"] in factors
        else c
        for c in own
    ]


def test_the_worst_size_of_a_sweep_is_named_and_what_is_not_firm_is_hollow():
    whole = cells(EXPERIMENTS["dense_sweep"])
    made = chart("dense_sweep", slower(whole, {555: 2}))
    (panel,) = made.panels
    row = panel.y.names.index("cpu-simd, over peak")
    assert re.fullmatch(r"(49|50|51) % at 555", panel.table.rows[row][1])
    assert re.search(r"loses at most (49|50|51) % of its speed .* \(size 555\)", made.title)
    assert any("speeds are over the peak, timed in turns" in note for note in made.notes)
    made = chart("dense_sweep", slower(slower(whole, {566: 2}), {588: 4}, samples=2))
    assert "(size 566)" in made.title
    assert made.panels[0].table.rows[row][1].endswith("at 566"), "two samples name no worst"
    assert len([p for p in points(made.panels[0], marker="o", markerfacecolor="white") if p.at == row]) == 1
    assert any("Hollow: " in note for note in made.notes)


def test_the_most_extra_work_from_a_size_on_never_rises():
    lines = chart("size_sweep", figure="extra_work").panels[0].series
    assert len(lines) == 4
    for line in lines:
        work = [point.value.estimate for point in line.points]
        assert work == sorted(work, reverse=True)


def test_each_idea_of_a_ladder_has_a_row_and_all_of_them_two_below():
    experiment = EXPERIMENTS["ablation"]
    (panel,) = chart("ablation").panels
    assert "n=512, 1 thread" in panel.x.label
    ideas = [idea for idea, *_ in experiment.figures[0].options["steps"]]
    assert panel.y.names == [*ideas, "all of these, multiplied", "cpu-packed over cpu-naive, measured"]
    gains = [series.points[0].value.estimate for series in panel.series]
    assert gains[-2] == pytest.approx(math.prod(gains[:-2]))
    missing = [cell for cell in cells(experiment) if cell.contender != "no packing"]
    assert chart("ablation", missing).says == "Not every idea has a time with it and without it"


@pytest.mark.parametrize(("most", "rows"), [(0.4, 2), (1.0, 3), (2.0, 8), (5.0, 2), (8.0, 14)])
def test_a_bar_of_ratios_has_as_many_ticks_above_1_as_below_and_no_more_than_fit(most, rows):
    marks = ticks.of_bar(most, rows)
    assert 1.0 in marks
    assert marks == sorted(marks)
    assert [1 / mark for mark in reversed(marks)] == pytest.approx(marks)
    assert len(marks) <= max(3, rows)
    assert max(marks) <= 2**most + 1e-6


def test_a_dot_above_the_peak_is_within_its_axis_and_explained():
    everything = cells(EXPERIMENTS["percent_of_peak"])
    fast = [
        dataclasses.replace(cell, samples_ns=[[cell.facts["operations"] / 55.0] * 8])  # G operations/s; the peak: 50
        if cell.contender == "cpu-simd"
        else cell
        for cell in everything
    ]
    made = chart("percent_of_peak", fast)
    (panel,) = made.panels
    low, high = ticks.limits(panel.x.scale, panel.span("x"), panel.x.limits)
    assert 109 < max(point.value.estimate for point in made.points) < high
    assert low == 0
    assert "reaches 110 % of its measured peak" in made.title
    assert "Above 100 %: the peak was measured too low." in made.notes
    assert not any("too low" in note for note in chart("percent_of_peak", everything).notes)


def test_what_is_highest_above_0_has_room_however_near_the_others_are():
    low, high = ticks.limits("linear", (94.0, 105.0), (0, None))
    assert low == 0
    assert high == pytest.approx(1.06 * 105)
    assert ticks.limits("linear", (94.0, 105.0), (None, None))[1] == pytest.approx(105 + 0.06 * 11)


def test_complex_products_have_a_figure_with_their_peak_and_panels_of_their_own():
    both = [*cells(EXPERIMENTS["vs_peers"], "quick"), *cells(EXPERIMENTS["ladder"])]
    made = charts(EXPERIMENTS["vs_peers"], both)["vs_peers_complex"]
    (panel,) = made.panels
    assert panel.title == "plus_times complex128, 1 thread"
    assert {point.at for series in panel.series for point in series.points} == {65, 257, 512}
    assert made.title.startswith("Over plus_times, cpu-simd is ")
    assert "complex128" in made.title
    mixed = [*cells(EXPERIMENTS["mixed_precision"], "full"), *both]
    assert all(p.rules for p in chart("mixed_precision", mixed, "mixed_precision_sizes").panels[-1:])


def test_what_stands_beside_a_ladder_is_parted_from_its_rungs():
    panel = chart("ladder").panels[0]
    (height,) = (rule.at for rule in panel.rules if rule.across == "y")
    assert panel.y.names[: int(height + 0.5)][-1] == "cpu-simd"
    below = {name.partition(" ")[0] for name in panel.y.names[int(height + 0.5) :]}
    assert below <= {*EXPERIMENTS["ladder"].figures[0].options["beside"]}


def test_a_row_of_many_products_shows_medians_alone():
    shown = cells(EXPERIMENTS["auto_regret"])
    made = chart("auto_regret", shown)
    own = [c for c in analysis_rates.contenders(shown) if c.contender == "auto" and c.axes["place"] == "host"]
    assert sorted(p.value.estimate for p in made.points) == sorted(regret.regret(c, shown).estimate for c in own)
    assert not made.has_spread


def test_a_dense_sweep_begins_at_0_and_joins_neighbours_alone():
    panels = chart("mv_sizes").panels
    assert [panel.title for panel in panels] == ["A x, around 2048", "x A, around 2048"]
    for panel in panels:
        assert panel.y.limits[0] == 0
        steps = [after.at - before.at for line in panel.series for before, after in itertools.pairwise(line.points)]
        assert set(steps) == {1}
        assert {point.at for line in panel.series for point in line.points} >= {2032, 2048, 2064}


def test_rows_of_one_dot_have_one_column_of_numbers():
    assert chart("batched").panels[0].table.heads[0] == "times"
    assert "lowest" not in words(chart("batched"))


@pytest.mark.parametrize(("low", "high"), [(3.2, 9.5), (1.3, 2.2), (36, 130), (0.012, 0.013), (0.5, 40), (1e-2, 1e4)])
def test_a_logarithmic_axis_has_ticks_however_short_it_is(low, high):
    marks = ticks.of_decades(low, high)
    assert 2 <= len(marks) <= 7
    assert all(low <= mark <= high for mark in marks)
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(("low", "high"), [(0.8, 2.6), (0.5, 1.9), (0.9, 3.1), (0.9, 1.4), (0.9, 64.0)])
def test_ticks_of_ratios_stand_apart_and_are_several(low, high):
    marks = ticks.of_ratios(low, high, 0.17)
    assert 1.0 in marks
    least = min(math.log(above / below) for below, above in itertools.pairwise(marks))
    assert least >= 0.17 * math.log(high / low)
    assert len([mark for mark in marks if low <= mark <= high]) >= 3


@pytest.mark.parametrize("heights", [[0.1, 0.1, 0.1], [0.5, 0.9, 0.99, 1.2], [0.2], [0.0, 0.3, 0.31]])
def test_names_at_the_ends_of_lines_stand_apart_and_in_order(heights):
    placed = ticks.spread_out(heights, 0.08)
    assert all(above - below >= 0.08 - 1e-9 for below, above in itertools.pairwise(placed))
    assert max(placed) <= 1
    assert ticks.spread_out([0.2, 0.5, 0.9], 0.08) == [0.2, 0.5, 0.9], "those that do not meet stay"


def test_a_panel_none_of_whose_values_holds_is_not_drawn():
    """A share of a run that took far longer than a plain one says nothing."""
    stored = [
        dataclasses.replace(
            cell,
            axes={**cell.axes, "dtype": dtype},
            facts={"share": 0.5, "seconds": {"products": slow * cell.median_ns / 1e9}},
        )
        for dtype, slow in (("float64", 1.0), ("float32", 9.0))
        for cell in cells(EXPERIMENTS["qr"])[:2]
    ]
    made = one("qr", "lines", {"value": "share", "peak": False, "panels": "dtype"}, stored)
    assert [panel.title for panel in made.panels] == ["float64"]


def test_many_reasons_are_left_to_the_report():
    some = cells(EXPERIMENTS["percent_of_peak"], failing=("all",))
    failed = [dataclasses.replace(c, reason=f"reason {i}") for i, c in enumerate(analysis_rates.contenders(some) * 2)]
    assert drawing.absences(failed) == [f"Failed in {len(failed)} cells: cpu-simd; the report gives the reasons"]
    few = failed[: drawing.MOST_REASONS]
    assert drawing.absences(few) == [f"Failed in {len(few)} cells: cpu-simd (reason 0; reason 1)"]


def test_too_few_processes_show_their_samples_and_no_interval():
    own = cells(EXPERIMENTS["ladder"])
    cell = analysis_rates.contenders(own)[1]
    for processes in (1, 2, 3):
        alike = dataclasses.replace(cell, samples_ns=[cell.samples_ns[0]] * processes)
        shown = values.spread("time", alike, [alike])
        assert len(shown) == (0 if processes >= analysis_rates.FEWEST_PROCESSES else len(alike.all_samples_ns))
    reference = analysis_rates.reference_of(cell, own)
    pairs = [reference.samples_ns[0][i] / cell.samples_ns[0][i] for i in range(len(cell.samples_ns[0]))]
    assert values.spread("speed_up", cell, own) == pytest.approx(pairs)
    assert values.spread("time_ratio", cell, own) == pytest.approx([1 / pair for pair in pairs])


def test_what_is_undecided_is_said_once():
    few = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:3]]) for c in cells(EXPERIMENTS["ladder"])]
    assert chart("ladder", few).title.endswith(": nothing is decided")
    assert "decided" not in chart("ladder").title
    said, whole = "cpu-simd over the fastest library, by size", cells(EXPERIMENTS["vs_peers"])
    few = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:2]]) for c in whole]
    some = [little if cell.axes.get("n") == 257 else cell for cell, little in zip(whole, few, strict=True)]
    made = chart("vs_peers", some)
    assert " undecided)" in made.title
    assert made.subtitle.startswith(f"{said}. From "), "the places stay"
    assert "decided" not in made.subtitle
    made = chart("vs_peers", few)
    assert made.title.endswith(": nothing is decided")
    assert made.subtitle == said, "of nothing there are no places"


def test_the_kernels_that_a_library_took_stand_beside_its_name():
    read = {"openblas kernels": "0.3.31 Haswell"}
    every = [
        dataclasses.replace(c, record={**c.record, "threads_read": read}) for c in cells(EXPERIMENTS["size_sweep"])
    ]
    made = chart("size_sweep", every)
    assert "cpu-numpy: Haswell kernels." in made.notes, "names are at the ends of lines"
    assert made.ends
    assert {"cpu-simd", "cpu-numpy"} <= {series.name for series in made.panels[0].series}
    assert "cpu-tiled" not in words(made), "rungs are in the ladder"
    own = [
        dataclasses.replace(cell, record={**cell.record, "threads_read": read})
        for cell in cells(EXPERIMENTS["vs_peers"], "full")
        if cell.contender in ("cpu-simd", "cpu-numpy", "cpu-scipy", "peak")
    ]
    assert chart("vs_peers", own, "vs_peers_rates").names == {"cpu-numpy = scipy": "Haswell kernels"}


def test_the_axis_of_a_ratio_is_around_the_claim_and_says_what_it_cuts_off():
    made = chart("strassen")
    assert made.panels
    for panel in made.panels:
        assert panel.y.limits == (0.9, 1.3)
        assert "log" not in panel.y.label
    assert "What is above 1.3 is not drawn." in made.notes


def test_ragged_loss_is_relative_to_the_sizes_around():
    some = [
        c for c in cells(EXPERIMENTS["size_sweep"]) if c.contender == "cpu-packed" and c.axes["n"] in (256, 257, 384)
    ]
    slower = [
        dataclasses.replace(c, samples_ns=[[ns / 0.8 for ns in c.samples_ns[0]]]) if c.axes["n"] == 257 else c
        for c in some
    ]
    ((n, loss),) = ragged_sizes.losses(slower, {})["cpu-packed", ""]
    assert n == 257
    assert loss == pytest.approx(20, abs=2)


def test_extra_work_is_that_of_whole_tiles():
    assert ragged_sizes.extra_work(64, 64, 64, 64) == 0
    assert ragged_sizes.extra_work(65, 64, 64, 64) == pytest.approx(100 * (128 / 65 - 1))
    assert ragged_sizes.extra_work(1, 1, 4, 4) == pytest.approx(1500)


def test_speed_ups_start_at_one_thread():
    strong = analysis_rates.select(cells(EXPERIMENTS["thread_scaling"]), {"mode": "strong"})
    for counts in analysis_rates.scaling(strong).values():
        assert [threads for threads, _ in counts] == [1, 2, 4]
        assert counts[0][1].estimate == 1
        assert counts[-1][1].estimate == pytest.approx(4, rel=0.05)


def test_strong_and_weak_scaling_have_a_panel_for_each_kind_of_work():
    shown = cells(EXPERIMENTS["thread_scaling"], "full", machine=MANY_CORES)
    made = charts(EXPERIMENTS["thread_scaling"], shown, MANY_CORES)
    for name in ("thread_scaling", "thread_scaling_weak"):
        assert [panel.title for panel in made[name].panels] == ["n=1024, whole tiles", "n=1019, ragged"]
        for panel in made[name].panels:
            assert len(panel.series) > 1
            assert panel.x.ticks == [1, 2, 4, 8]
            firsts = [point.value.estimate for series in panel.series for point in series.points[:1]]
            assert firsts == pytest.approx([100] * len(firsts))


def test_of_few_numbers_of_threads_each_method_has_a_row_with_its_speed_up():
    shown = cells(EXPERIMENTS["thread_scaling"], "full")
    whole, ragged = chart("thread_scaling", shown).panels
    strong = [c for c in shown if c.axes["mode"] == "strong" and c.axes["n"] == 1024]
    speed_ups = {method: found[-1][1].estimate for method, found in analysis_rates.scaling(strong).items()}
    assert whole.y.names == list(speed_ups)
    assert [row for (row,) in whole.table.rows] == [f"{gain:.2f}" for gain in speed_ups.values()]
    assert [series.points[0].value.estimate for series in whole.series] == [*speed_ups.values()]
    assert ragged.x.label == "rate of 4 threads / rate of one"


def test_flop_is_said_only_of_ordinary_float_products():
    by_semiring = analysis_rates.group(cells(EXPERIMENTS["ladder"]), lambda cell: cell.axes["semiring"])
    assert analysis_rates.unit(by_semiring["plus_times"]) == "GFLOP/s"
    assert analysis_rates.unit(by_semiring["min_plus"]) == "Gop/s"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0123, "0.0123"),
        (1.0, "1.00"),
        (9.999, "10.0"),
        (123.4, "123"),
        (12345.6, "12346"),
        (0.0, "0"),
        (float("nan"), "-"),
    ],
)
def test_numbers_have_three_digits(number, text):
    assert short(number) == text


def test_sizes_are_in_binary_units():
    assert [byte_size(n) for n in (512, 48 << 10, 1 << 20, 2 << 30)] == ["512 B", "48 KiB", "1 MiB", "2 GiB"]


def test_a_line_passes_by_sizes_beside_a_whole_tile():
    sizes = [256, 257, 511, 512, 513, 1000, 1024, 1025]
    assert [n for n, is_joined in zip(sizes, values.joined(sizes), strict=True) if is_joined] == [256, 512, 1000, 1024]
    assert all(values.joined([511, 512, 513])), "too few whole tiles for a line of their own"


def test_what_is_above_the_peak_is_told_as_it_was_measured():
    assert [values.percent(part) for part in (84.2, 103.4, 194.0)] == ["84 %", "103 %", "194 %"]
