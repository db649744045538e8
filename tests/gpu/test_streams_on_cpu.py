"""gpu-symv and gpu-rank-update, executed on the CPU: every edge of their tiles, and mistakes planted in them."""

import dataclasses
import itertools

import numpy as np
import pytest

from backends.gpu.matrix_vector.rank_update import RankUpdate
from backends.gpu.matrix_vector.symv import Symv
from harness import SEMIRINGS, Semiring
from harness.errors import PlanError
from harness.problem import Problem
from tests.gpu.on_cpu import ON_CPU, check, together, use_the_cpu

pytestmark = ON_CPU

SCALED = {"accumulate": True, "alpha": 3, "beta": 2}
KINDS = (
    ("plus_times", "float32", {}),
    ("min_plus", "float32", SCALED),
    ("plus_times", "float64", SCALED),
    ("min_plus", "int32", {}),
    ("plus_first", "int16", {"accumulate": True}),
    ("plus_second", "float64", {}),
    ("max_plus", "int8", SCALED),
)


def compute(backend, *problems, **parameters):
    """Compute products together and prove them right."""
    together(*(check.begin(backend, problem, **parameters) for problem in problems))


def semiring_of(name):
    return SEMIRINGS.get(name) or Semiring.of(*name.split("_"))


def symmetric(size, semiring="plus_times", dtype="float32", layout="CCC", **options):
    return Problem(size, 1, size, semiring_of(semiring), np.dtype(dtype), triangle="a", layout=layout, **options)


def update(m, n, k, semiring="plus_times", dtype="float32", **options):
    return Problem(m, n, k, semiring_of(semiring), np.dtype(dtype), **options)


@pytest.mark.deep(but=8)
@pytest.mark.parametrize("layout", ("CCC", "FCC", "ACA"))
@pytest.mark.parametrize(("semiring", "dtype", "options"), KINDS)
def test_symmetric_matrices_times_vectors_are_right(semiring, dtype, options, layout):
    compute(Symv(), *(symmetric(size, semiring, dtype, layout, **options) for size in (1, 31, 64, 100, 129)))


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("strip", (
    {"side": 128, "warps": 16, "rows": 8, "tiles": 1}, {"side": 128, "warps": 4, "rows": 32, "tiles": 2},
    {"side": 32, "warps": 32, "rows": 1, "tiles": 1}, {"side": 64, "warps": 2, "rows": 16, "tiles": 4},
    {"side": 32, "warps": 4, "rows": 4, "tiles": 16},
))  # fmt: skip
def test_strips_of_every_shape_are_right(strip):
    cases = itertools.product((128, 131, 260, 301), ("CCC", "FCC"))
    compute(Symv(), *(symmetric(size, layout=layout) for size, layout in cases), **strip)


def test_nothing_before_the_operands_is_touched(monkeypatch):
    use_the_cpu(monkeypatch, at_end=False)
    for layout in ("CCC", "FCC"):
        compute(Symv(), symmetric(101, layout=layout))
    compute(RankUpdate(), update(33, 41, 3, accumulate=True))


@pytest.mark.parametrize("strip", (
    {"side": 96}, {"warps": 0}, {"rows": 64}, {"warps": "2"}, {"tiles": 3}, {"resident": -1},
    {"side": 32, "warps": 16, "rows": 8, "tiles": 2},
))  # fmt: skip
def test_strips_that_warps_do_not_cut_are_refused(strip):
    with pytest.raises(PlanError, match="gpu-symv"):
        compute(Symv(), symmetric(64), **strip)
    with pytest.raises(PlanError, match="gpu-rank-update"):
        compute(RankUpdate(), update(5, 5, 1), rows=3)


@pytest.mark.deep(but=6)
@pytest.mark.parametrize(("semiring", "dtype", "options", "k"), [
    (*kind, k) for number, kind in enumerate(KINDS) for k in ((0, 3), (1, 16))[number % 2]
])  # fmt: skip
def test_updates_are_right(semiring, dtype, options, k):
    sizes = ((1, 1), (1, 1027), (70, 1), (3, 300), (131, 33), (65, 256), (40, 5))
    whole = [update(m, n, k, semiring, dtype, **options) for m, n in sizes]
    triangles = [update(size, size, k, semiring, dtype, triangle="d", **options) for size in (1, 77, 256)]
    compute(RankUpdate(), *whole, *triangles)


def test_a_long_column_is_computed_as_a_row():
    for k in (1, 2):
        compute(RankUpdate(), update(9000, 1, k, **SCALED))
        compute(RankUpdate(), update(9000, 1, k, "plus_first", accumulate=True))


def test_others_are_declined():
    assert Symv().refuses(symmetric(9)) is None
    assert "triangle='a'" in Symv().refuses(dataclasses.replace(symmetric(9), n=2))
    assert "at most 16" in RankUpdate().refuses(update(9, 9, 17))
    assert RankUpdate().refuses(symmetric(9))


def compute_updates():
    """Compute updates: of rows that one load does not fit, with runs across the diagonal, of a column as of a row."""
    compute(RankUpdate(), update(67, 42, 3, accumulate=True), across=16, rows=2, turns=2)
    compute(RankUpdate(), update(68, 68, 3, triangle="d"))
    compute(RankUpdate(), update(68, 1, 2))
