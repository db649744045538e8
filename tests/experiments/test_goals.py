"""The tables of goals: rows that hold and miss, groups that fail, and products that are alone in a process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments._parts.cpu_goals import alone, calls, processes
from experiments._parts.goals import Row, print_goals
from harness.errors import VerificationError


def good():
    yield Row("fast", 1.0, 1.2)
    yield Row("slow", 1.0, 0.8)
    yield Row("short", 10, 9, at_most=True)
    yield Row("long", 10, 11, at_most=True)
    yield Row("shown alone", None, 0.1)


def broken():
    yield Row("before", None, 1.0)
    raise RuntimeError("no such library")


def test_rows_hold_or_miss(monkeypatch, capsys, tmp_path: Path):
    file = tmp_path / "rows.json"
    monkeypatch.setattr("sys.argv", ["goals", "good", "--json", str(file)])
    assert print_goals("goals", [good, broken]) == 0
    verdicts = [line.split("|")[4].strip() for line in capsys.readouterr().out.splitlines()[2:] if line]
    assert verdicts == ["holds", "**misses**", "holds", "**misses**", ""]
    assert [row["what"] for row in json.loads(file.read_text())] == ["fast", "slow", "short", "long", "shown alone"]


def test_a_group_that_fails_does_not_end_the_others(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["goals"])
    assert print_goals("goals", [broken, good]) == 1
    shown = capsys.readouterr()
    assert "no such library" in shown.err
    assert "| fast |" in shown.out


def test_a_group_that_is_not_there_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["goals", "best"])
    with pytest.raises(SystemExit):
        print_goals("goals", [good])
    assert "no group 'best': good" in capsys.readouterr().err


@pytest.mark.parametrize(
    "product",
    ("plus_times 9 float64 1", "min_plus 5x3x2 int32 1", "plus_times 4x3x3x3 float32 1", "plus_times 8 own float64 1",
     "numpy 7 float32 1", "numpy 3x4x5x6 float64 1", "plus_times 33 int8 1"),
)  # fmt: skip
def test_a_product_is_timed_alone(product, monkeypatch, capsys):
    monkeypatch.setattr(alone, "SECONDS", 0)
    monkeypatch.setattr(alone, "SAMPLE_S", 0)
    monkeypatch.setattr("sys.argv", ["alone", *product.split()])
    assert alone.main() == 0
    assert float(capsys.readouterr().out) > 0


def test_a_process_is_asked_for_it(monkeypatch):
    monkeypatch.setattr(processes, "ROUNDS", 1)
    assert processes._over("8 own", "float64", 1, ("numpy",)) > 0


def test_a_contender_that_computes_something_else_is_refused(monkeypatch):
    monkeypatch.setattr(calls, "SECONDS", 0)
    a = np.eye(5)
    assert set(calls.in_turns({"ours": lambda out: np.matmul(a, a, out=out)}, a)) == {"ours"}
    with pytest.raises(VerificationError):
        calls.in_turns({"ours": lambda out: np.matmul(a, 2 * a, out=out)}, a)
