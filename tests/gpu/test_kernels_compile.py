"""The SIMT kernels of the tables in tuning_gpu, compiled for the chips they are for; what they take is bounded."""

import numpy as np
import pytest

from backends.gpu._cuda import nvrtc
from backends.gpu._cuda.kernel_files import as_defines, compile_kernel, find_source, resources
from backends.gpu._program.program import Matrix, Place
from harness import SEMIRINGS
from harness.machine import detect
from harness.problem import Problem
from tests._support.processes import python
from tests.gpu.on_cpu import RUNGS, needs_nvrtc

pytestmark = pytest.mark.no_cover

LADDER = (
    "gpu-naive-block",
    "gpu-naive",
    "gpu-row",
    "gpu-tiled",
    "gpu-register-tiled",
    "gpu-warp-tiled",
    "gpu-pipelined",
)
# Every idea that a rung can leave out (harness/tuning/gpu/rungs.py), several at once where that is as good a proof.
LEFT_OUT = (
    ("gpu-row", {"bn": 8, "tn": 8}),
    ("gpu-tiled", {"unroll": 0, "bm": 12, "bn": 12, "bk": 12}),
    ("gpu-register-tiled", {"places": "each load"}),
    ("gpu-warp-tiled", {"global_load": 4, "shared_load": 4}),
    ("gpu-warp-tiled", {"global_load": 32, "shared_load": 32}),
    ("gpu-warp-tiled", {"tile_a": "rows"}),
    ("gpu-pipelined", {"stages": 1, "fragments": "at step"}),
    ("gpu-pipelined", {"stages": 3, "fragments": "rolled", "past_end": "wrapped", "global_load": 4, "shared_load": 8}),
)
# One of each row of the table of tuned tiles.
KINDS = (
    ("plus_times", "float32"),
    ("min_plus", "float32"),
    ("min_plus", "int32"),
    ("plus_times", "float64"),
    ("min_plus", "float64"),
    ("plus_times", "int16"),
)
# 65536 registers of a multiprocessor and the 255 that a thread can have, on every chip since sm_70.
REGISTERS, MOST_REGISTERS = 65536, 255
FAST_OR_ONLY = ("0", "1")


def kernels(name, semiring, dtype, n, operand_dtype=None, **parameters):
    """Return the product's kernels of one plan, those with the careful form of (x) of integers left out."""
    m, k = min(n, 32) if name == "gpu-naive-block" else n, n
    problem = Problem(m, m, k, SEMIRINGS[semiring], np.dtype(dtype), operand_dtype=operand_dtype)
    plan = RUNGS[name].plan(problem, detect()).override(parameters)
    steps = RUNGS[name].program(plan, *(Matrix(Place(x), ld) for x, ld in (("a", k), ("b", m), ("out", m)))).steps
    found = [step.kernel for step in steps if step.kernel.function == "gemm"]
    return [kernel for kernel in found if dict(kernel.defines)["FORM"] in FAST_OR_ONLY or dtype.startswith("float")]


def check(kernel, arch, most_spilled=0):
    taken = resources(compile_kernel(kernel.stem, kernel.defines, arch))["gemm"]
    threads = int(np.prod(kernel.block))
    assert taken.registers <= MOST_REGISTERS
    assert taken.registers * threads <= REGISTERS
    assert taken.spill_bytes <= most_spilled
    return taken


@pytest.mark.deep(but=3)
@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "arch"), [*((name, "sm_90") for name in LADDER), ("gpu-warp-tiled", "sm_80"), ("gpu-pipelined", "sm_80")]
)
def test_rung_compiles_and_spills_nothing(name, arch):
    for kernel in kernels(name, "plus_times", "float32", 4096):
        check(kernel, arch)


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(("name", "left_out"), LEFT_OUT)
def test_a_rung_without_an_idea_compiles_and_spills_nothing(name, left_out):
    for kernel in kernels(name, "plus_times", "float32", 4096, **left_out):
        check(kernel, "sm_90")


