"""Tensor cores, packed elements, cuBLAS and peers without a GPU: what they decline, plan and launch; they compile."""

import dataclasses
import importlib.util

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._program.program import Call, Matrix, Place, Program
from backends.gpu._tensor.residue_product import Residues, add_residue_products
from harness import SEMIRINGS, Operands, registry
from harness.dtypes import mixed_dtypes, named_dtype
from harness.errors import PlanError
from harness.machine import detect
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.device import DEVICES
from harness.tuning.gpu import thin_tiles
from harness.tuning.gpu.tensor_cores import HOPPER_TILES, NUMBERS, WHOLE_TILES
from tests.gpu.on_cpu import needs_nvrtc

BACKENDS = {entry.name: entry.backend for entry in registry.discover() if entry.backend}
TENSOR_CORE, PAIRED, BITS, CUBLAS = (BACKENDS[f"gpu-{name}"] for name in ("tensor-core", "paired", "bits", "cublas"))
ARCHITECTURES = ("sm_80", "sm_90")

NO_CUBLAS = "cuBLAS takes floats, complex numbers, and int8 with sums in int32"
EIGHT_BITS = "float8_e4m3fn", "float8_e5m2"

needs_ml_dtypes = pytest.mark.skipif(importlib.util.find_spec("ml_dtypes") is None, reason="ml_dtypes is not installed")


def product(size, semiring="plus_times", dtype="float32", **options):
    return Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), **options)


def program(backend, problem, **parameters):
    plan = backend.plan(problem, detect()).override(parameters)
    widths = {"a": problem.k, "b": problem.n, "c": problem.n, "out": problem.n}
    names = [name for name in widths if name != "c" or problem.accumulate]
    return backend.program(plan, *(Matrix(Place(name), widths[name]) for name in names))


@pytest.mark.parametrize(
    ("name", "problem", "word"),
    [
        ("gpu-tensor-core", product((8, 8, 8), "min_plus"), "plus_times"),
        ("gpu-cublas", product((8, 8, 8), "max_plus"), "plus_times"),
        ("gpu-cublas", product((8, 8, 8), dtype="int64"), "floats"),
        ("gpu-cublas", product((8, 8, 7), dtype="int32", operand_dtype=np.dtype(np.int8)), "multiples of 4"),
        ("gpu-cublas-tf32", product((8, 8, 8), dtype="float64"), "float32"),
        ("gpu-paired", product((8, 8, 8), "min_plus", "int32"), "int16"),
        ("gpu-bits", product((8, 8, 8), "min_plus", "int32"), "bools"),
        ("gpu-torch", product((8, 8, 8), "min_plus", "int32"), "saturate"),
        ("gpu-triton", product((8, 8, 8), "max_min"), "min_plus"),
        ("gpu-cupy-broadcast", product((8, 8, 8), "min_plus"), "subnormal"),
    ],
)
def test_what_is_out_of_scope_is_declined_with_a_reason(name, problem, word):
    assert word in BACKENDS[name].declines(problem)


def test_integers_need_hopper(monkeypatch):
    bytes_to_words = product((8, 8, 8), dtype="int32", operand_dtype=np.dtype(np.int8))
    for problem in (product((8, 8, 8), dtype="int64"), bytes_to_words):
        assert TENSOR_CORE.declines(problem) is None, "without a GPU it says what it would do on one"
    monkeypatch.setattr(type(TENSOR_CORE), "missing", lambda self: None)
    monkeypatch.setattr("backends.gpu._cuda.device.missing", lambda needs, what: f"{what} need {needs}")
    for problem in (product((8, 8, 8), dtype="int64"), bytes_to_words):
        assert TENSOR_CORE.declines(problem) == "wgmma and TMA need (9, 0)"


