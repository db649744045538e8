"""Row panels of gpu-tuned, executed on a CPU: tall, narrow products of every kind of semiring."""

import dataclasses

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._cuda import device
from harness.errors import PlanError, VerificationError
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import MEASURED
from harness.tuning.gpu import rungs, stored
from tests._support.gapped_operands import with_gap
from tests.gpu import panel_products
from tests.gpu.host_kernels import COMPILER, KernelFault
from tests.gpu.panel_products import KINDS, check_compiled, plan_of, program, turn_b
from tests.gpu.simt_products import use_the_cpu
from tests.gpu.test_kernels_compile import needs_nvrtc

# Two rows of a thread, all columns, four warps that share k.
PANELS = {"bm": 64, "bn": 8, "bk": 1, "wm": 0, "wn": 0, "tm": 2, "tn": 8, "stages": 1, "panels": 4, "blocks": 1}
# m x n x k: less than a panel, whole ones, more of them than blocks; rows of A of granules (an odd and an even number),
# of units of 2, and of any length; fewer terms than warps; fewer columns than the tile has.
SIZES = ((1, 1, 1), (64, 8, 20), (130, 5, 16), (200, 7, 33), (70, 8, 34), (129, 3, 3), (65, 6, 40))

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")


def compute(semiring, dtype, *sizes, change=lambda operands: None, accumulate=False, **options):
    of_panels = {**PANELS, **options}
    panel_products.compute(of_panels, semiring, dtype, *sizes, change=change, accumulate=accumulate)


@needs_compiler
@pytest.mark.no_cover
class TestOnTheCpu:
    @pytest.fixture(autouse=True)
    def _on_the_cpu(self, monkeypatch):
        use_the_cpu(monkeypatch)
        monkeypatch.setattr(device, "planned", lambda: dataclasses.replace(MEASURED, multiprocessors=2))

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
        "edit",
        [
            ("for (int p = begin; p < end;", "for (int p = begin; p + 1 < end;"),
            ("number += gridDim.x", "number += gridDim.x + 1"),
            ("for (int s = 1; s < SLICES; ++s)", "for (int s = 2; s < SLICES; ++s)"),
            ("begin = slice * each", "begin = 0"),
            ("min(k, begin + each)", "begin + each"),
            ("if (column >= across) column -= across, ++row;", "if (column >= across) column -= across;"),
            ("(size_t)a / sizeof(T) % GRANULE", "0"),
        ],
    )
    def test_planted_mistakes_are_found(self, monkeypatch, edit):
        use_the_cpu(monkeypatch, edits=(edit,))
        with pytest.raises((VerificationError, KernelFault)):
            compute("plus_times", "float32", (135, 7, 34), (201, 7, 33), (400, 8, 40))


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


@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_kernels_of_chosen_panels_spill_nothing(semiring, dtype):
    for size in ((50_000, 12, 33), (50_000, 12, 300), (5000, 8, 40), (300_000, 5, 8)):
        check_compiled("row_panels", plan_of(size, semiring, dtype))


def test_tiles_that_were_tuned_here_leave_panels_alone(monkeypatch):
    monkeypatch.setattr(stored.tuning_stored, "values", lambda owner: {"32-bit fused": {"bm": 128, "bn": 128}})
    for m, n, is_tiled in ((1 << 19, 8, False), (2048, 2048, True)):
        of = Problem(m, n, 64, dtype=np.dtype(np.float32))
        launch, options = rungs.tuned_tiles(of, MEASURED, by_panels=True)
        changed = stored.with_stored(Plan(of, 1, None, options, launch), "sm_90", MEASURED)
        assert (changed.launch != launch) == is_tiled
