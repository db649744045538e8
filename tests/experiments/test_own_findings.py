"""Findings that one experiment has alone: their numbers are those of planted cells."""

import dataclasses
import math

import pytest

from experiments._parts import ranks as parts
from harness.analysis import answers, caveats, ragged_sizes, rates
from harness.catalogue import load_all
from tests._support import synthetic
from tests._support.findings import numbers, of_figure
from tests._support.planted_rank_cells import TWO_GPUS, planted
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
GPU = dataclasses.replace(MACHINE, gpu={"name": "NVIDIA H200"})


@pytest.fixture(autouse=True)
def with_mpi(monkeypatch):
    """Ask as on a machine that has MPI, whatever this one has."""
    monkeypatch.setattr(parts, "missing", lambda: None)


def told(experiment, figure, own, **options):
    return of_figure(EXPERIMENTS[experiment], figure, own, **options)


def at_rates(name, rates_of, **where):
    """Return the cells of one case on a machine with a GPU, each contender at its rate."""
    some = cells(EXPERIMENTS[name], machine=GPU)
    found = {c.contender: c for c in some if all(c.axes.get(axis) == value for axis, value in where.items())}
    return [
        dataclasses.replace(found[who], samples_ns=[[found[who].facts["operations"] / rate] * 8])
        for who, rate in rates_of.items()
    ]


RATES_OF_RUNGS = {
    "whole path": {"cpu-packed": 40.0, "cpu-transposed, no SIMD": 2.0, "cpu-naive": 1.0},
    "cpu-transposed": {"cpu-transposed": 16.0, "no SIMD": 2.0},
    "cpu-tiled": {"cpu-tiled": 24.0, "no SIMD": 8.0, "no 2x2 reuse": 12.0, "cpu-transposed": 16.0},
    "cpu-packed": {"cpu-packed": 40.0, "no SIMD": 20.0, "no packing": 32.0, "cpu-tiled": 24.0},
}


def test_factors_of_a_ladder_multiply_to_the_whole():
    own = [
        cell
        for rung, speeds in RATES_OF_RUNGS.items()
        for cell in at_rates("ablation", speeds, rung=rung, panel=rung.removeprefix("cpu-"))
    ]
    gain = told("ablation", "ablation", own)
    assert (gain.subject, numbers(gain.values), numbers(gain.others["SIMD"])) == ("cpu-packed", [40.0], [8.0])
    assert gain.note.endswith("multiply to 40")
    assert told("ablation", "ablation", own[3:]) is None, "without the whole path"


def test_factors_of_a_kernel_multiply_by_problem():
    (figure, *_) = EXPERIMENTS["gpu_ablation"].figures
    rates_of = {"gpu-warp-tiled": 40.0, **dict(zip(figure.options["ideas"], (20.0, 10.0, 40.0), strict=True))}
    where = {"rung": "gpu-warp-tiled", "n": 4096, "semiring": "plus_times", "dtype": "float64"}
    time = told("gpu_ablation", "gpu_ablation", at_rates("gpu_ablation", {**rates_of, "all of these": 5.0}, **where))
    assert (time.subject, numbers(time.values)) == ("all of these", [8.0])
    assert time.note == "plus_times float64: the factors multiply to 8.00"


def test_rows_and_stages_are_told_at_their_place():
    rates_of = {"gpu-naive": 10.0, "gpu-row, 1 of B": 1.0, "gpu-row, 16 of B": 20.0}
    time = told("gpu_ablation", "gpu_rows", at_rates("gpu_ablation", rates_of, role="rows", a="A by rows"))
    assert (time.subject, numbers(time.values), time.values[0].place) == ("gpu-row, 1 of B", [10.0], "A by rows")
    own = at_rates("gpu_ablation", {"1 stage": 10.0, "2 stages": 15.0}, role="stages", n=4096, tile="64 x 64 x 16")
    gain = told("gpu_ablation", "gpu_stages", own)
    assert (gain.subject, numbers(gain.values), gain.values[0].place) == ("2 stages", [1.5], "64 x 64 x 16")


