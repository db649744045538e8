"""What figures, tables and pages say of contenders on a GPU: the device, no thread of the host, and which peak."""

import dataclasses
from fractions import Fraction

import pytest

from harness.analysis import peaks, rates
from harness.experiment import Figure, load_all
from harness.report import machine_report, tables
from harness.report.figures import drawing
from harness.report.figures.sheet import Sheet
from tests._support.sheets import texts
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
GPU = {"name": "NVIDIA H200", "driver": "580.1", "memory_mib": "143771", "max_mhz": "1980", "power_limit_w": "700.00"}
WITH_GPU = dataclasses.replace(MACHINE, gpu=GPU)
KIND = "plus_times float32"


@pytest.fixture
def sheets(monkeypatch, tmp_path):
    """Return what draws an experiment on a machine with a GPU, from given cells or its own: its sheets by figure."""
    kept = {}

    def keep(self, path, footer):
        kept[path.name] = self
        return []

    monkeypatch.setattr(Sheet, "save", keep)

    def draw_one(name, cells=None, experiment=None):
        drawing.draw(experiment or EXPERIMENTS[name], cells or measured(name), WITH_GPU, tmp_path)
        return kept

    return draw_one


@pytest.fixture
def draw(sheets):
    """Return what draws an experiment as `sheets` does: the words of its figures, by their names."""
    return lambda name: {figure: texts(sheet) for figure, sheet in sheets(name).items()}


def measured(name):
    return cells(EXPERIMENTS[name], machine=WITH_GPU)


def test_the_ladder_names_the_device_and_the_peak(draw):
    words = draw("gpu_ladder")["gpu_ladder"]
    assert "GFLOP/s, on the GPU" in words
    assert "cpu-simd" not in words
    assert "measured SIMT peak" in words
    assert "of SIMT peak" in words


def test_percent_of_ceilings_says_which(draw):
    assert "% of measured SIMT peak" in draw("gpu_semirings")["gpu_semirings"]


_ROOFS = {"memory: ": 1, "L3: ": 1, "L2: ": 2, "L1: ": 1, "shared: ": 1}
_ROOFS |= {"measured peak: ": 1, "measured SIMT peak: ": 1}


def test_a_roofline_has_a_panel_for_each_with_its_own_roofs(draw):
    words = draw("roofline")["roofline"]
    assert "plus_times, float64, n=512, 1 thread" in words
    assert "plus_times, float32, n=4096, on the GPU" in words
    for roof, count in _ROOFS.items():
        assert words.count(roof) == count, roof


def test_orders_in_memory_are_told_apart_by_kernel(draw):
    words = draw("gpu_layout")
    assert "naive, n=4096" in words["gpu_layout"]
    assert "tiled, n=4096" in words["gpu_layout"]
    assert "peak" not in words["gpu_layout"]
    assert "microseconds a call, on the GPU" in words["gpu_layout_change"]


def test_a_case_with_contenders_on_both_sides_names_both():
    both = [cell for cell in measured("offload_threshold") if cell.axes["n"] == 64]
    assert {rates.is_on_device(cell) for cell in both} == {True, False}
    assert rates.runs_on(both) == "on the GPU or 4 threads"
    assert rates.runs_on([cell for cell in both if not rates.is_on_device(cell)]) == "4 threads"
    assert rates.runs_on([cell for cell in both if rates.is_on_device(cell)]) == "on the GPU"
    different = [both[0], dataclasses.replace(both[1], threads=1)]
    assert not any(map(rates.is_on_device, different))
    assert rates.runs_on(different) == ""


@pytest.mark.parametrize("name", ["gpu_ladder", "workloads"])
def test_no_contender_is_held_against_the_peak_of_the_other_side(name):
    products = [cell for cell in rates.contenders(measured(name)) if rates.axis(cell, "semiring") == "plus_times"]
    everything = [*measured("gpu_ladder"), *measured("percent_of_peak"), *measured("ladder")]
    sides = set()
    for cell in products:
        peak = peaks.peak_of(cell, everything)
        if peak is not None:
            assert rates.is_on_device(peak) == rates.is_on_device(cell)
            sides.add(rates.is_on_device(cell))
    assert True in sides


def test_both_peaks_of_a_panel_are_drawn_and_named(sheets):
    own = measured("gpu_ladder")
    (gpu_peak,) = [cell for cell in own if rates.is_peak(cell) and rates.words(cell, "problem") == KIND]
    assert rates.is_on_device(gpu_peak)
    on_host = dataclasses.replace(
        gpu_peak, axes={name: place for name, place in gpu_peak.axes.items() if name != "device"}, threads=4, case="own"
    )
    both = Figure("both", "bars", "Both", {"panels": "problem", "labels": "ladder"})
    ladder = dataclasses.replace(EXPERIMENTS["gpu_ladder"], figures=(both,))
    words = texts(sheets("gpu_ladder", [*own, on_host], ladder)["both"])
    assert "measured SIMT peak" in words
    assert "measured SIMT peak," not in words, "a GPU has no threads of the host"
    assert "measured peak, 4 threads" in words
    assert "of own peak" in words


def test_hot_and_cold_have_a_panel_for_each_side(draw):
    words = draw("cold_caches")["cold_caches"]
    assert "plus_times float64, on the CPU" in words
    assert "plus_times float64, on the GPU" in words
    assert "n (log scale)" in words


def test_panels_of_different_sizes_share_their_ticks(sheets):
    ticks = [set(panel.get_xticks()) for panel in sheets("cold_caches")["cold_caches"].canvas.axes]
    assert len(ticks) == 2
    assert all(own >= {32, 128, 512, 4096} for own in ticks)


