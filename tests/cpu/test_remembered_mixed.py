"""The short way of mixed products: which calls take it, what it computes, and that it leaves anything else alone."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from backends.cpu._mixed.remembered import RememberedProducts
from backends.cpu.mixed import Mixed
from harness import gemm, machine
from harness.api import gemm as api_gemm
from harness.dtypes import MIXED, mixed_dtypes

MIXED_HERE = Mixed()
pytestmark = pytest.mark.skipif(bool(MIXED_HERE.missing()), reason="generated code cannot run here")
# float16 is converted, float32 is copied as float64
DTYPES = {x.name: x for x, _ in mixed_dtypes() if x.itemsize < 4 and x.name != "float16"}


def _draw(rng: np.random.Generator, shape: tuple[int, int], narrow: np.dtype[Any]) -> np.ndarray:
    return rng.integers(-9, 9, shape).astype(narrow)


def _exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) @ b.astype(np.int64)


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Problems for which a backend was chosen."""
    chosen: list[Any] = []
    choose = api_gemm.choose

    def counted(problem: Any, *others: Any) -> Any:
        chosen.append(problem)
        return choose(problem, *others)

    monkeypatch.setattr(api_gemm, "choose", counted)
    return chosen


@pytest.mark.parametrize("name", DTYPES)
def test_contiguous_rows_and_contiguous_columns_take_it(name: str, long_ways: list[Any]) -> None:
    narrow, wide, rng = DTYPES[name], MIXED[name], np.random.default_rng(1)
    gemm(*(_draw(rng, (2, 2), narrow) for _ in range(2)), dtype=wide)
    sizes, orders = ((1, 1, 1), (33, 50, 70), (150, 130, 90)), ("CCC", "CFC", "FCC", "FFC", "FFF")
    for (m, n, k), order, threads in itertools.product(sizes, orders, (None, 1, 2)):
        for _ in range(2):  # two matrices of one layout
            a, b = (
                np.asarray(_draw(rng, shape, narrow), order=o)
                for shape, o in zip(((m, k), (k, n)), order, strict=False)
            )
            out = np.full((m, n), 77, wide, order=order[2])
            gemm(a, b, dtype=wide, threads=threads)
            long_ways.clear()
            assert gemm(a, b, dtype=wide, threads=threads, out=out) is out
            assert not long_ways
            assert np.array_equal(out, _exact(a, b))
            assert np.array_equal(gemm(a, b, dtype=wide, threads=threads), out)


def test_slices_take_it_and_nothing_beside_the_output_is_written() -> None:
    rng = np.random.default_rng(2)
    a, b = _draw(rng, (60, 90), np.dtype("i1"))[3:43, 5:75], _draw(rng, (70, 99), np.dtype("i1"))[:, :35]
    for _ in range(2):
        room = np.full((50, 60), 7, np.int32)
        gemm(a, b, dtype="int32", out=room[5:45, 9:44])
        assert np.array_equal(room[5:45, 9:44], _exact(a, b))
        room[5:45, 9:44] = 7
        assert (room == 7).all()


def test_it_leaves_anything_else_alone() -> None:
    narrow, wide = np.dtype(np.int8), np.dtype(np.int32)
    compute = MIXED_HERE.mixed_shortcut(wide, narrow, machine.detect())
    assert compute is not None
    a, b, out = np.ones((4, 6), narrow), np.ones((6, 5), narrow), np.full((4, 5), 7, wide)
    fixed = out.copy()
    fixed.flags.writeable = False
    memory = np.zeros(200, narrow)
    others: list[tuple[Any, Any, Any]] = [
        (a.tolist(), b, out), (a, None, out), (a, b, None), (a[None], b, out), (a, b[:, 0], out), (a, b[:5], out),
        (a.astype("u1"), b, out), (a, b.astype("i2"), out), (a, b, out.astype("f4")), (a, b, out[:3]), (a, b, fixed),
        (np.ones((4, 12), narrow)[:, ::2], b, out), (a[::-1], b, out),
        (np.asfortranarray(a)[::-1], b, out), (a[:0], b, out[:0]), (a[:, :0], b[:0], out),
        (memory[:24].reshape(4, 6), b, memory[:80].view(wide).reshape(4, 5)),
    ]  # fmt: skip
    for given in others:
        assert compute(*given) is False
        assert (out == 7).all()
    assert compute(a, b, out) is True
    assert (out == 6).all()


def test_layouts_that_take_a_plan_are_left_alone() -> None:
    narrow = np.dtype(np.int8)
    a, b, out = np.ones((4, 6), narrow), np.ones((6, 5), narrow), np.full((4, 5), 7, np.int32)
    asked = []
    products = RememberedProducts(narrow, out.dtype, lambda shape, _: asked.append(shape))  # type: ignore[func-returns-value]
    assert [products.compute(a, b, out), products.compute(a, b, out)] == [False, False]
    assert len(asked) == 1
    assert (out == 7).all()


@pytest.mark.skipif("bfloat16" not in DTYPES, reason="ml_dtypes is not installed")
def test_subnormal_operands_are_not_lost() -> None:
    narrow = DTYPES["bfloat16"]
    for place, name in itertools.product(((0, 0), (69, 39)), "ab"):
        a, b = np.zeros((40, 70), narrow), np.zeros((70, 40), narrow)
        tiny, large = (a.T, b) if name == "a" else (b, a.T)
        plain = gemm(a, b, dtype="float32")
        tiny[place], large[place[0], :] = 2.0**-130, 2.0**100
        got = gemm(a, b, dtype="float32")
        assert np.array_equal(got, a.astype("f4") @ b.astype("f4"))
        assert got.any()
        assert not plain.any()


def test_threads_have_products_of_their_own() -> None:
    rng = np.random.default_rng(3)
    drawn = [[_draw(rng, (90, 90), np.dtype("i1")) for _ in range(2)] for _ in range(4)]

    def compute(pair: list[np.ndarray]) -> bool:
        return all(np.array_equal(gemm(*pair, dtype="int32"), _exact(*pair)) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(compute, drawn))
    products = RememberedProducts(np.dtype("i1"), np.dtype("i4"), lambda *_: None)  # type: ignore[arg-type, return-value]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: products._ready).result() is not products._ready
