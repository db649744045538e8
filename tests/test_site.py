"""The documentation as a site: every page is in the table of contents, and the examples run. `make docs` builds it."""

import os
import re
import runpy
from pathlib import Path

import pytest

from harness.stats.verdict import judge
from tests._support import tracked

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))


def contents():
    """Return the pages that the tables of contents name, with their patterns resolved, relative to the repository."""
    entries = []
    for table in re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.DOTALL | re.MULTILINE):
        lines = [line for line in table.splitlines() if line and not line.startswith(":")]
        entries += [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
    pages = {entry: matching(os.path.normpath(f"docs/{entry}.md")) for entry in entries}
    assert not [entry for entry in entries if not pages[entry]], "entries without a page"
    return [page for entry in entries for page in pages[entry]]


def matching(pattern):
    """Return the pages that match a pattern below the repository; of reports, those that git holds."""
    if pattern.startswith(tracked.RESULTS):
        return tracked.names(pattern)
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


def test_every_page_is_in_the_table_of_contents_once():
    pages = {path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")} - {"docs/index.md"}
    pages |= {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    pages |= {*tracked.names("experiments/results/*/report.md")}
    listed = contents()
    assert not pages - set(listed), "add them to a table of contents in docs/index.md"
    assert not set(listed) - pages
    assert len(listed) == len(set(listed))


def test_the_home_of_the_site_is_a_page_and_no_list_of_all_others():
    text = (DOCS / "index.md").read_text()
    assert text.count("```{toctree}") == len(re.findall(r"^:hidden:$", text, re.MULTILINE))
    assert 10 < len(re.findall(r"\]\(\S+\.md\)", text)) < 30


def test_every_example_is_shown():
    shown = re.findall(r"^```\{literalinclude\} examples/(\S+)$", (DOCS / "examples.md").read_text(), re.MULTILINE)
    assert sorted(shown) == [path.name for path in EXAMPLES]
    assert len(shown) >= 6


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip(), "an example tells what came out"


def test_pictures_are_as_they_are_drawn():
    folder = DOCS / "pictures"
    drawn = runpy.run_path(str(folder / "draw.py"))["pictures"]()
    assert {path.name: path.read_text() for path in folder.glob("*.svg")} == drawn
    assert [name for name in drawn if f"(pictures/{name})" not in (DOCS / "first-hour.md").read_text()] == []


def test_each_question_of_the_first_hour_has_a_folded_answer():
    """A blank line after the summary and before the end, or GitHub shows the answer's Markdown as it stands."""
    page = (DOCS / "first-hour.md").read_text()
    folded = re.findall(
        r"^<details><summary>([^\n]+)</summary>\n\n(\S.*?)\n\n</details>$", page, re.DOTALL | re.MULTILINE
    )
    assert len(folded) >= 30
    assert len(folded) == page.count("<details>") == page.count("</details>")
    assert not [question for question, answer in folded if "<summary>" in answer]


def test_the_example_of_a_verdict_does_as_the_page_on_verdicts_says(capsys):
    """Several processes, pairs of samples, and a verdict on all cells together, which has a least effect."""
    names = runpy.run_path(str(DOCS / "examples/verdict.py"), run_name="__main__")
    assert min(comparison.processes for comparison in names["comparisons"]) >= 3
    verdicts = [verdict.name for verdict in judge(names["comparisons"])]
    assert re.findall(r": ([A-Z]+)$", capsys.readouterr().out, re.MULTILINE) == verdicts
