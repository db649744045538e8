"""Kernels around and beside products, compiled for the chips they are for: they spill nothing, and blocks can run."""

import numpy as np
import pytest

from backends.gpu import ozaki
from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import as_defines, compile_kernel, resources
from backends.gpu._program.operators import semiring_defines
from backends.gpu._program.program import Matrix, Place
from backends.gpu._sequences.program import Layout, StepsProgram, trace_program
from backends.gpu._simt import argk
from backends.gpu._tasks import ceilings, layouts
from harness import SEMIRINGS
from harness.errors import Declined
from harness.machine import detect
from harness.problem import Problem
from tests._support.processes import python
from tests.gpu.on_cpu import needs_nvrtc
from tests.gpu.test_kernels_compile import MOST_REGISTERS, REGISTERS

pytestmark = pytest.mark.no_cover


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(
    ("semiring", "dtype", "arch"),
    (
        ("min_plus", "float32", "sm_90"),
        ("max_min", "float64", "sm_80"),
        ("max_plus", "int32", "sm_75"),
        ("lor_land", "bool", "sm_90"),
    ),
)
def test_argk_compiles_and_spills_next_to_nothing(semiring, dtype, arch):
    problem = Problem(100, 100, 100, SEMIRINGS[semiring], np.dtype(dtype))
    a, b, out = (Matrix(Place(name), 100) for name in ("a", "b", "out"))
    steps = argk.argk_program(problem, a, b, out, Matrix(Place("which"), 1)).steps
    for step in (step for step in steps if step.kernel.stem == "argk"):
        taken = resources(compile_kernel("argk", step.kernel.defines, arch))["argk"]
        assert taken.spill_bytes <= 16  # of float64 on sm_80, once a tile
        assert taken.registers <= MOST_REGISTERS
        assert taken.registers * int(np.prod(step.kernel.block)) <= REGISTERS


@needs_nvrtc
@pytest.mark.parametrize("dtype", (np.dtype(np.float32), np.dtype(np.float64)), ids=str)
def test_sums_of_exponentials_compile(dtype):
    of_columns = {"COLUMN_THREADS": 1024, "ACROSS": 8}
    defines = semiring_defines(SEMIRINGS["logaddexp_plus"], dtype) + as_defines(of_columns)
    found = resources(compile_kernel("log_sum_exp", defines, "sm_90"))
    assert set(found) == {"scale_rows", "scale_columns", "finish"}
    assert all(taken.spill_bytes == 0 and taken.registers <= 64 for taken in found.values())


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize("is_one", (False, True))
@pytest.mark.parametrize("states", (8, 100, 256, 1000))
@pytest.mark.parametrize(
    ("semiring", "dtype"), (("logaddexp_plus", "float32"), ("max_plus", "float64"), ("max_plus", "int32"))
)
def test_steps_of_sequences_compile(semiring, dtype, states, is_one):
    problem, moves = Problem(3, states, states, SEMIRINGS[semiring], np.dtype(dtype)), (0, 0, states)
    layout = Layout(3, 10, states, moves, (states, states), is_one)
    steps = StepsProgram(problem, layout, "after", 200 << 10, None, is_relative=False).program.steps
    for step in [*steps, *(trace_program(problem, layout).steps if semiring == "max_plus" else ())]:
        for taken in resources(compile_kernel(step.kernel.stem, step.kernel.defines, "sm_90")).values():
            assert taken.spill_bytes <= 16  # of what a step takes off, which is stored once a step
            assert taken.registers * int(np.prod(step.kernel.block)) <= REGISTERS


@needs_nvrtc
@pytest.mark.parametrize("along_memory", (False, True))
def test_orders_in_memory_compile(along_memory):
    defines = layouts.layout_defines("columns", "tiles", along_memory=along_memory)
    found = resources(compile_kernel("layout", defines, "sm_80"))
    assert set(found) == {"naive", "tiled", "change", "transpose"}
    assert all(taken.spill_bytes == 0 for taken in found.values())


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize(("dtype", "options"), (
    ("float64", {}), ("float32", {"gate": "certified"}),  # tests.gpu.chips has each gate
), ids=str)  # fmt: skip
def test_passes_around_products_of_residues_compile(dtype, options):
    problem = Problem(1000, 1001, 999, dtype=np.dtype(dtype), accumulate=True, alpha=2.0, beta=3.0)
    plan = ozaki.Ozaki().plan(problem, detect()).override(options)
    a, b, c, out = (Matrix(Place(name), ld) for name, ld in (("a", 999), ("b", 1001), ("c", 1001), ("out", 1001)))
    kernels = {x for x in ozaki.Ozaki().program(plan, a, b, c, out).kernels() if x.stem != "tensor_core_s8"}
    native = "tensor_core_f64_tma" if dtype == "float64" else "tuned"
    assert {"norms", "residues", "crt", "native", native} <= {x.stem for x in kernels}
    for kernel in kernels:
        taken = resources(compile_kernel(kernel.stem, kernel.defines, f"sm_90{kernel.suffix}"))[kernel.function]
        assert taken.spill_bytes <= 32  # of the trial, in calls of exp2 for each element
        assert taken.registers * int(np.prod(kernel.block)) <= REGISTERS
        assert taken.shared_bytes + kernel.shared_bytes <= device.planned().shared_memory


@needs_nvrtc
def test_the_sum_that_only_reads_keeps_its_loads_in_flight_in_registers():
    taken = resources(compile_kernel("read", ceilings.READ_DEFINES, "sm_90"))["read"]
    assert taken.spill_bytes == 0
    assert taken.registers >= 4 * ceilings.READER_LOADS
    assert taken.registers * ceilings.READERS * ceilings.READER_BLOCKS <= REGISTERS


@pytest.mark.parametrize(
    "prepare",
    (
        lambda: layouts.product(kernel="naive", n=64, a="rows", b="rows"),
        lambda: layouts.change(n=64, to="tiles"),
        lambda: ceilings.bandwidth(size_bytes=64, threads=1),
        lambda: ceilings.read(size_bytes=64, threads=1),
    ),
)
def test_without_a_gpu_tasks_say_what_is_missing(prepare, monkeypatch):
    monkeypatch.setattr("backends.gpu._cuda.device.missing", lambda: "no CUDA device")
    with pytest.raises(Declined, match="no CUDA device") as raised:
        prepare()
    assert raised.value.status == "missing"


# Both threads begin with the library, which neither has loaded.
TWO_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from backends.gpu._cuda import nvrtc

def compiled(name):
    nvrtc.version()
    return bool(nvrtc.compile_source("__global__ void " + name + "(int* x) { *x = 1; }", "one.cu", "sm_90").cubin)

with ThreadPoolExecutor(2) as threads:
    assert all(threads.map(compiled, "abcdef"))
"""


@needs_nvrtc
def test_threads_may_be_the_first_to_compile_at_once():
    for _ in range(2):
        python("-c", TWO_THREADS)