def test_the_rate_at_a_power_of_two_is_over_that_below_whatever_the_order():
    def at(n, rate):
        return synthetic.at_rates(EXPERIMENTS["ladder"], {"cpu-naive": rate}, n=n, role="power of two")

    lesson = [*at(500, 1.6), *at(512, 0.4)]
    for own in (lesson, lesson[::-1]):
        speed = told("ladder", "power_of_two", own)
        assert (speed.subject, speed.over, numbers(speed.values)) == ("cpu-naive at n=512", "at n=500", [0.25])
    assert told("ladder", "power_of_two", lesson[:1]) is None, "one size has nothing beside it"
    figure = next(figure for figure in EXPERIMENTS["ladder"].figures if figure.name == "power_of_two")
    few = [dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:4]]) for cell in lesson]
    assert answers.of_figure(figure, answers.Shown(few, [])).endswith(": nothing is decided")


def test_cold_caches_are_held_against_hot_ones_and_who_gains_loses_nothing():
    times = {32: 10.0, 128: 4.0, 512: 0.5}
    own = [
        dataclasses.replace(c, samples_ns=[[times[c.axes["n"]] if c.axes.get("series") == "cold" else 1.0] * 8])
        for c in cells(EXPERIMENTS["cold_caches"])
        if c.axes["n"] in times
    ]
    assert numbers(told("cold_caches", "cold_caches", own).values) == [90.0, 75.0, 0.0]


def test_each_thread_keeps_a_part_of_the_rate_of_one():
    own = [c for c in cells(EXPERIMENTS["thread_scaling"]) if c.axes["mode"] == "weak"]
    own = [dataclasses.replace(c, samples_ns=[[1e6 * (1.25 if c.threads == 4 else 1.0)] * 8]) for c in own]
    kept = told("thread_scaling", "thread_scaling_weak", own, subject="cpu-packed, loop ic")
    assert (kept.subject, kept.values[0].place) == ("Each of 4 threads of cpu-packed, loop ic", "whole tiles")
    assert numbers(kept.values[:1]) == [80.0]
    assert "cpu-simd" in kept.others
    one = [cell for cell in own if cell.axes["method"] == "cpu-simd"]
    assert told("thread_scaling", "thread_scaling_weak", one) is None, "nothing stands beside it"


def test_the_size_from_which_on_the_rate_is_near_its_best_is_told_by_problem():
    def at(cell):
        rate = 10.0 if cell.axes["n"] >= (2048 if cell.axes["semiring"] == "plus_times" else 4096) else 5.0
        return dataclasses.replace(cell, samples_ns=[[cell.facts["operations"] / rate] * 8])

    sweep = [at(c) for c in cells(EXPERIMENTS["gpu_sizes"], machine=GPU) if c.contender == "gpu-tuned"]
    found = {value.place: value.words for value in told("gpu_sizes", "gpu_sizes", sweep).values}
    assert found["plus_times float32"] == "from n=2048 on"
    assert found["min_plus float32"] == "from n=4096 on"


def test_the_fewest_threads_near_the_best_rate_are_told_by_contender():
    made = [
        dataclasses.replace(c, samples_ns=[[1e6 * max(1, 2**16 / c.axes["threads_at_once"])] * 8])
        for c in cells(EXPERIMENTS["mv_threads"], machine=GPU)
        if "threads_at_once" in c.axes
    ]
    knee = told("mv_threads", "mv_threads", made)
    assert {value.words for value in knee.values} == {"65,536"}


def test_the_size_from_which_on_padding_is_little_is_one_of_the_figure():
    some = [cell for cell in cells(EXPERIMENTS["size_sweep"]) if cell.axes["n"] <= 512]
    small, large = told("size_sweep", "extra_work", some, tiles=(4, 128)).values
    size = int(small.number.estimate)
    assert ragged_sizes.extra_work(size - 1, size - 1, 4, 4) > 10
    assert max(ragged_sizes.extra_work(n, n, 4, 4) for n in range(size, 200)) <= 10
    assert (large.number.estimate, large.words) == (math.inf, "nowhere up to n=512")


