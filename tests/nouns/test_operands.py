"""Generated operands: reproducible, laid out as asked, of values that hide nothing, over a poisoned output."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from harness import Operands, Problem
from harness.operands import data_address, poison, shares_with_itself, span
from harness.semiring import DTYPES, SEMIRINGS


def _semiring(dtype: np.dtype) -> str:
    return next(name for name in ("plus_times", "min_plus", "lor_land") if SEMIRINGS[name].unsupported(dtype) is None)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_seed_decides_every_value(dtype: np.dtype) -> None:
    problem = Problem(9, 8, 7, _semiring(dtype), dtype, accumulate=True)
    x, y, z = (Operands.generate(problem, seed) for seed in (1, 1, 2))
    for name in "abc":
        assert np.array_equal(getattr(x, name), getattr(y, name))
        assert not np.array_equal(getattr(x, name), getattr(z, name))
        assert getattr(x, name).dtype == dtype


def test_shapes_and_c_follow_the_problem() -> None:
    operands = Operands.generate(Problem(2, 3, 4), 1)
    assert (operands.a.shape, operands.b.shape, operands.out.shape) == ((2, 4), (4, 3), (2, 3))
    assert operands.c is None
    with_c = Operands.generate(Problem(2, 3, 4, accumulate=True), 1)
    assert with_c.c is not None
    assert with_c.c.shape == (2, 3)
    assert not np.shares_memory(with_c.c, with_c.out)


def test_layout_changes_strides_and_no_value() -> None:
    plain = Operands.generate(Problem(5, 6, 7, accumulate=True), 3)
    for layout in ("FFF", "AAA", "CFA", "FAC"):
        other = Operands.generate(Problem(5, 6, 7, accumulate=True, layout=layout), 3)
        for name, order in zip("abc", layout, strict=True):
            x = getattr(other, name)
            assert np.array_equal(x, getattr(plain, name))
            assert x.flags.c_contiguous == (order == "C")
            assert x.flags.f_contiguous == (order == "F")
        assert other.c is not None
        assert other.out.strides == other.c.strides
    assert Operands.generate(Problem(5, 6, 7, layout="AAA"), 3).a.strides[1] < 0


# Sizes and strides, in bytes.
LAYOUTS = strategies.lists(strategies.tuples(strategies.integers(0, 4), strategies.integers(-9, 9)), max_size=3)


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(LAYOUTS, strategies.sampled_from([1, 2, 4]))
def test_whether_elements_share_memory(layout: list[tuple[int, int]], itemsize: int) -> None:
    shape, strides = tuple(size for size, _ in layout), tuple(step for _, step in layout)
    begins = [int(np.dot(index, strides)) for index in np.ndindex(shape)]
    touched = [begin + byte for begin in begins for byte in range(itemsize)]
    assert shares_with_itself(shape, strides, itemsize) == (len(set(touched)) < len(touched))
    if touched:
        assert span(shape, strides, itemsize) == (min(touched), max(touched) + 1)


@pytest.mark.parametrize("size", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)])
def test_empty_operands(size: tuple[int, int, int]) -> None:
    for layout in ("CCC", "FFF", "AAA"):
        operands = Operands.generate(Problem(*size, accumulate=True, layout=layout), 1)
        assert operands.out.shape == size[:2]


def test_half_of_a_boolean_product_is_true() -> None:
    for semiring in ("lor_land", "lxor_land"):
        operands = Operands.generate(Problem(200, 200, 100, semiring, np.dtype(bool)), 1)
        pairs = operands.a.astype(np.int64) @ operands.b.astype(np.int64)
        share = np.mean(pairs > 0 if semiring == "lor_land" else pairs % 2 == 1)
        assert 0.4 < share < 0.6, semiring


def test_integers_fill_their_range_without_overflow_of_one_sum() -> None:
    operands = Operands.generate(Problem(100, 100, 100, "min_plus", np.dtype(np.int8)), 1)
    assert operands.a.min() == -32
    assert operands.a.max() == 31


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_poison_is_no_constant_and_no_product(dtype: np.dtype) -> None:
    out = np.zeros((11, 13), dtype)
    poison(out)
    if dtype.kind in "fc":
        assert np.isnan(out.real).all()
        assert np.isnan(out.imag).all() or dtype.kind == "f"
    else:
        assert np.unique(out).size > 1
    poison(np.empty((0, 3), dtype))


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
def test_the_address_of_any_array_is_that_of_its_first_element(dtype: str) -> None:
    x = np.zeros((4, 6, 8), dtype)
    fixed = x.copy()
    fixed.flags.writeable = False
    views = x, x[1:, ::-1, 2], x.T, x[..., :0], np.broadcast_to(x[0, 0], (9, 8)), fixed, x.view(np.recarray)
    for view in views:
        assert data_address(view) == view.ctypes.data
