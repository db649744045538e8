"""Row panels of gpu-tuned, executed on a CPU: tall, narrow products of every kind of semiring."""

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from harness.errors import PlanError
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import MEASURED
from harness.tuning.gpu import rungs, stored
from tests._support.gapped_operands import with_gap
from tests.gpu.on_cpu import ON_CPU, check, check_resources, needs_nvrtc, together
from tests.gpu.panel_products import KINDS, RUNG, plan_of, problem, program, turn_b, two_multiprocessors

# Two rows of a thread, all columns, four warps that share k.
PANELS = {"bm": 64, "bn": 8, "bk": 1, "wm": 0, "wn": 0, "tm": 2, "tn": 8, "stages": 1, "panels": 4, "blocks": 1}
# m x n x k: less than a panel, whole ones, more of them than blocks; rows of A of granules (an odd and an even number),
# of units of 2, and of any length; fewer terms than warps; fewer columns than the tile has.
SIZES = ((1, 1, 1), (64, 8, 20), (130, 5, 16), (200, 7, 33), (70, 8, 34), (129, 3, 3), (65, 6, 40))


def compute(semiring, dtype, *sizes, change=lambda operands: None, accumulate=False, **options):
    problems = (problem(size, semiring, dtype, accumulate=accumulate) for size in sizes)
    together(*(check.begin(RUNG, each, change, **{**PANELS, **options}) for each in problems))


class TestOnTheCpu:
    pytestmark = ON_CPU

    @pytest.fixture(autouse=True)
    def _two_multiprocessors(self, monkeypatch):
        two_multiprocessors(monkeypatch)

    @pytest.mark.parametrize(("semiring", "dtype"), KINDS)
    def test_products_are_right_wherever_rows_begin(self, semiring, dtype):
        compute(semiring, dtype, *SIZES)
        compute(semiring, dtype, (130, 5, 17), accumulate=True)

    def test_other_panels(self):
        compute("plus_times", "float32", (150, 20, 29), bn=20, tn=20, panels=1)
        compute("min_plus", "float32", (150, 12, 29), bm=32, tm=1, bn=12, tn=12, panels=2)

    @pytest.mark.parametrize("gap", (1, 2, 3, 4, 8, 12, 101))
    def test_rows_of_a_may_have_gaps(self, monkeypatch, gap):
        for at_end in (False, True):
            monkeypatch.setattr(gpu_backend, "GpuOperands", with_gap(gap, at_end=at_end))
            for semiring, dtype in (("plus_times", "float32"), ("min_plus", "float64")):
                compute(semiring, dtype, (130, 7, 33), (200, 8, 20))

    def test_b_may_lie_by_columns(self):
        compute("plus_times", "float32", (130, 7, 33), (64, 8, 20), change=turn_b)


@pytest.mark.parametrize(
    ("size", "parameters"),
    [((99, 9, 40), {}), ((99, 8, 40), {"bm": 128}), ((99, 8, 40), {"bn": 6, "tn": 6}), ((99, 8, 9000), {})],
)
def test_products_that_no_panels_compute_are_refused(size, parameters):
    with pytest.raises(PlanError):
        program(plan_of(size, "plus_times", "float32").override({**PANELS, **parameters}))


def test_tall_products_are_computed_so():
    for size in ((100_000, 3, 30), (5000, 12, 600), (400_000, 1, 4)):
        plan = plan_of(size, "min_plus", "int64")
        assert plan.options["panels"]
        assert not plan.options["lanes"]
        assert plan.launch.bn - 4 < size[1] <= plan.launch.bn
    for size in ((100_000, 49, 30), (100_000, 3, 900), (100, 3, 30)):
        assert not plan_of(size, "min_plus", "float32").options.get("panels")
    assert not plan_of((9000, 3, 30), "min_plus", "float32", layout="FCC").options.get("panels")


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_kernels_of_chosen_panels_spill_nothing(semiring, dtype):
    sizes = ((50_000, 12, 33), (50_000, 12, 300), (5000, 8, 40), (300_000, 5, 8))
    for size in sizes[KINDS.index((semiring, dtype)) % 2 :: 2]:  # in turn
        check_resources(program(plan_of(size, semiring, dtype)), stem="row_panels")


def test_tiles_that_were_tuned_here_leave_panels_alone(monkeypatch):
    monkeypatch.setattr(stored.tuning_stored, "values", lambda owner: {"32-bit fused": {"bm": 128, "bn": 128}})
    for m, n, is_tiled in ((1 << 19, 8, False), (2048, 2048, True)):
        of = Problem(m, n, 64, dtype=np.dtype(np.float32))
        launch, options = rungs.tuned_tiles(of, MEASURED, by_panels=True)
        changed = stored.with_stored(Plan(of, 1, None, options, launch), lambda: "sm_90", MEASURED)
        assert (changed.launch != launch) == is_tiled
