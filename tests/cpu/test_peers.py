"""Peers: listed with a reason where absent, and held to the contract of every backend where installed."""

import itertools
import platform
import re

import numpy as np
import pytest

from backends.cpu.libraries._blas import absent
from backends.cpu.libraries._cblas import has_contiguous_lines
from backends.cpu.libraries.tropical_gemm import has_no_nan_term
from harness import Operands, Problem, gemm, machine, registry
from harness.dtypes import named_dtype
from harness.operands import poison
from harness.proof.verify import verify
from tests._support.pairs import pairs
from tests._support.processes import python

BLAS = ("cpu-scipy", "cpu-blis", "cpu-mkl", "cpu-torch", "cpu-openblas")
PEERS = (*BLAS, "cpu-tropical-gemm")
SIZES = ((1, 1, 1), (1, 7, 3), (7, 1, 3), (5, 6, 1), (17, 19, 23), (0, 3, 2), (3, 0, 2), (2, 3, 0))
SCALARS = ((False, None, None), (True, None, None), (True, 2.0, -3.0), (False, np.inf, None), (False, 0.0, None))
LAYOUTS = ["".join(letters) for letters in itertools.product("CFA", repeat=3)]
# Any two of A, B and C lie in each pair of ways. Special values are sought by the elements, however the third lies.
PAIRS_OF_LAYOUTS = ("CCC", "CFF", "CAA", "FCF", "FFA", "FAC", "ACA", "AFC", "AAF")
SPECIAL = {"none": [], "nan": [np.nan], "one infinity": [np.inf], "all": [np.nan, np.inf, -np.inf]}


def entry_of(name):
    return next(entry for entry in registry.discover() if entry.name == name)


def installed(names):
    """Return `names` as parameters of a test; those of absent peers are skipped, with the reason."""
    reasons = {name: entry_of(name).unavailable() for name in names}
    return [pytest.param(name, marks=[pytest.mark.skip(reason)] if reason else []) for name, reason in reasons.items()]


def compute(backend, problem, operands):
    """Run twice into a poisoned output, as a harness does; return the result."""
    execution = backend.prepare(backend.plan(problem, machine.detect()), operands)
    for _ in range(2):
        poison(operands.out)
        execution.run()
        execution.wait()
    return execution.result()


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_is_listed_with_a_reason_if_it_is_absent(name):
    entry = entry_of(name)
    assert entry.backend is not None
    assert 80 <= entry.backend.step <= 95
    reason = entry.unavailable()
    assert reason is None or re.fullmatch(r"package (.+) is not installed: pip install \1", reason)


def test_absence_is_found_without_importing():
    assert absent("json") is None
    assert absent("no_such_module", "no-wheel") == "package no-wheel is not installed: pip install no-wheel"


@pytest.mark.parametrize("name", BLAS)
def test_blas_declines_what_it_does_not_know(name):
    backend = entry_of(name).backend
    assert backend.declines(Problem(2, 2, 2)) is None
    assert backend.declines(Problem(2, 2, 2, dtype=np.dtype(np.float32))) is None
    assert "plus_times only" in backend.declines(Problem(2, 2, 2, "min_plus"))
    assert "float32, float64, complex64" in backend.declines(Problem(2, 2, 2, dtype=np.dtype(np.int32)))
    assert backend.refuses(Problem(2, 2, 2, dtype=np.dtype(np.complex64))) is None


def test_tropical_gemm_declines_what_it_computes_by_other_rules():
    backend = entry_of("cpu-tropical-gemm").backend
    assert backend.declines(Problem(2, 2, 2, "min_plus")) is None
    assert backend.declines(Problem(2, 2, 2, "max_plus", np.dtype(np.float32))) is None
    assert "starts max_times from 0" in backend.declines(Problem(2, 2, 2, "max_times"))
    assert "sums wrap" in backend.declines(Problem(2, 2, 2, "min_plus", np.dtype(np.int32)))
    assert "float32 and float64" in backend.declines(Problem(2, 2, 2, "min_plus", np.dtype(np.int8)))
    assert "only" in backend.declines(Problem(2, 2, 2))