def with_stages(cell, **stages_ms):
    names = {name.replace("_", " "): ms for name, ms in stages_ms.items()}
    readings = {name: [[1e6 * ms] * 6] for name, ms in names.items()}
    samples = [1e6 * sum(names.values())] * 6
    return dataclasses.replace(cell, samples_ns=[samples], record={**cell.record, "readings": readings})


def test_shares_of_copies_are_those_of_the_stages():
    pageable, pinned, *_ = (c for c in cells(EXPERIMENTS["gpu_breakdown"], machine=GPU) if c.axes["n"] == 4096)
    slow = with_stages(pageable, allocate=10, host_to_device=40, compute=20, device_to_host=30)
    fast = with_stages(pinned, compute=20, host_to_device=5)
    copies = told("gpu_breakdown", "gpu_breakdown", [slow, fast])
    assert (numbers(copies.values), numbers(copies.others[pinned.contender])) == ([70.0], [20.0])
    assert told("gpu_breakdown", "gpu_breakdown", [pageable]) is None, "no stages were read"


@pytest.mark.parametrize("samples", [2, 6])
def test_shares_of_a_call_on_ranks_need_samples_for_an_interval(samples):
    own = [
        dataclasses.replace(c, samples_ns=[[*c.samples_ns[0][:1]] * samples]) if c.is_ok else c
        for c in planted(EXPERIMENTS["dist_breakdown"])
    ]
    figure = EXPERIMENTS["dist_breakdown"].figures[0]
    title = answers.of_figure(figure, answers.shown(figure, "dist_breakdown", own))
    assert title.endswith(": nothing is decided") == (samples == 2)


def strong(off, mode="strong", machine=MACHINE):
    own = planted(EXPERIMENTS["dist_scaling"], off=off, machine=machine)
    return [cell for cell in own if cell.axes.get("mode") in (mode, None)]


def test_the_speed_is_that_of_the_most_ranks_beside_as_many_threads():
    fast, slow = (told("dist_scaling", "dist_strong_scaling", strong(off)) for off in (1.0, 1.25))
    most = [max(numbers(found.values)) for found in (fast, slow)]
    assert most[0] == pytest.approx(1.25 * most[1], abs=0.02)
    assert (slow.subject, most[1], len(slow.others["4 threads"])) == ("4 ranks", 3.08, len(slow.others["4 threads"]))
    on_gpus = told("dist_scaling", "dist_gpu_scaling", strong(1.25, "strong, on GPUs", TWO_GPUS))
    assert (on_gpus.subject, max(numbers(on_gpus.values))) == ("2 GPUs", 1.6)
    alone = [cell for cell in strong(1.0) if cell.arguments.get("parameters", {}).get("ranks", 1) == 1]
    assert told("dist_scaling", "dist_strong_scaling", alone) is None


def test_splits_are_held_against_one_process():
    times = {"cpu-simd": 10.0, "2 x 2": 8.0}
    own = [
        dataclasses.replace(cell, samples_ns=[[1e6 * times.get(cell.contender, 20.0)] * 6])
        for cell in planted(EXPERIMENTS["dist_ranks_threads"])
    ]
    speed = told("dist_ranks_threads", "dist_ranks_threads", own)
    assert (speed.subject, speed.over, set(numbers(speed.values))) == ("2 x 2", "one process", {1.25})


