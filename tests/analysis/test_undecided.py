"""Titles whose numbers are no ratios to the reference of their case are marked as undecided too."""

import dataclasses

import pytest

from harness.analysis import answers, caveats
from harness.catalogue import load_all
from tests._support.synthetic import cells

EXPERIMENTS = load_all()


def shown(name, samples):
    """Return each figure of an experiment that says something, with its cells of so many samples."""
    own = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:samples]]) for c in cells(EXPERIMENTS[name])]
    for figure in EXPERIMENTS[name].figures:
        of = answers.shown(figure, name, own)
        found = answers.finding(figure, of)
        if found and found.judged:
            yield figure, of


@pytest.mark.parametrize("name", ["block_size", "roofline", "percent_of_peak", "intensity", "vs_peers"])
def test_two_samples_decide_nothing(name):
    found = list(shown(name, 2))
    assert found
    for figure, of in found:
        assert answers.of_figure(figure, of).endswith(": nothing is decided")
        assert caveats.is_unsettled(answers.of_figure(figure, of)), "no report tells it as found"
        assert answers.doubt(figure, of) == " (undecided)", "so it is not published"
    for figure, of in shown(name, 8):
        assert "undecided" not in answers.of_figure(figure, of)


# Of a spread about 1, by sample.
APART = (1.025, 1.025, 0.995, 0.995, 1.015, 1.015, 0.985, 0.985)


@pytest.mark.parametrize("name", ["percent_of_peak", "vs_peers"])
@pytest.mark.parametrize(
    ("processes", "spread", "is_decided"),
    [
        ((1.0,), 1, True),  # an interval of 0.97 to 1.03
        ((1.0,), 2, True),  # of 0.94 to 1.06: what processes differ by is not in it
        ((1.0,), 4, False),  # of 0.89 to 1.12
        ((0.985, 1.0, 1.015), 1, True),  # of 0.96 to 1.04
        ((0.97, 1.0, 1.03), 1, False),  # of 0.93 to 1.08
        ((0.9,), 1, True),  # it differs: that is a verdict too
    ],
)
def test_a_ratio_that_is_surely_near_one_is_decided(name, processes, spread, is_decided):
    """At the peak, or where two are level, it is known that neither is ahead by much."""
    cell, other = cells(EXPERIMENTS[name])[:2]
    times = [[1e6 * mean * (1 + spread * (factor - 1.005)) for factor in APART] for mean in processes]
    own = dataclasses.replace(cell, samples_ns=times)
    reference = dataclasses.replace(other, samples_ns=[[1e6] * len(APART)] * len(processes))
    assert caveats.of_shares([(own, reference)]) == caveats.without_verdict([(own, reference)])
    assert caveats.without_verdict([(own, reference)]).undecided == (not is_decided)


def test_a_share_of_what_was_not_measured_in_turns_needs_samples_for_an_interval():
    cell, other = cells(EXPERIMENTS["roofline"])[0], cells(EXPERIMENTS["ladder"])[0]
    few = dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:5]])
    assert caveats.of_shares([(few, None), (few, other), (cell, None)]) == (2, 2, 3, 5, 0)
    assert caveats.of_shares([]) == (0, 0, 0, 0, 0)


def disturbed(cell, **readings):
    return dataclasses.replace(cell, record={**cell.record, "readings": {**readings}})


def test_a_finding_of_times_that_were_mostly_disturbed_is_not_told():
    """Whether a size costs more than others is no ratio of times taken in turns, so no verdict takes noise out."""
    experiment = EXPERIMENTS["mv_sizes"]
    figure, own = experiment.figures[0], cells(experiment)
    share = {"cpu_share": [[1.0, 0.5, 1.0]]}
    quiet = answers.of_figure(figure, answers.shown(figure, "mv_sizes", own))
    assert quiet
    assert "decided" not in quiet
    noisy = [disturbed(cell, **share) for cell in own]
    told = answers.of_figure(figure, answers.shown(figure, "mv_sizes", noisy))
    count = sum(cell.is_ok and cell.contender == "cpu-simd" for cell in answers.shown(figure, "mv_sizes", own).cells)
    assert told == f"{count} of {count} times were disturbed: nothing is decided"
    limited = [disturbed(cell, power_capped=[[1.0, 1.0, 1.0]]) for cell in own]
    assert answers.of_figure(figure, answers.shown(figure, "mv_sizes", limited)) == quiet, (
        "it is the device's own limit"
    )
    few = [disturbed(cell, **share) if place % 5 == 0 else cell for place, cell in enumerate(own)]
    assert "nothing is decided" not in answers.of_figure(figure, answers.shown(figure, "mv_sizes", few))


def test_disturbed_ratios_that_have_a_verdict_are_told():
    experiment = EXPERIMENTS["vs_peers"]
    figure, own = experiment.figures[0], cells(experiment)
    noisy = [disturbed(cell, cpu_share=[[0.5] * 9]) for cell in own]
    told = [answers.of_figure(figure, answers.shown(figure, "vs_peers", some)) for some in (own, noisy)]
    assert told[0]
    assert told[0] == told[1], "a sample that was disturbed widens the interval of the ratio"
