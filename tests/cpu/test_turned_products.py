"""Few rows of A by a B with contiguous columns: the transposed product, in an array of its own, gives the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backends.cpu import simd
from backends.cpu._simd import product, small_products
from backends.cpu._vector.operators import operations
from harness import Operands, Problem, Semiring, gemm, machine, registry
from harness.interface import make_plan, prepare
from harness.proof.reference import product as definition
from harness.semiring import SEMIRINGS
from harness.tuning.simd import turns_product

SHAPES = [(2, 100, 64), (5, 333, 81), (16, 300, 300), (33, 140, 530)]


def drawn(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(m)
    a, w, c = (generator.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (n, k), (m, n)))
    return a, w.T, c


def expected(semiring: str | Semiring, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
    problem = Problem(a.shape[0], b.shape[1], a.shape[1], semiring, a.dtype, accumulate=c is not None)
    return definition(problem, a, b, c)


def test_which_products_are_turned() -> None:
    assert [turns_product(*sizes) for sizes in SHAPES] == [True] * 4
    assert not turns_product(1, 4000, 4000)  # a vector: loops of its own
    assert not turns_product(65, 4000, 4000)
    assert not turns_product(16, 20000, 255)  # more is copied of C than of B
    assert not turns_product(16, 63, 4000)


@pytest.mark.deep(but=10)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus", "plus_min"])
def test_results_are_right_in_every_call_and_nothing_beside_them_is_written(
    shape: Any, dtype: str, semiring: str
) -> None:
    a, b, c = drawn(*shape, dtype)
    right = expected(semiring, a, b)
    for _ in range(2):
        assert (gemm(a, b, semiring=semiring, backend="cpu-simd") == right).all()
    wide = np.full((shape[0], 2 * shape[1]), 77, dtype)
    gemm(a, b, semiring=semiring, out=wide[:, : shape[1]], backend="cpu-simd")
    assert (wide[:, : shape[1]] == right).all()
    assert (wide[:, shape[1] :] == 77).all()
    summed = c.copy()
    gemm(a, b, summed, semiring=semiring, out=summed, backend="cpu-simd")
    assert (summed == expected(semiring, a, b, c)).all()


def test_operands_of_a_product_that_does_not_commute_keep_their_sides() -> None:
    a, b, _ = drawn(16, 300, 300, "float64")
    for multiply in ("first", "second"):
        semiring = Semiring.of("max", multiply)
        assert (gemm(a, b, semiring=semiring) == expected(semiring, a, b)).all()


def test_values_are_read_anew_in_each_call_and_each_array_has_its_own_result() -> None:
    a, b, _ = drawn(16, 300, 300, "float64")
    first = gemm(a, b, backend="cpu-simd")
    a *= 2
    second = gemm(a, b, backend="cpu-simd")
    assert (second == 2 * first).all()


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_prepared_product_reads_b_where_it_lies(accumulate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = drawn(16, 300, 300, "float64")
    out, shapes = c.copy(), []
    problem, backend = Problem(16, 300, 300, accumulate=accumulate), registry.find("cpu-simd")
    real = product.prepare_product
    monkeypatch.setattr(
        product, "prepare_product", lambda loops, a, *rest: shapes.append(a.shape) or real(loops, a, *rest)
    )
    operands = Operands(a, b, c if accumulate else None, out)
    prepare(backend, make_plan(backend, problem, machine.detect()), operands).run_once()
    assert (out == expected("plus_times", a, b, c if accumulate else None)).all()
    assert shapes == [(300, 300)]  # B, transposed, comes first


def test_a_call_reads_b_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    ways, real = [], small_products._ready_product

    def spied(*arguments: Any) -> Any:
        ready = real(*arguments)
        ways.append(ready[0])
        return ready

    monkeypatch.setattr(small_products, "_ready_product", spied)
    a, b, _ = drawn(7, 311, 207, "float32")
    large = small_products.LargeProducts(_loops)
    out = np.empty((7, 311), "float32")
    large.compute(a, b, out)
    assert (out == expected("plus_times", a, b)).all()
    assert ways == [small_products.Way.TURNED]


def _loops(shape: Any, is_swapped: bool) -> Any:
    dtype = np.dtype("float32")
    plan = simd.Simd().plan(Problem(shape.n, shape.m, shape.k, dtype=dtype), machine.detect().with_threads(1))
    ops = operations(SEMIRINGS["plus_times"], dtype)
    assert is_swapped
    assert ops is not None
    return simd.settings_of(plan).transposed().loops(ops, dtype, shape)


def test_bits_do_not_depend_on_threads() -> None:
    generator = np.random.default_rng(1)
    a, w = generator.standard_normal((13, 700)), generator.standard_normal((3001, 700))
    one, all_cores = (gemm(a, w.T, backend="cpu-simd", threads=threads) for threads in (1, machine.detect().cores))
    assert (one == all_cores).all()
