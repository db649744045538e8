"""Bools of any byte on a GPU that the host plays: what is not 0 is true, and results are bytes of 0 and 1."""

import itertools

import numpy as np
import pytest

from harness import SEMIRINGS, gemm, gemm_argk
from harness.problem import Problem
from harness.proof import reference
from tests._support.bools import assert_bools, bools_of_any_byte, truth
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = BY_THE_SHIM

BACKENDS = (
    "auto",
    "gpu-naive",
    "gpu-tiled",
    "gpu-tuned",
    "gpu-bits",
    "gpu-tensor-core",
    "gpu-mv-tuned",
    "gpu-strassen",
)


@pytest.mark.parametrize("semiring", ("lor_land", "lxor_land"))
@pytest.mark.parametrize("backend", BACKENDS)
def test_products_read_what_is_not_0_as_true(gpu, rng, backend, semiring):
    sizes = ((40, 1, 30), (1, 30, 9)) if "mv" in backend else ((5, 7, 3), (33, 34, 40), (1, 1, 1))
    for (m, n, k), accumulate in itertools.product(sizes, (False, True)):
        problem = Problem(m, n, k, SEMIRINGS[semiring], np.dtype(bool), accumulate=accumulate)
        if backend == "gpu-strassen" and semiring == "lor_land":
            return  # it takes rings alone
        a, b, c = (bools_of_any_byte(rng, shape) for shape in ((m, k), (k, n), (m, n)))
        given = [gpu.array(x) for x in ((a, b, c) if accumulate else (a, b))]
        options = {"semiring": semiring, "backend": backend}
        expected = reference.product(problem, truth(a), truth(b), truth(c))
        assert_bools(gemm(*given, **options).get(), expected)
        if accumulate:
            assert_bools(gemm(*given, out=given[-1], **options).get(), expected)


def test_so_does_arg_k(gpu, rng):
    problem = Problem(9, 12, 21, SEMIRINGS["lor_land"], np.dtype(bool))
    a, b = bools_of_any_byte(rng, (9, 21)), bools_of_any_byte(rng, (21, 12))
    for _ in range(2):
        product, argk = gemm_argk(gpu.array(a), gpu.array(b), semiring="lor_land")
        assert_bools(product.get(), reference.product(problem, truth(a), truth(b)))
        assert np.array_equal(argk.get(), reference.argk(problem, truth(a), truth(b)))


@pytest.mark.parametrize(
    ("narrow", "wide", "semiring"), [("int8", "int32", "plus_times"), ("float16", "float16", "min_plus")]
)
def test_a_symmetric_matrix_of_narrow_elements(gpu, rng, narrow, wide, semiring):
    for n, columns in ((5, 3), (33, 1)):
        a, b = (rng.integers(0, 5, shape).astype(narrow) for shape in ((n, n), (n, columns)))
        problem = Problem(n, columns, n, SEMIRINGS[semiring], np.dtype(wide), triangle="a")
        expected = reference.product(problem, a.astype(wide), b.astype(wide))
        got = gemm(gpu.array(a), gpu.array(b), semiring=semiring, triangle="a", dtype=wide)
        assert np.array_equal(got.get(), expected)
