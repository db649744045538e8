"""Products of float8 by tensor cores, executed on the CPU with sums of 14 bits, as a GPU has them."""

import itertools

import numpy as np
import pytest

from backends.gpu._tensor.float8_product import lost_of_float8
from harness import PlanError
from harness.dtypes import named_dtype
from harness.machine import detect
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.verify import verify
from tests.gpu.on_cpu import ON_CPU, RUNGS

pytestmark = ON_CPU

KINDS = ("float8_e4m3fn", "float8_e5m2")
TILE = {"bm": 128, "bn": 64, "bk": 128, "tm": 8, "tn": 8, "stages": 2, "blocks": 2, "cluster": 1, "group": 1}


def compute(size, kind, fill, backend="gpu-tensor-core", parameters=TILE, **options):
    """Return the problem, operands filled by `fill`, the plan, D, and the files of the kernels."""
    problem = Problem(*size, dtype="float32", operand_dtype=named_dtype(kind), **options)
    operands = Operands.generate(problem, 3)
    fill(operands)
    plan = RUNGS[backend].plan(problem, detect()).override(parameters)
    execution = RUNGS[backend].prepare(plan, operands)
    execution.run()
    return problem, operands, plan, execution.result(), [step.kernel.stem for step in execution.program.steps]


def few(operands):
    """Fill operands with whole numbers of which no sum of 128 steps has more than 14 bits."""
    rng = np.random.default_rng(5)
    for x in (operands.a, operands.b):
        x[...] = rng.integers(-4, 5, x.shape).astype(np.float32)
    if operands.c is not None:
        operands.c[...] = rng.integers(-99, 100, operands.c.shape)


def wide(operands):
    """Fill operands with numbers whose products have no common range, subnormal ones among them."""
    rng = np.random.default_rng(6)
    for x in (operands.a, operands.b):
        x[...] = rng.standard_normal(x.shape) * np.exp2(rng.integers(-9, 6, x.shape))


def exact(problem, operands):
    a, b = (x.astype(np.float64) for x in (operands.a, operands.b))
    product = (a @ b) * (1 if problem.alpha is None else problem.alpha)
    return product + operands.c if problem.accumulate else product


def assert_exact(*arguments, **options):
    problem, operands, plan, found, stems = compute(*arguments, few, **options)
    where = np.tri(problem.m, dtype=bool) if problem.triangle else np.ones(found.shape, bool)
    np.testing.assert_array_equal(found[where], exact(problem, operands)[where])
    assert lost_of_float8(plan, operands) == 0
    return stems


@pytest.mark.deep(but=4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ("CCC", "CFC", "FCC", "FFC"))
def test_whole_numbers_are_exact_in_every_layout_and_size(kind, layout):
    scalars = {"accumulate": True, "alpha": -3.0} if layout == "CFC" else {}
    for size in ((1, 1, 1), (3, 70, 129), (130, 65, 31), (20, 30, 900)):
        assert_exact(size, kind, layout=layout, **scalars)


def test_what_lies_along_k_in_whole_vectors_is_used_as_it_lies():
    assert assert_exact((140, 70, 208), "float8_e4m3fn", layout="CFC") == ["tensor_core_f8"]
    assert assert_exact((140, 70, 208), "float8_e4m3fn", layout="CCC") == ["digits", "tensor_core_f8"]


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("columns", (64, 112, 128, 192))
def test_tiles_of_every_width(columns):
    for sums, steps in itertools.product(("flushed", "fast"), (1, 4, 5, 7)):
        size = (20, columns + 9, 128 * steps - 3)
        problem, operands, _, found, _ = compute(
            size, "float8_e5m2", few, parameters={**TILE, "bn": columns, "stages": 3, "sums": sums}
        )
        np.testing.assert_array_equal(found, exact(problem, operands))


def test_a_triangle():
    assert_exact((150, 150, 140), "float8_e4m3fn", triangle="d", parameters={**TILE, "bn": 128})


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("kind", KINDS)
def test_last_rows_and_columns_are_left_to_idle_warps(kind):
    for size, layout in (((129, 66, 131), "CCC"), ((130, 128, 528), "CFC"), ((128, 65, 5), "FFC")):
        scalars = {"accumulate": True, "alpha": 2.0} if layout == "CFC" else {}
        assert_exact(size, kind, layout=layout, parameters={**TILE, "edges": 4}, **scalars)
    problem, operands, _plan, found, _ = compute((129, 66, 200), kind, wide, parameters={**TILE, "edges": 4})
    np.testing.assert_allclose(found[-1], exact(problem, operands)[-1], rtol=1e-4, atol=1e-4)  # in float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sums", ("flushed", "fast"))
def test_errors_are_those_of_14_bits(kind, sums):
    for size in ((5, 40, 64), (9, 20, 700)):
        problem, operands, plan, found, _ = compute(size, kind, wide, parameters={**TILE, "sums": sums})
        error, bound = np.abs(found - exact(problem, operands)).max(), lost_of_float8(plan, operands)
        assert bound / 2000 < error < bound  # float32 would leave less
        verify(problem, operands, found, seed=1, extra_error=bound)


def test_whole_numbers_of_more_than_14_bits_are_no_longer_exact():
    def odd(operands):
        operands.a[...], operands.b[...] = 15, 13
        operands.b[0] = 1

    problem, operands, plan, found, _ = compute((3, 4, 128), "float8_e4m3fn", odd)
    assert (found != exact(problem, operands)).all()
    assert lost_of_float8(plan, operands) > np.abs(found - exact(problem, operands)).max()
    problem, operands, plan, found, _ = compute((3, 4, 32), "float8_e4m3fn", odd)
    assert (found == exact(problem, operands)).all()
    assert lost_of_float8(plan, operands) == 0


def test_sums_that_are_flushed_lose_less():
    errors = {}
    for sums in ("flushed", "fast"):
        problem, operands, *_, found, _ = compute(
            (9, 20, 3000), "float8_e4m3fn", wide, parameters={**TILE, "sums": sums}
        )
        errors[sums] = np.abs(found - exact(problem, operands)).max()
    assert errors["flushed"] < errors["fast"] / 2


def test_sums_of_another_name_are_refused():
    with pytest.raises(PlanError, match="sums"):
        compute((4, 4, 4), "float8_e5m2", few, parameters={**TILE, "sums": "exact"})
