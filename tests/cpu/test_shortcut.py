"""The short way of the public call: what takes it, that it does nothing unless all is right, and what it reads."""

from __future__ import annotations

import ctypes
import itertools
import pickle
from typing import Any

import numba
import numpy as np
import pytest

from backends.cpu import simd
from backends.cpu._simd import numpy_object, small_products
from backends.cpu._simd.numpy_object import ArrayFields, DtypeFields, has_known_layout
from backends.cpu._simd.settings import Settings
from backends.cpu.simd import Simd
from harness import SEMIRINGS, BackendUnavailable, Operands, Problem, ProblemError, Semiring, gemm, machine, registry
from harness.api import gemm as api_gemm
from harness.api.remembered import shortcuts, staged
from harness.interface import prepare
from harness.tuning import simd as tuning_simd
from harness.tuning import simd_parts as tuning_parts
from tests._support.units import needs_masks

SIMD = Simd()
PLUS_TIMES, FLOAT64 = SEMIRINGS["plus_times"], np.dtype(np.float64)
A, B = np.random.default_rng(5).standard_normal((2, 6, 6))


def _is_short(*arguments: Any, **options: Any) -> bool:
    """Whether a call takes the short way; raise whatever else it raises."""
    chosen = []
    staged.forget()  # what is remembered is no short way, but needs no choice either

    def choose(*given: Any) -> Any:
        chosen.append(given)
        return _choose(*given)

    _choose = api_gemm.choose
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_gemm, "choose", choose)
        gemm(*arguments, **options)
    return not chosen


# --------------------------------------------------------------------------------------- which arguments take it

ORDINARY: dict[str, dict[str, Any]] = {
    "nothing": {},
    "semiring": {"semiring": "min_plus"},
    "semiring as an object": {"semiring": SEMIRINGS["min_plus"]},
    "backend": {"backend": "cpu-simd"},
    "one thread": {"threads": 1},
    "all threads": {"threads": machine.detect().cores},
    "None": {"alpha": None, "beta": None, "dtype": None, "c": None, "threads": None},
    "alpha": {"alpha": 1},
    "alpha as a float": {"alpha": 1.0},
    "alpha of NumPy": {"alpha": np.float32(1)},
    "alpha of min_plus": {"alpha": 0.0, "semiring": "min_plus"},
    "dtype": {"dtype": "float64"},
    "dtype as a class": {"dtype": np.float64},
    "dtype as an object": {"dtype": FLOAT64},
    "an alpha": {"alpha": 2},
    "a C": {"c": np.ones(1)},
    "a C and scalars": {"c": np.ones(1), "alpha": -0.5, "beta": np.float32(2)},
    "a C of min_plus": {"c": np.ones(1), "alpha": 3.0, "beta": 2, "semiring": "min_plus"},
    "many": {"semiring": "max_plus", "backend": "cpu-simd", "threads": 1, "alpha": 0, "dtype": float},
}


@needs_masks
@pytest.mark.parametrize("with_out", [False, True])
@pytest.mark.parametrize("options", ORDINARY.values(), ids=ORDINARY)
def test_a_call_with_ordinary_arguments_takes_it_from_the_second_time_on(
    options: dict[str, Any], with_out: bool
) -> None:
    for size in (6, 150):  # computed as it lies, and by a table
        a, b = np.random.default_rng(size).standard_normal((2, size, size))
        if options.get("c") is not None:
            options = {**options, "c": np.random.default_rng(1).standard_normal((size, size))}
        expected = gemm(a, b, **{**options, "backend": "cpu-naive"})
        gemm(a, b, **options)
        out = np.full((size, size), np.nan) if with_out else None
        assert _is_short(a, b, out=out, **options)
        got = gemm(a, b, out=out, **options)
        assert out is None or got is out
        assert got.dtype is FLOAT64
        assert np.allclose(got, expected, rtol=1e-12, atol=1e-12)


OTHERS: dict[str, dict[str, Any]] = {
    "a C that counts nothing": {"c": A, "beta": 0},
    "an alpha of two signs": {"alpha": 0},
    "a backend without": {"backend": "cpu-packed"},
    "a look at the values": {"semiring": "max_min"},
}


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_others_take_the_long_way_each_time(options: dict[str, Any]) -> None:
    for name in ("plus_times", "min_plus"):
        gemm(A, B, semiring=name, alpha=SEMIRINGS[name].one(FLOAT64))
    for _ in range(2):
        assert not _is_short(A, B, **options)
    expected = gemm(A, B, **{**options, "backend": "cpu-naive"})
    assert np.allclose(gemm(A, B, **options), expected, rtol=1e-12, atol=1e-12)


