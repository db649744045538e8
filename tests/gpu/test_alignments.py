"""The first product of a class compiles the kernels of further sizes, whose rows begin elsewhere."""

import numpy as np
import pytest

from backends.gpu._program import packed
from backends.gpu._program.program import Matrix, Place
from backends.gpu._simt.alignments import of_other_rows
from harness import SEMIRINGS
from harness.machine import detect
from harness.problem import Problem
from tests.gpu.host_gpu import install
from tests.gpu.on_cpu import RUNGS


def kernels(semiring, dtype, n, ld=None, name="gpu-tuned"):
    """Return the kernels of a product of squares that are parts of arrays with rows of `ld`."""
    matrices = Matrix(Place("a"), ld or n), Matrix(Place("b"), ld or n), Matrix(Place("out"), n)
    return kernels_of(Problem(n, n, n, SEMIRINGS[semiring], np.dtype(dtype)), matrices, name)


def kernels_of(problem, matrices, name="gpu-tuned"):
    rung = RUNGS[name]
    return {(x.stem, x.defines, x.suffix) for x in rung.program(rung.plan(problem, detect()), *matrices).kernels()}


SIZES = ((600, 600), (599, 600), (599, 599), (583, 600), (553, 553))


@pytest.mark.parametrize(
    ("semiring", "dtype"),
    (
        ("max_times", "float32"),
        ("max_min", "float64"),
        ("plus_min", "int32"),
        ("min_plus", "int32"),
        ("plus_min", "int16"),
    ),
)
@pytest.mark.parametrize("first", SIZES[:3], ids=str)
def test_further_sizes_of_a_class_need_no_other_kernel(semiring, dtype, first):
    jobs = kernels(semiring, dtype, *first)
    known = jobs | {*of_other_rows(jobs)}
    for n, ld in SIZES:
        assert kernels(semiring, dtype, n, ld) <= known
    forms = len([job for job in jobs if job[0] == "tuned"])
    assert len(known) == len(jobs) + 2 * forms  # no more than those


@pytest.mark.parametrize(
    ("name", "dtype", "n", "more"),
    (("gpu-paired", "int16", 600, 3), ("gpu-tuned", "float32", 4096, 2)),  # fast, careful twice; fast, careful
)
def test_copies_have_aligned_rows(name, dtype, n, more):
    jobs = kernels("min_plus", dtype, n, name=name)
    known = jobs | {*of_other_rows(jobs)}
    assert {job for job in kernels("min_plus", dtype, n + 1, name=name) if job[0] == "tuned"} <= known
    assert len(known) == len(jobs) + more


@pytest.mark.parametrize("dtype", ("float32", "int32", "float64"))
@pytest.mark.parametrize(("m", "n"), ((50_000, 9), (50_000, 19)))
def test_panels_of_further_k_need_no_other_kernel(m, n, dtype):
    def of(k):
        matrices = Matrix(Place("a"), k), Matrix(Place("b"), n), Matrix(Place("out"), n)
        return kernels_of(Problem(m, n, k, SEMIRINGS["min_plus"], np.dtype(dtype)), matrices)

    first, *further = (200, 201, 202, 203, 204)
    jobs = of(first)
    assert ("row_panels" if n == 9 else "warp_panels") in {job[0] for job in jobs}
    known = jobs | {*of_other_rows(jobs)}
    for k in further:
        assert of(k) <= known


def test_other_kernels_have_none():
    assert of_other_rows(kernels("min_plus", "float32", 600, name="gpu-pipelined")) == []


def test_a_product_compiles_them_with_its_own(monkeypatch):
    asked = []
    gpu = install(monkeypatch)
    monkeypatch.setattr(packed, "compile_together", lambda jobs, alike: asked.append((jobs, alike())))
    problem = Problem(600, 600, 600, SEMIRINGS["max_times"], np.dtype(np.float32))
    matrices = (Matrix(Place(name), 600) for name in ("a", "b", "out"))
    tuned = RUNGS["gpu-tuned"]
    packed.PackedProgram.of(tuned.program(tuned.plan(problem, detect()), *matrices), {"a": 4, "b": 4, "out": 4})
    ((jobs, alike),) = asked
    assert jobs == kernels("max_times", "float32", 600)
    assert kernels("max_times", "float32", 599) <= {*jobs, *alike}
    assert gpu.launches == []