@needs_nvrtc
def test_operands_of_float32_with_sums_of_float64_compile():
    (kernel,) = kernels("gpu-naive", "plus_times", "float64", 4096, operand_dtype=np.dtype(np.float32))
    assert dict(kernel.defines)["OPERAND"] == "float"
    check(kernel, "sm_90")


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_tuned_tiles_spill_nothing(semiring, dtype):
    for shares in (1, 5):
        for kernel in kernels("gpu-tuned", semiring, dtype, 4096, shares=shares):
            assert dict(kernel.defines)["IS_SPLIT"] == str(int(shares > 1))
            taken = check(kernel, "sm_90")
            blocks = int(dict(kernel.defines)["BLOCKS"])
            assert taken.registers * blocks * int(np.prod(kernel.block)) <= REGISTERS


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype", "side"), (
    ("plus_times", "float32", 8), ("plus_times", "float32", 31), ("min_plus", "float32", 16),
    ("min_plus", "float32", 64), ("min_plus", "float64", 8), ("min_plus", "float64", 64),
))  # fmt: skip
def test_batches_spill_nothing(semiring, dtype, side):
    problem = Problem(side, side, side, SEMIRINGS[semiring], np.dtype(dtype), batch=(500,))
    operands = (Matrix(Place(name), side, next=(0, side * side)) for name in ("a", "b", "out"))
    (step,) = RUNGS["gpu-tuned"].program(RUNGS["gpu-tuned"].plan(problem, detect()), *operands).steps
    assert step.kernel.function == ("gemm" if side > 32 else "products")
    (taken,) = resources(compile_kernel(step.kernel.stem, step.kernel.defines, "sm_90")).values()
    assert taken.spill_bytes == 0


@needs_nvrtc
@pytest.mark.parametrize(("semiring", "dtype"), (("plus_times", "float32"), ("min_plus", "float64")))
def test_tuned_tiles_for_few_blocks_and_odd_sizes_spill_nothing(semiring, dtype):
    for kernel in kernels("gpu-tuned", semiring, dtype, 257):
        check(kernel, "sm_80")


def test_who_cannot_share_k_has_tiles_enough():
    problem = Problem(4096, 4096, 4096, SEMIRINGS["lor_land"], np.dtype(bool))
    plan = RUNGS["gpu-bits"].plan(problem, detect())
    assert (plan.launch.bm, plan.launch.bn, plan.options["shares"]) == (64, 64, 1)


