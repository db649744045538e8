"""Warp panels of gpu-tuned, executed on a CPU: tall, narrow products of every kind of semiring."""

import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._cuda import device
from harness.errors import PlanError
from harness.tuning.device import DEVICES, MEASURED
from harness.tuning.gpu import warp_panels
from tests._support.gapped_operands import with_gap
from tests.gpu.on_cpu import ON_CPU, check, check_resources, needs_nvrtc, together
from tests.gpu.panel_products import KINDS, RUNG, plan_of, problem, program, turn_b, two_multiprocessors

# Panels of 16 rows: two of a thread, four threads along a row of C; chunks of 16 steps, three stages, two warps.
PANELS = {"bm": 16, "bn": 20, "bk": 16, "wm": 0, "wn": 0, "tm": 2, "tn": 5, "stages": 3, "panels": 2, "lanes": 4}
# m x n x k: less than a panel, whole ones, several for each warp; rows of A of granules, of pairs, and of any length;
# chunks that are whole, or end within a granule; fewer columns than a panel has.
SIZES = ((1, 1, 1), (64, 20, 32), (130, 19, 36), (200, 20, 34), (131, 7, 33), (70, 20, 47), (90, 20, 3))


def compute(semiring, dtype, *sizes, change=lambda operands: None, accumulate=False, **options):
    problems = (problem(size, semiring, dtype, accumulate=accumulate) for size in sizes)
    together(*(check.begin(RUNG, each, change, **{**PANELS, **options}) for each in problems))


class TestOnTheCpu:
    pytestmark = ON_CPU

    @pytest.fixture(autouse=True)
    def _two_multiprocessors(self, monkeypatch):
        two_multiprocessors(monkeypatch)

    @pytest.mark.deep(but=3)
    @pytest.mark.parametrize(("semiring", "dtype"), KINDS)
    def test_products_are_right_wherever_rows_begin(self, semiring, dtype):
        compute(semiring, dtype, *SIZES)
        compute(semiring, dtype, (130, 19, 37), accumulate=True)

    def test_other_panels(self):
        eight = {"lanes": 8, "bm": 8, "tm": 2, "bn": 24, "tn": 3, "bk": 32, "stages": 2}
        compute("min_plus", "float32", (100, 23, 67), (100, 24, 64), **eight, panels=4)
        compute("plus_times", "float32", (200, 13, 45), lanes=1, bm=64, tm=2, bn=13, tn=13, panels=1)
        compute("plus_times", "float64", (70, 9, 29), lanes=2, bm=32, tm=2, bn=10, tn=5, bk=8)

    @pytest.mark.parametrize("gap", (1, 2, 3, 4, 8, 12, 101))
    def test_rows_of_a_may_have_gaps(self, monkeypatch, gap):
        for at_end in (False, True):
            monkeypatch.setattr(gpu_backend, "GpuOperands", with_gap(gap, at_end=at_end))
            for semiring, dtype in (("plus_times", "float32"), ("min_plus", "float64")):
                compute(semiring, dtype, (130, 17, 33), (100, 20, 20))

    def test_b_may_lie_by_columns(self):
        compute("plus_times", "float32", (130, 17, 33), (64, 20, 20), change=turn_b)


@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        ((99, 21, 40), {}),
        ((99, 20, 40), {"bm": 32}),
        ((99, 20, 40), {"bk": 20}),
        ((99, 20, 40), {"stages": 1}),
        ((99, 20, 40), {"panels": 17}),
        ((99, 20, 9000), {}),
    ],
)
def test_products_that_no_panels_compute_are_refused(size, parameters):
    with pytest.raises(PlanError):
        program(plan_of(size, "plus_times", "float32").override({**PANELS, **parameters}))


def test_tall_products_are_computed_so():
    for m, n, k in ((100_000, 13, 30), (15_000, 48, 400), (400_000, 20, 4), (2500, 33, 100)):
        plan = plan_of((m, n, k), "min_plus", "int64")
        assert plan.options["lanes"]
        assert plan.launch.bn - 8 < n <= plan.launch.bn
    for m, n, k in ((100_000, 49, 30), (100_000, 12, 30), (100_000, 20, 900), (5000, 20, 300), (100, 20, 30)):
        assert not plan_of((m, n, k), "min_plus", "int64").options.get("lanes")
    assert not plan_of((9000, 20, 30), "min_plus", "float32", layout="FCC").options.get("lanes")
    # over float32 tiles are as fast where they have just the columns of C, or much of a panel is empty, and for an odd,
    # long k unless columns are few
    for n, k, is_by_panels in (
        (16, 100, True), (16, 401, True), (20, 100, True), (32, 100, False), (24, 200, True), (24, 201, False),
        (26, 200, False), (30, 200, True), (19, 201, True), (45, 100, False), (45, 300, True),
    ):  # fmt: skip
        assert bool(plan_of((50_000, n, k), "plus_times", "float32").options.get("lanes")) == is_by_panels


def test_warps_finish_their_panels_together():
    for m in (2000, 40_000, 333_333):
        of = warp_panels.choose(problem((m, 20, 100), "min_plus", "int32"), MEASURED, is_fused=False)
        panels = -(-m // of.launch.bm)
        each = MEASURED.multiprocessors
        rounds = -(-panels // (of.warps * each))
        assert of.warps <= of.most_warps
        assert (of.warps - 1) * each * rounds < panels
        assert rounds == -(-panels // (of.most_warps * each))


@pytest.mark.parametrize("name", ("RTX 2080", "RTX 4090", "A100"))
def test_panels_fit_into_the_shared_memory_of_the_gpu(monkeypatch, name):
    limit = DEVICES[name].shared_memory
    monkeypatch.setattr(device, "planned", lambda: DEVICES[name])
    for size in ((100_000, 20, 300), (100_000, 48, 650), (5000, 7, 590), (20_000, 12, 600), (300_000, 3, 9)):
        for dtype in ("int64", "float32"):
            kernels = program(plan_of(size, "min_plus", dtype)).kernels()
            assert all(kernel.shared_bytes <= limit for kernel in kernels)


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_kernels_of_chosen_panels_spill_nothing(semiring, dtype):
    sizes = ((50_000, 20, 33), (50_000, 16, 301), (50_000, 40, 300), (5000, 13, 40), (300_000, 48, 8))
    plans = [plan for size in sizes if (plan := plan_of(size, semiring, dtype)).options.get("lanes")]
    for plan in plans[KINDS.index((semiring, dtype)) % 2 :: 2]:  # in turn
        check_resources(program(plan), stem="warp_panels")