def test_integers_are_left_to_ordinary_instructions_where_there_are_few():
    sizes = (256, 512, 1024)
    chosen = {
        dtype: [TENSOR_CORE.may_be_chosen(product((n,) * 3, dtype=dtype)) for n in sizes]
        for dtype in ("uint8", "int32", "int64")
    }
    assert chosen == {
        "uint8": [False, True, True], "int32": [False, False, True], "int64": [False, True, True],
    }  # fmt: skip
    assert TENSOR_CORE.may_be_chosen(product((8, 8, 8), dtype="int32", operand_dtype=np.dtype(np.int8)))


def test_cublas_gets_int8_along_k():
    for layout, stems in (("CCC", ["digits"]), ("CFC", [])):
        problem = product((20, 36, 48), dtype="int32", operand_dtype=np.dtype(np.int8), layout=layout)
        *passes, call = CUBLAS.program(CUBLAS.plan(problem, detect()), *matrices(problem)).steps
        gemm = call.load.__self__
        assert [step.kernel.stem for step in passes] == stems
        assert (gemm.lda, gemm.ldb, gemm.ldc, gemm.by_columns) == (48, 128 if passes else 48, 36, (False, True))


def test_cublas_transposes_floats_by_itself():
    for layout, lds in (("CCC", (7, 6)), ("FCC", (5, 6)), ("CFC", (7, 7)), ("FFC", (5, 7))):
        problem = product((5, 6, 7), layout=layout)
        (call,) = CUBLAS.program(CUBLAS.plan(problem, detect()), *matrices(problem)).steps
        gemm = call.load.__self__
        assert (gemm.lda, gemm.ldb) == lds
        assert gemm.by_columns == tuple(letter == "F" for letter in layout[:2])


@pytest.mark.parametrize("backend", (CUBLAS, TENSOR_CORE), ids=lambda backend: backend.name)
def test_float32_with_sums_of_float64_is_widened_by_one_launch(backend):
    problem = product((40, 50, 60), dtype="float64", operand_dtype=np.dtype(np.float32), layout="CFC")
    steps = backend.program(backend.plan(problem, detect()), *matrices(problem)).steps
    kernel, grid, _ = steps[0]
    assert (kernel.stem, grid[1]) == ("rows", 2)
    assert dict(kernel.defines) == {"FROM": "float", "TO": "double"}
    assert not backend.loosens(problem)


def matrices(problem):
    """Return a, b and out without gaps, by columns where the layout says so."""
    (m, n, k), (of_a, of_b, _) = (problem.m, problem.n, problem.k), problem.layout
    return (
        Matrix(Place("a"), m if of_a == "F" else k, by_columns=of_a == "F"),
        Matrix(Place("b"), k if of_b == "F" else n, by_columns=of_b == "F"),
        Matrix(Place("out"), n),
    )


def test_bytes_are_turned_only_where_they_do_not_lie_along_k_in_whole_vectors():
    def forms(size, layout):
        problem = product(size, dtype="int32", operand_dtype=np.dtype(np.int8), layout=layout)
        first = TENSOR_CORE.program(TENSOR_CORE.plan(problem, detect()), *matrices(problem)).steps[0].kernel
        return tuple(int(dict(first.defines).get(f"FORM_{x}", 0)) for x in "AB")

    none, along, across = range(3)
    assert forms((4096, 4096, 4096), "CFC") == (none, none)
    assert forms((4096, 4096, 4096), "CCC") == (none, across)
    assert forms((4096, 4096, 4097), "FFC") == (across, along)
    assert forms((4096, 4096, 4112), "FCC") == (across, across)


def test_cublas_takes_every_float_and_aligned_int8():
    for dtype in ("float32", "float64", "complex64", "complex128"):
        assert CUBLAS.refuses(product((5, 6, 7), dtype=dtype)) is None
    for narrow, wide in mixed_dtypes():
        reason = CUBLAS.refuses(product((5, 8, 4), dtype=wide, operand_dtype=narrow))
        is_other = narrow.kind == "c" or narrow.name == "uint8"
        others = "cuBLAS sums complex numbers in their own precision" if narrow.kind == "c" else NO_CUBLAS
        assert reason == (others if is_other else None)


