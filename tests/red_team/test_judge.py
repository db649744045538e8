"""``judge``: a stranger's file is proven and timed, and what it does is told by name."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from tests._support.processes import ROOT, python

FILE = """
    from tests.red_team import cheats


    class Honest(cheats.Honest):
        name = "their-honest"


    class Keeps(cheats.Digests):
        name = "their-keeper"
"""


def judge(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = folder / "their kernel.py"
    file.write_text(textwrap.dedent(text))
    return python("-m", "harness", "judge", file, *options, status=None, PYTHONPATH=str(ROOT))


def test_who_keeps_results_is_told_and_who_computes_is_timed(tmp_path: Path) -> None:
    answer = judge(tmp_path, FILE, "--size", "64")
    assert answer.returncode == 1, answer.stderr
    assert "their-keeper, n=64: it keeps results" in answer.stdout
    assert "their-honest, n=64" not in answer.stdout  # no reason without a time
    assert "their-honest  cpu-simd" in answer.stdout
    assert "not to be trusted" in answer.stderr


def test_a_file_that_is_not_there_is_told() -> None:
    answer = CliRunner().invoke(app, ["judge", "no such file.py"])
    assert "no such file" in str(answer.exception)


@pytest.mark.parametrize(("text", "says"), [("import no_such_module", "no_such_module"), ("x = 1", "no subclass")])
def test_a_file_without_a_backend_is_told(text: str, says: str, tmp_path: Path) -> None:
    answer = judge(tmp_path, text)
    assert answer.returncode == 2
    assert says in answer.stderr
