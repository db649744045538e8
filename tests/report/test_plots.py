import dataclasses
import errno
import hashlib
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from harness.analysis import answers, peaks, ragged_sizes, rivals
from harness.analysis import rates as analysis_rates
from harness.analysis.findings import regret
from harness.errors import ExperimentError
from harness.experiment import Experiment, Figure, load_all
from harness.report.figures import drawing, fields, values
from harness.report.figures.looks import COLOURS, PALETTE, Looks
from harness.report.figures.sheet import Sheet, styled
from harness.report.figures.values import short
from harness.report.tables import byte_size
from tests._support.sheets import keep, texts
from tests._support.synthetic import MACHINE, cells

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = load_all()
DRAWN = [
    *("ladder", "size_sweep", "block_size", "thread_scaling", "semiring_cost", "roofline", "intensity", "workloads"),
    *("vs_peers", "percent_of_peak", "dense_sweep", "thin_shapes"),
    *("small_products", "mixed_precision"),
]


@pytest.fixture
def sheets(monkeypatch):
    """The sheets that were drawn, by the name of their figure."""
    return keep(monkeypatch)


@pytest.fixture
def laid_out(monkeypatch):
    """The sheets whose panels were given their places, by the name of their figure."""
    return keep(monkeypatch, until="layout")


# Some cases are there on many cores only.
MANY_CORES = dataclasses.replace(MACHINE, cores=8, threads=8)


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_of_every_experiment_is_drawn(name, tmp_path, monkeypatch):
    experiment, sheets = EXPERIMENTS[name], keep(monkeypatch, until="files")
    files = drawing.draw(experiment, cells(experiment, machine=MANY_CORES), MACHINE, tmp_path)
    assert sorted(path.name for path in files) == sorted(f"{figure.name}.svg" for figure in experiment.figures)
    assert sorted(files) == sorted(tmp_path.iterdir())
    for figure in experiment.figures:
        sheet = sheets[figure.name]
        written, is_measured = texts(sheet), figure.kind not in drawing.COMPUTED
        assert "Test CPU, 4 cores" in written
        assert ("2026-01-01" in written) == is_measured
        assert ("of 8 samples, 1 process" in written) == is_measured
        assert all(panel.get_xlabel() or panel.get_ylabel() for panel in sheet.canvas.axes if panel.axison)


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_without_any_time_is_not_drawn_and_an_older_one_goes(name, tmp_path, sheets):
    experiment = EXPERIMENTS[name]
    for figure in experiment.figures:
        (tmp_path / f"{figure.name}.svg").write_text("<svg/>")
    assert drawing.draw(experiment, cells(experiment, failing=("all",)), MACHINE, tmp_path) == []
    assert drawing.draw(experiment, [], MACHINE, tmp_path) == []
    assert sheets == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_names_the_contender_that_failed(name, tmp_path, sheets):
    experiment = EXPERIMENTS[name]
    drawing.draw(experiment, cells(experiment, failing=("cpu-tiled",), machine=MANY_CORES), MACHINE, tmp_path)
    for figure in experiment.figures:
        shown = answers.shown(figure, name, cells(experiment, machine=MANY_CORES)).cells
        is_measured = figure.kind not in drawing.COMPUTED
        has_tiled = is_measured and any(c.arguments.get("backend") == "cpu-tiled" for c in shown)
        assert ("Failed" in texts(sheets[figure.name])) == has_tiled, figure


@pytest.mark.parametrize(
    ("name", "preset"),
    [("roofline", "quick"), ("ladder", "quick"), ("percent_of_peak", "quick"), ("dense_sweep", "smoke")],
)
def test_figures_are_the_same_bytes_each_time(name, preset, tmp_path):
    experiment = EXPERIMENTS[name]
    digests = [
        [
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in drawing.draw(experiment, cells(experiment, preset), MACHINE, tmp_path / turn)
        ]
        for turn in ("first", "second")
    ]
    assert digests[0] == digests[1]


DRAWING = """
import sys
from pathlib import Path

from harness.experiment import load_all
from harness.report.figures import drawing
from tests._support.synthetic import MACHINE, cells

ladder = load_all()["ladder"]
drawing.draw(ladder, cells(ladder), MACHINE, Path(sys.argv[1]))
"""


def test_figures_are_the_same_bytes_in_every_process(tmp_path):
    drawn = []
    for seed in ("1", "2"):  # of the hashes of texts, and so of the order of sets
        folder = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", DRAWING, folder], cwd=ROOT, env=environment, check=True)
        drawn.append([path.read_bytes() for path in sorted(folder.iterdir())])
    assert drawn[0] == drawn[1] != []


