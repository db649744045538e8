from __future__ import annotations

import pytest

from harness.analysis import rates, rivals
from harness.errors import ExperimentError
from harness.experiment import Budget, Case, Contender, Experiment, backend_contender, product_case
from harness.problem import Problem
from tests._support import synthetic

HOT = product_case(Problem(64, 64, 64), [backend_contender("cpu-numpy"), backend_contender("cpu-tiled")])


def test_hot_is_what_is_not_said_and_cold_stands_on_an_axis():
    assert (HOT.series, HOT.cold().series) == ("hot", "cold")
    assert "series" not in HOT.axes, "what was stored before there were series stays where it is"
    assert HOT.cold().axes == {**HOT.axes, "series": "cold"}
    assert HOT.cold().cold() == HOT.cold()


def test_the_two_series_share_no_key_and_no_name():
    cold = HOT.cold()
    assert cold.key != HOT.key
    assert not {c.label for c in cold.contenders} & {c.label for c in HOT.contenders}
    assert cold.reference == "cpu-numpy (cold)"
    assert cold.arguments == HOT.arguments
    assert [c.arguments for c in cold.contenders] == [c.arguments for c in HOT.contenders]


def test_a_series_that_there_is_not_is_refused():
    with pytest.raises(ExperimentError, match="series"):
        Case({"series": "lukewarm"}, (Contender("a"),))


def test_nothing_that_compares_cells_joins_the_two_series():
    both = Experiment("both", "?", lambda preset, machine: [HOT, HOT.cold()], (), {"quick": Budget()})
    cells = synthetic.cells(both)
    assert len(cells) == 4
    for cell in cells:
        series = cell.axes.get("series", "hot")
        for other in (rates.reference_of(cell, cells), rivals.fastest_other(cell, cells)):
            assert other is not None
            assert other.axes.get("series", "hot") == series
    by_case = rates.group(cells, lambda cell: (cell.experiment, cell.run, cell.case))
    assert [len(own) for own in by_case.values()] == [2, 2]
    lines = rates.group(cells, lambda cell: cell.contender)
    assert all(len({cell.axes.get("series") for cell in own}) == 1 for own in lines.values()), "a line of a figure"