def test_cublas_is_asked_for_the_transpose_and_leaves_beta_to_a_pass():
    steps = program(CUBLAS, product((5, 6, 7), accumulate=True)).steps
    begin, call = steps
    assert begin.kernel.function == "begin"
    assert isinstance(call, Call)
    gemm = call.load.__self__
    assert (gemm.m, gemm.n, gemm.k, gemm.lda, gemm.ldb, gemm.ldc) == (5, 6, 7, 7, 6, 6)
    assert (gemm.alpha, gemm.beta, gemm.uses_tf32) == (1.0, 1, False)


def launch_of(size, dtype="float32", **options):
    return TENSOR_CORE.plan(product(size, dtype=dtype, **options), detect()).launch


@pytest.mark.parametrize(("n", "columns"), [(300, 64), (3000, 112), (4096, 128), (8192, 128)])
def test_tiles_of_float8_are_those_whose_rounds_take_the_least_time(n, columns):
    for name in EIGHT_BITS:
        launch = launch_of((n, n, n), operand_dtype=named_dtype(name), layout="CFC")
        assert (launch.bm, launch.bn, launch.bk) == (128, columns, 128)


def test_large_tiles_are_chosen_where_they_fill_the_gpu():
    for dtype in ("float32", "float64"):
        assert launch_of((4097,) * 3, dtype) == NUMBERS[dtype].large
        assert launch_of((1024,) * 3, dtype) == NUMBERS[dtype].small
    assert launch_of((4096,) * 3, "float64") == WHOLE_TILES


def test_float64_takes_large_tiles_where_they_keep_multiprocessors_busy():
    sizes = (1152, 1408, 1536, 2048, 2049)
    assert [launch_of((n,) * 3, "float64").bm for n in sizes] == [64, 128, 64, 128, 128]


def test_float64_and_bools_take_what_hopper_has_where_it_is_faster(monkeypatch):
    monkeypatch.setattr(type(TENSOR_CORE), "_has_wgmma", lambda self: True)

    def units(semiring, dtype, sizes):
        plans = (TENSOR_CORE.plan(product((n,) * 3, semiring, dtype), detect()) for n in sizes)
        return [plan.options["unit"] for plan in plans]

    assert units("plus_times", "float64", (1024, 1408, 1536, 4096, 4097)) == ["mma", "tma", "mma", "tma", "tma"]
    assert units("lor_land", "bool", (1024, 1536, 4096)) == ["mma", "wgmma", "wgmma"]
    plan = TENSOR_CORE.plan(product((4097,) * 3, dtype="float64"), detect())
    assert (plan.launch, plan.options["depth"]) == (HOPPER_TILES["float64"], 16)
    stems = [step.kernel.stem for step in TENSOR_CORE.program(plan, *(Matrix(Place(x), 4097) for x in "abo")).steps]
    assert stems == ["pad_rows", "tensor_core_f64_tma"]


@needs_ml_dtypes
def test_the_columns_of_a_tile_of_16_bits_are_those_that_are_done_sooner():
    narrow, wide = mixed_dtypes()[1]
    columns = [launch_of((n,) * 3, wide, operand_dtype=narrow).bn for n in (1024, 1500, 2048, 3072, 4096, 4097)]
    assert columns == [64, 192, 256, 128, 256, 256]


@needs_ml_dtypes
@pytest.mark.parametrize(("n", "blocks"), [(4096, 1), (4097, 1), (4100, 1), (4104, 2), (64, 1), (100, 1)])
def test_blocks_share_what_they_fetch_where_rows_lie_across_lines(n, blocks):
    narrow, wide = mixed_dtypes()[1]
    problem = product((n,) * 3, dtype=wide, operand_dtype=narrow)
    assert TENSOR_CORE.plan(problem, detect()).options["cluster"] == blocks


