"""What a release says of itself agrees: its version, its licence and what it is, wherever they stand."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from harness.machine import VERSION

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def cited(field: str) -> str:
    """Return a field of the citation that stands in one line."""
    (value,) = re.findall(rf"^{field}: (.+)$", CITATION, re.MULTILINE)
    return value.strip('"')


def test_every_file_has_one_version():
    assert cited("version") == PROJECT["version"] == VERSION
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert changes[0] == VERSION


def test_the_citation_says_what_the_package_says():
    assert cited("cff-version") == "1.2.0"
    assert (cited("license"), cited("abstract")) == (PROJECT["license"], PROJECT["description"])
    assert re.findall(r"^  - (?!name)(.+)$", CITATION, re.MULTILINE) == PROJECT["keywords"]
    assert re.findall(r'^  - name: "(.+)"$', CITATION, re.MULTILINE) == [x["name"] for x in PROJECT["authors"]]


def test_the_source_distribution_has_the_changes_and_the_citation():
    assert {"CHANGELOG.md", "CITATION.cff"} <= set((ROOT / "MANIFEST.in").read_text(encoding="utf-8").split())
