"""Small products of a batch as a table of tiles: every product is, bit for bit, what it is alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from backends.cpu._batch.table import BatchTable
from backends.cpu._batch.tiles import TILE, TileTable, is_tiles_alone
from backends.cpu._simd.argument_table import Loops, Shape
from backends.cpu._vector.operators import operations
from backends.cpu.simd import Simd, settings_of
from harness import gemm
from harness.machine import detect
from harness.problem import Problem
from harness.semiring import SEMIRINGS, Semiring
from harness.tuning import batches as tuning_batches
from tests._support.units import needs_masks

pytestmark = pytest.mark.skipif(bool(Simd().missing()), reason="generated code cannot run here")
FLOAT64 = np.dtype(np.float64)


def _loops(shape: Shape, semiring: Semiring = SEMIRINGS["plus_times"]) -> Loops:
    plan = Simd().plan(Problem(shape.m, shape.n, shape.k, semiring, FLOAT64), detect().with_threads(1))
    ops = operations(semiring, FLOAT64)
    assert ops is not None
    return settings_of(plan).loops(ops, FLOAT64, shape)


def _shape(m: int, n: int, k: int) -> Shape:
    return Shape(m, n, k, (8 * k, 8), (8 * n, 8), 8 * n)


# around multiples of the tiles of all units: 8 x 24, 6 x 8 and 4 x 4
SIZES = [
    (1, 1, 1),
    (4, 4, 4),
    (7, 9, 3),
    (8, 8, 8),
    (9, 25, 5),
    (16, 24, 7),
    (17, 23, 1),
    (6, 49, 13),
    (13, 32, 9),
    (11, 37, 6),
    (33, 47, 31),
]


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize(
    ("semiring", "dtype"), (("plus_times", "float64"), ("min_plus", "float64"), ("min_plus", "int32"))
)
def test_each_product_is_what_it_is_alone(semiring: str, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in SIZES:
        a, b = (rng.integers(-99, 99, (9, *size)).astype(dtype) for size in ((m, k), (k, n)))
        if dtype == "float64":
            a, b = a + rng.normal(size=a.shape), b + rng.normal(size=b.shape)
        else:
            a[3, 0, 0] = np.iinfo(dtype).max  # the zero, which takes the careful form
        room = np.full((9, m + 2, n + 3), 7).astype(dtype)
        out = room[:, 1:-1, 1:-2]
        out[...] = 77
        gemm(a, b, out=out, semiring=semiring, threads=threads)
        for i in range(9):
            assert np.array_equal(out[i], gemm(a[i], b[i], semiring=semiring, threads=1))
        out[...] = 7
        assert (room == 7).all()


@pytest.mark.parametrize("n", (24, 30, 40))
def test_c_is_not_read_but_to_be_combined(n: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 5, n, n))
    out = np.full((5, n, n), np.nan)
    gemm(a, b, out=out)
    assert np.allclose(out, a @ b)
    assert np.allclose(gemm(a, b, out, beta=1, out=out), 2 * (a @ b))


@pytest.mark.parametrize("threads", (1, 2))
def test_prefetches_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_batches, "prefetches", lambda *_: True)
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(3, 4, 19, 21)), rng.normal(size=(4, 21, 26))  # b is the same along the first dimension
    assert np.array_equal(
        gemm(a, b, threads=threads), np.array([[gemm(x, y) for x, y in zip(z, b, strict=True)] for z in a])
    )
    assert np.allclose(gemm(a, b[0], threads=threads), a @ b[0])


@needs_masks
@pytest.mark.parametrize("prefetched", [(True, True, True), (True, False, True), (False, False, False)])
def test_the_rows_of_the_next_product_are_prefetched_once(prefetched: tuple[bool, ...]) -> None:
    shape = _shape(30, 50, 40)
    table = TileTable(_loops(shape), shape, False, prefetched)
    for operand, rows, is_ahead in zip("abc", (30, 40, 30), prefetched, strict=True):
        first, last = (table.rows[:, TILE.index(f"{which}_{operand}")] for which in ("from", "end"))
        taken = [row for begin, end in zip(first, last, strict=True) for row in range(begin, end)]
        assert taken == list(range(rows * is_ahead))


OTHERS: dict[str, Any] = {
    "B is packed": lambda x: x._replace(packs_b=True),
    "A is packed": lambda x: x._replace(packs_a=True),
    "several parts": lambda x: x._replace(grid=(2, 1)),
    "a triangle": lambda x: x._replace(triangle="d"),
    "blocks are tracked": lambda x: x._replace(key=x.key._replace(block_steps=4)),
    "two blocks of k": lambda x: x._replace(blocking=dataclasses.replace(x.blocking, kc=8)),
}


@needs_masks
@pytest.mark.parametrize("what", OTHERS)
def test_what_is_more_than_tiles_is_computed_by_the_loops(what: str) -> None:
    shape = _shape(16, 16, 16)
    loops = _loops(shape)
    assert is_tiles_alone(loops, shape)
    assert not is_tiles_alone(OTHERS[what](loops), shape)
    assert TileTable(OTHERS[what](loops), shape, False, (False, False, False)).address == 0


def test_only_what_suits_the_caches_is_prefetched() -> None:
    l1, l2 = 32 << 10, 1 << 20
    assert [tuning_batches.fits_ahead(size, count, l1, l2) for size, count in (
        (l1, 1 << 20), (l1 + 1, 1 << 20), (l1 + 1, 2), (l2 // 2, 9), (l2 // 2 + 1, 9)
    )] == [False, True, False, True, False]  # fmt: skip


def test_a_batch_of_no_dimension_is_one_product() -> None:
    rng = np.random.default_rng(3)
    a, b, out = rng.normal(size=(10, 12)), rng.normal(size=(12, 14)), np.empty((10, 14))
    shape = Shape.of(a, b, out)
    table = BatchTable(lambda shape, threads: _loops(shape), shape, (), ((),) * 4, 1, False)
    table.addresses[:3] = [x.ctypes.data for x in (a, b, out)]
    table.run()
    assert np.allclose(out, a @ b)