def _shared(m, n, k):
    """Return the shares of a tile, how many tiles are shared, and how many there are."""
    plan = RUNGS["gpu-tuned"].plan(Problem(m, n, k, SEMIRINGS["min_plus"], np.dtype(np.int32)), detect())
    tiles = -(-m // plan.launch.bm) * -(-n // plan.launch.bn)
    return plan.options["shares"], tiles % plan.options["wave"], tiles


def test_tiles_that_whole_waves_leave_over_are_shared_where_that_pays():
    shares, rest, _ = _shared(4096, 4096, 4096)
    assert (shares > 1, rest) == (True, 68)
    assert _shared(8192, 8192, 4096)[0] > shares  # fewer tiles are left over, by more blocks each
    for m, n, k in (
        (64 * 132, 128 * 16, 4096),  # none
        (64 * 38, 128 * 59, 4096),  # most of a wave
        (4096, 4096, 256),  # a wave is short
    ):
        assert _shared(m, n, k)[0] == 1


def test_tiles_that_have_room_at_once_leave_a_share_for_each_multiprocessor_or_are_all_shared():
    shares, rest, tiles = _shared(1536, 1536, 1536)
    assert shares > 1
    assert shares * rest <= 132
    shares, rest, tiles = _shared(1280, 1280, 1280)
    assert shares > 1
    assert rest == tiles


def test_large_odd_products_are_padded_and_thin_ones_only_from_larger_sizes_on():
    for semiring, (m, n, k), edge in (
        ("plus_times", (2501, 2501, 2501), "padded"),
        ("plus_times", (1779, 2501, 2501), "redirected"),
        ("min_plus", (2501, 2501, 2501), "redirected"),
        ("plus_times", (1797, 1851, 1797), "padded"),  # left-over tiles are shared
        ("plus_times", (1800, 2035, 2101), "redirected"),  # none are
        ("plus_times", (1797, 1797, 1797), "redirected"),  # as it was fastest for a square of so many lines
        ("min_plus", (4001, 4001, 4001), "padded"),
        ("min_plus", (33, 4001, 4001), "redirected"),
    ):
        problem = Problem(m, n, k, SEMIRINGS[semiring], np.dtype(np.float32))
        assert RUNGS["gpu-tuned"].plan(problem, detect()).options["edge"] == edge


def test_a_narrow_product_has_narrow_tiles():
    problem = Problem(65536, 64, 64, SEMIRINGS["plus_times"], np.dtype(np.float32))
    assert RUNGS["gpu-tuned"].plan(problem, detect()).launch.bn == 64


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize(("semiring", "n"), (("min_plus", 4096), ("max_min", 257)))
def test_two_halves_a_word_spill_nothing(semiring, n, arch):
    (kernel,) = kernels("gpu-paired", semiring, "float16", n)
    assert dict(kernel.defines)["STEPS"] == "2"
    check(kernel, arch)


@needs_nvrtc
def test_tuned_tiles_for_shares_of_k_spill_nothing():
    for size in (256, 512, 768, 1025, 1028, 1152):
        (kernel,) = kernels("gpu-tuned", "plus_times", "float32", size)
        assert dict(kernel.defines)["IS_SPLIT"] == "1"
        check(kernel, "sm_90")


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize("edge", ("conditional", "padded", "big-small"))
def test_every_way_with_edges_compiles(edge):
    for kernel in kernels("gpu-warp-tiled", "min_plus", "float32", 257, edge=edge):
        check(kernel, "sm_90")


@needs_nvrtc
@pytest.mark.parametrize("semiring", [name for name in SEMIRINGS if name != "plus_times"])
def test_every_semiring_compiles(semiring):
    dtypes = [x for x in ("float32", "int64", "uint8", "bool") if not SEMIRINGS[semiring].unsupported(np.dtype(x))]
    for kernel in kernels("gpu-naive", semiring, dtypes[len(semiring) % len(dtypes)], 100):
        check(kernel, "sm_90", most_spilled=64)  # ptxas puts 8-bit sums of a loop that it unrolls into local memory


@needs_nvrtc
def test_the_first_kernels_of_a_process_compile_at_once():
    program = """
from concurrent.futures import ThreadPoolExecutor
from backends.gpu._cuda.nvrtc import compile_source
with ThreadPoolExecutor(4) as pool:
    sources = [f'extern "C" __global__ void f(int* x) {{ *x = {i}; }}' for i in range(4)]
    print(len(list(pool.map(lambda source: compile_source(source, "f.cu", "sm_90"), sources))))
"""
    assert python("-c", program).stdout == "4\n"


VECTOR_KINDS = (*KINDS[:5], ("logaddexp_plus", "float32"), ("min_plus", "float16"))
VECTOR_SIZES = ((4097, 1, 4097), (1, 4097, 4097), (1, 33, 4097), (10**6, 1, 33))


@pytest.mark.deep(but=3)
@needs_nvrtc
@pytest.mark.parametrize(
    ("semiring", "dtype", "size"),
    [(*kind, size) for i, kind in enumerate(VECTOR_KINDS) for size in VECTOR_SIZES[i % 2 :: 2]],
)
def test_tuned_matrix_vector_kernels_spill_nothing(semiring, dtype, size):
    """Two blocks of a multiprocessor at least: the rules of tuning.gpu.matrix_vector count on them."""
    problem = Problem(*size, SEMIRINGS[semiring], np.dtype(dtype))
    rung = RUNGS["gpu-mv-tuned"]
    (kernel,) = rung.kernels_of(rung.plan(problem, detect()))
    taken = resources(compile_kernel(kernel.stem, kernel.defines, "sm_90"))[kernel.function]
    assert taken.spill_bytes == 0
    assert 2 * taken.registers * int(np.prod(kernel.block)) <= REGISTERS


@needs_nvrtc
@pytest.mark.parametrize("name", ("thread", "cached", "reduce", "grid", "scatter"))
def test_matrix_vector_rungs_compile(name):
    rung = RUNGS[f"gpu-mv-{name}"]
    for semiring, dtype in (("plus_times", "float64"), ("max_min", "uint8")):
        problem = Problem(300, 1, 200, SEMIRINGS[semiring], np.dtype(dtype), alpha=3, accumulate=True)
        for kernel in rung.kernels_of(rung.plan(problem, detect())):
            compiled = resources(compile_kernel(kernel.stem, kernel.defines, "sm_80"))
            assert compiled[kernel.function].spill_bytes == 0


@needs_nvrtc
def test_an_error_names_the_file_and_the_line():
    (kernel,) = kernels("gpu-tiled", "plus_times", "float32", 64)
    wrong = (*kernel.defines, *as_defines({"COMBINE(c, a, b)": "c = nonsense(a, b)"}))
    line = 1 + find_source("tiled.cu").read_text().split("COMBINE(total")[0].count("\n")
    with pytest.raises(nvrtc.CompileError, match=rf"tiled\.cu\({line}\).*nonsense"):
        compile_kernel("tiled", wrong, "sm_90")


@needs_nvrtc
def test_the_kernel_that_holds_up_the_queue_compiles():
    assert resources(compile_kernel("hold", (), "sm_90"))["hold"].spill_bytes == 0