def test_float32_is_split_beforehand_on_hopper_from_64_tiles_on(monkeypatch):
    def unit(n, columns=None):
        plan = TENSOR_CORE.plan(product((n, columns or n, n)), detect())
        return plan.options["unit"], plan.launch

    assert unit(4096) == ("mma", NUMBERS["float32"].large)
    monkeypatch.setattr(type(TENSOR_CORE), "_has_wgmma", lambda self: True)
    assert [unit(n)[0] for n in (896, 1024)] == ["mma", "wgmma"]
    assert unit(65536, 64)[0] == "mma", "a pass over A would cost more than it saves"
    assert unit(4096)[1] == HOPPER_TILES["float32"]
    steps = program(TENSOR_CORE, product((100, 101, 103))).steps
    assert "split" not in [step.kernel.stem for step in steps]
    steps = program(TENSOR_CORE, product((4096, 1001, 103))).steps
    assert [step.kernel.function for step in steps if step.kernel.stem == "split"] == ["split_rows", "split_columns"]
    a, b = next(step for step in steps if step.kernel.stem == "tensor_core_tf32").arguments[:2]
    assert [(x.rows, x.columns, x.ld) for x in (a, b)] == [(2 * 4096, 103, 128), (2 * 1001, 103, 128)]


@pytest.mark.parametrize("tile", [{"bn": 256, "tn": 16}, {"bk": 64}, {"stages": 1}, {"stages": 4}, {"cluster": 3}])
def test_tiles_that_wgmma_does_not_know_or_hold_are_refused(tile):
    with pytest.raises(PlanError):
        program(TENSOR_CORE, product((4096,) * 3), **{**SPLIT, **tile})


def test_small_tiles_are_chosen_where_large_ones_do_not_fit(monkeypatch):
    problem = product((4096,) * 3, dtype="float64")
    monkeypatch.setattr("backends.gpu._cuda.device.planned", lambda: DEVICES["RTX 4090"])
    assert TENSOR_CORE.plan(problem, detect()).launch == NUMBERS["float64"].small
    with pytest.raises(PlanError, match="shared memory"):
        program(TENSOR_CORE, problem, stages=8)


@pytest.mark.parametrize("tile", [{"bk": 20}, {"stages": 1}, {"wm": 8, "tm": 2, "wn": 16, "tn": 2, "bm": 8, "bn": 16}])
def test_tiles_that_fragments_do_not_cut_are_refused(tile):
    with pytest.raises(PlanError):
        program(TENSOR_CORE, product((64, 64, 64), dtype="float64"), **tile)


def test_rows_are_padded_only_where_they_are_not_aligned():
    def padded(n, dtype):
        return [step.kernel.stem for step in program(TENSOR_CORE, product((n, n, n), dtype=dtype)).steps].count(
            "pad_rows"
        )

    assert [padded(n, "float32") for n in (4096, 4097, 65)] == [0, 1, 0], "both in one launch"
    assert [padded(n, "float64") for n in (4096, 4097, 65)] == [0, 0, 0], "element by element is faster there"


def test_error_of_three_tf32_products_is_stated_and_float64_has_none():
    for dtype, is_exact in (("float32", False), ("float64", True)):
        problem = product((16, 16, 16), dtype=dtype)
        bound = TENSOR_CORE.extra_error(TENSOR_CORE.plan(problem, detect()), Operands.generate(problem, 1))
        assert (bound == 0) == is_exact
        assert bound < 1e-4


