"""gpu-symv and gpu-rank-update, executed on the CPU: every edge of their tiles, and mistakes planted in them."""

import dataclasses
import itertools

import numpy as np
import pytest

from backends.gpu.matrix_vector.rank_update import RankUpdate
from backends.gpu.matrix_vector.symv import Symv
from harness import SEMIRINGS, Operands, Semiring
from harness.errors import PlanError, VerificationError
from harness.machine import detect
from harness.operands import lower_triangle
from harness.problem import Problem
from harness.proof.verify import verify
from tests.gpu.host_kernels import COMPILER, KernelFault
from tests.gpu.simt_products import contract_findings, use_the_cpu

pytestmark = [pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here"), pytest.mark.no_cover]

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


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    use_the_cpu(monkeypatch)


def compute(backend, *problems, **parameters):
    """Compute products and prove them right, with nothing above the diagonal of a triangle written.

    All are prepared first, so that their kernels are compiled together.
    """
    prepared = []
    for problem in problems:
        operands = Operands.generate(problem, sum((problem.m, problem.n, problem.k)))
        prepared.append(
            (problem, operands, backend.prepare(backend.plan(problem, detect()).override(parameters), operands))
        )
    for problem, operands, execution in prepared:
        execution.run()
        produced = execution.result()
        if problem.triangle == "d":
            above = produced[~lower_triangle(problem.m)]
            if above.tobytes() != b"\xff" * above.nbytes:
                raise VerificationError("the output was written above the diagonal")
        verify(problem, operands, produced, seed=1)


def semiring_of(name):
    return SEMIRINGS.get(name) or Semiring.of(*name.split("_"))


def symmetric(size, semiring="plus_times", dtype="float32", layout="CCC", **options):
    return Problem(
        size, 1, size, semiring_of(semiring), np.dtype(dtype), triangle="a", layout=layout, **options
    )  # fmt: skip


def update(m, n, k, semiring="plus_times", dtype="float32", **options):
    return Problem(m, n, k, semiring_of(semiring), np.dtype(dtype), **options)


@pytest.mark.parametrize("layout", ("CCC", "FCC", "ACA"))
@pytest.mark.parametrize(("semiring", "dtype", "options"), KINDS)
def test_symmetric_matrices_times_vectors_are_right(semiring, dtype, options, layout):
    compute(Symv(), *(symmetric(size, semiring, dtype, layout, **options) for size in (1, 31, 64, 100, 129)))


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


@pytest.mark.parametrize("k", (0, 1, 3, 16))
@pytest.mark.parametrize(("semiring", "dtype", "options"), KINDS)
def test_updates_are_right(semiring, dtype, options, k):
    sizes = ((1, 1), (1, 1027), (70, 1), (3, 300), (131, 33), (65, 256), (40, 5))
    whole = [update(m, n, k, semiring, dtype, **options) for m, n in sizes]
    triangles = [update(size, size, k, semiring, dtype, triangle="d", **options) for size in (1, 77, 256)]
    compute(RankUpdate(), *whole, *triangles)


def test_a_long_column_is_computed_as_a_row():
    for k in (1, 2):
        compute(RankUpdate(), update(9000, 1, k, **SCALED))
        compute(RankUpdate(), update(9000, 1, k, "plus_first", accumulate=True))


@pytest.mark.parametrize(
    ("backend", "semiring", "dtype"),
    (
        (Symv(), "plus_times", "float64"),
        (Symv(), "min_plus", "float32"),
        (Symv(), "max_min", "int16"),
        (Symv(), "lor_land", "bool"),
        (RankUpdate(), "plus_times", "float32"),
        (RankUpdate(), "min_plus", "int32"),
        (RankUpdate(), "logaddexp_plus", "float64"),
        (RankUpdate(), "lxor_land", "bool"),
    ),
)
def test_contract_holds_on_the_cpu(backend, semiring, dtype):
    found = contract_findings(backend, SEMIRINGS[semiring], np.dtype(dtype))
    assert not [finding for finding in found if finding.status == "failed"]
    assert any(finding.status == "ok" for finding in found)


def test_others_are_declined():
    assert Symv().refuses(symmetric(9)) is None
    assert "triangle='a'" in Symv().refuses(dataclasses.replace(symmetric(9), n=2))
    assert "at most 16" in RankUpdate().refuses(update(9, 9, 17))
    assert RankUpdate().refuses(symmetric(9))


PLANTED_IN_SYMV = {
    "the diagonal counted twice": ("IS_INNER || column != i + r", "true"),
    "the diagonal left out": ("j <= i && i < n", "j < i && i < n"),
    "a row past the end": ("row + HEIGHT <= n && j + SIDE <= n);", "true);"),
    "sums by columns of the last rows lost": ("/ HEIGHT + 1 - height;", "/ HEIGHT - height;"),
    "the last strip lost": ("/ STRIP + 1 - strip;", "/ STRIP - strip;"),
    "the last tile of a strip lost": ("j < end; j += SIDE", "j + SIDE < end; j += SIDE"),
    "a tile for the whole strip": ("of_strip = ADD(of_strip, rows[0])", "of_strip = rows[0]"),
    "a row sum lost": ("half >= 1;", "half > 1;"),
    "rows of lanes exchanged": ("is_upper ? rows[r] : rows[r + half]", "is_upper ? rows[r + half] : rows[r]"),
    "a warp lost": ("for (int w = 1; w < WARPS; ++w)", "for (int w = 2; w < WARPS; ++w)"),
    "the mirrored sums of other rows": ("(row / HEIGHT) * width + j", "(j / HEIGHT) * width + j"),
    "sums read before all are there": ("__syncthreads();\n        for (int q", "for (int q"),
    "x of another warp's rows": ("of_x + warp * ROWS", "of_x"),
    "x of other columns": ("HEIGHT + j - left", "HEIGHT"),
    "x read before all is there": ("            __syncthreads();\n        }", "        }"),
    "columns of a lane": ("(v / WIDTH * 32 + lane) * WIDTH", "(v / WIDTH * 31 + lane) * WIDTH"),
}
PLANTED_IN_UPDATES = {
    "a row past the end is read": ("min(i, m - 1)", "i"),
    "a row past the end": ("i < m ? end_of_row(i, n) : 0", "end_of_row(i, n)"),
    "a run past the end": ("if (j + RUN <= end) write_once", "if (j < end) write_once"),
    "a turn lost": ("turn < TURNS", "turn < TURNS - 1"),
    "a step lost": (
        "p < DEPTH; ++p) {\n                        const T one",
        "p < DEPTH - 1; ++p) {\n                        const T one",
    ),
    "the first element alone": ("from[(long long)v * wide_column]", "from[0]"),
    "rows of another thread": ("turn * DOWN * LINES + y", "turn * DOWN * HIGH"),
}


@pytest.mark.parametrize("edit", PLANTED_IN_SYMV.values(), ids=PLANTED_IN_SYMV)
def test_planted_mistake_in_symv_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute(Symv(), symmetric(301), side=64, warps=8, rows=8, tiles=2)


@pytest.mark.parametrize("edit", PLANTED_IN_UPDATES.values(), ids=PLANTED_IN_UPDATES)
def test_planted_mistake_in_updates_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    assert any(_is_found(*case) for case in UPDATES)


# With rows that one load does not fit, with runs across the diagonal, and with a column that is computed as a row.
UPDATES = (
    (update(67, 42, 3, accumulate=True), {"across": 16, "rows": 2, "turns": 2}),
    (update(68, 68, 3, triangle="d"), {}),
    (update(68, 1, 2), {}),
)


def _is_found(problem, parameters):
    try:
        compute(RankUpdate(), problem, **parameters)
    except (VerificationError, KernelFault):
        return True
    return False