FAULTS = """
import resource
from harness import Operands, Problem, machine, registry

problem = Problem(512, 512, 512, "min_plus", "float32")
backend = registry.find("cpu-tropical-gemm")
execution = backend.prepare(backend.plan(problem, machine.detect()), Operands.generate(problem, 1))
count = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    before = count()
    execution.run()
print(count() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
@pytest.mark.parametrize("name", installed(PEERS[-1:]))
def test_a_product_of_tropical_gemm_needs_no_new_pages(name):
    assert int(python("-c", FAULTS).stdout) < 100


@pytest.mark.deep(but=24)
@pytest.mark.parametrize("name", installed(PEERS))
@pytest.mark.parametrize("values", SPECIAL)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_every_size_layout_and_scalar_is_right(name, dtype, values):
    backend = entry_of(name).backend
    if dtype == "complex64" and name not in BLAS:
        assert "complex" in backend.refuses(Problem(2, 2, 2, dtype=np.dtype(dtype)))
        return
    semirings = ("plus_times",) if name in BLAS else ("min_plus", "max_plus")
    layouts = PAIRS_OF_LAYOUTS if SPECIAL[values] else LAYOUTS
    for semiring, size, layout, scalars in pairs(semirings, SIZES, layouts, SCALARS):
        accumulate, alpha, beta = scalars
        problem = Problem(*size, semiring, np.dtype(dtype), alpha, beta, accumulate, layout)
        operands = Operands.generate(problem, 1)
        strew(operands, SPECIAL[values])
        before = [None if x is None else x.copy() for x in (operands.a, operands.b, operands.c)]
        verify(problem, operands, compute(backend, problem, operands), seed=1)
        for x, old in zip((operands.a, operands.b, operands.c), before, strict=True):
            assert x is None or np.array_equal(x, old, equal_nan=True), f"{name} changed an operand: {problem} {layout}"


def strew(operands, values):
    """Put `values` at some places of A, B and C."""
    rng = np.random.default_rng(3)
    for x in (operands.a, operands.b, operands.c):
        if values and x is not None and x.size:
            places = rng.random(x.shape) < 0.06
            x[places] = rng.choice(values, size=places.sum())


@pytest.mark.parametrize("name", installed(BLAS))
def test_through_gemm_on_one_thread(name):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((30, 40))[::2], rng.standard_normal((25, 40)).T
    assert np.allclose(gemm(a, b, backend=name, threads=1), a @ b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", installed(BLAS))
def test_an_out_that_is_not_aligned_is_written_to(name, rng):
    a, b = rng.standard_normal((5, 7)), rng.standard_normal((7, 3))
    out = np.frombuffer(bytearray(5 * 3 * 8 + 1), np.float64, offset=1).reshape(5, 3)
    np.testing.assert_allclose(gemm(a, b, out=out, backend=name), a @ b)
    np.testing.assert_allclose(gemm(a, b, out, out=out, backend=name), 2 * (a @ b))


def test_which_layouts_cblas_takes():
    x = np.zeros((6, 8))
    taken = [x, x.T, x[:, :4], x[::2], x[:, 2:3], x[1:2, ::3].T[:0], np.zeros((1, 1))]
    assert all(has_contiguous_lines(view) for view in taken)
    refused = [x[::2, ::2], x[::-1], x[:, ::-1], np.broadcast_to(x[0], (3, 8))]
    assert not any(has_contiguous_lines(view) for view in refused)


def test_nan_terms_are_foreseen():
    inf, nan = np.inf, np.nan
    plain, up, down = np.array([[1.0, 2.0]]), np.array([[inf, 1.0]]), np.array([[-inf, 1.0]])
    assert has_no_nan_term(plain, plain.T)
    assert has_no_nan_term(up, up.T)
    assert has_no_nan_term(down, plain.T)
    with np.errstate(invalid="ignore"):
        assert not has_no_nan_term(up, down.T)
        assert not has_no_nan_term(down, up.T)
        assert not has_no_nan_term(plain, np.array([[nan], [1.0]]))
        assert not has_no_nan_term(np.array([[nan, inf]]), plain.T)


@pytest.mark.parametrize("name", installed(["cpu-mkl"]))
@pytest.mark.parametrize("layout", ["CCC", "FFC", "AAC"])
def test_mkl_keeps_subnormal_bfloat16_whatever_the_processor_does(name, layout):
    problem = Problem(5, 7, 9, dtype="float32", operand_dtype=named_dtype("bfloat16"), layout=layout)
    operands = Operands.generate(problem, 3)
    tiny = np.float32(2.0**-130)
    for matrix in (operands.a, operands.b):
        matrix[...] = 1
    operands.a[2, 4], operands.b[4, 5] = tiny, np.inf
    want = np.full((5, 7), 9, np.float32)
    want[:, 5], want[2] = np.inf, 8  # 8 + tiny is 8
    want[2, 5] = np.inf
    assert np.array_equal(compute(entry_of(name).backend, problem, operands), want)
