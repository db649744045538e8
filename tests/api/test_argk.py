"""The k that each element of a selective product comes from: against the definition, term by term, by NumPy alone."""

import importlib
import itertools
import math
import os
import signal
import threading
import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from backends.cpu._vector.unit import usable_units
from harness import (
    SEMIRINGS,
    BackendUnavailable,
    Operands,
    Problem,
    ProblemError,
    Semiring,
    VerificationError,
    gemm_argk,
    registry,
)
from harness.api.argk import locator, numbering, slices
from harness.proof import reference
from harness.tuning import argk as tuning_argk
from tests._support.bools import assert_bools, bools_of_any_byte, truth
from tests._support.pairs import pairs
from tests._support.simd_products import BACKEND, Kernel

SELECTIVE = tuple(name for name, semiring in SEMIRINGS.items() if semiring.add.is_selective)
# Both (+), fast and careful forms, every size of element and kind of number: each is compiled in about 10 s.
DTYPES = {"min_plus": "float64", "max_plus": "int16", "max_min": "float32", "lor_land": "bool"}
KERNELS = [(name, np.dtype(dtype)) for name, dtype in DTYPES.items()]
# How k is cut depends on the length of an element alone: of two bytes and of four.
CAREFUL = KERNELS[1:3]
BACKENDS = [entry.name for entry in registry.discover() if entry.name.startswith("cpu-") and not entry.unavailable()]
# m, n and k that straddle chunks of 64 terms, tiles of the passes and of the search, and blocks of k, of one length for
# each dtype: another is another kernel (test_blocks_of_any_size_give_the_same)
SHAPES = [(1, 1, 1), (2, 3, 64), (5, 7, 65), (3, 129, 63), (131, 33, 130), (70, 260, 4), (4, 5, 510), (2, 1100, 70)]


@pytest.fixture(autouse=True)
def _small_products_are_searched_too(monkeypatch):
    monkeypatch.setattr(tuning_argk, "ARGK_TRACKED_PAIRS", 1 << 20)


def by_definition(semiring, a, b):
    """Return the product and, of each element, the smallest k whose term equals it, and -1 where that is the zero."""
    (m, k), n = a.shape, b.shape[1]
    problem = Problem(m, n, k, semiring, a.dtype)
    return reference.product(problem, a, b), reference.argk(problem, a, b)


def _greater(c, t):
    return max(c, t)


def assert_as_defined(semiring, a, b, **how):
    product, argk = gemm_argk(a, b, semiring=semiring, threads=1, **how)
    expected, where = by_definition(semiring, a, b)
    assert product.dtype == a.dtype
    assert argk.dtype == np.int32
    assert np.array_equal(product, expected)
    assert np.array_equal(argk, where)


