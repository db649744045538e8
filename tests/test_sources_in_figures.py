"""The page of the sources' figures: each row has our figure beside theirs, and the sentence of the store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.analysis import answers
from harness.catalogue import load_all
from harness.cli.options import recorded

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "sources-in-figures.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "the source shows" not in line]
FIGURE = re.compile(r"\[!\[([^\]]+)\]\(\.\./experiments/figures/([\w-]+)/(\w+)\.svg\)\]\(([^)]+)\)")
SAID = re.compile(r"<!-- finding (\w+) of ([\w-]+):begin --> (.+?)\. <!-- finding \1 of \2:end -->")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:42])
def test_every_row_has_a_figure_in_small_and_its_finding(row):
    theirs, ours, came_out = (cell.strip() for cell in row.strip("|").split(" | "))
    (alt, slug, figure, full), (said_of, said_where, _) = FIGURE.findall(ours)[0], SAID.findall(came_out)[0]
    assert theirs.endswith(".")
    assert alt
    assert (said_of, said_where) == (figure, slug)
    assert (ROOT / "docs" / full).exists()
    assert full.endswith(f"{slug}/{figure}.svg")


def test_every_sentence_is_that_of_the_store(stored_results):
    said = {(slug, figure): sentence for figure, slug, sentence in SAID.findall(PAGE)}
    assert len(said) == len(ROWS) > 20
    found = {
        (slug, figure): finding
        for slug, cells, _ in recorded(stored_results, None, sorted({slug for slug, _ in said}))
        for experiment in load_all().values()
        for figure, finding in answers.by_name(experiment, cells, answers.in_brief).items()
        if (slug, figure) in said
    }
    assert said == found