def test_other_systems_are_compared_with_the_fastest_of_ours():
    times = {"PyTorch": 30.0, "JAX": 20.0, "dist-2d, ozaki": 8.0, "dist-2d, cublas": 16.0}

    def timed(cell):
        milliseconds = next(value for name, value in times.items() if cell.contender.startswith(name))
        return dataclasses.replace(cell, samples_ns=[[milliseconds * 1e6] * 6])

    own = [c for c in planted(EXPERIMENTS["dist_peers"], machine=TWO_GPUS) if c.axes.get("device") == "gpu"]
    speed = told("dist_peers", "dist_peers", list(map(timed, own)))
    assert (speed.subject, speed.over) == ("dist-2d, ozaki, 2 GPUs", "JAX NamedSharding, 2 GPUs")
    assert (max(numbers(speed.values)), len(speed.judged)) == (2.5, len(speed.values))
    ours = [cell for cell in own if "package" not in cell.arguments]
    assert told("dist_peers", "dist_peers", ours) is None


def test_counts_that_differ_from_the_formula_are_not_called_equal():
    own = [cell for cell in planted(EXPERIMENTS["dist_volume"], "full") if cell.axes["ranks"] == 8]
    words = told("dist_volume", "dist_volume", own)
    assert (min(numbers(words.values)), max(numbers(words.values))) == (1.0, 2.33)
    equal, of = map(int, words.note.removesuffix(" counts equal the formula").split(" of "))
    assert equal == of
    halves = [{**count, "words": 0.5 * count["words"]} for count in own[0].facts["grids"]]
    off = [dataclasses.replace(own[0], facts={**own[0].facts, "grids": halves}), *own[1:]]
    assert int(told("dist_volume", "dist_volume", off).note.partition(" of ")[0]) < equal
    assert told("dist_memory", "dist_memory", planted(EXPERIMENTS["dist_memory"])).values


def test_regret_is_the_median_and_the_worst_of_what_was_missed():
    def product(times_ms, setting):
        every = cells(EXPERIMENTS["auto_regret"])
        case = next(c.case for c in every if c.axes["setting"] == f"{setting}, all threads")
        own = {cell.contender: cell for cell in every if cell.case == case}
        return [dataclasses.replace(own[name], samples_ns=[[1e6 * ms] * 8]) for name, ms in times_ms.items()]

    missed = product({"auto": 6.0, "cpu-simd": 6.0, "cpu-numpy": 4.0}, "plus_times float64")
    kept = product({"auto": 2.0, "cpu-simd": 2.0, "cpu-numpy": 4.0}, "plus_times float32")
    time = told("auto_regret", "auto_regret", [*missed, *kept])
    assert numbers(time.values) == [1.5, 1.0]
    assert "at worst 1.50 (plus_times float64, all threads, 33 x 33 x 33: cpu-numpy)" in time.note
    few = [dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:2]]) for cell in missed]
    assert "may be chance: 2 samples" in told("auto_regret", "auto_regret", [*few, *kept]).note
    assert told("auto_regret", "auto_regret", missed[1:]) is None


def test_loads_explain_some_rates_and_the_best_rung_moves_least():
    own = cells(EXPERIMENTS["intensity"])
    near = told("intensity", "intensity", own)
    assert near.over == f"{sum(c.is_ok for c in rates.contenders(own))} rates"
    assert "is furthest off" in near.note
    bound = told("intensity", "intensity_bound", own)
    assert all(value.number.estimate >= 1 for value in bound.values)


def test_what_is_above_its_roof_is_told_as_it_was_measured():
    own = cells(EXPERIMENTS["roofline"])
    part = told("roofline", "roofline_shapes", own)
    assert max(numbers(part.values)) > 100
    assert part.note.startswith("Above 100 %: ")
    square = [cell for cell in own if rates.is_roof(cell) or cell.axes["shape"] == "square"]
    assert told("roofline", "roofline_shapes", square).note == ""


def test_blocks_of_the_model_are_held_against_the_best():
    own = cells(EXPERIMENTS["block_size"])
    part = told("block_size", "block_size", own)
    assert 0 < min(numbers(part.values)) <= 100
    assert caveats.of_shares(part.judged).ratios == len(part.judged)