def test_drawing_leaves_matplotlib_as_it_was(tmp_path):
    before = dict(mpl.rcParams)
    drawing.draw(EXPERIMENTS["ladder"], cells(EXPERIMENTS["ladder"], "smoke"), MACHINE, tmp_path)
    assert dict(mpl.rcParams) == before


def test_pyplot_and_measuring_are_not_imported():
    modules = ("matplotlib.pyplot", "harness.timing.measure")
    code = f"import sys, harness.report.figures.drawing; print([m for m in {modules} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_figure_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with styled():
        drawn = Sheet("A title")
        drawn.say("words")
        (tmp_path / "figure.svg").write_text("old")
        monkeypatch.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match=r"No space left on device.*figure\.svg"):
            drawn.save(tmp_path / "figure", "a footer")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"figure.svg": "old"}


def test_an_unknown_kind_of_figure_is_refused(tmp_path):
    experiment = Experiment("x", "Why?", lambda preset, machine: [], (Figure("x", "pie", "X"),), {})
    with pytest.raises(ExperimentError, match="unknown kind"):
        drawing.draw(experiment, [], MACHINE, tmp_path)


@pytest.mark.parametrize("value", ["speed_up", "rate"])
def test_words_in_coloured_fields_stand_out(value, tmp_path, sheets):
    def brightness(colour):
        return sum(part * weight for part, weight in zip(mpl.colors.to_rgb(colour), (0.299, 0.587, 0.114), strict=True))

    powers, step, found = (0, 0.5, 0.6, 0.69, 0.8, 1), {"cpu-numpy": 1, "cpu-simd": -1}, []
    workloads = [cell for cell in cells(EXPERIMENTS["workloads"]) if cell.contender in ("cpu-numpy", "cpu-simd")]
    for row, own in enumerate(analysis_rates.group(workloads, lambda cell: cell.case).values()):
        for cell in own:  # from row to row slower by one backend, and faster by the other
            time = 1e6 * 2 ** (powers[row] * step[cell.contender])
            found.append(dataclasses.replace(cell, samples_ns=[[time] * 8], facts={**cell.facts, "operations": 10**6}))
    figure = Figure("shades", "heatmap", "X", {"rows": "workload", "columns": "contender", "value": value})
    drawing.draw(dataclasses.replace(EXPERIMENTS["workloads"], figures=(figure,)), found, MACHINE, tmp_path)
    panel = sheets["shades"].canvas.axes[0]
    shades, words = panel.images[0].get_array(), {word.get_position(): word.get_color() for word in panel.texts}
    assert len(words) == shades.size
    for (column, row), colour in words.items():
        field = panel.images[0].to_rgba(shades[row, column])
        assert abs(brightness(field) - brightness(colour)) > 0.3, shades[row, column]


@pytest.mark.parametrize("value", ["speed_up", "time_ratio"])
def test_the_label_of_a_colour_bar_is_said_once_and_stays_in_a_low_figure(value, tmp_path, laid_out):
    found = [dataclasses.replace(cell, reference="whole product") for cell in cells(EXPERIMENTS["workloads"])]
    figure = Figure("bar", "heatmap", "X", {"rows": "contender", "columns": "workload", "value": value})
    drawing.draw(dataclasses.replace(EXPERIMENTS["workloads"], figures=(figure,)), found, MACHINE, tmp_path)
    canvas = laid_out["bar"].canvas
    label = canvas.axes[1].yaxis.label
    assert " ".join(label.get_text().split()).count("log scale") == 1
    extent, whole = label.get_window_extent(), canvas.bbox
    assert whole.y0 <= extent.y0 < extent.y1 <= whole.y1


@pytest.mark.parametrize(("names", "are_slanted"), [
    (["cpu-mkl", "cpu-simd", "cpu-tropical-gemm"], True),  # the last two would meet
    (["cpu-mkl", "cpu-simd", "cpu-numpy"], False),
    (["cpu-tropical-gemm"], False),
    (["a", "b", "c", "d", "e"], True),
])  # fmt: skip
def test_names_below_a_heat_map_that_would_meet_are_slanted(names, are_slanted):
    drawn = Sheet("A title")
    one = next(c for c in cells(EXPERIMENTS["workloads"]) if c.is_ok)
    several = [dataclasses.replace(one, axes={**one.axes, "place": name}) for name in names]
    fields.heatmap(drawn, several, {"rows": "contender", "columns": "place", "value": "rate"})
    panel = drawn.canvas.axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == names
    assert {label.get_rotation() for label in panel.get_xticklabels()} == {30.0 if are_slanted else 0.0}


