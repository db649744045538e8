"""Complex numbers by cpu-simd: every way through the loops gives what four products of parts give."""

import dataclasses
import itertools
import re
from collections import Counter

import numba
import numpy as np
import pytest

from backends.cpu._simd.product import prepare_generated, prepare_symmetric
from backends.cpu._vector import elements
from backends.cpu.simd import Simd, settings_of
from harness import Problem, gemm
from harness.machine import detect

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="generated code has no Python form"),
    pytest.mark.no_cover,
]
DTYPES = ("complex64", "complex128")
# Whole tiles and edges, one row, one column, few terms beside many elements, and one of each.
SHAPES = ((17, 13, 9), (1, 40, 33), (40, 1, 33), (300, 200, 2), (1, 1, 1))


def drawn(rng, shape, dtype, order="C"):
    parts = rng.standard_normal((*shape, 2))
    return np.array(parts[..., 0] + 1j * parts[..., 1], dtype, order=order)


def settings(dtype, threads=1, **sizes):
    plan = Simd().plan(Problem(**sizes, dtype=dtype), detect().with_threads(threads))
    return settings_of(plan)


def is_product(out, a, b, conjugates=""):
    """Return whether `out` is within the bound of sums in any order."""
    x, y = (operand.conj() if name in conjugates else operand for name, operand in zip("ab", (a, b), strict=True))
    bound = (a.shape[1] + 4) * np.finfo(out.dtype).eps * (np.abs(a) @ np.abs(b))
    return (np.abs(out - x.astype(complex) @ y.astype(complex)) <= bound).all()


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("conjugates", ["", "a", "b", "ab"])
def test_conjugates_in_every_layout(dtype, conjugates, rng):
    semiring = Problem(1, 1, 1).semiring
    for (m, n, k), (of_a, of_b, of_out) in zip(
        itertools.cycle(SHAPES), itertools.product("CF", repeat=3), strict=False
    ):
        a, b, out = drawn(rng, (m, k), dtype, of_a), drawn(rng, (k, n), dtype, of_b), np.empty((m, n), dtype, of_out)
        chosen = dataclasses.replace(settings(dtype, m=m, n=n, k=k), conjugates=conjugates)
        prepare_generated(semiring, chosen, a, b, out, False)()
        assert is_product(out, a, b, conjugates), (m, n, k, of_a, of_b, of_out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("conjugates", ["", "a", "b", "ab"])
def test_a_matrix_by_its_own_transpose(dtype, conjugates, rng):
    a, out = drawn(rng, (130, 90), dtype), np.empty((130, 130), dtype)
    chosen = dataclasses.replace(settings(dtype, m=130, n=130, k=90), conjugates=conjugates)
    run = prepare_generated(Problem(1, 1, 1).semiring, chosen, a, a.T, out, False)
    assert "SelfProduct" in repr(run.func), "half of it is mirrored"
    run()
    assert is_product(out, a, a.T, conjugates)
    assert np.array_equal(out, out.T.conj() if len(conjugates) == 1 else out.T), "equal to the last bit"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_hermitian", [False, True])
def test_one_triangle_by_a_vector(dtype, is_hermitian, rng):
    semiring = Problem(1, 1, 1).semiring
    for n, order, threads in zip((1, 2, 3, 4, 5, 7, 8, 17, 33, 200), "CF" * 5, (1, 1, 2, 2) * 3, strict=False):
        lower = np.tril(drawn(rng, (n, n), dtype))
        whole = lower + (np.tril(lower, -1).conj().T if is_hermitian else np.tril(lower, -1).T)
        if is_hermitian:
            np.fill_diagonal(whole, whole.diagonal().real)
        stored, x, out = np.array(lower, order=order), drawn(rng, (n, 1), dtype), np.empty((n, 1), dtype)
        stored[np.triu_indices(n, 1)] = np.nan
        chosen = settings(dtype, threads, m=n, n=1, k=n)
        prepare_symmetric(semiring, chosen, stored, x, out, False, is_hermitian=is_hermitian)()
        assert is_product(out[:, None] if out.ndim == 1 else out, whole, x[:, None] if x.ndim == 1 else x), (n, order)


def test_the_loop_of_a_tile_is_that_of_real_numbers():
    loops = {}
    for dtype in ("float64", "complex128"):
        problem = Problem(64, 64, 64, dtype=dtype)
        listed = Simd().listing(Simd().plan(problem, detect()))
        loops[dtype] = Counter(re.findall(r"^    ([a-z]+)", listed.partition("\n\n")[2], re.MULTILINE))
    vectors = {
        dtype: {x: n for x, n in loop.items() if "pd" in x or "2d" in x or "fmla" in x} for dtype, loop in loops.items()
    }
    assert vectors["complex128"] == vectors["float64"] != {}


def test_parts_that_are_no_numbers_stand_where_four_products_have_them(rng):
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0]
    elements_of_a = np.array([complex(x, y) for x, y in itertools.product(special, repeat=2)])
    for a, b in ((elements_of_a[:, None], elements_of_a[None, :]), (elements_of_a[:, None], elements_of_a[None, :1])):
        out = gemm(a, b, backend="cpu-simd", threads=1)
        with np.errstate(all="ignore"):
            real = 0.0 + a.real * b.real - (0.0 + a.imag * b.imag)
            imaginary = 0.0 + a.real * b.imag + (0.0 + a.imag * b.real)
        assert np.array_equal(out.real, real, equal_nan=True)
        assert np.array_equal(out.imag, imaginary, equal_nan=True)


@pytest.mark.parametrize("fault", ["i y is y", "conjugated"])
def test_planted_signs_are_found(fault, monkeypatch, rng):
    wrong = {"i y is y": ((1, 1), (1, 1)), "conjugated": ((1, 1), (1, -1))}[fault]
    monkeypatch.setattr(elements, "_of_rows", lambda operations: wrong)
    a, b, out = drawn(rng, (9, 4), "complex128"), drawn(rng, (4, 6), "complex128"), np.empty((9, 6), "complex128")
    odd = dataclasses.replace(settings("complex128", m=9, n=6, k=4), block_steps=0, conjugates="planted")
    prepare_generated(Problem(1, 1, 1).semiring, odd, a, b, out, False)()
    assert np.abs(out - a @ b).max() > 0.1
