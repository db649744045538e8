"""`argk.cu` and `log_sum_exp.cu`, executed on the CPU: which k it was, and sums of exponentials that lose nothing."""

import itertools

import numpy as np
import pytest

from backends.gpu._program.program import Kernel, Matrix, Place, Program
from backends.gpu._simt import argk as simt_argk
from backends.gpu._tasks import layouts
from harness import SEMIRINGS, Operands
from harness.problem import Problem
from tests.api.test_argk import SELECTIVE, by_definition, draw
from tests.cpu.test_log_sum_exp import apart, far, meeting_below
from tests.gpu.host_kernels import HostExecution, HostOperands, fenced
from tests.gpu.on_cpu import ON_CPU, RUNGS, SMALL, check

pytestmark = ON_CPU

DTYPES = {
    "min_plus": "float32",
    "max_plus": "int16",
    "max_min": "float64",
    "min_max": "uint8",
    "lor_land": "bool",
    "max_times": "float16",
}

# ------------------------------------------------------------------------------------------------------ which k it was


def argk(semiring, a, b):
    problem = Problem(a.shape[0], b.shape[1], a.shape[1], SEMIRINGS[semiring], a.dtype)
    operands = HostOperands(Operands(a, b, None, np.empty((problem.m, problem.n), a.dtype)))
    operands.buffers["which"] = fenced(problem.m * problem.n, np.dtype(np.int32), at_end=True)
    matrices = (operands.matrix(name) for name in ("a", "b", "out"))
    execution = HostExecution(simt_argk.argk_program(problem, *matrices, Matrix(Place("which"), problem.n)), operands)
    execution.run()
    return execution.result(), operands.buffers["which"].reshape(problem.m, problem.n).copy()


def assert_argk(semiring, a, b):
    product, which = argk(semiring, a, b)
    expected, where = by_definition(SEMIRINGS[semiring], a, b)
    assert np.array_equal(product, expected)
    assert np.array_equal(which, where)


@pytest.mark.parametrize("semiring", SELECTIVE)
def test_argk_is_the_smallest_k_that_attains_the_value(semiring, rng):
    dtype = np.dtype(DTYPES.get(semiring, "float32"))
    for m, n, k in ((1, 1, 1), (8, 8, 4), (9, 7, 5), (17, 19, 23), (3, 30, 41)):
        assert_argk(semiring, draw(rng, (m, k), dtype), draw(rng, (k, n), dtype))


def test_integers_that_cannot_overflow_take_plain_sums_and_the_others_careful_ones(rng):
    for most in (9, np.iinfo(np.int32).max):
        a, b = (rng.integers(-most, most, shape).astype(np.int32) for shape in ((9, 13), (13, 11)))
        assert_argk("min_plus", a, b)


@pytest.mark.parametrize("semiring", ("min_plus", "max_plus"))
def test_floats_of_one_sign_take_two_steps_at_once_and_the_others_one(semiring, rng):
    sign = 1 if semiring == "min_plus" else -1
    for low, k in ((0, 13), (0, 40), (-5, 13), (-5, 40)):
        a, b = (sign * rng.integers(low, 9, shape).astype(np.float32) for shape in ((9, k), (k, 11)))
        a[rng.random(a.shape) < 0.3] = sign * np.inf
        assert_argk(semiring, a, b)


def test_without_terms_there_is_no_k():
    product, which = argk("min_plus", np.empty((3, 0)), np.empty((0, 2)))
    assert (product == np.inf).all()
    assert (which == -1).all()


# ------------------------------------------------------------------------------------------------- logaddexp as product


def log_sum_exp(a, b, *, accumulate=False):
    problem = Problem(a.shape[0], b.shape[1], a.shape[1], "logaddexp_plus", a.dtype, accumulate=accumulate)

    def change(operands):
        operands.a[...], operands.b[...] = a, b

    check(RUNGS["gpu-tuned"], problem, change, **SMALL["gpu-tuned"])


FLOATS = pytest.mark.parametrize("dtype", (np.dtype(np.float32), np.dtype(np.float64)), ids=str)


@FLOATS
def test_log_probabilities_at_ragged_sizes_and_added_to_c(dtype, rng):
    for m, n, k in ((1, 1, 1), (9, 33, 5), (17, 40, 70), (33, 31, 32)):
        a, b = (rng.uniform(-50, 0, shape).astype(dtype) for shape in ((m, k), (k, n)))
        log_sum_exp(a, b, accumulate=m % 2 == 0)