@pytest.mark.parametrize("value", ["rate", "time", "time_ratio", "speed_up"])
@pytest.mark.parametrize("kind", ["bars", "dots", "lines", "heatmap"])
def test_generic_figures_show_every_value(kind, value, tmp_path, sheets):
    options = {"value": value, "rows": "n", "columns": "contender", "x": "n"}
    figure = Figure("generic", kind, "Generic", options)
    experiment = dataclasses.replace(EXPERIMENTS["size_sweep"], figures=(figure,))
    some = cells(experiment, "smoke", failing=("cpu-tiled",))
    assert len(drawing.draw(experiment, some, MACHINE, tmp_path)) == 1


def test_the_footer_promises_intervals_only_where_enough_processes_give_them():
    one = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:4]]) for c in cells(EXPERIMENTS["ladder"])]
    three = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:4]] * 3) for c in one]
    assert drawing.provenance(one, MACHINE).endswith("median of 4 samples, 1 process; dots: samples")
    assert drawing.provenance(three, MACHINE).endswith("median of 12 samples, 3 processes; bars: 95 % interval")
    assert drawing.provenance([*one, *three], MACHINE).endswith(
        "median of 4 to 12 samples, 1 to 3 processes; bars: 95 % interval; dots: samples of fewer processes"
    )
    assert drawing.provenance(one, MACHINE, has_intervals=False).endswith("median of 4 samples, 1 process")


