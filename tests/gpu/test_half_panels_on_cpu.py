"""Products of 16-bit elements by row panels of A, executed: the same .cu file, instructions emulated lane by lane."""

import math

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from harness.errors import PlanError
from harness.machine import detect
from harness.tuning.device import MEASURED
from harness.tuning.gpu import half_panels
from tests._support.gapped_operands import with_gap
from tests.gpu.half_products import RUNG, problem, program
from tests.gpu.host_kernels import HostOperands
from tests.gpu.on_cpu import ON_CPU, check, check_resources, needs_nvrtc
from tests.gpu.panel_products import turn_b

PANELS = {"unit": "panels", "bm": 32, "bn": 24, "bk": 16, "wm": 16, "wn": 24, "tm": 2, "tn": 6, "stages": 2,
          "slices": 1, "together": 1, "resident": 1, "shares": 1, "blocks": 2}  # fmt: skip
# m x n x k: rows of A and B that begin at multiples of 16, 4 and 2 bytes; the ends of panels, of k and of columns; more
# panels than stages of all warps; runs of less than a granule.
SIZES = ((1, 1, 1), (16, 24, 16), (17, 8, 24), (203, 24, 40), (150, 23, 30), (129, 7, 33), (3, 17, 5))


def compute(size, dtype="bfloat16", change=lambda operands: None, *, accumulate=False, alpha=None, **parameters):
    check(RUNG, problem(size, dtype, accumulate=accumulate, alpha=alpha), change, **{**PANELS, **parameters})


def shift(operands):
    """Have A and B begin a few elements further on."""
    for name, elements in (("a", 3), ("b", 5)):
        x = getattr(operands, name)
        room = np.full(elements + x.size, 7, x.dtype)
        room[elements:] = x.reshape(-1)
        object.__setattr__(operands, name, room[elements:].reshape(x.shape))


class TestOnTheCpu:
    pytestmark = ON_CPU

    @pytest.mark.parametrize("dtype", ("bfloat16", "float16"))
    def test_products_are_right_wherever_rows_begin(self, dtype):
        for number, size in enumerate(SIZES):
            compute(size, dtype, accumulate=number % 2 == 1, alpha=-1.5 if number > 2 else None)

    def test_operands_may_begin_anywhere(self):
        for k in (24, 30, 33, 21):
            compute((70, 20, k), change=shift)

    @pytest.mark.deep(but=3)
    @pytest.mark.parametrize("gap", (1, 2, 3, 8, 9, 16, 24, 101))
    def test_rows_of_a_may_have_gaps(self, monkeypatch, gap):
        for at_end in (False, True):
            monkeypatch.setattr(gpu_backend, "GpuOperands", with_gap(gap, at_end=at_end))
            for size in ((50, 20, 24), (70, 24, 33), (37, 9, 136)):
                compute(size)

    def test_b_may_lie_by_columns(self):
        for size in ((50, 24, 40), (37, 13, 29)):
            compute(size, accumulate=True, change=turn_b)

    def test_other_panels(self):
        for wide in (
            {"bm": 64, "wm": 32, "tm": 4},
            {"bm": 64, "bn": 40, "wn": 40, "tn": 10, "stages": 1},
            {"stages": 3},
        ):
            compute((140, 21, 35), **wide)

    def test_rows_of_c_leave_as_one_run(self, monkeypatch):
        monkeypatch.setattr(gpu_backend, "GpuOperands", Aligned)
        for size in ((203, 23, 35), (16, 17, 16), (150, 22, 40)):
            compute(size, alpha=-1.5)


class Aligned(HostOperands):
    """Operands that begin at a page."""

    at_end = False


def test_rows_of_c_leave_as_one_run_where_they_are_long_and_no_whole_granules():
    for columns, is_whole in ((8, "0"), (15, "0"), (20, "0"), (17, "1"), (23, "1")):
        (kernel,) = program(problem((203, columns, 35)), PANELS).kernels()
        assert dict(kernel.defines)["WHOLE_ROWS"] == is_whole


@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        ((99, 25, 40), {}),
        ((99, 24, 40), {"wn": 12, "tn": 3}),
        ((99, 24, 40), {"bm": 64, "wm": 64, "tm": 8}),
        ((99, 24, 40), {"shares": 2}),
        ((9999, 24, 9000), {}),
    ],
)
def test_products_that_no_panels_compute_are_refused(size, parameters):
    with pytest.raises(PlanError):
        program(problem(size), {**PANELS, **parameters})


def test_tall_products_are_computed_so():
    for size in ((230577, 7, 44), (40000, 20, 301), (30000, 24, 248), (1500, 3, 50)):
        plan = RUNG.plan(problem(size), detect())
        assert plan.options["unit"] == "panels"
        assert plan.launch.bn - 8 < size[1] <= plan.launch.bn
    for size, more in (((1000, 24, 248), {}), ((30000, 100, 248), {}), ((40000, 20, 301), {"layout": "FCC"})):
        assert RUNG.plan(problem(size, **more), detect()).options["unit"] != "panels"


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize("k", [33, 40, 42, 192], ids=["odd rows", "granules", "even rows", "rows alone"])
def test_kernels_of_all_panels_fit_their_multiprocessor(k):
    for columns in (8, 24, 40, 72):
        of = problem((50000, columns, k))
        found = half_panels.HalfPanels().fastest(of, MEASURED, math.inf)
        if found is None:  # tiles suit it
            assert columns > 56
            continue
        choice = found[1]
        options = {"unit": "panels", "slices": 1, "together": 1, "resident": choice.tile.blocks, "shares": 1}
        check_resources(program(of, {**vars(choice.tile.launch), **options}), choice.tile.blocks)


def test_triangles_are_refused():
    of = problem((24, 24, 64), triangle="d")
    with pytest.raises(PlanError, match="triangle"):
        program(of, PANELS)
