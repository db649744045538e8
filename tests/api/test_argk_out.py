"""`gemm_argk` writes its results to arrays of the caller."""

from __future__ import annotations

import numpy as np
import pytest

from harness import ProblemError, gemm_argk
from harness.api.remembered import staged


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 50, shape).astype(float)


def expected(a, b):
    terms = a[..., :, :, None] + b[..., None, :, :]
    return terms.min(-2), terms.argmin(-2)


def outs(shape, dtype=np.float64):
    return np.full(shape, 7, dtype), np.full(shape, 7, np.int32)


SHAPES = {
    "small, remembered from the second call on": ((9, 20), (20, 8)),
    "of several blocks": ((150, 200), (200, 130)),
    "a batch": ((4, 6, 5), (4, 5, 3)),
    "a broadcast operand": ((4, 6, 5), (5, 3)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_results_are_in_the_arrays_given(shapes):
    staged.forget()
    a, b = numbers(*shapes[0]), numbers(*shapes[1], seed=1)
    for call in range(4):
        a = a + call
        product, where = expected(a, b)
        out = outs(product.shape)
        got = gemm_argk(a, b, out=out)
        assert got[0] is out[0]
        assert got[1] is out[1]
        assert np.array_equal(out[0], product)
        assert np.array_equal(out[1], where)


def every_second(shape, dtype):
    return np.full((*shape[:-1], 2 * shape[-1]), 7, dtype)[..., ::2]


LAYOUTS = {
    "Fortran order": lambda shape, dtype: np.full(shape[::-1], 7, dtype).T,
    "every second column": every_second,
    "backwards": lambda shape, dtype: np.full(shape, 7, dtype)[::-1],
    "unaligned": lambda shape, dtype: np.zeros(shape, [("pad", np.int8), ("x", dtype)])["x"],
}


@pytest.mark.parametrize("n", [12, 150])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_arrays_of_any_layout(layout, n):
    a, b = numbers(n, n), numbers(n, n, seed=1)
    for _ in range(3):
        out = layout((n, n), np.float64), layout((n, n), np.int32)
        gemm_argk(a, b, out=out)
        for x, right in zip(out, expected(a, b), strict=True):
            assert np.array_equal(x, right)


@pytest.mark.parametrize("n", [12, 150])
def test_fields_of_one_array_and_an_operand_as_out(n):
    a, b = numbers(n, n), numbers(n, n, seed=1)
    product, where = expected(a, b)
    record = np.zeros((n, n), [("value", float), ("k", np.int32)])
    for _ in range(3):
        gemm_argk(a, b, out=(record["value"], record["k"]))
        assert np.array_equal(record["value"], product)
        assert np.array_equal(record["k"], where)
        mine = a.copy()
        gemm_argk(mine, b, out=(mine, record["k"]))
        assert np.array_equal(mine, product)
        record[...] = np.zeros((), record.dtype)


def test_a_list_is_a_pair_and_empty_products_write_what_they_should():
    out = list(outs((2, 3)))
    gemm_argk(np.empty((2, 0)), np.empty((0, 3)), out=out)
    assert (out[0] == np.inf).all()
    assert (out[1] == -1).all()
    gemm_argk(np.empty((0, 4)), np.empty((4, 3)), out=outs((0, 3)))


def same_memory():
    x = np.zeros((3, 3), np.int64)
    return x.view(np.float64), np.ndarray((3, 3), np.int32, x)


BAD = {
    "one array": (np.zeros((3, 3)), "not a pair"),
    "three": ((np.zeros((3, 3)),) * 3, "not a pair"),
    "no argk": ((np.zeros((3, 3)), None), r"out\[1\] is None"),
    "argk of int64": ((np.zeros((3, 3)), np.zeros((3, 3), np.int64)), r"out\[1\] cannot take.*\n.*int32"),
    "product of float32": ((np.zeros((3, 3), np.float32), np.zeros((3, 3), np.int32)), r"out\[0\] cannot take"),
    "another shape": ((np.zeros((3, 2)), np.zeros((3, 3), np.int32)), r"out\[0\] cannot take"),
    "a list of lists": (([[1.0]], np.zeros((3, 3), np.int32)), r"out\[0\] cannot take"),
    "read-only": ((np.zeros((3, 3)), np.broadcast_to(np.int32(0), (3, 3))), r"out\[1\] cannot take.*\n.*\n.*read-only"),
    "shared memory": (same_memory(), "share memory"),
}


@pytest.mark.parametrize(("out", "message"), BAD.values(), ids=BAD)
def test_what_cannot_take_the_results_is_refused_also_of_a_remembered_product(out, message):
    a = numbers(3, 3)
    for _ in range(3):
        with pytest.raises(ProblemError, match=message):
            gemm_argk(a, a, out=out)
        gemm_argk(a, a)