@pytest.mark.parametrize(("length", "size"), [(40, 14.0), (150, 12.5), (200, 9.5), (400, 9.5)])
def test_a_long_title_is_written_smaller_so_that_it_has_two_lines(length, size, tmp_path):
    with styled():
        sheet = Sheet(" ".join(["thing"] * (length // 6)))
        sheet.panels()
        sheet.save(tmp_path / "long", "")
        title = next(text for text in sheet.canvas.texts if text.get_text().startswith("thing"))
    assert title.get_size() == size
    assert length == 400 or title.get_text().count("\n") < 2


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


def test_a_peak_of_another_experiment_is_drawn_across_rates(tmp_path, sheets):
    sweep, ladder = cells(EXPERIMENTS["size_sweep"]), cells(EXPERIMENTS["ladder"])
    drawing.draw(EXPERIMENTS["size_sweep"], sweep, MACHINE, tmp_path)
    assert "measured peak" not in texts(sheets["size_sweep"])
    drawing.draw(EXPERIMENTS["size_sweep"], [*sweep, *ladder], MACHINE, tmp_path)
    sheet = sheets["size_sweep"]
    assert texts(sheet).count("measured peak") == 1
    (panel,) = (panel for panel in sheet.canvas.axes if panel.get_ylabel())
    heights = [line.get_ydata()[0] for line in panel.get_lines() if len(set(line.get_ydata())) == 1]
    peak = next(cell for cell in ladder if analysis_rates.is_roof(cell) and cell.axes["semiring"] == "plus_times")
    assert peaks.roof_rate(peak) in heights
    assert "10 samples" not in texts(sheet), "the footer is about the figure's own samples"


def test_where_sums_are_wider_than_operands_the_peak_names_the_dtype_of_sums(tmp_path, sheets):
    mixed, ladder = cells(EXPERIMENTS["mixed_precision"]), cells(EXPERIMENTS["ladder"])
    drawing.draw(EXPERIMENTS["mixed_precision"], [*mixed, *ladder], MACHINE, tmp_path)
    assert "measured peak of float64" in texts(sheets["mixed_precision"])


def test_a_field_of_a_heat_map_that_was_declined_has_a_dash(tmp_path, sheets):
    first, *others = [c for c in cells(EXPERIMENTS["workloads"]) if c.contender == "cpu-simd"]
    numpy = [c for c in cells(EXPERIMENTS["workloads"]) if c.contender == "cpu-numpy"]
    declined = dataclasses.replace(first, status="declined", samples_ns=[])
    drawing.draw(EXPERIMENTS["workloads"], [*numpy, declined, *others], MACHINE, tmp_path)
    assert [label.get_text() for label in sheets["workloads"].canvas.axes[0].get_xticklabels()] == ["cpu-simd"], (
        "the reference is 1 everywhere"
    )
    fields = [text.get_text() for axes in sheets["workloads"].canvas.axes for text in axes.texts]
    assert fields.count("\N{EN DASH}") == 1
    assert "declined" not in fields
    assert "\N{EN DASH}: declined." in sheets["workloads"].notes


def test_a_panel_of_several_dtypes_has_no_peak(tmp_path, sheets):
    figure = Figure("mixed", "lines", "Mixed", {"panels": "semiring", "where": {"shared_by": "one thread"}})
    experiment = dataclasses.replace(EXPERIMENTS["vs_peers"], figures=(figure,))
    drawing.draw(experiment, cells(experiment), MACHINE, tmp_path)
    assert "measured peak" not in texts(sheets["mixed"])


def test_a_figure_that_compares_is_not_drawn_of_one_value_alone(tmp_path, sheets):
    """An older one goes, as any figure without data."""
    options = {"rows": "contender", "columns": "workload", "value": "speed_up", "compares": "workload"}
    experiment = dataclasses.replace(EXPERIMENTS["workloads"], figures=(Figure("fields", "heatmap", "X", options),))
    some = cells(EXPERIMENTS["workloads"])
    assert drawing.draw(experiment, some, MACHINE, tmp_path)
    one = some[0].axes["workload"]
    alone = [cell if cell.axes.get("workload") == one else dataclasses.replace(cell, status="missing") for cell in some]
    assert not drawing.draw(experiment, alone, MACHINE, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["thread_scaling", "block_size", "size_sweep", "dense_sweep"])
def test_peaks_of_other_experiments_are_no_contenders(name, tmp_path):
    experiment = EXPERIMENTS[name]
    figures = tuple(f for f in experiment.figures if f.kind != "lines")
    experiment, own = dataclasses.replace(experiment, figures=figures), cells(experiment, "smoke")
    alone = drawing.draw(experiment, own, MACHINE, tmp_path / "alone")
    ladder = [dataclasses.replace(cell, run="20250101T000000") for cell in cells(EXPERIMENTS["ladder"])]
    beside = drawing.draw(experiment, [*own, *ladder], MACHINE, tmp_path / "beside")
    assert [path.read_bytes() for path in alone] == [path.read_bytes() for path in beside]


def test_the_fastest_peer_is_named_with_mean_and_lowest_ratio(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["vs_peers"], list(a_case(simd=30.0, numpy=20.0, scipy=25.0).values()), MACHINE, tmp_path)
    written = texts(sheets["vs_peers"])
    assert "fastest library: cpu-scipy" in written
    assert "fastest library: cpu-numpy" not in written
    assert "geom. mean 1.20, lowest 1.20 at n=257" in written
    assert "scipy" in texts(sheets["vs_peers_semirings"])


def test_a_row_without_a_dot_says_why(tmp_path, sheets):
    alone = a_case(simd=30.0)["simd"]
    drawing.draw(EXPERIMENTS["vs_peers"], [alone], MACHINE, tmp_path)
    assert "no library has a time" in texts(sheets["vs_peers"])
    assert "no library has a time" in texts(sheets["vs_peers_semirings"])
    unrelated = analysis_rates.contenders(cells(EXPERIMENTS["percent_of_peak"]))
    drawing.draw(EXPERIMENTS["percent_of_peak"], unrelated, MACHINE, tmp_path)
    assert "no peak was measured" in texts(sheets["percent_of_peak"])


def test_a_single_row_has_room_between_legend_and_footer(tmp_path, laid_out):
    drawing.draw(EXPERIMENTS["vs_peers"], list(a_case(simd=30.0, numpy=20.0).values()), MACHINE, tmp_path)
    canvas = laid_out["vs_peers_semirings"].canvas
    chart, footer = canvas.axes[0], next(text for text in canvas.texts if "Test CPU" in text.get_text())
    canvas.draw_without_rendering()
    assert chart.get_window_extent().height > 0.5 * canvas.dpi
    assert chart.xaxis.label.get_window_extent().y0 >= footer.get_window_extent().y1


def test_the_worst_size_of_a_sweep_is_named_and_in_the_title(tmp_path, sheets):
    some = [
        dataclasses.replace(c, samples_ns=[[2 * ns for ns in c.samples_ns[0]]])
        if (c.contender, c.axes["size"]) == ("cpu-simd", 555)
        else c
        for c in cells(EXPERIMENTS["dense_sweep"])
    ]
    drawing.draw(EXPERIMENTS["dense_sweep"], some, MACHINE, tmp_path)
    assert "worst: size=555" in texts(sheets["dense_sweep"])
    (panel,) = sheets["dense_sweep"].canvas.axes
    assert "cpu-simd\nover peak" in [label.get_text() for label in panel.get_yticklabels()]
    assert re.search(r"loses at most (49|50|51) % of its speed .* \(size 555\)", sheets["dense_sweep"].title)
    assert any("speeds are over the peak, timed in turns" in note for note in sheets["dense_sweep"].notes)


def test_the_worst_size_of_a_figure_is_that_of_its_title_and_what_is_not_firm_is_hollow(tmp_path, sheets):
    few = [
        dataclasses.replace(c, samples_ns=[[4 * ns for ns in c.samples_ns[0][:2]]])
        if (c.contender, c.axes["size"]) == ("cpu-simd", 588)
        else dataclasses.replace(c, samples_ns=[[2 * ns for ns in c.samples_ns[0]]])
        if (c.contender, c.axes["size"]) == ("cpu-simd", 566)
        else c
        for c in cells(EXPERIMENTS["dense_sweep"])
    ]
    drawing.draw(EXPERIMENTS["dense_sweep"], few, MACHINE, tmp_path)
    sheet = sheets["dense_sweep"]
    assert "(size 566)" in sheet.title
    assert "worst: size=566" in texts(sheet)
    (worst,) = (text for text in sheet.canvas.axes[0].texts if "worst" in text.get_text())
    assert worst.xy[0] == pytest.approx(50, abs=2), "at its own dot, not at the hollow one"
    assert "worst: size=588" not in texts(sheet), "two samples name no worst"
    hollow = [line for line in sheet.canvas.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert sum(len(line.get_xdata()) for line in hollow) == 1
    assert any("Hollow: " in note for note in sheet.notes)


def test_the_most_extra_work_from_a_size_on_never_rises(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["size_sweep"], cells(EXPERIMENTS["size_sweep"]), MACHINE, tmp_path)
    lines = sheets["extra_work"].canvas.axes[0].lines
    assert len(lines) == 4
    for line in lines:
        work = list(line.get_ydata())
        assert work == sorted(work, reverse=True)


def test_each_idea_of_a_ladder_has_a_row_and_all_of_them_two_below(tmp_path, sheets):
    experiment = EXPERIMENTS["ablation"]
    drawing.draw(experiment, cells(experiment), MACHINE, tmp_path)
    (chart, *_) = sheets["ablation"].canvas.axes
    assert "n=512, 1 thread" in chart.get_xlabel()
    names = [label.get_text() for label in chart.get_yticklabels()]
    ideas = [idea for idea, *_ in experiment.figures[0].options["steps"]]
    assert names == [*ideas, "all of these, multiplied", "cpu-packed over cpu-naive, measured"]
    missing = [cell for cell in cells(experiment) if cell.contender != "no packing"]
    drawing.draw(experiment, missing, MACHINE, tmp_path)
    assert "Not every idea has a time with it and without it" in texts(sheets["ablation"])


@pytest.mark.parametrize(("most", "rows"), [(0.4, 2), (1.0, 3), (2.0, 8), (5.0, 2), (8.0, 14)])
def test_a_colour_bar_of_ratios_has_as_many_ticks_above_1_as_below_and_no_more_than_fit(most, rows):
    ticks = fields.bar_ticks(most, rows)
    assert 1.0 in ticks
    assert ticks == sorted(ticks)
    assert [1 / tick for tick in reversed(ticks)] == pytest.approx(ticks)
    assert len(ticks) <= max(3, rows)
    assert max(ticks) <= 2**most + 1e-6


def test_a_dot_above_the_peak_is_within_its_axis(tmp_path, sheets):
    everything = cells(EXPERIMENTS["percent_of_peak"])
    fast = [
        dataclasses.replace(cell, samples_ns=[[cell.facts["operations"] / 55.0] * 8])  # G operations/s; the peak: 50
        if cell.contender == "cpu-simd"
        else cell
        for cell in everything
    ]
    drawing.draw(EXPERIMENTS["percent_of_peak"], fast, MACHINE, tmp_path)
    chart = sheets["percent_of_peak"].canvas.axes[0]
    dots = [x for line in chart.lines for x in line.get_xdata() if 109 < x < 111]
    assert dots
    assert chart.get_xlim()[1] > max(dots)
    assert "reaches 110 % of its measured peak" in sheets["percent_of_peak"].title
    assert "Above 100 %: the peak was measured too low." in sheets["percent_of_peak"].notes
    drawing.draw(EXPERIMENTS["percent_of_peak"], everything, MACHINE, tmp_path)
    assert not any("too low" in note for note in sheets["percent_of_peak"].notes)


def test_what_stands_beside_a_ladder_is_parted_from_its_rungs(tmp_path, sheets):
    ladder = EXPERIMENTS["ladder"]
    drawing.draw(ladder, cells(ladder), MACHINE, tmp_path)
    chart = sheets["ladder"].canvas.axes[0]
    names = [label.get_text() for label in chart.get_yticklabels()]
    (height,) = {
        line.get_ydata()[0] for line in chart.lines if len(set(line.get_ydata())) == 1 and line.get_ydata()[0] % 1
    }
    assert names[: int(height + 0.5)][-1] == "cpu-simd"
    assert {name.partition(" ")[0] for name in names[int(height + 0.5) :]} <= {*ladder.figures[0].options["beside"]}


def test_a_row_of_many_products_shows_medians_alone(tmp_path, sheets):
    experiment = EXPERIMENTS["auto_regret"]
    shown = cells(experiment)
    drawing.draw(experiment, shown, MACHINE, tmp_path)
    chart = sheets["auto_regret"].canvas.axes[0]
    own = [c for c in analysis_rates.contenders(shown) if c.contender == "auto" and c.axes["place"] == "host"]
    drawn = sorted(x for line in chart.lines for x in line.get_xdata() if line.get_marker() == "o")
    assert drawn == sorted(regret.regret(cell, shown).estimate for cell in own)


def test_a_dense_sweep_begins_at_0_and_joins_neighbours_alone(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["mv_sizes"], cells(EXPERIMENTS["mv_sizes"]), MACHINE, tmp_path)
    panels = sheets["mv_sizes"].canvas.axes
    assert [panel.get_title("left") for panel in panels] == ["A x, around 2048", "x A, around 2048"]
    for panel in panels:
        assert panel.get_ylim()[0] == 0
        steps = [after - before for line in panel.lines for before, after in itertools.pairwise(line.get_xdata())]
        assert set(steps) == {1}
        assert {x for line in panel.lines for x in line.get_xdata()} >= {2032, 2048, 2064}


def test_rows_of_one_dot_have_one_column_of_numbers(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["batched"], cells(EXPERIMENTS["batched"]), MACHINE, tmp_path)
    words = texts(sheets["batched"])
    assert "geom. mean" not in words
    assert "lowest" not in words


@pytest.mark.parametrize(("low", "high"), [(3.2, 9.5), (1.3, 2.2), (36, 130), (0.012, 0.013), (0.5, 40), (1e-2, 1e4)])
def test_an_axis_of_rates_has_ticks_however_short_it_is(low, high):
    with styled():
        drawn = Sheet("rates")
        (chart,) = drawn.panels()
        chart.set_xscale("log")
        chart.set_xlim(low, high)
        values.decade_ticks(chart, [])
        drawn.canvas.draw_without_rendering()
    told = [label.get_text() for label in chart.get_xticklabels()]
    assert 2 <= len(told) <= 7
    assert all(low <= float(tick) <= high for tick in told)
    assert len(set(told)) == len(told)


def test_a_panel_none_of_whose_values_holds_is_not_drawn(tmp_path, sheets):
    """A share of a run that took far longer than a plain one says nothing."""
    options = {"value": "share", "peak": False, "panels": "dtype"}
    experiment = dataclasses.replace(EXPERIMENTS["qr"], figures=(Figure("parts", "lines", "Parts", options),))
    some = cells(EXPERIMENTS["qr"])[:2]
    stored = [
        dataclasses.replace(
            cell,
            axes={**cell.axes, "dtype": dtype},
            facts={"share": 0.5, "seconds": {"products": slow * cell.median_ns / 1e9}},
        )
        for dtype, slow in (("float64", 1.0), ("float32", 9.0))
        for cell in some
    ]
    drawing.draw(experiment, stored, MACHINE, tmp_path)
    assert [panel.get_title("left") for panel in sheets["parts"].canvas.axes] == ["float64"]


@pytest.mark.parametrize(("low", "high"), [(0.8, 2.6), (0.5, 1.9), (0.9, 3.1)])
def test_ticks_of_ratios_stand_apart(low, high):
    ticks = values._apart([tick for tick in values.FEW_RATIOS if low <= tick <= high], low, high)
    assert 1.0 in ticks
    least = min(math.log(above / below) for below, above in itertools.pairwise(ticks))
    assert least >= values.LEAST_APART * math.log(high / low)


def test_many_reasons_are_left_to_the_report():
    some = cells(EXPERIMENTS["percent_of_peak"], failing=("all",))
    failed = [dataclasses.replace(c, reason=f"reason {i}") for i, c in enumerate(analysis_rates.contenders(some) * 2)]
    assert drawing.absences(failed) == [f"Failed in {len(failed)} cells: cpu-simd; the report gives the reasons"]
    few = failed[: drawing.MOST_REASONS]
    assert drawing.absences(few) == [f"Failed in {len(few)} cells: cpu-simd (reason 0; reason 1)"]


def test_too_few_processes_show_their_samples_and_no_interval(tmp_path, sheets):
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


def test_a_drawing_is_an_image_with_title_and_description_whose_text_is_text(tmp_path):
    own = cells(EXPERIMENTS["ladder"])
    svg = drawing.draw(EXPERIMENTS["ladder"], own, MACHINE, tmp_path)[0].read_text()
    root = ET.fromstring(svg.encode())
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.findtext(f"{space}title").startswith("cpu-simd reaches")
    assert "Test CPU, 4 cores" in root.findtext(f"{space}desc")
    written = " ".join(text.text or "" for text in root.iter(f"{space}text"))
    assert "cpu-packed" in written
    assert "prefers-color-scheme: dark" in root.findtext(f"{space}style")


def test_the_title_says_that_many_ratios_are_undecided(tmp_path, sheets):
    few = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:3]]) for c in cells(EXPERIMENTS["ladder"])]
    drawing.draw(EXPERIMENTS["ladder"], few, MACHINE, tmp_path)
    assert sheets["ladder"].title.endswith(": nothing is decided")
    drawing.draw(EXPERIMENTS["ladder"], cells(EXPERIMENTS["ladder"]), MACHINE, tmp_path)
    assert "decided" not in sheets["ladder"].title


