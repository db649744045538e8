"""Titles whose numbers are no ratios to the reference of their case are marked as undecided too."""

import dataclasses

import pytest

from harness.analysis import answers, caveats
from harness.analysis.findings import FINDINGS, JUDGED
from harness.experiment import load_all
from tests._support.planted_rank_cells import planted
from tests._support.synthetic import cells

EXPERIMENTS = load_all()


def shown(name, samples):
    """Return each figure of an experiment that says something, with its cells of so many samples."""
    own = [dataclasses.replace(c, samples_ns=[c.samples_ns[0][:samples]]) for c in cells(EXPERIMENTS[name])]
    for figure in EXPERIMENTS[name].figures:
        of = answers.shown(figure, name, own)
        if figure.options.get("finding") in JUDGED and answers.of_figure(figure, of):
            yield figure, of


@pytest.mark.parametrize("name", ["block_size", "roofline", "percent_of_peak", "intensity", "vs_peers"])
def test_two_samples_decide_nothing(name):
    found = list(shown(name, 2))
    assert found
    for figure, of in found:
        assert answers.of_figure(figure, of).endswith(" (undecided)")
        assert answers.doubt(figure, of) == " (undecided)", "so it is not published"
    for figure, of in shown(name, 8):
        assert "undecided" not in answers.of_figure(figure, of)


def test_a_share_that_is_surely_near_all_is_decided():
    """At the peak the question is not which of both is faster."""
    subject, peak = cells(EXPERIMENTS["percent_of_peak"])[:2]
    apart = (1.025, 1.025, 0.995, 0.995, 1.015, 1.015, 0.985, 0.985)
    times = [time * factor for time, factor in zip(peak.samples_ns[0], apart, strict=True)]
    level = dataclasses.replace(subject, samples_ns=[times])
    assert caveats.without_verdict([(level, peak)]).undecided == 1
    assert caveats.of_shares([(level, peak)]) == (0, 0, 1, 0)


def test_a_share_of_what_was_not_measured_in_turns_needs_samples_for_an_interval():
    cell, other = cells(EXPERIMENTS["roofline"])[0], cells(EXPERIMENTS["ladder"])[0]
    few = dataclasses.replace(cell, samples_ns=[cell.samples_ns[0][:5]])
    assert caveats.of_shares([(few, None), (few, other), (cell, None)]) == (2, 2, 3, 5)
    assert caveats.of_shares([]) == (0, 0, 0, 0)


@pytest.mark.parametrize("samples", [2, 6])
def test_shares_of_a_call_on_ranks_need_samples_for_an_interval(samples):
    own = [
        dataclasses.replace(c, samples_ns=[[*c.samples_ns[0][:1]] * samples]) if c.is_ok else c
        for c in planted(EXPERIMENTS["dist_breakdown"])
    ]
    figure = EXPERIMENTS["dist_breakdown"].figures[0]
    title = answers.of_figure(figure, answers.shown(figure, "dist_breakdown", own))
    assert "of a warm call computing" in title
    assert title.endswith(" (undecided)") == (samples == 2)


def test_every_judged_finding_is_one():
    assert JUDGED.keys() <= FINDINGS.keys()