@FLOATS
def test_long_columns_have_more_threads(dtype, rng, monkeypatch):
    monkeypatch.setattr("backends.gpu._simt.log_sum_exp.LONG_COLUMNS", 100)
    log_sum_exp(*(rng.uniform(-50, 0, shape).astype(dtype) for shape in ((3, 300), (300, 11))))


@FLOATS
@pytest.mark.parametrize("gap", (0.0, 10.0, 60.0, 100.0, 400.0, 1000.0))
def test_no_gap_between_what_the_largest_terms_meet_loses_a_digit(dtype, gap, rng):
    log_sum_exp(*apart(rng, (9, 7, 12), gap, dtype))


@FLOATS
def test_what_cancels_between_rows_and_columns_loses_no_digit(dtype, rng):
    for size in (1e4, 1e6):
        log_sum_exp(*far(rng, (9, 33, 5), size, dtype), accumulate=size == 1e6)
    log_sum_exp(*meeting_below(rng, (9, 33, 2), 75 if dtype == np.float32 else 600, dtype))


@FLOATS
def test_special_values_at_every_place(dtype):
    most = np.finfo(dtype).max
    special = np.array([-np.inf, np.inf, np.nan, 0.0, -1.0, 3e4, -3e4, most, -most], dtype)
    pairs = np.array(list(itertools.product(special, repeat=2)), dtype)
    log_sum_exp(np.column_stack([pairs, np.full(len(pairs), -np.inf, dtype)]), np.vstack([pairs.T, pairs.T[:1]]))


@FLOATS
def test_a_row_of_nothing_and_a_single_term_come_through(dtype, rng):
    a = np.full((12, 12), -np.inf, dtype)
    np.fill_diagonal(a[1:, 1:], 0.0)
    b = rng.uniform(-900, 900, (12, 10)).astype(dtype)
    log_sum_exp(a, b)
    log_sum_exp(b.T.copy(), a)


# ----------------------------------------------------------------------------------------------------- orders in memory


def launch(function, defines, grid, *arguments):
    kernel = Kernel("layout", defines, (layouts.TILE**2,), function=function)
    program = Program()
    program.launch(kernel, grid, *arguments)
    return program


def run_layout(function, arrays, sizes, grid, **how):
    """Run one kernel of `layout.cu` on buffers between fences, the last of which is the result."""
    operands = HostOperands(Operands(*(np.zeros((1, 1), np.float32),) * 2, None, np.zeros((1, 1), np.float32)))
    for name, x in zip("xyz", arrays, strict=False):
        operands.buffers[name] = fenced(x.size, x.dtype, at_end=True)
        operands.buffers[name][...] = x.reshape(-1)
    places = [Place(name) for name, _ in zip("xyz", arrays, strict=False)]
    defines = layouts.layout_defines(**how)
    execution = HostExecution(launch(function, defines, grid, *places, *sizes), operands)
    execution.run()
    return operands.buffers["xyz"[len(arrays) - 1]].copy()


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(layouts, "TILE", 4)


@pytest.mark.parametrize("along_memory", (False, True))
@pytest.mark.parametrize("kernel", ("naive", "tiled"))
@pytest.mark.parametrize(("of_a", "of_b"), (("rows", "columns"), ("columns", "tiles"), ("tiles", "rows")))
def test_a_product_is_the_same_in_every_order(kernel, of_a, of_b, along_memory, small_tiles, rng):
    m, n, k = 8, 12, 16
    a, b = rng.integers(-9, 9, (m, k)).astype("f4"), rng.integers(-9, 9, (k, n)).astype("f4")
    arrays = layouts.stored(a, of_a), layouts.stored(b, of_b), np.empty(m * n, "f4")
    got = run_layout(kernel, arrays, (m, n, k), (n // 4, m // 4), a=of_a, b=of_b, along_memory=along_memory)
    assert np.array_equal(got.reshape(m, n), a @ b)


@pytest.mark.parametrize(
    ("function", "to"), (("change", "rows"), ("change", "tiles"), ("change", "columns"), ("transpose", "columns"))
)
def test_a_change_of_order_puts_every_element_where_it_belongs(function, to, small_tiles, rng):
    m, n = 8, 12
    x = rng.random((m, n), np.float32)
    got = run_layout(function, (x, np.empty(m * n, "f4")), (m, n), (n // 4, m // 4), a=to)
    assert np.array_equal(got, layouts.stored(x, to))
