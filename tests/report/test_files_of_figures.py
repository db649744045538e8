"""Files of figures: what is written, that it is the same each time, and how the writer lays a chart out."""

import dataclasses
import errno
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from harness.analysis import rates as analysis_rates
from harness.catalogue import load_all
from harness.errors import ExperimentError
from harness.experiment import Experiment, Figure
from harness.report.figures import drawing, fields, panels, sheet
from harness.report.figures.chart import Chart
from harness.report.figures.sheet import Sheet, styled
from tests._support.charts import charts
from tests._support.processes import python
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
DRAWN = [
    *("ladder", "size_sweep", "block_size", "thread_scaling", "semiring_cost", "roofline", "intensity", "workloads"),
    *("vs_peers", "percent_of_peak", "dense_sweep", "thin_shapes"),
    *("small_products", "mixed_precision"),
]
PRESETS = {"mixed_precision": "full"}  # of which quick has one size, and no figure by size
COARSE_DPI = 30
# Some cases are there on many cores only.
MANY_CORES = dataclasses.replace(MACHINE, cores=8, threads=8)


@pytest.fixture(autouse=True)
def quick_to_lay_out(monkeypatch):
    monkeypatch.setattr(sheet, "DPI", COARSE_DPI)


def drawn(chart, path=None):
    """Return the sheet of a chart, drawn; with a path it is laid out and written too."""
    with styled():
        made = Sheet(chart.title)
        panels.draw(made, chart)
        if path is not None:
            made.save(path, chart.footer)
        made.canvas.draw_without_rendering()
    return made


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_is_a_file_and_without_any_time_the_older_one_goes(name, tmp_path):
    experiment = EXPERIMENTS[name]
    measured = cells(experiment, PRESETS.get(name, "quick"), machine=MANY_CORES)
    files = drawing.draw(experiment, measured, MACHINE, tmp_path)
    assert [path.name for path in files] == [f"{figure.name}.svg" for figure in experiment.figures]
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert drawing.draw(experiment, cells(experiment, failing=("all",)), MACHINE, tmp_path) == []
    assert drawing.draw(experiment, [], MACHINE, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


DRAWING = """
import sys
from pathlib import Path

from harness.catalogue import load_all
from harness.report.figures import drawing
from tests._support.synthetic import MACHINE, cells

for name in sys.argv[2:]:
    experiment = load_all()[name]
    drawing.draw(experiment, cells(experiment), MACHINE, Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "names", [("roofline",), pytest.param(("ladder", "roofline", "workloads"), marks=pytest.mark.deep)], ids=len
)
def test_figures_are_the_same_bytes_in_every_process(names, tmp_path):
    drawn = []
    for seed in ("1", "2"):  # of the hashes of texts, and so of the order of sets
        folder = tmp_path / seed
        python("-c", DRAWING, folder, *names, PYTHONHASHSEED=seed)
        drawn.append([path.read_bytes() for path in sorted(folder.iterdir())])
    assert drawn[0] == drawn[1] != []


def test_drawing_leaves_matplotlib_as_it_was(tmp_path):
    before = dict(mpl.rcParams)
    drawing.draw(EXPERIMENTS["ladder"], cells(EXPERIMENTS["ladder"], "smoke"), MACHINE, tmp_path)
    assert dict(mpl.rcParams) == before


def test_pyplot_and_measuring_are_not_imported():
    modules = ("matplotlib.pyplot", "harness.timing.measure")
    code = f"import sys, harness.report.figures.drawing; print([m for m in {modules} if m in sys.modules])"
    assert python("-c", code).stdout == "[]\n"


def test_a_figure_that_cannot_be_written_stays_as_it_was(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with styled():
        written = Sheet("A title")
        written.say("words")
        (tmp_path / "figure.svg").write_text("old")
        monkeypatch.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match=r"No space left on device.*figure\.svg"):
            written.save(tmp_path / "figure", "a footer")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"figure.svg": "old"}


def test_an_unknown_kind_of_figure_is_refused(tmp_path):
    experiment = Experiment("x", "Why?", lambda preset, machine: [], (Figure("x", "pie", "X"),), {})
    with pytest.raises(ExperimentError, match="unknown kind"):
        drawing.draw(experiment, [], MACHINE, tmp_path)


def test_words_in_coloured_fields_stand_out():
    def brightness(colour):
        return sum(part * weight for part, weight in zip(mpl.colors.to_rgb(colour), (0.299, 0.587, 0.114), strict=True))

    powers, step, found = (0, 0.5, 0.6, 0.69, 0.8, 1), {"cpu-numpy": 1, "cpu-simd": -1}, []
    workloads = [cell for cell in cells(EXPERIMENTS["workloads"]) if cell.contender in ("cpu-numpy", "cpu-simd")]
    for row, own in enumerate(analysis_rates.group(workloads, lambda cell: cell.case).values()):
        for cell in own:  # from row to row slower by one backend, and faster by the other
            time = 1e6 * 2 ** (powers[row] * step[cell.contender])
            found.append(dataclasses.replace(cell, samples_ns=[[time] * 8], facts={**cell.facts, "operations": 10**6}))
    for value in ("speed_up", "rate"):
        figure = Figure("shades", "heatmap", "X", {"rows": "workload", "columns": "contender", "value": value})
        experiment = dataclasses.replace(EXPERIMENTS["workloads"], figures=(figure,))
        panel = drawn(charts(experiment, found)["shades"]).canvas.axes[0]
        shades, words = panel.images[0].get_array(), {word.get_position(): word.get_color() for word in panel.texts}
        assert len(words) == shades.size
        for (column, row), colour in words.items():
            field = panel.images[0].to_rgba(shades[row, column])
            assert abs(brightness(field) - brightness(colour)) > 0.3, shades[row, column]


@pytest.mark.parametrize("value", ["speed_up", "time_ratio"])
def test_the_label_of_a_bar_of_colours_is_said_once_and_stays_in_a_low_figure(value, tmp_path):
    found = [dataclasses.replace(cell, reference="whole product") for cell in cells(EXPERIMENTS["workloads"])]
    figure = Figure("bar", "heatmap", "X", {"rows": "contender", "columns": "workload", "value": value})
    experiment = dataclasses.replace(EXPERIMENTS["workloads"], figures=(figure,))
    made = drawn(charts(experiment, found)["bar"], tmp_path / "bar")
    label = made.canvas.axes[1].yaxis.label
    assert " ".join(label.get_text().split()).count("log scale") == 1
    extent, whole = label.get_window_extent(), made.canvas.bbox
    assert whole.y0 <= extent.y0 < extent.y1 <= whole.y1


@pytest.mark.parametrize(("names", "are_slanted"), [
    (["cpu-mkl", "cpu-simd", "cpu-tropical-gemm"], True),  # the last two would meet
    (["cpu-mkl", "cpu-simd", "cpu-numpy"], False),
    (["cpu-tropical-gemm"], False),
    (["a", "b", "c", "d", "e"], False),
])  # fmt: skip
def test_names_below_fields_that_would_meet_are_slanted(names, are_slanted):
    one = next(c for c in cells(EXPERIMENTS["workloads"]) if c.is_ok)
    several = [dataclasses.replace(one, axes={**one.axes, "place": name}) for name in names]
    panel = drawn(fields.heatmap(several, {"rows": "contender", "columns": "place", "value": "rate"})).canvas.axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == names
    assert {label.get_rotation() for label in panel.get_xticklabels()} == {30.0 if are_slanted else 0.0}


@pytest.mark.parametrize(("length", "size"), [(40, 14.0), (150, 12.5), (200, 9.5), (400, 9.5)])
def test_a_long_title_is_written_smaller_so_that_it_has_two_lines(length, size, tmp_path):
    with styled():
        sheet = Sheet(" ".join(["thing"] * (length // 6)))
        sheet.panels()
        sheet.save(tmp_path / "long", "")
        title = next(text for text in sheet.canvas.texts if text.get_text().startswith("thing"))
    assert title.get_size() == size
    assert length == 400 or title.get_text().count("\n") < 2


def test_a_single_row_has_room_between_legend_and_footer(tmp_path):
    some = analysis_rates.select(cells(EXPERIMENTS["vs_peers"], "full"), {"n": 257, "shared_by": "one thread"})
    canvas = drawn(charts(EXPERIMENTS["vs_peers"], some)["vs_peers_semirings"], tmp_path / "figure").canvas
    chart, footer = canvas.axes[0], next(text for text in canvas.texts if "Test CPU" in text.get_text())
    assert chart.get_window_extent().height > 0.5 * canvas.dpi
    assert chart.xaxis.label.get_window_extent().y0 >= footer.get_window_extent().y1


def test_what_a_chart_holds_is_what_is_drawn():
    """The numbers of marks, and the places of their intervals and samples."""
    chart = charts(EXPERIMENTS["percent_of_peak"], cells(EXPERIMENTS["percent_of_peak"]))["percent_of_peak"]
    axes = drawn(chart).canvas.axes[0]
    seen = {round(float(x), 9) for line in axes.lines for x in line.get_xdata()}
    wanted = [[point.value.estimate, *point.samples] for point in chart.points]
    assert {round(value, 9) for values in wanted for value in values} <= seen
    low, high = axes.get_xlim()
    assert all(low <= point.value.estimate <= high for point in chart.points)


def test_a_single_sample_far_off_does_not_stretch_an_axis():
    ladder = cells(EXPERIMENTS["ladder"])
    slow = [
        c
        if analysis_rates.is_roof(c)
        else dataclasses.replace(c, samples_ns=[[*c.samples_ns[0][:-1], c.samples_ns[0][-1] / 9]])
        for c in ladder
    ]
    widths = [
        drawn(charts(EXPERIMENTS["ladder"], own)["ladder"]).canvas.axes[0].get_xlim()[1] for own in (ladder, slow)
    ]
    assert widths[1] < 1.3 * widths[0]


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


def test_of_figures_to_publish_those_without_verdicts_are_left_out_and_removed(tmp_path):
    few = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:3]]) for c in cells(EXPERIMENTS["ladder"])]
    drawn = drawing.draw(EXPERIMENTS["ladder"], few, MACHINE, tmp_path)
    assert drawn, "one's own are drawn, and say so"
    assert all(path.exists() for path in drawn)
    assert drawing.draw(EXPERIMENTS["ladder"], few, MACHINE, tmp_path, decided=True) == []
    assert not any(path.exists() for path in drawn)
    assert drawing.draw(EXPERIMENTS["ladder"], cells(EXPERIMENTS["ladder"]), MACHINE, tmp_path, decided=True) == drawn


def test_of_figures_to_publish_those_without_their_subject_are_left_out(tmp_path):
    workloads = EXPERIMENTS["workloads"]
    others = [cell for cell in cells(workloads) if cell.contender != "cpu-simd"]
    drawn = drawing.draw(workloads, others, MACHINE, tmp_path)
    assert all(path.exists() for path in drawn)
    assert drawing.draw(workloads, others, MACHINE, tmp_path, decided=True) == []
    assert not any(path.exists() for path in drawn)


def test_the_kernels_that_a_library_took_stand_beside_its_name_and_every_name_is_there():
    chart = Chart(names={"one": "Haswell kernels"}, legend={"one": {"color": "red"}, "other": {"color": "blue"}})
    chart.panels = charts(EXPERIMENTS["percent_of_peak"], cells(EXPERIMENTS["percent_of_peak"]))[
        "percent_of_peak"
    ].panels
    made = drawn(chart)
    made.names = chart.names
    assert [text.get_text() for text in made._widest_legend().get_texts()][-2:] == ["one (Haswell kernels)", "other"]
