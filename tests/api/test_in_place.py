"""Backends that declare it add a product to a C that is the output, as to any other C."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from backends.gpu._program.program import Matrix, Place
from backends.gpu.tuned import Tuned
from harness import gemm, registry
from harness.api import gemm as api_gemm
from harness.interface import prepare
from harness.machine import detect
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.reference import product
from harness.semiring import SEMIRINGS

KINDS = [
    ("min_plus", "float64"),  # which tests/test_contract.py compiles for every rung
    ("min_plus", "int16"),
    ("plus_times", "int64"),
    ("plus_times", "float64"),
    ("lor_land", "bool"),
    ("plus_times", "complex128"),
]


def backends(*, on_device: bool) -> list[str]:
    """Return the names of those that declare it and work here."""
    known = [entry.backend for entry in registry.discover() if entry.backend]
    return [
        x.name for x in known
        if x.accumulates_in_place and ("device arrays" in x.takes) == on_device and not x.missing()
    ]  # fmt: skip


def check(name: str, kinds: list[tuple[str, str]], to_device=lambda x: x, to_host=lambda x: x) -> None:
    backend, computed = registry.find(name), 0
    for semiring, dtype in kinds:
        sizes = [(37, 29, 41), (5, 3, 0), (128, 128, 64), (41, 1, 37), (1, 41, 37), (33, 1, 33)]
        for beta, (m, n, k) in [*((None, size) for size in sizes), (3, sizes[0]), (3, sizes[-2])]:
            if dtype == "bool" and beta is not None:
                continue
            problem = Problem(m, n, k, SEMIRINGS[semiring], np.dtype(dtype), beta=beta, accumulate=True)
            if backend.refuses(problem) and m == k:
                problem = dataclasses.replace(problem, triangle="a")
            if backend.refuses(problem):
                continue
            given = Operands.generate(problem, 4)
            expected = product(problem, given.a, given.b, given.c)
            a, b, out = (to_device(x) for x in (given.a, given.b, given.c))
            produced = prepare(backend, backend.plan(problem, detect()), Operands(a, b, out, out)).run_once()
            assert produced is out
            tolerance = 0 if problem.is_exact else 1e-4 if dtype == "float32" else 1e-11
            np.testing.assert_allclose(to_host(out), expected, tolerance, tolerance, err_msg=f"{name} {problem}")
            computed += 1
    assert computed


def test_backends_on_the_host_declare_it():
    assert {"cpu-simd", "cpu-packed", "cpu-naive", "cpu-numpy"} <= set(backends(on_device=False))


@pytest.mark.deep(but=4)
@pytest.mark.parametrize("name", backends(on_device=False))
def test_a_product_is_added_to_the_output_on_the_host(name):
    # kernels of a backend differ by the operations alone; libraries compute few of them
    check(name, KINDS if registry.find(name).calls_libraries else KINDS[:1])


class TestPublicCall:
    """`gemm` with an out that is C needs no memory for another result."""

    SIZE = 300  # beyond what is computed in arrays of its own

    @pytest.fixture
    def operands(self, rng):
        return [rng.random((self.SIZE, self.SIZE)) for _ in range(3)]

    @pytest.fixture
    def _without_copies(self, monkeypatch):
        monkeypatch.setattr(api_gemm, "_aside", None)

    @pytest.mark.usefixtures("_without_copies")
    @pytest.mark.parametrize("backend", ["auto", "cpu-simd", "cpu-packed", "cpu-numpy"])
    @pytest.mark.parametrize("scalars", [{}, {"alpha": 1.5}, {"beta": 0.5}, {"alpha": 1.5, "beta": 0.5}], ids=str)
    def test_the_product_is_added_where_c_lies(self, scalars, backend, operands):
        a, b, c = operands
        expected = gemm(a, b, c, backend=backend, **scalars)
        for out in (c.copy(), c.copy(order="F"), np.dstack([c, c])[..., 1]):
            assert gemm(a, b, out, out=out, backend=backend, **scalars) is out
            np.testing.assert_allclose(out, expected, 1e-12)

    @pytest.mark.usefixtures("_without_copies")
    @pytest.mark.parametrize("semiring", ["min_plus", "max_min", "logaddexp_plus"])
    def test_over_other_semirings(self, semiring, operands):
        a, b, c = operands
        expected = gemm(a, b, c, semiring=semiring)
        assert np.array_equal(gemm(a, b, c, out=c, semiring=semiring), expected)

    def test_a_nan_of_c_is_absent_and_an_operand_that_overlaps_is_read_first(self, operands):
        a, b, c = operands
        c[3, 4] = np.nan
        expected = gemm(a, b, c, semiring="min_plus")
        assert not np.isnan(expected).any()
        assert np.array_equal(gemm(a, b, c, out=c, semiring="min_plus"), expected)
        expected = a + a @ b
        np.testing.assert_allclose(gemm(a, b, a, out=a), expected, 1e-12)

    def test_an_out_that_overlaps_c_otherwise_is_no_c_in_place(self, operands):
        a, b, c = operands
        for same in (c[::-1], c.T, c.view(np.int64)):  # begins elsewhere, has other strides, is of another dtype
            room = c.copy()
            view = np.ndarray(same.shape, same.dtype, room, same.ctypes.data - c.ctypes.data, same.strides)
            expected = view + a @ b
            np.testing.assert_allclose(gemm(a, b, view, out=room), expected, 1e-12)


@pytest.mark.gpu
def test_a_product_is_added_to_the_output_on_a_gpu():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    names = backends(on_device=True)
    if not names:
        pytest.skip("no CUDA device")
    for name in names:
        if name not in ("gpu-cublas-tf32", "gpu-torch", "gpu-triton"):  # those round more than is allowed here
            check(name, KINDS, cupy.asarray, lambda x: x.get())


@pytest.mark.parametrize(("beta", "launches"), [(None, 0), (3.0, 1)])
def test_a_gpu_product_copies_no_c_that_is_the_output(beta, launches):
    problem = Problem(64, 64, 64, SEMIRINGS["plus_times"], np.dtype("float64"), beta=beta, accumulate=True)
    a, b, out = (Matrix(Place(name), 64) for name in ("a", "b", "out"))
    rung = Tuned()
    apart = rung.program(rung.plan(problem, detect()), a, b, Matrix(Place("c"), 64), out)
    same = rung.program(rung.plan(problem, detect()), a, b, out, out)
    assert len(same.steps) == len(apart.steps) - 1 + launches
