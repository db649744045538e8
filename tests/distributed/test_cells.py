"""Products on ranks where the harness measures and proves them: in the processes of a run and of a check."""

from __future__ import annotations

import sys

import pytest

from harness.cli import main
from harness.experiment import Budget, Contender, Experiment, backend_contender, product_case
from harness.problem import Problem
from harness.proof import contract
from harness.run import runner
from harness.store.store import Store
from tests._support import planted_ranks, ranks

pytestmark = pytest.mark.mpi
TASK = "tests._support.planted_ranks:killed_while_timed"
OPTIONS = {"base": "cpu-numpy", "ranks": 2}


@pytest.fixture(autouse=True)
def _needs_mpi():
    ranks.need_mpi()


def test_a_killed_rank_fails_its_cell_and_the_next_cells_are_measured(tmp_path, monkeypatch):
    traces = ranks.Traces()
    for name, value in traces.variables.items():
        monkeypatch.setenv(name, value)
    good = backend_contender("dist-2d", threads=2, **OPTIONS)
    killed = Contender("killed", good.arguments, threads=2, task=TASK)
    cases = [product_case(Problem(24, 20, 16), [killed, good]), product_case(Problem(5, 6, 7), [good])]
    experiment = Experiment("planted", "Does it go on?", lambda *_: cases, (), {"smoke": Budget(2, 1.0, 0.1)})
    summary = runner.run([experiment], "smoke", tmp_path)
    cells = {(cell.axes["n"], cell.contender): cell for cell in Store(summary.folder).cells()}
    failed = cells.pop((20, "killed"))
    assert failed.status == "failed"
    assert "signal 9" in failed.record["reason"]
    assert failed.samples_ns == []
    assert set(cells) == {(20, "dist-2d"), (6, "dist-2d")}
    for cell in cells.values():
        assert cell.status == "ok", cell.record["reason"]
        assert cell.record["verified"]
    traces.eventually_none()


def test_a_check_ends_well_though_ranks_live_on(monkeypatch, capsys):
    monkeypatch.setattr(contract, "findings", planted_ranks.findings_of_one_kernel)  # each kernel is compiled on ranks
    monkeypatch.setattr(sys, "argv", ["gemm-harness", "check", "dist-2d", "--verbose"])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr().out
    assert not ended.value.code, printed
    assert "special values" in printed