def draw(rng, shape, dtype):
    """Return few different values, so that ties are everywhere, among them zeros, extremes, infinities and NaN."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.2
    if dtype.kind == "f":
        special = [np.inf, -np.inf, np.nan, 0.0, -0.0]
        return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), rng.integers(-4, 5, shape)).astype(dtype)
    info = np.iinfo(dtype)
    extreme = rng.choice([info.min, info.max, info.max - 1, info.min + 1], shape)
    return np.where(rng.random(shape) < 0.2, extreme, rng.integers(0, 5, shape)).astype(dtype)


@pytest.mark.deep(but=2)
@pytest.mark.parametrize(("name", "dtype"), KERNELS)
def test_argk_is_the_smallest_k_that_attains_the_value(name, dtype, rng):
    for m, n, k in SHAPES[KERNELS.index((name, dtype)) % 2 :: 2]:  # in turn: another k is often another kernel
        assert_as_defined(SEMIRINGS[name], draw(rng, (m, k), dtype), draw(rng, (k, n), dtype))


@pytest.mark.deep(but=2)
@pytest.mark.parametrize(("name", "dtype"), KERNELS)
def test_every_term_of_a_small_product_is_tracked(name, dtype, rng, monkeypatch):
    monkeypatch.setattr(locator, "_Search", None)  # nothing is searched
    for m, n, k in ((1, 1, 1), (5, 7, 65), (31, 33, 128), (3, 70, 4)):
        assert_as_defined(SEMIRINGS[name], draw(rng, (m, k), dtype), draw(rng, (k, n), dtype), backend="cpu-simd")


@pytest.mark.deep(but=4)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_gives_the_same(backend, rng):
    for name in ("min_plus", "max_min") if backend == "cpu-simd" else ("min_plus",):
        dtype = np.dtype(DTYPES[name])
        a, b = draw(rng, (9, 300), dtype), draw(rng, (300, 11), dtype)
        if registry.find(backend).declines(Problem(9, 11, 300, SEMIRINGS[name], dtype)):
            with pytest.raises(BackendUnavailable, match="declines"):
                gemm_argk(a, b, semiring=name, backend=backend)
        else:
            assert_as_defined(SEMIRINGS[name], a, b, backend=backend)


@pytest.mark.deep
@hypothesis.given(
    *[strategies.integers(1, 40)] * 2, strategies.integers(1, 200), strategies.integers(0, 2**32), strategies.data()
)
def test_argk_of_random_products(m, n, k, seed, data):
    name, dtype = data.draw(strategies.sampled_from(KERNELS))
    rng = np.random.default_rng(seed)
    assert_as_defined(SEMIRINGS[name], draw(rng, (m, k), dtype), draw(rng, (k, n), dtype))


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(("rows", "columns", "steps"), [(3, 5, 7), (1000, 1000, 100)])
def test_blocks_of_any_size_give_the_same(rows, columns, steps, rng, monkeypatch):
    monkeypatch.setattr(tuning_argk, "argk_blocks", lambda *_: (rows, columns, steps))
    monkeypatch.setattr(tuning_argk, "argk_steps", lambda _: steps)
    a, b = draw(rng, (11, 75), np.dtype(np.float64)), draw(rng, (75, 13), np.dtype(np.float64))
    for backend in ("cpu-transposed", "cpu-simd"):  # beside the product, and in its micro-kernel
        assert_as_defined(SEMIRINGS["min_plus"], a, b, backend=backend)
    monkeypatch.setattr(numbering, "_NUMBERS", "nobody")
    assert_as_defined(SEMIRINGS["min_plus"], a, b, backend="cpu-transposed")  # tile by tile


def test_a_product_that_differs_from_the_one_its_blocks_are_numbered_by_is_found_out(rng, monkeypatch):
    backend = registry.find("cpu-transposed")
    whole = backend.prepare

    def prepare(plan, operands):
        execution = whole(plan, operands)
        run = execution.run

        def spoiled():
            run()
            operands.out[2, 3] -= 1

        execution.run = spoiled
        return execution

    monkeypatch.setattr(type(backend), "prepare", lambda self, plan, operands: prepare(plan, operands))
    a, b = rng.random((5, 40)), rng.random((40, 6))
    with pytest.raises(VerificationError, match="by cpu-transposed is none of its terms"):
        gemm_argk(a, b, backend="cpu-transposed")


def test_a_backend_may_return_an_array_of_its_own(rng, monkeypatch):
    backend = registry.find("cpu-transposed")
    whole = type(backend).prepare

    def prepare(self, plan, operands):
        own = np.empty_like(operands.out)
        execution = whole(self, plan, Operands(operands.a, operands.b, None, own))
        operands.out.fill(np.nan)
        return execution

    monkeypatch.setattr(type(backend), "prepare", prepare)
    assert_as_defined(SEMIRINGS["min_plus"], rng.random((5, 40)), rng.random((40, 6)), backend="cpu-transposed")


@pytest.mark.parametrize("unit", [unit.name for unit in usable_units()])
def test_every_vector_unit_notes_the_same_blocks(unit, rng):
    kernel, steps = Kernel("min_plus", "float32", unit, 4, 2), 16
    whole = [(2 * kernel.mr, kernel.nr, k) for k in (15, 16, 17, 31, 32, 33, 48, 100)]  # around blocks
    for m, n, k in ((1, 1, 3), (9, 2 * kernel.nr + 1, 40), *whole):
        problem = kernel.problem(m, n, k)
        a, b = draw(rng, (m, k), problem.dtype), draw(rng, (k, n), problem.dtype)
        product, where = by_definition(problem.semiring, a, b)
        block, out = np.empty((m, n), np.int8), np.full((m, n), np.nan, problem.dtype)
        BACKEND.prepare_blocks(kernel.plan(problem), Operands(a, b, None, out), block, steps).run()
        assert np.array_equal(out, product)
        assert np.array_equal(block, where // steps)


SMALL, NEARLY_TOO_LARGE, OF_64_BITS = ("int32", -30, 30), ("int32", 2**30 - 9, 2**30 - 1), ("int64", -(2**40), 2**40)
# A minimum and a maximum of either width, and each way to make a term: each kind is compiled in seconds.
WITH_ROOM = [("min_plus", *SMALL), ("min_plus", *NEARLY_TOO_LARGE), ("max_min", *NEARLY_TOO_LARGE)]
WITH_ROOM += [("max_plus", *OF_64_BITS)]


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(("name", "dtype", "low", "high"), WITH_ROOM)
def test_integers_that_leave_room_carry_their_k(name, dtype, low, high, rng, monkeypatch):
    part = importlib.import_module("backends.cpu._argk.passes")
    # all of k at once, and in parts: 70 terms by 64, of which the last has fewer
    for m, n, k, fewest in ((5, 19, 1, 1), (5, 19, 70, 512), (5, 19, 70, 64)):
        monkeypatch.setattr(tuning_argk, "ARGK_PACKED_STEPS", fewest)
        monkeypatch.setattr(part, "blocks_of", None)  # no numbers of blocks are wanted
        a, b = (rng.integers(low, high, shape, dtype) for shape in ((m, k), (k, n)))
        if fewest == 64:
            found = part.packing
            monkeypatch.setattr(part, "packing", lambda *args, found=found: found(*args)._replace(shift=6))
        assert_as_defined(SEMIRINGS[name], a, b, backend="cpu-transposed")


def test_integers_that_leave_no_room_are_searched(rng):
    part = importlib.import_module("backends.cpu._argk.passes")
    semiring, info = SEMIRINGS["min_plus"], np.iinfo(np.int32)

    def packing(semiring, a, b):
        return part.packing(semiring, a.dtype, a.shape[1], part.ranges_of(semiring, a, b), 512)

    for extreme in (info.max, info.min, info.max // 2, 2**23):
        a, b = (rng.integers(0, 9, shape, np.int32) for shape in ((5, 600), (600, 7)))
        a[2, 3] = extreme
        assert packing(semiring, a, b) is None
        assert_as_defined(semiring, a, b, backend="cpu-transposed")
    a[2, 3] = 2**20
    assert packing(semiring, a, b).steps == 1024
    assert packing(semiring, a.astype(np.int16), b.astype(np.int16)) is None
    assert packing(SEMIRINGS["max_times"], a, b) is None


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64"])
def test_blocks_are_whole_cache_lines_and_no_more_than_asked(dtype):
    itemsize = np.dtype(dtype).itemsize
    for k in (1, 63, 1024, 1025, 4096, 5000, tuning_argk.ARGK_LONGEST):
        steps = tuning_argk.argk_steps(Problem(2, 2, k, "min_plus", dtype))
        lines, rest = divmod(steps * itemsize, 64)
        assert rest == 0
        assert -(-k // steps) <= tuning_argk.ARGK_MOST_BLOCKS
        if lines > 1:  # no longer than need be, by a line or, of many terms, by half
            shorter = steps - 64 // itemsize if steps <= tuning_argk.ARGK_BLOCK_STEPS else steps // 2
            most = tuning_argk.ARGK_BLOCKS if shorter < tuning_argk.ARGK_BLOCK_STEPS else tuning_argk.ARGK_MOST_BLOCKS
            assert -(-k // shorter) > most


def of_many_terms(semiring, a, b):
    """Return what `by_definition` does, by halves of k."""
    add, multiply, zero, work = reference.algebra(semiring, a.dtype)
    with np.errstate(all="ignore"):
        terms = multiply(a.T.astype(work)[:, :, None], b.astype(work)[:, None])
        terms = total = add(np.full_like(terms, zero), terms)
        while len(total) > 1:
            half = len(total) // 2
            total = np.concatenate([add(total[:half], total[half : 2 * half]), total[2 * half :]])
    return total[0], np.where(total[0] != zero, (terms == total).argmax(0), -1)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "dtype"), CAREFUL)
def test_k_of_any_length(name, dtype, rng):
    # In turn: each is another kernel, and how k is cut is the same for both.
    edges = (127, 128, 129, 4096, 4097, 8193, *(2**i + one for i in (14, 16) for one in (-1, 0, 1)), 65538, 300_001)
    edges = edges[CAREFUL.index((name, dtype)) :: 2]
    for k, (m, n) in itertools.product(edges, ((1, 1), (2, 3))):
        if m == 1 and k < tuning_argk.ARGK_LONGEST:
            continue
        a, b = draw(rng, (m, k), dtype), draw(rng, (k, n), dtype)
        if dtype.kind == "f":  # many values: late terms are the best, also in the shorter last slice
            a += np.arange(k, dtype=dtype) if name == "max_min" else -np.arange(k, dtype=dtype)
        product, argk = gemm_argk(a, b, semiring=name)
        expected, where = of_many_terms(SEMIRINGS[name], a, b)
        np.testing.assert_array_equal(product, expected, err_msg=f"{m} x {n} x {k}")
        np.testing.assert_array_equal(argk, where, err_msg=f"{m} x {n} x {k}")


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("backend", ["cpu-simd", "cpu-packed"])
def test_slices_of_slices_of_k(backend, rng, monkeypatch):
    monkeypatch.setattr(tuning_argk, "ARGK_LONGEST", 16)
    monkeypatch.setattr(tuning_argk, "ARGK_MOST_BLOCKS", 5)
    for k, (m, n) in itertools.product((16, 17, 31, 32, 33, 80, 81, 399, 400, 401, 997), ((1, 1), (1, 3), (9, 11))):
        a, b = draw(rng, (k, m), np.dtype(np.float64)).T, draw(rng, (k, n), np.dtype(np.float64))
        assert_as_defined(SEMIRINGS["min_plus"], a, b, backend=backend)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(("name", "dtype"), CAREFUL)
def test_two_long_k_compile_the_same_kernels(name, dtype, rng):
    compiled = importlib.import_module("backends.cpu._ir.functions")._addresses
    keys = []
    for k in (500_000, 1_100_001):
        gemm_argk(draw(rng, (1, k), dtype), draw(rng, (k, 2), dtype), semiring=name)
        keys.append(set(compiled))
    assert keys[0] == keys[1]


def test_ctrl_c_is_heard_between_slices_of_k(monkeypatch):
    heard = []
    whole = slices.Slices.run

    def search(self):
        search_of = self._search

        def interrupted(*arguments):
            if heard:
                raise AssertionError("the product goes on")
            search_of(*arguments)
            heard.append(True)
            signal.raise_signal(signal.SIGINT)

        self._search = interrupted
        whole(self)

    monkeypatch.setattr(slices.Slices, "run", search)
    a = np.ones((4, 3 * tuning_argk.ARGK_LONGEST))
    with pytest.raises(KeyboardInterrupt):
        gemm_argk(a, a.T)
    monkeypatch.undo()
    assert_as_defined(SEMIRINGS["min_plus"], a[:, :300], a.T[:300])  # what the interrupted call held is free


def test_layouts_batches_and_mixed_dtypes(rng):
    a = rng.integers(0, 9, (3, 1, 20, 6)).astype(np.float64)[..., ::-1].swapaxes(-1, -2)
    b = rng.integers(0, 9, (2, 20, 8)).astype(np.float32)[:, ::-1]
    product, argk = gemm_argk(a, b)
    terms = a[..., :, :, None] + b[None, :, None]
    assert np.array_equal(product, terms.min(axis=-2))
    assert np.array_equal(argk, terms.argmin(axis=-2))


@pytest.mark.parametrize("order", ("C", "F"))
def test_a_row_or_a_column_times_a_matrix_by_rows_or_columns(order, rng):
    for m, n, k in itertools.product((1, 3, 40), (1, 2, 7, 33), (5, 75, 200)):
        a, b = (np.array(rng.integers(-50, 50, shape), np.float32, order=order) for shape in ((m, k), (k, n)))
        product, argk = gemm_argk(a, b, backend="cpu-simd")
        terms = a[:, :, None] + b
        np.testing.assert_array_equal(product, terms.min(1))
        np.testing.assert_array_equal(argk, terms.argmin(1), err_msg=f"{(m, n, k)}")


LAYOUTS = {
    "rows": lambda *shape: np.empty(shape),
    "columns": lambda *shape: np.empty((*shape[:-2], shape[-1], shape[-2])).mT,
    "steps": lambda *shape: np.empty((*shape[:-2], 2 * shape[-2], 3 * shape[-1]))[..., ::2, ::3],
    "backwards": lambda *shape: np.empty((*shape[:-2], shape[-1], shape[-2])).mT[..., ::-1, ::-1],
    "steps backwards": lambda *shape: np.empty((*shape[:-2], 2 * shape[-2], 2 * shape[-1]))[..., ::-2, ::-2],
}


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("backend", ["cpu-simd", "cpu-packed"])  # one that says k itself, and one that does not
@pytest.mark.parametrize(("m", "n"), [(1, 50), (50, 1), (7, 30)])
def test_batches_of_rows_and_columns_in_any_layout_write_nothing_beside_the_results(m, n, backend, rng):
    around = 256
    for batch, k, of_a, of_b in pairs([(), (16,), (2, 3)], (1, 2, 20, 130), LAYOUTS, LAYOUTS):
        a, b = LAYOUTS[of_a](*batch, m, k), LAYOUTS[of_b](*batch, k, n)
        for x in (a, b):
            x[...] = rng.integers(0, 9, x.shape)
        terms = a[..., :, :, None] + b[..., None, :, :]
        size = math.prod(batch) * m * n
        rooms = [np.full(size + 2 * around, 77, dtype) for dtype in (np.float64, np.int32)]
        out = tuple(room[around:-around].reshape(*batch, m, n) for room in rooms)
        gemm_argk(a, b, backend=backend, out=out)
        what = f"{batch} of {m} x {n} x {k}, {of_a} by {of_b}"
        np.testing.assert_array_equal(out[0], terms.min(-2), err_msg=what)
        np.testing.assert_array_equal(out[1], terms.argmin(-2), err_msg=what)
        for room in rooms:
            assert (room[:around] == 77).all(), what
            assert (room[-around:] == 77).all(), what


@pytest.mark.parametrize("backend", ["cpu-simd", "cpu-naive"])  # one that says k itself, and one that does not
def test_any_byte_but_0_of_a_bool_is_true(backend, rng):
    for batch, (m, n, k) in itertools.product([(), (3,)], [(1, 1, 1), (20, 33, 64), (7, 9, 130), (2, 3, 300)]):
        a, b = (bools_of_any_byte(rng, (*batch, *shape)) for shape in ((m, k), (k, n)))
        b = b.mT.copy().mT  # by columns
        for _ in range(3):  # remembered calls read the operands anew
            terms = truth(a)[..., :, :, None] & truth(b)[..., None, :, :]
            product, argk = gemm_argk(a, b, semiring="lor_land", backend=backend)
            assert_bools(product, terms.any(-2))
            assert np.array_equal(argk, np.where(terms.any(-2), terms.argmax(-2), -1))
            a[...] = bools_of_any_byte(rng, a.shape)


def test_operands_that_need_no_copy_are_read_where_they_lie(rng):
    a, b = (draw(rng, shape, np.dtype(np.float64)) for shape in ((9, 64), (64, 7)))  # whole blocks of 16 terms
    assert_as_defined(SEMIRINGS["min_plus"], a, np.asfortranarray(b))
    assert_as_defined(SEMIRINGS["min_plus"], np.asfortranarray(a), b)


def test_sizes_of_zero():
    product, argk = gemm_argk(np.empty((2, 0)), np.empty((0, 3)))
    assert np.isinf(product).all()
    assert (argk == -1).all()
    for shape in ((0, 3), (3, 0)):
        product, argk = gemm_argk(np.empty((shape[0], 4)), np.empty((4, shape[1])))
        assert product.shape == argk.shape == shape
    assert gemm_argk(np.empty((0, 2, 2)), np.empty((2, 2)))[1].shape == (0, 2, 2)


def test_no_path_has_no_k_and_nan_is_never_named():
    a = np.array([[np.inf, np.inf], [np.nan, 1.0], [np.nan, np.nan], [-np.inf, np.inf]])
    product, argk = gemm_argk(a, np.array([[np.inf], [2.0]]))
    assert product.ravel().tolist() == [np.inf, 3.0, np.inf, np.inf]
    assert argk.ravel().tolist() == [-1, 1, -1, -1]


def test_signed_zeros_are_equal():
    _, argk = gemm_argk(np.array([[0.0, -0.0]]), np.array([[0.0], [-0.0]]))
    assert argk.tolist() == [[0]]


def test_a_semiring_of_ones_own(rng):
    own = Semiring.from_functions(
        "farthest",
        _greater,
        lambda x, y: abs(x - y) / 2,
        zero=-np.inf,
        is_selective=True,
        kinds="f",
    )
    a, b = rng.integers(0, 9, (6, 90)).astype(float), rng.integers(0, 9, (90, 70)).astype(float)
    terms = np.abs(a[:, :, None] - b) / 2
    product, argk = gemm_argk(a, b, semiring=own)
    assert np.array_equal(product, terms.max(axis=1))
    assert np.array_equal(argk, terms.argmax(axis=1))


@pytest.mark.deep
def test_a_semiring_that_only_says_it_selects_is_found_out():
    false = Semiring.from_functions(
        "sum", lambda c, t: c + t, lambda x, y: x * y, zero=0.0, is_selective=True, kinds="f"
    )
    with pytest.raises(VerificationError, match="none of its terms"):
        gemm_argk(np.ones((2, 5)), np.ones((5, 2)), semiring=false, threads=1, backend="cpu-naive")


@pytest.mark.parametrize("name", [name for name in SEMIRINGS if name not in SELECTIVE])
def test_a_sum_has_no_argk(name):
    dtype = bool if SEMIRINGS[name].unsupported(np.dtype(float)) else float
    with pytest.raises(ProblemError, match="no single term") as error:
        gemm_argk(np.ones((2, 2), dtype), np.ones((2, 2), dtype), semiring=name)
    assert "min_plus" in str(error.value)


def test_operands_that_do_not_fit_are_refused_as_by_gemm():
    with pytest.raises(ProblemError, match="inner sizes"):
        gemm_argk(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(BackendUnavailable, match="unknown backend"):
        gemm_argk(np.ones((2, 2)), np.ones((2, 2)), backend="cpu-nothing")
    with pytest.raises(ProblemError, match="threads"):
        gemm_argk(np.ones((2, 2)), np.ones((2, 2)), threads=0)


@pytest.mark.deep
def test_search_as_vectors_and_term_by_term_agree(rng, monkeypatch):
    searching = importlib.import_module("backends.cpu._argk.search")
    semiring, dtype, steps = SEMIRINGS["max_min"], np.dtype(np.float64), 100
    by_vectors = searching.build_search(semiring, dtype, steps, is_careful=True)
    monkeypatch.setattr(searching, "operations", lambda *_: None)
    by_terms = searching.build_search.__wrapped__(semiring, dtype, steps)
    a, b = draw(rng, (4, 180), dtype), draw(rng, (180, 26), dtype)
    terms = np.minimum(a[:, :, None], b[None])  # a NaN is a term that no value equals
    c = np.fmax.reduce(terms, axis=1)
    where = (terms == c[:, None]).argmax(axis=1)
    block = (where // steps).astype(np.int8)
    for search in (by_vectors, by_terms):
        for across, down, height, width in ((1, 1, 9, 26), (1, 3, 1, 17), (2, 1, 3, 13), (3, 2, 1, 5), (2, 5, 9, 30)):
            argk, missing, panels = (
                np.full(c.shape, -7, np.int32),
                np.zeros(across * down, np.int64),
                np.empty((across * down, width, 184)),
            )
            search(a, b, c, block, argk, across, height, panels, missing)()
            assert not missing.any()
            assert np.array_equal(argk, where)
            search(a, b, c, np.full_like(block, -1), argk, across, height, panels, missing)()
            assert not missing.any()
            assert (argk == -1).all()
            search(a, b, c + 0.5, block, argk, across, height, panels, missing)()
            assert missing.sum() == across * min(down, len(a))


def test_a_forked_child_searches_while_another_thread_does(monkeypatch):
    number_blocks, has_begun, may_end = locator.number_blocks, threading.Event(), threading.Event()

    def slow(*arguments):
        if threading.current_thread() is thread:
            has_begun.set()
            may_end.wait(60)
        return number_blocks(*arguments)

    a = np.arange(12.0).reshape(4, 3)
    expected = gemm_argk(a, a.T, backend="cpu-packed")
    monkeypatch.setattr(locator, "number_blocks", slow)
    thread = threading.Thread(target=gemm_argk, args=(a.T, a), kwargs={"backend": "cpu-packed"})
    thread.start()
    assert has_begun.wait(60)
    with warnings.catch_warnings(action="ignore"):  # Python warns of forks beside threads
        child = os.fork()
    if not child:
        signal.alarm(120)  # ends a child that waits for a lock
        os._exit(not all(map(np.array_equal, gemm_argk(a, a.T, backend="cpu-packed"), expected)))
    status = os.waitpid(child, 0)[1]
    may_end.set()
    thread.join()
    assert status == 0