# Equal to an argument that is remembered, as Python has it, and refused all the same; or nothing that can be looked up.
LOOKALIKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "True for a thread": ({"threads": True}, ProblemError, "threads is no number"),
    "1.0 for a thread": ({"threads": 1.0}, ProblemError, "threads is no number"),
    "True for alpha": ({"alpha": True}, ProblemError, "alpha is no value"),
    "a complex alpha": ({"alpha": 1 + 0j}, ProblemError, "alpha is no value"),
    "beta without a C": ({"beta": 1.0}, ProblemError, "beta is given without a C"),
    "a list for alpha": ({"alpha": [1.0]}, ProblemError, "alpha is no value"),
    "an array for alpha": ({"alpha": np.ones(2)}, ProblemError, "alpha is no value"),
    "a list for a semiring": ({"semiring": ["plus_times"]}, ProblemError, "neither a name nor a Semiring"),
    "a list for threads": ({"threads": [1]}, ProblemError, "threads is no number"),
    "another dtype": ({"dtype": "float32"}, ProblemError, "is not that of the product"),
    "1 for a dtype": ({"dtype": 1}, ProblemError, "not a NumPy dtype"),
    "no such backend": ({"backend": "cpu-none"}, BackendUnavailable, "unknown backend"),
}


@pytest.mark.parametrize(("options", "error", "says"), LOOKALIKES.values(), ids=LOOKALIKES)
def test_what_only_looks_like_them_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    for remembered in ({}, {"threads": 1}, {"alpha": 1}, {"alpha": 1.0}, {"dtype": float}):
        gemm(A, B, **remembered)  # type: ignore[arg-type]
    out = np.full((6, 6), 7.0)
    with pytest.raises(error, match=says):
        gemm(A, B, out=out, **options)
    assert (out == 7).all()


def test_what_is_remembered_is_told_apart_by_everything_that_was_given() -> None:
    expected = {"min_plus": (A[:, :, None] + B[None]).min(1), "max_plus": (A[:, :, None] + B[None]).max(1)}
    for name, threads, dtype in [*itertools.product(expected, (None, 1), ("f8", "f4"))] * 2:
        got = gemm(A.astype(dtype), B.astype(dtype), semiring=name, threads=threads)
        assert got.dtype == dtype
        assert np.allclose(got, expected[name], rtol=1e-6)


@needs_masks
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
def test_contiguous_columns_take_it_too(semiring: str) -> None:
    rng = np.random.default_rng(8)
    gemm(A, B, semiring=semiring)
    for m, n, k in ((2, 3, 4), (33, 45, 70), (130, 150, 140), (5, 1, 9), (1, 6, 3), (7, 4, 1)):
        drawn = rng.standard_normal((m, k)), rng.standard_normal((k, n)), np.empty((m, n))
        expected = gemm(*drawn[:2], semiring=semiring, backend="cpu-naive")
        for orders in itertools.product("CF", repeat=3):
            a, b, out = (np.array(x, order=order) for x, order in zip(drawn, orders, strict=True))
            out[...] = np.nan
            assert _is_short(a, b, out=out, semiring=semiring)
            assert np.allclose(out, expected, rtol=1e-12, atol=1e-12), (m, n, k, orders)


@needs_masks
@pytest.mark.parametrize("side", ["A x", "x A"])
def test_a_matrix_by_columns_times_a_vector(side: str, rng: np.random.Generator) -> None:
    matrix, x, room = np.asfortranarray(rng.normal(size=(23, 17))), rng.normal(size=(17, 1)), np.full((23, 3), 7.0)
    a, b, dense, scattered = matrix, x, np.full((23, 1), np.nan), room[:, 1:2]
    if side == "x A":
        a, b, dense, scattered = x.T, np.asfortranarray(matrix.T.copy()), dense.T, scattered.T
    gemm(A, B)  # the shortcut is remembered
    assert _is_short(a, b, out=dense)
    assert np.allclose(dense, a @ b, rtol=1e-12, atol=1e-12)
    gemm(a, b, out=scattered)
    assert np.allclose(scattered, a @ b, rtol=1e-12, atol=1e-12)
    assert (room[:, ::2] == 7).all()