def test_what_is_undecided_is_said_once(tmp_path, sheets):
    experiment, words = EXPERIMENTS["vs_peers"], "cpu-simd over the fastest library, by size"
    whole = cells(experiment)
    few = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:2]]) for c in whole]
    some = [little if cell.axes.get("n") == 257 else cell for cell, little in zip(whole, few, strict=True)]
    drawing.draw(experiment, some, MACHINE, tmp_path)
    sheet = sheets["vs_peers"]
    assert " undecided)" in sheet.title
    assert sheet.subtitle.startswith(f"{words}. From "), "the places stay"
    assert "decided" not in sheet.subtitle
    drawing.draw(experiment, few, MACHINE, tmp_path)
    sheet = sheets["vs_peers"]
    assert sheet.title.endswith(": nothing is decided")
    assert sheet.subtitle == words, "of nothing there are no places"


def test_of_figures_to_publish_those_without_verdicts_are_left_out_and_removed(tmp_path):
    few = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:3]]) for c in cells(EXPERIMENTS["ladder"])]
    drawn = drawing.draw(EXPERIMENTS["ladder"], few, MACHINE, tmp_path)
    assert drawn, "one's own are drawn, and say so"
    assert all(path.exists() for path in drawn)
    assert drawing.draw(EXPERIMENTS["ladder"], few, MACHINE, tmp_path, decided=True) == []
    assert not any(path.exists() for path in drawn)
    assert drawing.draw(EXPERIMENTS["ladder"], cells(EXPERIMENTS["ladder"]), MACHINE, tmp_path, decided=True) == drawn