@pytest.mark.parametrize("backend", (TENSOR_CORE, CUBLAS), ids=lambda backend: backend.name)
def test_what_is_cut_off_beside_subnormal_operands_is_stated(backend):
    """As seen on an H100: 65504 x 2^-24 counts as 65504 x 2^-14, beside which a term of 4e-8 is lost."""
    problem = product((1, 1, 3), operand_dtype=np.dtype(np.float16))
    b = np.array([[2.0**-24], [0.2], [0.0]], np.float16)
    operands = Operands(np.array([[65504, 2e-7, 1]], np.float16), b, None, np.empty((1, 1), np.float32))
    plan = backend.plan(problem, detect())
    assert 3.6e-8 < backend.extra_error(plan, operands) < 2e-6
    twice = dataclasses.replace(problem, alpha=2.0)
    assert backend.extra_error(backend.plan(twice, detect()), operands) >= 2 * backend.extra_error(plan, operands)
    operands.a[0, 1], b[0, 0] = 2, 1
    assert backend.extra_error(plan, operands) == 0
    assert not backend.loosens(problem), "no other backend of 16 bits is as fast"


def test_triangles_are_as_accurate_as_their_parts():
    """A whole product has the error of the base, and auto takes either."""
    composite = BACKENDS["gpu-triangle"]
    problem = product((2, 2, 2), operand_dtype=np.dtype(np.float16), triangle="a")
    a = np.array([[65504, 0], [2.0**-24, 1]], np.float16)
    operands = Operands(a, a.copy(), None, np.empty((2, 2), np.float32))
    plan = Plan(problem, 1, None, {"base": "gpu-tensor-core"})
    parts = BACKENDS["gpu-tensor-core"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(composite), "_able", lambda self, problem: {parts.name: parts})
        whole = dataclasses.replace(problem, triangle="")
        error = composite.extra_error(plan, operands)
        assert error == parts.extra_error(parts.plan(whole, detect()), operands) > 0
    assert not composite.loosens(problem)


def test_cublas_leaves_an_alpha_of_0_to_others_where_a_sum_may_be_infinite():
    for narrow, wide, is_taken in (("float16", "float32", False), ("int8", "int32", True)):
        problem = product((8, 8, 8), dtype=wide, operand_dtype=np.dtype(narrow), alpha=0)
        assert (CUBLAS.declines(problem) is None) == is_taken


# 3xTF32 by wgmma, which a machine without a GPU does not choose.
SPLIT = {"unit": "wgmma", "bm": 128, "bn": 128, "bk": 32, "wm": 0, "wn": 0, "tm": 8, "tn": 8, "stages": 3}

BROUGHT = {"unit": "tma", "bm": 128, "bn": 128, "bk": 16, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "stages": 4}
BITS = {"unit": "wgmma", "bm": 128, "bn": 256, "bk": 32, "wm": 0, "wn": 0, "tm": 8, "tn": 16, "stages": 4}


def _narrow():
    """Return the pairs of dtypes that tensor cores take as they are."""
    return [pair for pair in mixed_dtypes() if pair[1].itemsize == 4]


def _cases():
    """Yield products that need every kernel file, with tiles large and small, rows aligned and odd."""
    sizes = ((4096, 4096, 4096), (65, 67, 69))
    for size in sizes:
        yield "gpu-tensor-core", product(size, dtype="float64", accumulate=True), {}
        yield "gpu-tensor-core", product(size, dtype="float32"), {}
    yield "gpu-tensor-core", product(sizes[0], "lxor_land", "bool"), {}
    for number, cluster in enumerate((1, 2, 4)):  # in turn: a cluster changes who fetches, a size how rows are copied
        size = sizes[number % 2]
        yield "gpu-tensor-core", product(size, dtype="float32"), {**SPLIT, "cluster": cluster}
        orred = product(size, "lor_land", "bool", accumulate=cluster == 2)
        yield "gpu-tensor-core", orred, {**BITS, "cluster": cluster}
        doubled = product(size, dtype="float64", accumulate=cluster == 2)
        yield "gpu-tensor-core", doubled, {**BROUGHT, "depth": 8 * min(cluster, 2), "cluster": cluster}
    for number, (narrow, wide) in enumerate(_narrow()):
        for cluster in (1, (2, 4)[number % 2]):
            mixed = product((4096, 4097, 4098), dtype=wide, operand_dtype=narrow, accumulate=cluster == 1)
            yield "gpu-tensor-core", mixed, {"cluster": cluster}
    for dtype, size in zip(("int8", "int16", "int32", "int64"), 2 * sizes, strict=True):
        yield "gpu-tensor-core", product(size, dtype=dtype, accumulate=dtype == "int16"), {}
    yield "gpu-paired", product((4096, 4096, 4096), "min_plus", "int16"), {}
    yield "gpu-bits", product((4096, 4096, 4096), "lor_land", "bool", accumulate=True), {}