@needs_masks
def test_a_matrix_by_columns_times_a_vector_is_the_transposed_product() -> None:
    shortcut = SIMD.shortcut(PLUS_TIMES, FLOAT64, machine.detect())
    assert shortcut is not None
    *_, large = shortcut.refers_to  # type: ignore[attr-defined]
    by_columns, by_rows, vector = (8, 800), (800, 8), (8, 8)
    assert large._ready(100, 1, 100, by_columns, vector, vector)[0] is small_products.Way.SWAPPED
    assert large._ready(1, 100, 100, vector, by_columns, vector)[0] is small_products.Way.SWAPPED
    assert large._ready(100, 1, 100, by_rows, vector, vector)[0] is small_products.Way.AS_IT_IS
    assert large._ready(100, 1, 1, by_columns, vector, vector)[0] is small_products.Way.AS_IT_IS


@needs_masks
def test_no_more_threads_than_asked_for() -> None:
    for count in (1, 2):
        shortcut = SIMD.shortcut(PLUS_TIMES, FLOAT64, machine.detect().with_threads(count))
        assert shortcut is not None
        *_, large = shortcut.refers_to  # type: ignore[attr-defined]
        *_, run = large._ready(512, 512, 512, (4096, 8), (4096, 8), (4096, 8))
        _, tables, *_ = run.refers_to
        assert [len(table) for table in tables] == [count]


@pytest.mark.parametrize("count", [None, *range(1, machine.detect().cores + 1)])
def test_a_shortcut_is_made_for_the_threads_of_the_call(count: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def shortcut(self: Simd, semiring: Semiring, dtype: np.dtype[Any], here: machine.Machine) -> None:
        made.append(here.threads)

    monkeypatch.setattr(type(registry.find("cpu-simd")), "shortcut", shortcut)
    monkeypatch.setattr(api_gemm, "known_shortcuts", {})
    shortcuts.plain_shortcut.cache_clear()
    gemm(A, B, threads=count)
    shortcuts.plain_shortcut.cache_clear()
    assert made == [count or machine.detect().threads]


@needs_masks
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread is all there is")
def test_nor_fewer() -> None:
    gemm(A, B, threads=2)
    assert _is_short(A, B, threads=2)
    numba.set_num_threads(1)
    try:
        assert not _is_short(A, B, threads=2)
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)


@needs_masks
def test_a_stack_of_matrices_is_computed_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = np.stack([A, B, A])
    gemm(stack, B, threads=1)
    monkeypatch.setattr(type(SIMD), "prepare", None)
    assert np.allclose(gemm(stack, B, threads=1), stack @ B)


@needs_masks
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("options", [{"alpha": 1.5}, {"c": True}, {"c": True, "alpha": -2.0, "beta": 0.5}])
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
def test_sizes_never_seen_take_it_too(
    semiring: str, options: dict[str, Any], threads: int, rng: np.random.Generator
) -> None:
    has_c, scalars = options.get("c", False), {name: x for name, x in options.items() if name != "c"}
    known = {**scalars, "semiring": semiring, "threads": threads}
    gemm(A, B, A if has_c else None, **known)
    for batch, m, n, k in (((), 131, 150, 9), ((3,), 7, 9, 4), ((2, 2), 60, 33, 70), ((2,), 150, 140, 130)):
        a, b, c = (rng.standard_normal((*batch, *sizes)) for sizes in ((m, k), (k, n), (m, n)))
        arrays = (a, b, c) if has_c else (a, b)
        assert _is_short(*arrays, **known)
        products = [gemm(*(x[i] for x in arrays), **known, backend="cpu-naive") for i in np.ndindex(batch)]
        np.testing.assert_allclose(gemm(*arrays, **known), np.reshape(products, (*batch, m, n)), rtol=1e-12, atol=1e-11)