def test_the_kernels_that_a_library_took_stand_beside_its_name(tmp_path, sheets):
    read = {"openblas kernels": "0.3.31 Haswell"}
    own = [
        dataclasses.replace(cell, record={**cell.record, "threads_read": read})
        for cell in cells(EXPERIMENTS["vs_peers"], "full")
        if cell.contender in ("cpu-simd", "cpu-numpy", "cpu-scipy", "peak")
    ]
    drawing.draw(EXPERIMENTS["vs_peers"], own, MACHINE, tmp_path)
    sheet = sheets["vs_peers_rates"]
    assert sheet.names == {"cpu-numpy = scipy": "Haswell kernels"}
    (legend,) = sheet.canvas.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert "cpu-numpy = scipy (Haswell kernels)" in names
    assert "cpu-simd" in names


def test_lines_are_named_at_their_ends(tmp_path, sheets):
    read = {"openblas kernels": "0.3.31 Haswell"}
    sweep = cells(EXPERIMENTS["size_sweep"])
    own = [dataclasses.replace(cell, record={**cell.record, "threads_read": read}) for cell in sweep]
    drawing.draw(EXPERIMENTS["size_sweep"], own, MACHINE, tmp_path)
    sheet = sheets["size_sweep"]
    (panel,) = sheet.canvas.axes
    last = {c.contender: (c.axes["n"], c.rate) for c in own if c.axes["n"] == max(cell.axes["n"] for cell in own)}
    named = {text.get_text(): text.xy for text in panel.texts if text.get_text() in last}
    assert {"cpu-simd", "cpu-numpy"} <= set(named)
    assert "cpu-tiled" not in named, "rungs are in the ladder"
    assert named == {name: last[name] for name in named}
    assert "cpu-numpy: Haswell kernels." in sheet.notes


