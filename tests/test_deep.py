"""`make test` and `make test-deep` run each test once between them."""

from __future__ import annotations

import os
import re

import pytest

from tests._support.deep import ORDINARY, spread
from tests._support.processes import ROOT, python

FILE = """
import pytest

def test_ordinary():
    pass

@pytest.mark.deep
def test_deep():
    pass

@pytest.mark.deep(but=2)
@pytest.mark.parametrize("row", [pytest.param(i, marks=pytest.mark.gpu if i == 3 else ()) for i in range(5)])
def test_rows(row):
    pass

class TestOthers:
    @pytest.mark.deep(but=3)
    @pytest.mark.parametrize("row", "ab")
    def test_rows(self, row):
        pass
"""
KEPT = ["test_ordinary", "test_rows[0]", "test_rows[4]", "test_rows[a]", "test_rows[b]"]
LEFT = ["test_deep", "test_rows[1]", "test_rows[2]", "test_rows[3]"]


@pytest.mark.parametrize(
    ("expression", "names"), [(ORDINARY, KEPT), ("deep", LEFT), ("", [*KEPT, *LEFT]), ("gpu", ["test_rows[3]"])]
)
def test_rows_that_are_left_to_make_test_and_all_others_are_selected(expression, names, tmp_path):
    (tmp_path / "test_planted.py").write_text(FILE)
    options = ["-v", "-p", "tests._support.deep", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tmp_path]
    options += ["-W", "ignore::pytest.PytestUnknownMarkWarning", "-m", expression]
    said = python("-m", "pytest", *options, tmp_path, PYTHONPATH=str(ROOT)).stdout
    assert sorted(re.findall(r"::(\w+(?:\[\w+\])?) PASSED", said)) == sorted(names)
    assert ("make test-deep runs them" in said) == (expression == ORDINARY)


def test_make_selects_by_the_marker():
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f'ORDINARY := -m "{ORDINARY}"\n' in recipes
    assert re.search(r"^test:.*\n.*\n\t@\$\(PYTEST\) \$\(ORDINARY\) \$\(ARGS\)\n", recipes, re.MULTILINE)
    assert re.search(r"^test-deep:.*\n.*\n\t@\$\(PYTEST\) -m deep \$\(ARGS\)\n", recipes, re.MULTILINE)
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert ci.index("make test") < ci.index("make test-deep")


@pytest.mark.parametrize(
    ("count", "few", "places"),
    [(9, 1, [0]), (9, 3, [0, 4, 8]), (5, 4, [0, 1, 3, 4]), (2, 4, [0, 1]), (1, 1, [0])],
)
def test_rows_are_spread_evenly(count, few, places):
    assert spread(count, few) == places
