"""The matrix-vector kernels, executed: the same .cu files, by a C++ compiler and threads that take turns."""

import math

import numpy as np
import pytest

from harness import SEMIRINGS, Semiring
from harness.errors import PlanError
from harness.machine import detect
from harness.operands import Operands
from harness.problem import Problem
from harness.tuning.device import MEASURED
from harness.tuning.gpu.matrix_vector.columns import columns_launch
from harness.tuning.gpu.matrix_vector.costs import BLOCK, WIDEST, cost_s
from harness.tuning.gpu.matrix_vector.rows import MOST_SHORT, TILES, rows_launch, short_rows_launch
from tests.gpu.host_kernels import HostExecution
from tests.gpu.matrix_vector_windows import Windows, check_window, program_of
from tests.gpu.on_cpu import ON_CPU, RUNGS, check, check_all, with_options

pytestmark = ON_CPU

LADDER = tuple(f"gpu-mv-{name}" for name in ("thread", "cached", "reduce", "grid", "scatter", "tuned"))
TUNED = "gpu-mv-tuned"
SIDES = ("A x", "x A")


def product(side, count, k, semiring="plus_times", dtype="float32", **options):
    m, n = (count, 1) if side == "A x" else (1, count)
    named = SEMIRINGS.get(semiring) or Semiring.of(*semiring.split("_"))
    return Problem(m, n, k, named, np.dtype(dtype), **options)


def matrix_of(side):
    return "a" if side == "A x" else "b"


@pytest.mark.parametrize("name", LADDER)
@pytest.mark.parametrize("side", SIDES)
def test_windows_of_larger_matrices_are_taken_as_they_lie(name, side):
    for offset, gap, by_columns in ((1, 1, ""), (4, 4, ""), (3, 2, matrix_of(side)), (0, 0, matrix_of(side) + " out")):
        check_window(RUNGS[name], product(side, 37, 70, accumulate=True, alpha=3, beta=2), by_columns, offset, gap)


