"""From which size on a device is faster than the host: by all larger sizes, and only where it is sure."""

from __future__ import annotations

import dataclasses
import random

import pytest

from harness.analysis import caveats, offload
from harness.analysis.offload import Threshold
from harness.catalogue import load_all
from tests._support.findings import of_figure
from tests._support.synthetic import MACHINE, cells

GPU = dataclasses.replace(MACHINE, gpu={"name": "NVIDIA H200"})
EXPERIMENT = load_all()["offload_threshold"]
ONCE, ALWAYS = "gpu-tuned, copies once", "gpu-tuned, copies always"
SIZES = (64, 128, 256, 512, 1024, 2048)


def sweep(rates, *, noise=0.01, semiring="plus_times"):
    """Return the cells of one semiring: the host works at 100 and, by its second library, at 50; devices at `rates`."""
    random.seed(5)
    found = []
    for cell in cells(EXPERIMENT, machine=GPU):
        problem = cell.facts["problem"]
        if problem["semiring"] != semiring:
            continue
        own = rates.get(cell.contender)
        rate = own[SIZES.index(problem["n"])] if own else {"cpu-simd": 100.0}.get(cell.contender, 50.0)
        ns = cell.facts["operations"] / rate
        found.append(
            dataclasses.replace(cell, samples_ns=[[ns * random.uniform(1 - noise, 1 + noise) for _ in range(12)]])
        )
    return found


@pytest.mark.parametrize(
    ("rates", "above", "up_to"),
    [
        ([10, 20, 60, 120, 200, 300], 256, 512),
        ([10, 120, 60, 120, 200, 300], 256, 512),  # a size at which it wins, and then loses again
        ([110, 120, 160, 120, 200, 300], None, 64),
        ([10, 20, 30, 40, 50, 60], 2048, None),
        ([10, 20, 30, 40, 50, 300], 1024, 2048),
    ],
)
def test_a_threshold_holds_for_all_larger_sizes(rates, above, up_to):
    found = offload.thresholds(sweep({ONCE: rates, ALWAYS: [1] * 6}))
    assert Threshold("plus_times float32", ONCE, above, up_to) in found
    assert Threshold("plus_times float32", ALWAYS, 2048, None) in found
    assert len(found) == 2


def test_without_copies_in_the_time_nothing_is_offloaded():
    rates = {ONCE: [200] * 6, ALWAYS: [200] * 6}
    bare = [
        dataclasses.replace(cell, arguments={name: value for name, value in cell.arguments.items() if name != "copies"})
        for cell in sweep(rates)
    ]
    assert offload.thresholds(sweep(rates))
    assert not offload.thresholds(bare)


def test_it_is_the_best_of_the_host_that_counts():
    between_the_two = [70] * 6
    assert {own.up_to for own in offload.thresholds(sweep({ONCE: between_the_two, ALWAYS: between_the_two}))} == {None}


def test_a_size_at_which_the_samples_leave_it_open_does_not_count():
    rates = [10, 20, 60, 101, 200, 300]
    quiet, noisy = (offload.thresholds(sweep({ONCE: rates}, noise=noise)) for noise in (0.001, 0.2))
    assert next(own for own in quiet if own.contender == ONCE).up_to == 512
    assert next(own for own in noisy if own.contender == ONCE).up_to == 1024


def test_the_order_of_the_cells_does_not_matter():
    own = sweep({ONCE: [10, 20, 60, 120, 200, 300]})
    assert set(offload.thresholds(own[::-1])) == set(offload.thresholds(own))


def test_without_contenders_on_both_sides_there_is_none():
    own = sweep({ONCE: [10, 20, 60, 120, 200, 300]})
    assert offload.thresholds([cell for cell in own if not cell.contender.startswith("cpu-")]) == []
    assert offload.thresholds([cell for cell in own if cell.contender.startswith("cpu-")]) == []
    failed = [
        dataclasses.replace(cell, status="failed", samples_ns=[]) if cell.contender.startswith("cpu-") else cell
        for cell in own
    ]
    assert offload.thresholds(failed) == []
    assert offload.thresholds(cells(load_all()["gpu_ladder"], machine=GPU)) == []


def test_report_and_figure_name_it():
    own = sweep({ONCE: [10, 20, 60, 120, 200, 300], ALWAYS: [110, 120, 160, 120, 200, 300]})
    said = f"plus_times float32: {ALWAYS} from n=64 on, or earlier; {ONCE} between n=256 and n=512"
    for lines in (caveats.of_section(own, {}), caveats.in_figure(own)):
        (line,) = (line for line in lines if "Offload threshold" in line)
        assert line.endswith(said)
    never = offload.sentences(sweep({ONCE: [1] * 6, ALWAYS: [1] * 6}, semiring="min_plus"))
    assert never == [f"min_plus float32: {ALWAYS} not up to n=2048; {ONCE} not up to n=2048"]


def test_the_finding_says_from_which_size_on_it_is_surely_faster():
    own = sweep({ONCE: [10, 20, 60, 120, 200, 300], ALWAYS: [1] * 6})
    found = of_figure(load_all()["offload_threshold"], "offload_threshold", own)
    paying = {ONCE: "from n=512 on", ALWAYS: "nowhere up to n=2048"}
    told = {found.subject: found.values[0].words, **{name: values[0].words for name, values in found.others.items()}}
    assert told == {name.replace(", ", " with "): words for name, words in paying.items()}
    assert of_figure(load_all()["offload_threshold"], "offload_threshold", []) is None
