"""A matrix by its own transpose: one half is computed and mirrored; with any other operand all of it is computed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from backends.cpu._simd.argument_table import Shape
from backends.cpu._simd.self_product import SelfProduct, is_self_product, mirrored
from backends.cpu._vector.operators import operations
from backends.cpu.simd import Simd
from harness import Semiring, gemm
from harness.tuning import simd_parts as tuning_parts

pytestmark = pytest.mark.skipif(bool(Simd().missing()), reason="generated code cannot run here")
FLOAT64 = np.dtype(np.float64)


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Addresses of the matrices whose products were computed by half."""
    computed: list[int] = []
    run = SelfProduct.run

    def counted(self: SelfProduct, a: int, out: int) -> None:
        computed.append(a)
        run(self, a, out)

    monkeypatch.setattr(SelfProduct, "run", counted)
    return computed


def _definition(a: np.ndarray, semiring: str) -> np.ndarray:
    return gemm(a, a.T.copy(), semiring=semiring, backend="cpu-naive")


@pytest.mark.parametrize("semiring", ["plus_times", "min_plus", "max_min"])
@pytest.mark.parametrize("size", [(96, 65), (150, 140), (261, 450)], ids=str)
def test_any_layout_and_number_of_threads(semiring: str, size: tuple[int, int], halves: list[int]) -> None:
    drawn = np.random.default_rng(1).standard_normal(size)
    expected = _definition(drawn, semiring)
    for number, (of_a, of_out) in enumerate(itertools.product("CF", repeat=2)):
        a, out = np.array(drawn, order=of_a), np.empty((size[0], size[0]), order=of_out)
        for threads in (1, 2, None):
            out[...] = np.nan
            gemm(a, a.T, semiring=semiring, threads=threads, out=out)
            assert np.array_equal(out, out.T)
            if semiring == "plus_times":
                assert np.allclose(out, expected, rtol=1e-12, atol=1e-11)
            else:
                assert np.array_equal(out, expected)
        assert len(halves) == 3 * (number + 1)


def test_slices_of_a_larger_matrix_and_rows_that_share_cache_sets(halves: list[int]) -> None:
    rng = np.random.default_rng(2)
    for a in (rng.standard_normal((130, 300))[:, 100:280], rng.standard_normal((100, 2048))[:, :90]):
        for x in (a, np.asfortranarray(a)):
            assert np.allclose(gemm(x, x.T), x @ x.T, rtol=1e-12, atol=1e-11)
    assert len(halves) == 4


def test_nothing_beside_the_output_is_written() -> None:
    a, room = np.random.default_rng(3).standard_normal((131, 70)), np.full((140, 150), 7.0)
    gemm(a, a.T, out=room[4:135, 6:137])
    assert np.allclose(room[4:135, 6:137], a @ a.T)
    room[4:135, 6:137] = 7
    assert (room == 7).all()


def test_a_nan_is_where_the_definition_has_it() -> None:
    a = np.random.default_rng(4).standard_normal((100, 80))
    a[3, 5] = a[97, 79] = np.nan
    for semiring in ("plus_times", "max_min", "min_plus"):
        assert np.array_equal(np.isnan(gemm(a, a.T, semiring=semiring)), np.isnan(_definition(a, semiring)))


OTHERS: dict[str, Any] = {
    "equal values elsewhere": lambda a: (a, a.T.copy(), {}),
    "another matrix of that layout": lambda a: (a, a[::-1].copy().T, {}),
    "fewer rows": lambda a: (a[1:], a.T, {}),
    "alpha": lambda a: (a, a.T, {"alpha": 2.0}),
    "C": lambda a: (a, a.T, {"c": np.arange(float(len(a) ** 2)).reshape(len(a), len(a)), "beta": 0.5}),
    "few terms": lambda a: (a[:, :64], a[:, :64].T, {}),
    "few rows": lambda a: (a[:95], a[:95].T, {}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_any_other_product_is_computed_whole(what: str, halves: list[int]) -> None:
    a = np.random.default_rng(5).standard_normal((110, 90))
    gemm(a, a.T)  # what it prepares has the layout of some of the others
    halves.clear()
    x, y, options = OTHERS[what](a)
    expected = options.get("alpha", 1) * (x @ y) + options.get("beta", 0) * options.get("c", 0)
    assert np.allclose(gemm(x, y, **options), expected, rtol=1e-12, atol=1e-10)
    assert not halves


def test_what_shares_a_layout_and_an_address_in_turns() -> None:
    a, b = np.random.default_rng(6).standard_normal((2, 120, 120))
    for _ in range(2):
        assert np.allclose(gemm(a, a.T), a @ a.T)
        assert np.allclose(gemm(a, b.T), a @ b.T)
    assert np.allclose(gemm(a, a), a @ a)  # one matrix twice, but not transposed


def test_only_what_commutes_is_mirrored() -> None:
    shape = Shape(100, 100, 100, (800, 8), (8, 800), 800)
    for name in ("times", "first", "second"):
        ops = operations(Semiring.of("plus", name), FLOAT64)
        assert ops is not None
        assert is_self_product(shape, ops) == (name == "times")


@pytest.mark.parametrize("columns", [1, 3, 16, 40, 97, 200])
def test_every_element_above_the_diagonal_is_written_once(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_parts, "SIMD_MIRRORED_ROWS", 13)
    monkeypatch.setattr(tuning_parts, "SIMD_MIRRORED_BYTES", 8 * columns)
    n = 97
    square, written = np.tril(np.arange(n * n).reshape(n, n)), np.zeros((n, n), int)
    expected = square + np.tril(square, -1).T
    for copy in mirrored(n, 8 * n, 8):
        (i, j), (to, of) = divmod(copy.source // 8, n), divmod(copy.target // 8, n)
        square[to : to + copy.rows, of : of + copy.columns] = square[i : i + copy.columns, j : j + copy.rows].T
        written[to : to + copy.rows, of : of + copy.columns] += 1
    assert np.array_equal(square, expected)
    assert np.array_equal(written, np.triu(np.ones((n, n), int), 1))
