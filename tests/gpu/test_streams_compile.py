"""gpu-symv, gpu-rank-update and kernels of triangles, compiled for Hopper; the registers that they take are bounded."""

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._program.program import Matrix, Place
from harness import SEMIRINGS, registry
from harness.machine import detect
from harness.problem import Problem
from harness.tuning.gpu.tensor_cores import HOPPER_TILES
from tests.gpu.on_cpu import needs_nvrtc
from tests.gpu.test_kernels_compile import REGISTERS

pytestmark = pytest.mark.no_cover

BACKENDS = {entry.name: entry.backend for entry in registry.discover() if entry.name.startswith("gpu-")}
KINDS = (("plus_times", "float32"), ("min_plus", "float32"), ("plus_times", "float64"), ("min_plus", "int32"))
KINDS += (("max_plus", "int8"), ("max_min", "int16"))


def kernels(name, problem, **parameters):
    """Return the kernels of a product of operands without gaps."""
    backend = BACKENDS[name]
    names = ["a", "b", *(["c"] if problem.accumulate else []), "out"]
    matrices = (Matrix(Place(x), problem.k if x == "a" else problem.n) for x in names)
    program = backend.program(backend.plan(problem, detect()).override(parameters), *matrices)
    return [step.kernel for step in program.steps]


def check(kernel, arch, most_spilled=0):
    taken = resources(compile_kernel(kernel.stem, kernel.defines, arch + kernel.suffix))[kernel.function]
    assert taken.spill_bytes <= most_spilled
    assert taken.registers * int(np.prod(kernel.block)) <= REGISTERS
    return taken


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_symmetric_matrices_times_vectors_spill_nothing(semiring, dtype):
    scalars = {"accumulate": True, "alpha": 3, "beta": 2}
    sizes = ((1000, {}), (8192, {}), (8191, scalars))
    for n, options in sizes[KINDS.index((semiring, dtype)) % 2 :: 2]:  # in turn
        problem = Problem(n, 1, n, SEMIRINGS[semiring], np.dtype(dtype), triangle="a", **options)
        for kernel in kernels("gpu-symv", problem):
            resident = dict(kernel.defines)["RESIDENT"] if kernel.function == "strips" else 1024
            taken = check(kernel, "sm_90", most_spilled=96)  # with which rows that begin anywhere are the fastest
            assert taken.registers * int(resident) <= REGISTERS


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype"), KINDS[:5])
def test_updates_spill_nothing(semiring, dtype):
    sizes = ((4096, 4096, 1, ""), (4096, 4096, 1, "d"), (1 << 20, 1, 1, ""), (4096, 4096, 16, ""))
    for m, n, k, triangle in sizes[KINDS.index((semiring, dtype)) % 2 :: 2]:
        problem = Problem(m, n, k, SEMIRINGS[semiring], np.dtype(dtype), accumulate=True, triangle=triangle)
        for kernel in kernels("gpu-rank-update", problem):
            check(kernel, "sm_90", most_spilled=64)  # of whole tiles, gpu-tensor-core spills as much


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(("name", "semiring", "dtype", "n"), (
    *(("gpu-tuned", *kind, n) for kind, n in zip(KINDS[:4], (1024, 4096, 4096, 1024), strict=True)),
    ("gpu-tensor-core", "plus_times", "float32", 4096), ("gpu-tensor-core", "plus_times", "float64", 1024),
))  # fmt: skip
def test_triangles_spill_nothing(name, semiring, dtype, n):
    problem = Problem(n, n, n, SEMIRINGS[semiring], np.dtype(dtype), triangle="d")
    for kernel in kernels(name, problem):
        assert ("TRIANGLE", "1") in kernel.defines or kernel.stem in ("extremes", "split")
        check(kernel, "sm_90", most_spilled=64)  # of whole tiles, gpu-tensor-core spills as much


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize(("dtype", "unit"), (("float32", "wgmma"), ("float64", "tma")))
def test_triangles_by_instructions_of_hopper_spill_nothing(dtype, unit):
    launch = dict(vars(HOPPER_TILES[dtype]))
    depth = 16 if dtype == "float64" else 8
    problem = Problem(4096, 4096, 4096, SEMIRINGS["plus_times"], np.dtype(dtype), triangle="d")
    for kernel in kernels("gpu-tensor-core", problem, unit=unit, depth=depth, **launch):
        check(kernel, "sm_90")