@pytest.mark.parametrize("heights", [[0.1, 0.1, 0.1], [0.5, 0.9, 0.99, 1.2], [0.2], [0.0, 0.3, 0.31]])
def test_names_at_the_ends_of_lines_stand_apart_and_in_order(heights):
    placed = fields.apart(heights)
    assert all(above - below >= fields.LEAST_APART - 1e-9 for below, above in itertools.pairwise(placed))
    assert max(placed) <= 1
    assert fields.apart([0.2, 0.5, 0.9]) == [0.2, 0.5, 0.9], "those that do not meet stay"


def test_the_axis_of_a_ratio_is_around_the_claim_and_says_what_it_cuts_off(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["strassen"], cells(EXPERIMENTS["strassen"]), MACHINE, tmp_path)
    panels = [panel for panel in sheets["strassen"].canvas.axes if panel.get_ylabel()]
    assert panels
    for panel in panels:
        low, high = panel.get_ylim()
        assert (min(low, 0.9), high) == (low, 1.3)
        assert "log" not in panel.get_ylabel()
    assert "What is above 1.3 is not drawn." in sheets["strassen"].notes


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
    for points in analysis_rates.scaling(strong).values():
        assert [threads for threads, _ in points] == [1, 2, 4]
        assert points[0][1].estimate == 1
        assert points[-1][1].estimate == pytest.approx(4, rel=0.05)


