"""Losses in sweeps of sizes: against whole tiles, in units of a contender timed in turns, beyond noise."""

import dataclasses
import math

import pytest

from harness.analysis import ragged_sizes
from harness.analysis.ragged_sizes import swept as swept_sizes
from harness.catalogue import load_all
from tests._support import synthetic
from tests._support.findings import found, numbers

SWEEP = load_all()["dense_sweep"]
OPTIONS = {"sweeps": "sweep", "x": "size", "subject": "cpu-simd"}
WHOLE, RAGGED = (512, 528, 544, 560), (515, 530)


def sweep_of(rates, *, drift=(1.0,), peak=False):
    """Return cells of both contenders at each size, cpu-numpy at 10: `drift` slows a whole case, size after size."""
    names = ("cpu-simd", "cpu-numpy", *(["peak"] if peak else []))
    own = {cell.contender: cell for cell in synthetic.cells(SWEEP) if cell.axes["size"] == 515}
    found = []
    for index, (n, rate) in enumerate(rates.items()):
        slower = drift[index % len(drift)]
        for name in names:
            time_ns = own[name].facts["operations"] / (rate if name == "cpu-simd" else 10.0) * slower
            axes = {**own[name].axes, "size": n}
            found.append(dataclasses.replace(own[name], axes=axes, case=str(n), samples_ns=[[time_ns] * 8]))
    return found


def losses(cells):
    return found("losses", cells, **OPTIONS)


LEVEL = dict.fromkeys([*WHOLE, *RAGGED], 20.0)


def test_drift_between_sizes_is_no_loss():
    """A machine that is twice as slow at every other size slows both contenders."""
    drifting = swept_sizes.sweeps(sweep_of(LEVEL, drift=(1.0, 2.0, 1.5)), OPTIONS)["cpu-simd", ""]
    assert drifting.points == [(515, pytest.approx(0)), (530, pytest.approx(0))]
    assert drifting.noise == pytest.approx(0)
    assert drifting.beside == "cpu-numpy"


def test_whole_tiles_lose_nothing_for_not_fitting_but_show_the_noise():
    rates = {**LEVEL, 512: 10.0}
    own = swept_sizes.sweeps(sweep_of(rates), OPTIONS)["cpu-simd", ""]
    assert [n for n, _ in own.points] == [*RAGGED]
    assert own.noise == pytest.approx(50)
    assert "differ by 50 %" in losses(sweep_of({**rates, 530: 14.0})).plain
    within = losses(sweep_of({**LEVEL, 512: 16.0, 530: 17.0}))
    assert (numbers(within.values), within.values[0].place) == ([20.0], ""), "no more than the noise"


def test_a_loss_beyond_what_whole_tiles_differ_by_is_named():
    rates = {**LEVEL, 512: 19.6, 530: 15.0, 515: 19.0}
    worst = losses(sweep_of(rates))
    assert (numbers(worst.values), worst.values[0].place) == ([25.0], "size 530")
    assert worst.note.startswith(
        "In the median cpu-simd loses 15.0 %; whole tiles differ by 2 %; speeds are over cpu-nu"
    )
    assert ragged_sizes.beyond_noise(sweep_of(rates), OPTIONS)["cpu-simd", ""] == [
        (515, pytest.approx(5)),
        (530, pytest.approx(25)),
    ]
    gaining = {**LEVEL, 530: 40.0}
    assert losses(sweep_of(gaining)).note.endswith("; cpu-numpy loses at most 50 % (size 530)")


def test_what_the_machine_can_do_is_the_unit_if_it_was_timed_in_turns():
    rates = {**LEVEL, 530: 15.0}
    found = swept_sizes.sweeps(sweep_of(rates, peak=True), OPTIONS)
    assert {name: sweep.beside for name, sweep in found.items()} == {
        ("cpu-simd", ""): "peak",
        ("cpu-numpy", ""): "peak",
    }
    assert "speeds are over the peak" in losses(sweep_of(rates, peak=True)).note


def test_without_a_unit_or_without_noise_no_number_is_told():
    alone = [cell for cell in sweep_of(LEVEL) if cell.contender == "cpu-simd"]
    assert swept_sizes.sweeps(alone, OPTIONS) == {}
    assert losses(alone).plain.startswith("cpu-simd was measured alone: ")
    few = sweep_of({512: 20.0, 515: 10.0})
    assert math.isnan(swept_sizes.sweeps(few, OPTIONS)["cpu-simd", ""].noise)
    assert losses(few).plain.startswith("Too few whole tiles were measured ")
    assert ragged_sizes.beyond_noise(few, OPTIONS)["cpu-simd", ""] == []


def test_only_whole_tiles_nearby_count():
    far = sweep_of({512: 20.0, 512 + swept_sizes.WINDOW + 1: 10.0})
    assert swept_sizes.sweeps(far, OPTIONS) == {}
    assert swept_sizes.sweeps([], OPTIONS) == {}