@pytest.mark.deep(but=5)
@pytest.mark.parametrize("dtype", ("float32", "float64", "int16", "int8"))
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("by_columns", (False, True))
def test_wide_loads_begin_anywhere(dtype, side, by_columns):
    """Each distance of the first element from a granule of 16 bytes, and each way in which lines follow each other."""
    widest = 16 // np.dtype(dtype).itemsize
    names = matrix_of(side) if by_columns else ""
    for offset in range(0, widest, max(1, widest // 4)):
        for gap in (0, 1, 2, widest // 2 + 1):
            check_window(RUNGS[TUNED], product(side, 2 * widest + 3, 35, dtype=dtype), names, offset, gap)


@pytest.mark.parametrize("name", LADDER)
@pytest.mark.parametrize("multiply", ("first", "second"))
def test_arguments_keep_their_sides(name, multiply):
    of_floats = [product(side, 5, 33, f"plus_{multiply}", "float64") for side in SIDES]
    of_integers = [product(side, 5, 33, f"max_{multiply}", "int32", alpha=3) for side in SIDES]
    check_all((RUNGS[name], problem) for problem in (*of_floats, *of_integers))


@pytest.mark.parametrize("name", LADDER)
def test_the_product_is_added_to_c_in_place(name):
    for side in SIDES:
        problem = product(side, 33, 20, accumulate=True)
        operands = Operands.generate(problem, 1)
        windows = Windows(operands, "", 0, 0)
        a, b, c = (windows.matrix(x) for x in "abc")
        rung = RUNGS[name]
        HostExecution(rung.program(rung.plan(problem, detect()), a, b, c, c), windows).run()
        expected = operands.a.astype(float) @ operands.b + operands.c
        np.testing.assert_allclose(windows.buffers["c"].reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("t", "z", "rows"), ((1, 64, 1), (64, 1, 2), (8, 8, 4), (32, 4, 8)))
def test_rows_by_threads_of_the_grid(t, z, rows):
    for side in SIDES:
        check(with_options("gpu-mv-grid", t=t, z=z, rows=rows), product(side, 77, 130, "min_plus"))


@pytest.mark.parametrize(
    ("name", "options"),
    (
        ("gpu-mv-thread", {"threads": 48}),
        ("gpu-mv-grid", {"t": 8, "z": 2}),
        ("gpu-mv-grid", {"t": 64, "z": 32}),
        (TUNED, {"group": 3}),
        (TUNED, {"shares": -1}),
        (TUNED, {"beside": "wide"}),
    ),
)
def test_illegal_options_are_refused(name, options):
    with pytest.raises(PlanError):
        check(with_options(name, **options), product("A x", 40, 40))


class TestShortRows:
    @pytest.mark.deep(but=3)
    @pytest.mark.parametrize("tile", (8, 40))
    @pytest.mark.parametrize("dtype", ("float32", "float64", "int16", "int8"))
    def test_tiles_begin_anywhere(self, tile, dtype):
        for k, offset in ((1, 0), (3, 1), (33, 0), (33, 3), (64, 5), (127, 1), (128, 2)):
            problem = product("A x", 3 + 40960 // k // 8, k, "min_plus", dtype, accumulate=k == 33)
            execution = check_window(with_options(TUNED, tile=tile), problem, "", offset, 0)
            assert [step.kernel.stem for step in execution.program.steps] == ["mv_short_rows"] or k == 1

    @pytest.mark.parametrize("semiring", ("plus_times", "logaddexp_plus", "plus_second"))
    def test_rows_are_columns_of_b_by_columns(self, semiring):
        check_window(with_options(TUNED, tile=8), product("x A", 301, 20, semiring, alpha=3), "b", 1, 0)

    def test_gaps_and_long_rows_are_not_for_it(self):
        for count, k, gap in ((300, 33, 1), (300, 129, 0)):
            execution = check_window(with_options(TUNED, tile=8), product("A x", count, k), "", 1, gap)
            assert [step.kernel.stem for step in execution.program.steps] == ["mv_rows"]


class TestShares:
    @pytest.mark.parametrize("side", SIDES)
    @pytest.mark.parametrize("semiring", ("min_plus", "plus_times", "logaddexp_plus"))
    def test_any_number_is_right_and_choice_has_the_same_bits(self, side, semiring):
        bits = set()
        for shares in (1, 2, 7):
            problem = product(side, 70, 701, semiring, accumulate=True)
            execution = check_window(with_options(TUNED, shares=shares), problem, "", 1, 3)
            bits.add(execution.result().tobytes())
            tickets = execution._buffers.get("tickets", np.zeros(1))
            assert not tickets.any()
            assert ("parts" in execution.program.scratch) == (shares > 1)
        assert len(bits) == 1 or semiring != "min_plus"

    @pytest.mark.parametrize("side", SIDES)
    def test_around_the_depth_of_a_share(self, side):
        rung = with_options(TUNED, shares=3, group=32, beside=8, loads=2)
        for k in (255, 256, 257, 383, 384, 385, 767, 768, 769):
            check(rung, product(side, 9, k, "min_plus", "float64"))

    @pytest.mark.parametrize("group", (1, 2, 8, 32, 64, 256))
    def test_every_number_of_threads_a_row(self, group):
        for loads in (1, 4):
            check(with_options(TUNED, group=group, loads=loads, shares=2), product("A x", 11, 1030))

    def test_rows_of_wide_elements_begin_and_end_anywhere(self):
        check_shifted_rows()
        for k in (64, 65, 127, 129, 2047, 2049):
            for offset, gap in ((0, 1), (1, 1), (1, 0)):
                check_window(RUNGS[TUNED], product("A x", 5, k, "min_plus", "int64"), "", offset, gap)

    @pytest.mark.parametrize("beside", (1, 5, 8, 33, 64))
    def test_every_number_of_threads_side_by_side(self, beside):
        check(with_options(TUNED, beside=beside, loads=4, shares=2), product("x A", 301, 210))


def test_scatter_declines_what_has_no_atomic_operation():
    for semiring, add in (("logaddexp_plus", "logaddexp"), ("times_plus", "times")):
        assert f"no atomic {add}" in RUNGS["gpu-mv-scatter"].declines(product("A x", 3, 3, semiring))


@pytest.mark.parametrize("name", (*LADDER, "gpu-mv-cublas"))
def test_two_matrices_are_declined(name):
    assert "m or n is 1" in RUNGS[name].refuses(Problem(2, 3, 4))
    assert RUNGS[name].refuses(Problem(2, 1, 4)) is None


def test_halves_are_for_the_tuned_kernels():
    takers = {name for name in LADDER if RUNGS[name].refuses(product("A x", 3, 3, "min_plus", "float16")) is None}
    assert takers == {TUNED}


class TestPeer:
    @pytest.mark.parametrize(
        ("options", "reason"),
        (
            ({"semiring": "min_plus"}, "plus_times"),
            ({"dtype": "int32"}, "float32 and float64"),
            ({"alpha": 0.0}, "zero hides a NaN"),
            ({"alpha": np.inf}, "infinity"),
        ),
    )
    def test_declines_with_the_reason(self, options, reason):
        assert reason in RUNGS["gpu-mv-cublas"].declines(product("A x", 3, 3, **options))

    def test_y_begins_in_a_pass(self):
        rung = RUNGS["gpu-mv-cublas"]

        def steps(k, **options):
            problem = product("x A", 40, k, **options)
            program = program_of(rung, rung.plan(problem, detect()), Windows(Operands.generate(problem, 1), "", 0, 1))
            return [getattr(step, "kernel", None) and step.kernel.function for step in program.steps]

        assert steps(5) == [None]
        assert steps(0) == ["fill"]
        assert steps(5, accumulate=True, beta=2) == ["begin", None]
        assert steps(0, accumulate=True) == ["begin"]


class TestRules:
    SIZES = (1, 2, 7, 33, 100, 257, 1000, 4096, 4097, 46341, 10**6, 2**31 - 1)

    @pytest.mark.parametrize("itemsize", (1, 2, 4, 8))
    def test_rows_are_covered_once(self, itemsize):
        for count in self.SIZES:
            for k in (0, *self.SIZES):
                for step in (k, k + 1, k + 8):
                    launch = rows_launch(count, k, itemsize, step, 16, MEASURED, group=0, loads=0, width=0, shares=0)
                    fits = k % launch.width == 0 == (step * (count > 1)) % launch.width
                    assert launch.width == 1 or launch.is_shifted or fits
                    assert launch.width * itemsize <= WIDEST
                    assert (launch.shares - 1) * launch.depth < max(k, 1) <= launch.shares * launch.depth + (k == 0)
                    assert launch.depth % (launch.group * launch.width) == 0
                    assert launch.shares * launch.depth < 2**32

    @pytest.mark.parametrize("itemsize", (1, 2, 4, 8))
    def test_tiles_of_short_rows_fit_their_room(self, itemsize):
        for count in self.SIZES:
            for k in range(1, MOST_SHORT + 1):
                for tile in (0, *TILES):
                    launch = short_rows_launch(count, k, itemsize, k, MEASURED, tile=tile)
                    if launch is not None:
                        assert 0 < launch.rows * k * itemsize <= launch.kib << 10
                        assert launch.group <= 32
                        assert launch.rows % (BLOCK // launch.group) == 0
        assert short_rows_launch(10**6, 33, itemsize, 33, MEASURED, tile=0) is not None
        assert short_rows_launch(100, 33, itemsize, 33, MEASURED, tile=0) is None

    @pytest.mark.deep(but=2)
    @pytest.mark.parametrize("itemsize", (1, 2, 4, 8))
    def test_windows_of_columns_fit_their_slots(self, itemsize):
        for count in self.SIZES:
            for k in (0, *self.SIZES):
                for step in {count, count + 1, count + 6}:
                    for aligned in (16, itemsize):
                        launch = columns_launch(
                            count, k, itemsize, step, aligned, MEASURED, beside=0, loads=0, shares=0
                        )
                        begins = math.gcd(launch.width, step if k > 1 else launch.width, aligned // itemsize)
                        assert launch.slots * launch.lines <= BLOCK
                        assert launch.slots * launch.width >= launch.window + launch.width - math.gcd(
                            begins, launch.window
                        )
                        assert launch.lines == 1 or launch.lines * step % launch.width == 0
                        assert (launch.shares - 1) * launch.depth < max(k, 1) <= launch.shares * launch.depth + (k == 0)

    def test_few_long_sums_are_shared_and_many_or_short_ones_are_not(self):
        def shares(count, k):
            rows = rows_launch(count, k, 4, k, 16, MEASURED, group=0, loads=0, width=0, shares=0)
            columns = columns_launch(count, k, 4, count, 16, MEASURED, beside=0, loads=0, shares=0)
            return rows.shares, columns.shares

        assert min(shares(8, 10**6)) > 8
        assert shares(4096, 128) == shares(100, 100) == (1, 1)

    def test_what_is_asked_for_is_taken(self):
        rows = rows_launch(100, 4096, 4, 4096, 16, MEASURED, group=64, loads=2, width=2, shares=3)
        assert rows[:4] == (64, 2, 2, 3)
        columns = columns_launch(1000, 4096, 4, 1000, 16, MEASURED, beside=16, loads=4, shares=3)
        assert (columns.slots, columns.loads, columns.shares) == (16, 4, 3)

    def test_more_in_flight_or_fewer_bytes_take_less_time(self):
        usual = cost_s(10**8, 64, 1, 1 << 14, 128, MEASURED)
        assert cost_s(10**8, 128, 1, 1 << 14, 128, MEASURED) < usual
        assert cost_s(10**8, 64, 1, 1 << 15, 128, MEASURED) < usual
        assert cost_s(10**7, 64, 1, 1 << 14, 128, MEASURED) < usual


def check_short_rows():
    for k, offset in ((33, 3), (66, 1)):
        check_window(with_options(TUNED, tile=8), product("A x", 301, k), "", offset, 0)


def check_shifted_rows():
    for k, offset, gap in ((1029, 1, 2), (4098, 1, 0), (701, 0, 0)):
        for group in (1, 64):
            check_window(
                with_options(TUNED, shares=2, group=group), product("A x", 9, k, dtype="float64"), "", offset, gap
            )


def check_sides(side):
    for count, k, shares in ((37, 701, 2), (150, 701, 3), (3, 4099, 1), (20, 35, 1)):
        options = {"shares": shares, "group": 64, "beside": 9}
        check_window(with_options(TUNED, **options), product(side, count, k), "", 1, 2)