def test_strong_and_weak_scaling_are_figures_whose_panels_name_their_threads(tmp_path, sheets):
    shown = cells(EXPERIMENTS["thread_scaling"], "full", machine=MANY_CORES)
    drawing.draw(EXPERIMENTS["thread_scaling"], shown, MANY_CORES, tmp_path)
    panels = {name: sheets[name].canvas.axes for name in ("thread_scaling", "thread_scaling_weak")}
    for canvas in (sheets[name].canvas for name in panels):
        canvas.draw_without_rendering()
    for shown in panels.values():
        assert [panel.get_title("left") for panel in shown] == ["n=1024, whole tiles", "n=1019, ragged"]
    for panel in [panel for shown in panels.values() for panel in shown]:
        assert len(panel.lines) > 1
        assert {label.get_text() for label in panel.get_xticklabels() if label.get_visible()} == {"1", "2", "4", "8"}


def test_of_few_numbers_of_threads_each_method_has_a_row_with_its_speed_up(tmp_path, sheets):
    shown = cells(EXPERIMENTS["thread_scaling"], "full")
    drawing.draw(EXPERIMENTS["thread_scaling"], shown, MACHINE, tmp_path)
    whole, ragged = sheets["thread_scaling"].canvas.axes
    strong = [c for c in shown if c.axes["mode"] == "strong" and c.axes["n"] == 1024]
    speed_ups = {method: points[-1][1].estimate for method, points in analysis_rates.scaling(strong).items()}
    assert [label.get_text() for label in whole.get_yticklabels()] == list(speed_ups)
    assert [text.get_text() for text in whole.texts] == [f"{gain:.2f}" for gain in speed_ups.values()]
    dots = [line for line in whole.lines if len(line.get_xdata()) == 1]
    assert [line.get_xydata()[0][0] for line in dots if line.get_ydata()[0] % 1 == 0][: len(speed_ups)] == [
        *speed_ups.values()
    ]
    assert ragged.get_xlabel() == "rate of 4 threads / rate of one"


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
