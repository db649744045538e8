"""A test that continuous integration skips for a reason that nobody has listed is an error there."""

from __future__ import annotations

import os

import pytest

from tests._support.processes import ROOT, python

FILE = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason={reason!r})
def test_is_skipped():
    pass
"""


@pytest.mark.parametrize(
    ("reason", "ci", "status"),
    [
        ("for no good reason", True, 1),
        ("for no good reason", False, 0),
        ("Skipped: gpu-tiled: CuPy is not installed", True, 0),
        ("cpu-mkl: package mkl is not installed: pip install mkl", True, 0),
    ],
)
def test_unlisted_skips_fail_the_session_of_ci_alone(tmp_path, reason, ci, status):
    (tmp_path / "test_planted.py").write_text(FILE.format(reason=reason))
    options = ["-q", "-p", "tests._support.skips", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tmp_path]
    own = {name: value for name, value in os.environ.items() if name != "CI"} | ({"CI": "true"} if ci else {})
    done = python("-m", "pytest", *options, tmp_path, status=status, env=own, PYTHONPATH=str(ROOT))
    assert ("test_is_skipped: " in done.stdout) == (status == 1)
