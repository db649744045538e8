"""What a user is told while experiments are measured: what is left, and which figures are there already."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.catalogue import load_all
from harness.cli import options
from harness.cli import progress as module
from harness.cli.experiments import _Drawing
from harness.cli.progress import PRIOR_S, Progress
from harness.experiment import Case, Contender
from tests._support.synthetic import MACHINE, cells

CASE = Case({"n": 8}, (Contender("a"), Contender("b")))


@pytest.fixture
def shown(monkeypatch):
    """Return a progress on a clock of its own, the text that it has printed, and what moves the clock on."""
    now, text = [0.0], io.StringIO()
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def on(seconds: float) -> None:
        now[0] += seconds

    asked: list[str] = []

    def draw(name: str) -> str:
        asked.append(name)
        return f"figure of {name}" if len(asked) > 1 else ""

    return Progress(Console(file=text), draw=draw), text, on, asked


def case(progress: Progress, expected_s: float, *, was_recorded: bool = False) -> None:
    progress.case_done("x", CASE, was_recorded=was_recorded, seconds=expected_s)


def test_the_first_case_hardly_changes_what_was_expected_and_many_do(shown):
    progress, text, on, asked = shown
    asked.append("before")  # so that the first case has a figure, and no further line is printed later
    progress.run_started("run", is_resumed=False, cases=100, seconds=1000.0)
    progress.experiment_started("x", 100)
    on(40.0)  # it compiles: four times as long as expected
    case(progress, 10.0)
    expected = (PRIOR_S + 40) / (PRIOR_S + 10) * 990
    assert f"x: 1/100 cases in 0:40, about {module.clock(expected)} left" in text.getvalue()
    assert expected < 1.2 * 990
    for _ in range(48):
        on(5.0)
        case(progress, 10.0)
    told = f"x: 49/100 cases in 4:40, about {module.clock((PRIOR_S + 280) / (PRIOR_S + 490) * 510)} left"
    assert text.getvalue().splitlines()[-1] == told
    assert (PRIOR_S + 280) / (PRIOR_S + 490) * 510 < 0.75 * 510, "they take half as long as expected"


def test_cases_that_were_recorded_before_say_nothing_of_the_pace(shown):
    progress, text, on, asked = shown
    progress.run_started("run", is_resumed=True, cases=3, seconds=300.0)
    progress.experiment_started("x", 3)
    case(progress, 100.0, was_recorded=True)
    progress.experiment_done("x")
    assert asked == [], "its figures were drawn when it was measured"
    on(100.0)
    case(progress, 100.0)
    assert "about 1:40 left" in text.getvalue()


def test_figures_come_with_the_first_case_that_has_one_and_then_with_each_experiment(shown):
    progress, text, _, asked = shown
    progress.run_started("run", is_resumed=False, cases=4, seconds=4.0)
    progress.experiment_started("x", 4)
    for _ in range(4):
        case(progress, 1.0)
    assert asked == ["x", "x"], "no figure of a peak, one of the first product; those of the others come in the end"
    progress.experiment_done("x")
    assert asked == ["x"] * 3
    assert text.getvalue() == "x: 4 cases\nfigure of x\nfigure of x\n"


def test_a_figure_that_cannot_be_drawn_is_no_end_of_the_run(tmp_path):
    assert "could not be drawn" in _Drawing("smoke", tmp_path, tmp_path).draw("ladder")
    assert _Drawing("smoke", tmp_path, tmp_path).draw("ablation") == "", "no report shows it"


def test_prominent_figures_are_drawn_once_their_experiment_is_finished(tmp_path, monkeypatch):
    drawn = cells(load_all()["ladder"])
    monkeypatch.setattr(options, "recorded", lambda *_: iter([("here", drawn, MACHINE)]))
    told = _Drawing("quick", tmp_path / "results", tmp_path / "figures").draw("ladder")
    names = ("ladder.svg", "power_of_two.svg")
    assert told == "\n".join(f"figure   {tmp_path / 'figures' / 'here' / name}" for name in names)
    assert (tmp_path / "figures" / "here" / "ladder.svg").exists()