# Bytes of registers that a thread may spill. Float32 by three products has more parts than registers, where its
# elements are copied one by one. The pass that packs bools, bound by memory, spills what makes bytes of 0 and 1.
MOST_SPILLS = {"tensor_core_f32": 160, "pack_bits": 16}


@pytest.mark.deep(but=3)
@needs_nvrtc
@pytest.mark.parametrize(("name", "problem", "parameters"), list(_cases()), ids=str)
def test_kernels_compile_and_do_not_spill(name, problem, parameters):
    for step in program(BACKENDS[name], problem, **parameters).steps:
        kernel = step.kernel
        for arch in ARCHITECTURES:
            if kernel.stem not in _OWN or (kernel.suffix and arch != "sm_90"):
                continue
            found = resources(compile_kernel(kernel.stem, kernel.defines, arch + kernel.suffix))
            assert found[kernel.function].spill_bytes <= MOST_SPILLS.get(kernel.stem, 0), (kernel.stem, arch)


@pytest.mark.deep
@needs_nvrtc
def test_all_tiles_of_16_bit_elements_compile_and_do_not_spill():
    """Each alone, in a cluster that shares k, or in one that shares what it fetches."""
    narrow = next(x for x, _ in mixed_dtypes() if x.name == "float16")
    ways = {"together": 1, "cluster": 1}, {"together": 8, "cluster": 1}, {"together": 1, "cluster": 4}
    # Stages change no register: of tiles that differ by them alone, the last.
    tiles = {(x.launch.bm, x.launch.bn, x.launch.tm, x.launch.tn): x for x in thin_tiles.HALF.tiles}
    for number, tile in enumerate(tiles.values()):
        launch, way = tile.launch, ways[number % len(ways)]
        sizes = launch.bm if tile.is_transposed else 300, 301 if number % 2 else 304, 4096
        problem = product(sizes, dtype="float32", operand_dtype=narrow, accumulate=number % 2 == 0)
        steps = program(TENSOR_CORE, problem, **vars(launch), unit="wgmma", shares=1, **way).steps
        kernel = steps[-1].kernel
        assert (("TOGETHER", "1") in kernel.defines) == (way["together"] > 1)
        assert ("CLUSTER", str(way["together"] * way["cluster"])) in kernel.defines
        found = resources(compile_kernel(kernel.stem, kernel.defines, f"sm_90{kernel.suffix}"))
        assert found[kernel.function].spill_bytes == 0, (launch, way)


def test_a_launch_has_as_many_clusters_as_the_gpu_holds_at_once():
    narrow = next(x for x, _ in mixed_dtypes() if x.name == "float16")
    problem = product((64 * 1000, 32, 512), dtype="float32", operand_dtype=narrow)
    tile = {
        "bm": 64,
        "bn": 32,
        "bk": 64,
        "wm": 0,
        "wn": 0,
        "tm": 8,
        "tn": 2,
        "stages": 13,
        "unit": "wgmma",
        "shares": 1,
    }
    grids = [
        program(TENSOR_CORE, problem, **tile, cluster=cluster, together=1, blocks=132).steps[-1].grid
        for cluster in (1, 2, 4)
    ]
    assert grids == [(132,), (132,), (124,)]  # clusters of four lie within groups of 16 or 18 multiprocessors


