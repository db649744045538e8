"""What is published can be believed: each figure says what it found, and most of its ratios have a verdict."""

from pathlib import Path

import pytest

from harness.analysis import answers
from harness.catalogue import load_all
from harness.cli.options import recorded
from tests._support import tracked

MOST_WITHOUT_VERDICT = 0.15
ONE = "amd-epyc-family-25-model-17-2-cores"


@pytest.mark.parametrize(
    ("machine", "least"),
    [pytest.param(ONE, 100, id="one"), pytest.param(None, 1000, id="all", marks=pytest.mark.deep)],
)
def test_published_figures_have_findings_for_titles_and_few_ratios_without_a_verdict(
    machine, least, stored_results, subtests
):
    ratios = undecided = 0
    for slug, cells, _ in recorded(stored_results, None, [machine] if machine else ()):
        published = {Path(name).stem for name in tracked.names(f"{tracked.FIGURES}/{slug}/*.svg")}
        own = [(figure, e.name) for e in load_all().values() for figure in e.figures if figure.name in published]
        assert {figure.name for figure, _ in own} == published
        for figure, experiment in own:
            of = answers.shown(figure, experiment, cells)
            found = answers.undecided(figure, of)
            ratios, undecided = ratios + found.ratios, undecided + found.undecided
            with subtests.test(f"{slug}/{figure.name}"):
                assert answers.of_figure(figure, of), "its title is no finding"
                assert found.undecided <= answers.MOST_UNDECIDED * found.ratios
    assert ratios > least
    assert undecided < MOST_WITHOUT_VERDICT * ratios
