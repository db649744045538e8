"""Results in a notebook draw themselves: a sentence, a figure and a table, without a network."""

from __future__ import annotations

import base64
import json
import re
import shutil
from xml.etree import ElementTree as ET

import pytest

import harness
from harness.distributed.report import Report
from harness.errors import ExperimentError, StoreError
from harness.machine import detect
from harness.store import places
from tests._support import tracked

LADDER, H200 = "intel-r-xeon-r-processor-family-6-model-167-2-cores", "intel-r-xeon-r-processor-16-cores-nvidia-h200"


@pytest.fixture(scope="module")
def ladder(stored_results):
    """Return the ladder of one machine."""
    return harness.results("ladder", machine=LADDER, folder=stored_results)


def test_holds_the_cells_and_the_finding(ladder):
    assert "cpu-simd reaches" in ladder.finding
    assert {cell.experiment for cell in ladder.cells} == {"ladder"}
    assert {"cpu-naive", "cpu-simd"} <= {row.cell.contender for row in ladder.rows}


@pytest.mark.skipif(not tracked.IS_HELD, reason="no git holds the project")
def test_a_test_that_reads_what_a_user_has_measured_or_writes_to_it_fails(stored_results):
    with pytest.raises(AssertionError, match="take it from the fixture stored_results"):
        harness.results("ladder", machine=LADDER)
    with pytest.raises(AssertionError, match="stored_results"):
        (places.PUBLISHED.results / LADDER / "report.md").read_text(encoding="utf-8")
    with pytest.raises(AssertionError, match="stored_results"):
        (places.OWN.results / "report.md").read_text(encoding="utf-8")
    with pytest.raises(AssertionError, match="stored_results"):
        (stored_results / LADDER / "report.md").open("a", encoding="utf-8")


def test_draws_itself_without_a_network(ladder):
    bundle = ladder._repr_mimebundle_()
    assert bundle.keys() == {"text/plain", "text/html"}
    assert "http" not in bundle["text/html"]
    (picture,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])
    assert ET.fromstring(base64.b64decode(picture)).tag.endswith("svg")
    assert bundle["text/html"].count("<tr>") == 1 + len(ladder.rows)
    assert "cpu-simd" in bundle["text/plain"]
    assert ladder.finding in bundle["text/plain"]


def test_a_figure_is_asked_for_by_name(stored_results):
    sweep = harness.results("size_sweep", machine=LADDER, folder=stored_results)
    assert "<svg" in sweep.figure("ragged_loss")
    with pytest.raises(ExperimentError, match="ragged_loss"):
        sweep.figure("ragged_los")


def test_without_a_machine_it_is_one_that_has_measured(tmp_path, stored_results):
    """Without a GPU this one records of its kernels that they are missing, as in a checkout after its experiments."""
    name, quick = "gpu_emulation.jsonl", f"{H200}/quick"
    machine, cell = (stored_results / quick / name).read_text(encoding="utf-8").splitlines()[:2]
    assert json.loads(cell)["status"] == "ok"
    mine = {**json.loads(cell), "run": "20200101T000000.000000Z", "time": "2020-01-01T00:00:00+00:00"}
    missing = {**mine, "status": "missing", "samples_ns": []}
    for of_this, is_mine in ((missing, False), (mine, True)):
        for folder, last in ((quick, cell), (f"{detect().slug}/smoke", json.dumps(of_this))):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(f"{machine}\n{last}\n", encoding="utf-8")
        (found,) = harness.results("gpu_emulation", folder=tmp_path).cells
        assert (found.run == mine["run"]) == is_mine


def test_ones_own_results_come_first_and_the_published_ones_stand_in_for_them(tmp_path, stored_results, monkeypatch):
    own = places.Place(tmp_path / "results", tmp_path / "figures")
    monkeypatch.setattr(places, "OWN", own)
    monkeypatch.setattr(places, "PUBLISHED", places.Place(stored_results, tmp_path))
    assert places.to_read() == stored_results
    published = harness.results("ladder")
    shutil.copytree(stored_results / LADDER / "quick", own.results / LADDER / "quick")
    assert places.to_read() == own.results
    assert harness.results("ladder").cells == harness.results("ladder", machine=LADDER, folder=own.results).cells
    assert (
        harness.results("ladder", machine=H200).machine
        == harness.results("ladder", folder=stored_results, machine=H200).machine
    )
    assert published.cells


def test_mistakes_are_told(tmp_path, stored_results):
    with pytest.raises(ExperimentError, match="ladder"):
        harness.results("laddder")
    with pytest.raises(StoreError, match="no results of ladder"):
        harness.results("ladder", folder=tmp_path)
    with pytest.raises(StoreError, match=LADDER):
        harness.results("ladder", machine="elsewhere", folder=stored_results)


def test_a_report_of_ranks_is_a_table():
    report = Report("2x2x1", 4, 4, 100, 50.0, 0, 800, 800, 0.5, {"compute": 0.25})
    drawn = report._repr_html_()
    assert drawn.count("<tr>") == len(report.rows()) == len(str(report).splitlines())
    assert "<td>2.00</td>" in drawn
