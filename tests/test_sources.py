"""The page of the sources is complete: each row has an answer, what it names exists, and no experiment is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import registry
from harness.catalogue import load_all

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
EXPERIMENTS = load_all()
OPTIONS = {
    "t",
    "z",
    "rows",
    "padded",
    "conditional",
    "redirected",
    "mirrored",
    "big-small",
    "inverses",
}  # that rows name beside experiments
LEFT_OUT = re.compile(r"^left out: \w+")


def rows() -> list[list[str]]:
    """Return the cells of every row of the tables."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "answered by" not in line]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_every_row_has_an_answer(row):
    said, answered_by, came_out = row
    assert said
    assert len(came_out) > 3
    names = set(re.findall(r"`([^`]+)`", answered_by))
    is_answered = names & set(EXPERIMENTS) or any(_is_file(name) for name in names)
    backends = {entry.name for entry in registry.discover()}
    assert is_answered or names & backends or LEFT_OUT.match(came_out), "no experiment, test or reason"


def test_every_file_and_backend_that_is_named_exists():
    names = set(re.findall(r"`([^`\s]+)`", PAGE))
    files = {name for name in names if "/" in name}
    assert files
    assert not [name for name in files if not _is_file(name)]
    backends = {entry.name for entry in registry.discover()}
    named = {name for name in names if re.fullmatch(r"(cpu|gpu|dist)-[a-z0-9-]+", name)}
    assert named - backends == set()


def test_every_experiment_that_is_named_exists():
    words = {word for _, answered_by, _ in rows() for word in re.findall(r"`([a-z_]+)`", answered_by)}
    figures = {figure.name for experiment in EXPERIMENTS.values() for figure in experiment.figures}
    assert words - set(EXPERIMENTS) - figures - OPTIONS == set()


def test_every_experiment_is_named():
    assert {name for name in EXPERIMENTS if f"`{name}`" not in PAGE} == set()


def _is_file(name: str) -> bool:
    return (ROOT / name).exists()