@needs_masks
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_their_blocks_and_threads_are_those_of_a_plan(
    dtype: str, threads: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, made, loops_by = machine.detect().with_threads(threads), [], Settings.loops_by
    product = SIMD.shortcut(PLUS_TIMES, np.dtype(dtype), here)
    assert product is not None
    monkeypatch.setattr(Settings, "loops_by", lambda *given: made.append(given[0]) or loops_by(*given))
    for m, n, k in rng.integers(130, 900, (40, 3)).tolist():
        a, b, out = (np.zeros(sizes, dtype) for sizes in ((m, k), (k, n), (m, n)))
        assert product(a, b, out)
        expected = simd.settings_of(SIMD.plan(Problem(m, n, k, dtype=np.dtype(dtype)), here))
        assert made.pop() == expected


# --------------------------------------------------------------------------------------- which operands take it


def _shortcut(*, adds: bool = False) -> Any:
    if not adds:
        return SIMD.shortcut(PLUS_TIMES, FLOAT64, machine.detect())
    compute = SIMD.whole_shortcut(Problem(1, 1, 1, accumulate=True), machine.detect())
    return compute and (lambda a, b, out: compute(a, b, out, out))


def _fixed(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


class _Named(np.ndarray):
    pass


def _unaligned(x: np.ndarray) -> np.ndarray:
    view = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


NOT_SIMPLE: dict[str, Any] = {
    "None": lambda x: None,
    "a list": lambda x: x.tolist(),
    "a number": lambda x: 3,
    "a class": lambda x: np.ndarray,
    "a bytes object": lambda x: bytes(200),
    "a subclass": lambda x: x.view(_Named),
    "a matrix": lambda x: x.view(np.matrix),
    "masked": lambda x: np.ma.masked_equal(x, 3),
    "a scalar": lambda x: x[0, 0],
    "no dimension": lambda x: np.array(1.0),
    "a vector": lambda x: x[0].copy(),
    "a stack": lambda x: x[None].copy(),
    "float32": lambda x: x.astype("f4"),
    "int64": lambda x: x.astype("i8"),
    "another order of bytes": lambda x: x.astype(">f8"),
    "complex": lambda x: x.astype(complex),
    "objects": lambda x: x.astype(object),
    "a record": lambda x: x.view([("x", "f8")]),
    "dates": lambda x: x.view("M8[s]"),
    "another type of eight bytes": lambda x: x.view(np.uint64),
    "float16": lambda x: x.astype("f2"),
    "more rows": lambda x: np.vstack([x, x]),
    "fewer columns": lambda x: x[:, :-1],
    "empty": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "every other column": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "a row repeated": lambda x: np.broadcast_to(x[0], x.shape),
    "unaligned": _unaligned,
}


@needs_masks
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("what", NOT_SIMPLE)
def test_for_anything_else_nothing_is_done(what: str, place: int, adds: bool) -> None:
    compute, (a, b, out) = _shortcut(adds=adds), (A.copy(), B.copy(), np.full((6, 6), 7.0))
    given: list[Any] = [a, b, out]
    given[place] = NOT_SIMPLE[what](given[place])
    before = pickle.dumps(given)
    assert compute(*given) is False
    assert pickle.dumps(given) == before
    assert compute(a, b, out) is True
    assert np.allclose(out, a @ b + 7 * adds)


@needs_masks
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["plus_times", "min_plus"])
@pytest.mark.parametrize("scalars", [(None, None), (3.7, None), (None, 0.3), (3.7, 0.3)])
def test_sums_with_products_have_the_bits_of_prepared_ones(
    name: str, threads: int, scalars: tuple[Any, Any], rng: np.random.Generator
) -> None:
    here, whole = machine.detect().with_threads(threads), (SEMIRINGS[name], FLOAT64, *scalars, True)
    compute = SIMD.whole_shortcut(Problem(1, 1, 1, *whole), here)
    assert compute is not None
    for m, n, k in ((1, 1, 1), (5, 7, 3), (30, 300, 32), (300, 1, 200), (1, 300, 200), (90, 250, 700), (700, 600, 2)):
        a, b, c = (rng.standard_normal(shape) for shape in ((m, k), (k, n), (m, n)))
        room = np.zeros((m + 2, n + 3))
        for left, right in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b))):
            for target in (room[1:-1, 2:-1] if n > 1 else c.copy(), c.copy(order="F")):
                target[...], other = c, np.full_like(target, np.nan)
                assert compute(left, right, target, target)
                expected = target.copy(order="K")
                expected[...] = c
                plan = SIMD.plan(Problem(m, n, k, *whole), here)
                prepare(SIMD, plan, Operands(left, right, expected, expected)).run_once()
                assert np.array_equal(target, expected)
                assert compute(left, right, other, c)
                assert np.array_equal(other, expected)
        assert not room[[0, -1]].any()
        assert not room[:, [0, 1, -1]].any()


