"""A program with a package called `backends` or `experiments` of its own is told that it hides the harness's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests._support.processes import ROOT, python

PRODUCT = "import numpy as np; from harness import gemm; gemm(np.eye(3), np.eye(3))"
LIST = "from harness.catalogue import load_all; load_all()"


@pytest.mark.parametrize(
    "name", ["backends/__init__.py", "backends.py", "experiments/__init__.py", "backends/__init__.py of a list"]
)
def test_a_module_of_the_program_that_hides_one_of_the_harness_is_named(name: str, tmp_path: Path) -> None:
    name, _, is_list = name.partition(" of ")
    hiding = tmp_path / name
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text("")
    package = name.partition("/")[0].removesuffix(".py")
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; "
    program += PRODUCT if package == "backends" and not is_list else LIST
    done = python("-c", program, status=1)
    message = done.stderr[done.stderr.rindex("another module called") :]
    assert message.splitlines()[:3] == [
        f"another module called '{package}' hides that of the harness",
        f"  expected  {ROOT / package}",
        f"  got       {hiding}",
    ]
    assert "rename it" in message


def test_folders_of_the_user_hide_nothing_from_the_command_line(tmp_path: Path) -> None:
    for name in ("backends", "experiments"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    places = ["--results", "r", "--figures", "f", "--allow-dirty"]
    command = ["-m", "harness", "run", "ladder", "--preset", "smoke", "--only", "cpu-naive", *places]
    done = python(*command, cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert f"{tmp_path / 'backends'} is another folder than that of the harness" in done.stderr
    assert "entry point of the group gemm_harness.backends" in done.stderr
    assert re.search(r"^results go to r/\S+/smoke$", done.stderr, re.MULTILINE)