_OWN = (
    "tensor_core_f64 tensor_core_f64_tma tensor_core_f32 tensor_core_tf32 tensor_core_b1 tensor_core_bits "
    "tensor_core_half tensor_core_s8 pad_rows split pack_bits pack_pairs digits join"
).split()


# Sizes of large tiles, and of thin ones, whose kernels read columns as they lie.
READERS = {
    "float64": ("tensor_core_f64_tma", "tensor_core_f64"),
    "bfloat16": ("tensor_core_half", "tensor_core_half_flat"),
}
DEEP, FLAT = (500, 500, 20000), (8, 4096, 8192)


@pytest.mark.deep(but=2)
@needs_nvrtc
@needs_ml_dtypes
@pytest.mark.parametrize("layout", ("CFC", "FCC", "FFC"))
@pytest.mark.parametrize("dtype", READERS)
def test_kernels_read_columns_as_they_lie_and_do_not_spill(monkeypatch, dtype, layout):
    monkeypatch.setattr(type(TENSOR_CORE), "_has_wgmma", lambda self: True)
    narrow = None if dtype == "float64" else mixed_dtypes()[1][0]
    for stem, size in zip(READERS[dtype], (DEEP if narrow is None else (4096,) * 3, FLAT), strict=True):
        problem = product(size, dtype="float64" if narrow is None else "float32", operand_dtype=narrow, layout=layout)
        kernels = TENSOR_CORE.program(TENSOR_CORE.plan(problem, detect()), *matrices(problem)).kernels()
        assert kernels[0].stem == stem
        assert {x.stem for x in kernels[1:]} <= {"fold"}
        for kernel in kernels:
            found = resources(compile_kernel(kernel.stem, kernel.defines, "sm_90" + kernel.suffix))
            assert found[kernel.function].spill_bytes == 0, (kernel.stem, layout)


def test_columns_that_many_rows_of_c_use_are_turned_over_float64(monkeypatch):
    monkeypatch.setattr(type(TENSOR_CORE), "_has_wgmma", lambda self: True)
    both, of_b = {"rows_of_a", "rows_of_b"}, {"rows_of_b"}
    brought = ((2048, 2048, 2048), both), ((500, 500, 20000), set())
    for size, turned in (*brought, ((1501, 1503, 1502), of_b), ((5000, 32, 5000), set()), ((1000, 1000, 1000), set())):
        problem = product(size, dtype="float64", layout="FFC")
        scratch = TENSOR_CORE.program(TENSOR_CORE.plan(problem, detect()), *matrices(problem)).scratch
        assert {"rows_of_a", "rows_of_b"} & set(scratch) == turned


@needs_nvrtc
def test_residues_compile_and_do_not_spill():
    program = Program()
    residues = Residues(*(Place(name) for name in ("a", "b", "c", "count")), 14, 4096, 4097, 70000)
    plan = TENSOR_CORE.plan(product((4096, 4097, 70000), dtype="int32", operand_dtype=np.dtype(np.int8)), detect())
    add_residue_products(program, plan, residues)
    assert [dict(step.kernel.defines)["ACCUMULATE"] for step in program.steps] == ["0", "1"]
    for kernel in program.kernels():
        assert resources(compile_kernel(kernel.stem, kernel.defines, "sm_90a"))["gemm"].spill_bytes == 0


@needs_ml_dtypes
def test_the_copy_engine_is_told_of_rows_of_whole_lines():
    narrow, wide = mixed_dtypes()[1]
    steps = program(TENSOR_CORE, product((1500, 1501, 1503), dtype=wide, operand_dtype=narrow, alpha=2.0)).steps
    a, b = steps[-1].arguments[:2]
    assert [(x.rows, x.columns, x.ld) for x in (a, b)] == [(1500, 1503, 1536), (1503, 1501, 1536)]
    assert steps[-1].arguments[-2] == np.float32(2)