def test_a_step_below_was_timed_in_turns():
    by_case = [rates.contenders(own) for own in rates.group(measured("gpu_ladder"), lambda cell: cell.case).values()]
    on_cpu, on_gpu = by_case[:2]
    below = rates.steps_below([*on_cpu, *on_gpu])
    assert below == [None, *on_cpu[:-1], None, *on_gpu[:-1]]


def test_a_footer_names_the_gpu_if_any_of_its_cells_ran_there():
    both = [cell for cell in measured("workloads") if cell.is_ok]
    on_cpu = [cell for cell in both if not rates.is_on_device(cell)]
    assert drawing.provenance(both, WITH_GPU).startswith("NVIDIA H200, driver 580.1")
    assert "NVIDIA" not in drawing.provenance(on_cpu, WITH_GPU)


def test_the_place_of_a_case_says_nothing_twice():
    places = {row.where for name in ("gpu_ladder", "semiring_cost") for row in tables.summary_rows(measured(name))}
    assert "plus_times, float32, n=4096" in places
    assert "gpu-tuned, float32, n=2048" in places


def test_large_ratios_are_plain_numbers(sheets):
    faster = [
        dataclasses.replace(cell, samples_ns=[[time / 50_000 for time in cell.samples_ns[0]]])
        if rates.is_on_device(cell)
        else cell
        for cell in measured("workloads")
    ]
    canvas = sheets("workloads", faster)["workloads"].canvas
    canvas.draw_without_rendering()
    labels = [label.get_text() for label in canvas.axes[-1].get_yticklabels()]
    assert max(float(Fraction(label)) for label in labels) >= 1024
    assert not any("e" in label for label in labels)
    assert any(label.startswith("1/") for label in labels), "1/1024, not 0.000977"


def test_the_price_of_a_semiring_names_who_computed_it(draw):
    words = draw("semiring_cost")["semiring_cost"]
    assert "cpu-simd, float64, n=384" in words
    assert "gpu-tuned, float32, n=2048" in words
    assert "time relative to plus_times, log scale, on the GPU" in words


def test_real_shapes_are_computed_by_both_sides(draw):
    words = draw("workloads")["workloads"]
    assert "backend, on the GPU or 1 thread" in words
    assert "gpu-tuned" in words


def test_tables_say_gpu_in_the_place_of_threads():
    ladder = EXPERIMENTS["gpu_ladder"]
    lines = tables.table(ladder, tables.rows_of(ladder, measured("gpu_ladder"))).splitlines()
    places = {line.split("|")[2].strip(): line.split("|")[3].strip() for line in lines[2:]}
    assert places["gpu-tuned"] == "GPU"
    assert places["cpu-simd"] == "4"


def test_the_page_has_a_row_for_the_gpu(tmp_path):
    pages = [machine_report.write([], [], machine, tmp_path, tmp_path).read_text() for machine in (WITH_GPU, MACHINE)]
    assert "| GPU | NVIDIA H200, driver 580.1, 143771 MiB, at most 1980 MHz, power limit 700.00 W |" in pages[0]
    assert "| GPU |" not in pages[1]


def test_roofs_are_seen_up_to_the_peak(sheets):
    slower = [
        dataclasses.replace(cell, samples_ns=[[cell.facts["bytes_moved"] / 4.0] * 6])
        if cell.axes["role"] == "bandwidth"
        else cell
        for cell in measured("roofline")
    ]
    for panel in sheets("roofline", slower)["roofline"].canvas.axes:
        (roof,) = (line for line in panel.lines if len(line.get_xdata()) == 3)
        knee = roof.get_xydata()[1]
        assert all(low < at < high for at, (low, high) in zip(knee, (panel.get_xlim(), panel.get_ylim()), strict=True))


def test_ways_to_treat_edges_stand_beside_the_memory_that_they_take(sheets):
    def with_bytes(cell):
        extra = {"redirected": 0, "padded": 140e6}.get(cell.contender)
        return cell if extra is None else dataclasses.replace(cell, facts={**cell.facts, "extra_bytes": extra})

    drawn = sheets("gpu_edges", [with_bytes(cell) for cell in measured("gpu_edges")])
    on_gpu, on_host = (texts(drawn[name]) for name in ("gpu_edges_bytes", "gpu_edges_on_host"))
    assert "extra MB" in on_gpu
    assert "140" in on_gpu
    assert "mirrored" in on_gpu
    assert "padded in transit" not in on_gpu
    assert "padded in transit" in on_host
    assert "padded on the host" in on_host


def test_stages_of_a_call_on_a_gpu_are_those_of_one_process(sheets):
    def with_stages(cell):
        readings = {stage: [[1e6] * 6] for stage in ("allocate", "host to device", "compute", "unpin")}
        first = {"first_call_s": {"start of the GPU": 0.3, "load": 0.1}}
        return dataclasses.replace(
            cell, facts={**cell.facts, **first}, samples_ns=[[4e6] * 6], record={**cell.record, "readings": readings}
        )

    sheet = sheets("gpu_breakdown", [with_stages(cell) for cell in measured("gpu_breakdown")])["gpu_breakdown"]
    assert {"start of the GPU", "load", "allocate", "compute", "unpin"} <= set(sheet.legend)
    assert sheet.title.startswith("pageable spends 25 % of a warm call copying")
    assert "mean over the ranks" not in texts(sheet)
    assert len([note for note in sheet.notes if "Every stage is waited for" in note]) == 1, "and not twice"
