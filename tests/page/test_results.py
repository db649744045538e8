"""Results in a notebook draw themselves: a sentence, a figure and a table, without a network."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree as ET

import pytest

import harness
from harness.distributed.report import Report
from harness.errors import ExperimentError, StoreError

LADDER = "amd-epyc-2-cores"


@pytest.fixture(scope="module")
def ladder():
    """Return the ladder of one machine."""
    return harness.results("ladder", machine=LADDER)


def test_holds_the_cells_and_the_finding(ladder):
    assert "cpu-simd reaches" in ladder.finding
    assert {cell.experiment for cell in ladder.cells} == {"ladder"}
    assert {"cpu-naive", "cpu-simd"} <= {row.cell.contender for row in ladder.rows}


def test_draws_itself_without_a_network(ladder):
    bundle = ladder._repr_mimebundle_()
    assert bundle.keys() == {"text/plain", "text/html"}
    assert "http" not in bundle["text/html"]
    (picture,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])
    assert ET.fromstring(base64.b64decode(picture)).tag.endswith("svg")
    assert bundle["text/html"].count("<tr>") == 1 + len(ladder.rows)
    assert "cpu-simd" in bundle["text/plain"]
    assert ladder.finding in bundle["text/plain"]


def test_a_figure_is_asked_for_by_name():
    sweep = harness.results("size_sweep", machine=LADDER)
    assert "<svg" in sweep.figure("ragged_loss")
    with pytest.raises(ExperimentError, match="ragged_loss"):
        sweep.figure("ragged_los")


def test_without_a_machine_it_is_one_that_has_measured():
    assert harness.results("gpu_emulation").machine.gpu


def test_mistakes_are_told(tmp_path):
    with pytest.raises(ExperimentError, match="ladder"):
        harness.results("laddder")
    with pytest.raises(StoreError, match="no results of ladder"):
        harness.results("ladder", folder=tmp_path)
    with pytest.raises(StoreError, match=LADDER):
        harness.results("ladder", machine="elsewhere")


def test_a_report_of_ranks_is_a_table():
    report = Report("2x2x1", 4, 4, 100, 50.0, 0, 800, 800, 0.5, {"compute": 0.25})
    drawn = report._repr_html_()
    assert drawn.count("<tr>") == len(report.rows()) == len(str(report).splitlines())
    assert "<td>2.00</td>" in drawn