@needs_masks
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scalars", [(None, None), (3.7, None), (None, 0.3), (3.7, 0.3)])
def test_so_have_those_of_batches(threads: int, scalars: tuple[Any, Any], rng: np.random.Generator) -> None:
    here, whole = machine.detect().with_threads(threads), (PLUS_TIMES, FLOAT64, *scalars, True)
    compute = SIMD.whole_shortcut(Problem(1, 1, 1, *whole), here)
    assert compute is not None
    for batch, m, n, k in (((3,), 5, 7, 3), ((2, 3), 40, 33, 50), ((30,), 24, 24, 24), ((2,), 90, 250, 400)):
        a, b, c = (rng.choice([-0.0, 0.0, 1.5], (*batch, *sizes)) for sizes in ((m, k), (k, n), (m, n)))
        plan = SIMD.plan(Problem(m, n, k, *whole, batch=batch), here)
        for left, right in ((a, b), (np.broadcast_to(a[:1], a.shape), b), (a, b.mT.copy().mT), (a[..., ::-1, :], b)):
            expected, got, same = np.full((3, *c.shape), np.nan)
            prepare(SIMD, plan, Operands(left, right, c, expected)).run_once()
            assert compute(left, right, got, c)
            same[...] = c
            assert compute(left, right, same, same)
            for result in (got, same):
                assert result.tobytes() == expected.tobytes()


@needs_masks
def test_nothing_of_a_batch_is_written_unless_all_of_it_fits(rng: np.random.Generator) -> None:
    compute = SIMD.whole_shortcut(Problem(1, 1, 1, alpha=2, accumulate=True), machine.detect())
    assert compute is not None
    a, b, c, room = rng.standard_normal((4, 5, 6, 6))
    out, column = room[:3], np.ones((3, 6, 1))
    wrong = (
        (a[:3], b[:2], out, c[:3]), (a[:3], b[:3], out, c[:2]), (a[:3], b[:3], out, room[1:4]),
        (out, b[:3], out, c[:3]), (a[:3], b[:3], out, c[:3].astype("f4")), (a[:3], b[:3], out, c[0]),
        (a[:3], column, column.copy(), column),  # of vectors, which a plan may transpose
    )  # fmt: skip
    before = room.copy()
    for given in wrong:
        assert compute(*given) is False
        assert np.array_equal(room, before)
    assert compute(a[:3], b[:3], out, c[:3])
    assert np.allclose(out, 2 * a[:3] @ b[:3] + c[:3])


NO_C: dict[str, Any] = {
    "a list": lambda out, c: c.tolist(),
    "more rows": lambda out, c: np.vstack([c, c]),
    "a row": lambda out, c: c[:1],
    "another dtype": lambda out, c: c.astype("f4"),
    "another order of bytes": lambda out, c: c.astype(">f8"),
    "a subclass": lambda out, c: c.view(_Named),
    "unaligned": lambda out, c: _unaligned(c),
    "out by columns": lambda out, c: out.T,
}


@needs_masks
@pytest.mark.parametrize("what", NO_C)
def test_for_another_c_nothing_is_done(what: str) -> None:
    compute, out, c = SIMD.whole_shortcut(Problem(6, 6, 6, alpha=2, accumulate=True), machine.detect()), A + 1, B.copy()
    assert compute is not None
    before = out.copy()
    assert compute(A, B, out, NO_C[what](out, c)) is False
    assert np.array_equal(out, before)
    assert compute(A, B, out, c)
    assert np.allclose(out, 2 * A @ B + c)


@needs_masks
@pytest.mark.parametrize("in_place", [False, True])
def test_a_nan_of_c_is_absent_where_terms_are_selected(in_place: bool) -> None:
    c = np.where(A > 0, A - 9, np.nan)
    for beta in (None, 1.5):
        for _ in range(2):
            given = c.copy()
            got = gemm(A, B, given, beta=beta, semiring="min_plus", out=given if in_place else None)
            assert np.array_equal(got, np.fmin((A[:, :, None] + B).min(1), c + (beta or 0)))


def test_scalars_of_many_values_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_gemm, "MOST_SHORTCUTS", 5)
    for value in np.linspace(1, 2, 20).tolist():
        assert np.allclose(gemm(A, B, alpha=value), value * A @ B)
    assert len(shortcuts.known_shortcuts) <= 5


@needs_masks
def test_a_matrix_by_its_own_transpose_is_added_too(rng: np.random.Generator) -> None:
    compute = _shortcut(adds=True)
    rows = max(tuning_parts.SIMD_FEWEST_ROWS_TO_MIRROR, 100)
    a, c = rng.standard_normal((rows, tuning_parts.SIMD_FEW_TERMS + 1)), rng.standard_normal((rows, rows))
    expected = c + a @ a.T
    assert compute(a, a.T, c)
    assert np.allclose(c, expected, rtol=0, atol=1e-12)


