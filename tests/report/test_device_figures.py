"""What figures, tables and pages say of contenders on a GPU: the device, no thread of the host, and which peak."""

import dataclasses
from fractions import Fraction

import pytest

from harness.analysis import peaks, rates
from harness.catalogue import load_all
from harness.experiment import Figure
from harness.report import machine_report, tables
from harness.report.figures import drawing, ticks
from tests._support.charts import charts, words
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
GPU = {"name": "NVIDIA H200", "driver": "580.1", "memory_mib": "143771", "max_mhz": "1980", "power_limit_w": "700.00"}
WITH_GPU = dataclasses.replace(MACHINE, gpu=GPU)
KIND = "plus_times float32"


def drawn(name, cells=None, experiment=None):
    """Return the charts of an experiment on a machine with a GPU, from given cells or its own."""
    return charts(experiment or EXPERIMENTS[name], cells or measured(name), WITH_GPU)


def said(name):
    """Return the words of the figures of an experiment, by their names."""
    return {figure: words(chart) for figure, chart in drawn(name).items()}


def measured(name):
    return cells(EXPERIMENTS[name], machine=WITH_GPU)


# What a figure names: who computed, where, and in which units.
TOLD = {
    "gpu_ladder": ("GFLOP/s, on the GPU", "measured SIMT peak", "of SIMT peak"),
    "cold_caches": ("plus_times float64, on the CPU", "plus_times float64, on the GPU", "n (log scale)"),
    "semiring_cost": (
        *("cpu-simd, float64, n=384", "gpu-tuned, float32, n=2048"),
        "time relative to plus_times, log scale, on the GPU",
    ),
    "workloads": ("backend, on the GPU or 1 thread", "gpu-tuned"),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_figure_names_who_computed_and_where(name):
    told = said(name)[name]
    assert [text for text in TOLD[name] if text not in told] == []
    assert ("cpu-simd" in told) == (name in ("cold_caches", "semiring_cost", "workloads"))


def test_percent_of_ceilings_says_which():
    assert "% of measured SIMT peak" in said("gpu_semirings")["gpu_semirings"]


_ROOFS = {"memory: ": 1, "L3: ": 1, "L2: ": 2, "L1: ": 1, "shared: ": 1}
_ROOFS |= {"measured peak: ": 1, "measured SIMT peak: ": 1}


def test_a_roofline_has_a_panel_for_each_with_its_own_roofs():
    told = said("roofline")["roofline"]
    assert "plus_times, float64, n=512, 1 thread" in told
    assert "plus_times, float32, n=4096, on the GPU" in told
    for roof, count in _ROOFS.items():
        assert told.count(roof) == count, roof


def test_orders_in_memory_are_told_apart_by_kernel():
    told = said("gpu_layout")
    assert "naive, n=4096" in told["gpu_layout"]
    assert "tiled, n=4096" in told["gpu_layout"]
    assert "peak" not in told["gpu_layout"]
    assert "microseconds a call, on the GPU" in told["gpu_layout_change"]


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


def test_both_peaks_of_a_panel_are_drawn_and_named():
    own = measured("gpu_ladder")
    (gpu_peak,) = [cell for cell in own if rates.is_peak(cell) and rates.words(cell, "problem") == KIND]
    assert rates.is_on_device(gpu_peak)
    on_host = dataclasses.replace(
        gpu_peak, axes={name: place for name, place in gpu_peak.axes.items() if name != "device"}, threads=4, case="own"
    )
    both = Figure("both", "bars", "Both", {"panels": "problem", "labels": "ladder"})
    ladder = dataclasses.replace(EXPERIMENTS["gpu_ladder"], figures=(both,))
    chart = drawn("gpu_ladder", [*own, on_host], ladder)["both"]
    told = {rule.words for panel in chart.panels for rule in panel.rules if rule.words}
    assert told == {"measured SIMT peak", "measured peak, 4 threads"}, "a GPU has no threads of the host"
    assert "of own peak" in words(chart)


def test_panels_of_different_sizes_share_their_ticks():
    ticks = [set(panel.x.ticks) for panel in drawn("cold_caches")["cold_caches"].panels]
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


def test_large_ratios_are_plain_numbers():
    faster = [
        dataclasses.replace(cell, samples_ns=[[time / 50_000 for time in cell.samples_ns[0]]])
        if rates.is_on_device(cell)
        else cell
        for cell in measured("workloads")
    ]
    (fields,) = (panel.fields for panel in drawn("workloads", faster)["workloads"].panels)
    told = [ticks.ratio(tick) for tick in ticks.of_bar(fields.limits[1], 10)]
    assert max(float(Fraction(tick)) for tick in told) >= 1024
    assert not any("e" in tick for tick in told)
    assert any(tick.startswith("1/") for tick in told), "1/1024, not 0.000977"


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


def test_roofs_are_seen_up_to_the_peak():
    slower = [
        dataclasses.replace(cell, samples_ns=[[cell.facts["bytes_moved"] / 4.0] * 6])
        if cell.axes["role"] == "bandwidth"
        else cell
        for cell in measured("roofline")
    ]
    for panel in drawn("roofline", slower)["roofline"].panels:
        (roof,) = (series for series in panel.series if len(series.points) == 3)
        (left, right), (low, high), knee = panel.x.limits, panel.y.limits, roof.points[1]
        assert left < knee.at < right
        assert low < knee.value.estimate < high


def test_ways_to_treat_edges_stand_beside_the_memory_that_they_take():
    def with_bytes(cell):
        extra = {"redirected": 0, "padded": 140e6}.get(cell.contender)
        return cell if extra is None else dataclasses.replace(cell, facts={**cell.facts, "extra_bytes": extra})

    made = drawn("gpu_edges", [with_bytes(cell) for cell in measured("gpu_edges")])
    (on_gpu, *_), (on_host, *_) = (made[name].panels for name in ("gpu_edges_bytes", "gpu_edges_on_host"))
    column = dict(zip(on_gpu.y.names, (row[-1] for row in on_gpu.table.rows), strict=True))
    assert on_gpu.table.heads[-1] == "extra MB"
    assert (column["padded"], column["redirected"]) == ("140", "0")
    assert "mirrored" in column
    assert "padded in transit" not in column
    assert {"padded in transit", "padded on the host"} <= {*on_host.y.names}


def test_stages_of_a_call_on_a_gpu_are_those_of_one_process():
    def with_stages(cell):
        readings = {stage: [[1e6] * 6] for stage in ("allocate", "host to device", "compute", "unpin")}
        first = {"first_call_s": {"start of the GPU": 0.3, "load": 0.1}}
        return dataclasses.replace(
            cell, facts={**cell.facts, **first}, samples_ns=[[4e6] * 6], record={**cell.record, "readings": readings}
        )

    chart = drawn("gpu_breakdown", [with_stages(cell) for cell in measured("gpu_breakdown")])["gpu_breakdown"]
    assert {"start of the GPU", "load", "allocate", "compute", "unpin"} <= set(chart.legend)
    assert chart.title.startswith("pageable spends 25 % of a warm call copying")
    assert "mean over the ranks" not in words(chart)
    assert len([note for note in chart.notes if "Every stage is waited for" in note]) == 1, "and not twice"