@needs_masks
def test_few_tables_of_large_products_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, ...]] = []

    def prepare(loops_of: Any, adds: bool, m: int, n: int, k: int, *strides: Any) -> Any:
        made.append((m, n, k))
        return False, lambda *arrays: None, lambda: None

    monkeypatch.setattr(small_products, "_ready_product", prepare)
    monkeypatch.setattr(small_products, "MOST_LARGE_SHAPES", 2)
    monkeypatch.setattr(small_products, "LARGE_PAIRS", 64)
    products, out = small_products.LargeProducts(lambda shape, is_swapped: None), np.empty((9, 9))  # type: ignore[arg-type,return-value]
    for size in [*range(1, 9)] * 2:
        products.compute(out[:size, :size], out[:size, :size], out)
    assert sorted(made) == [(n, n, n) for n in (1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8)]


@needs_masks
def test_nor_where_out_is_read_only_or_overlaps() -> None:
    compute, memory = _shortcut(), np.random.default_rng(3).standard_normal((14, 6))
    before = memory.copy()
    rows = [memory[i : i + 6] for i in range(9)]
    for begin, other in itertools.product(range(9), repeat=2):
        if abs(begin - other) < 6:
            assert compute(rows[begin], B, rows[other]) is False
            assert compute(B, rows[begin], rows[other]) is False
    assert compute(A, B, _fixed(memory[:6])) is False
    assert np.array_equal(memory, before)
    assert compute(rows[0], _fixed(B), rows[6]) is True
    assert np.allclose(rows[6], rows[0] @ B)


@needs_masks
def test_a_dtype_that_only_equals_numpys_own_is_the_same() -> None:
    a, out = (pickle.loads(pickle.dumps(x)) for x in (A, np.empty((6, 6))))
    assert a.dtype is not A.dtype
    gemm(A, B)
    assert _is_short(a, B, out=out)
    assert gemm(a, B).dtype is FLOAT64
    for _ in range(2):
        gemm(A.astype("f4"), B.astype("f4"))
        assert _is_short(a, B)  # one dtype does not supplant the other
        assert not _is_short(A.astype(">f8"), B.astype(">f8"))  # the same type, in another order of bytes


# --------------------------------------------------------------------------------- where an array keeps what it is


def test_arrays_are_as_declared() -> None:
    assert has_known_layout()


def _moved(declared: type[ctypes.Structure], name: str) -> type[ctypes.Structure]:
    """Return the declaration of a structure with 8 bytes more before one of its fields."""
    fields = [(f[0], f[1]) for f in declared._fields_]
    place = [f[0] for f in fields].index(name)
    fields.insert(place, ("more", ctypes.c_byte * 8))
    return type("Moved", (ctypes.Structure,), {"_fields_": tuple(fields)})


@pytest.mark.parametrize("field", ["type", "data", "ndim", "shape", "strides", "dtype", "flags"])
def test_an_array_that_is_made_otherwise_is_seen(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_object, "ArrayFields", _moved(ArrayFields, field))
    assert not has_known_layout.__wrapped__()


@pytest.mark.parametrize("field", ["kind", "number"])
def test_so_is_a_dtype(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_object, "DtypeFields", _moved(DtypeFields, field))
    assert not has_known_layout.__wrapped__()


def test_then_there_is_no_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simd, "has_known_layout", lambda: False)
    assert _shortcut() is None


@needs_masks
def test_threads_share_products_that_one_thread_computes_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[int] = []
    blocking = tuning_simd.blocks_around

    def recorded(tile: Any, sizes: tuple[int, int, int], *others: Any) -> Any:
        planned.append(sizes[0])
        return blocking(tile, sizes, *others)

    monkeypatch.setattr(tuning_simd, "blocks_around", recorded)
    for threads, shared in ((1, []), (2, [112, 128])):
        planned.clear()
        product = SIMD.shortcut(PLUS_TIMES, FLOAT64, machine.detect().with_threads(threads))
        assert product is not None
        for size in (96, 112, 128):
            a, b = np.random.default_rng(size).integers(-9, 9, (2, size, size)).astype(float)
            out = np.full((size, size), np.nan)
            assert product(a, b, out)
            np.testing.assert_array_equal(out, a @ b)
        assert [size for size in planned if size > 1] == shared
