"""What tests of kernels on the CPU are made to see: each bug that is planted into a kernel's text fails its check."""

from collections.abc import Callable

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._cuda.kernel_files import FOLDER, find_source
from backends.gpu._passes import shares as simt_shares
from backends.gpu._tasks import layouts
from harness import SEMIRINGS
from harness.errors import VerificationError
from harness.problem import Problem
from tests.api.test_argk import draw
from tests.cpu.test_log_sum_exp import apart
from tests.gpu import sequences_on_cpu as sequences
from tests.gpu import test_bit_closures as bit_closures
from tests.gpu import test_complex_on_cpu as complex_products
from tests.gpu import test_ends_of_operands as ends
from tests.gpu import test_float8_on_cpu as float8
from tests.gpu import test_half_mma_on_cpu as half_mma
from tests.gpu import test_half_panels_on_cpu as half_panels
from tests.gpu import test_integers_on_cpu as integers
from tests.gpu import test_matrix_vector_on_cpu as vectors
from tests.gpu import test_part_kernels_on_cpu as parts
from tests.gpu import test_residues_on_cpu as residues
from tests.gpu import test_row_panels_on_cpu as row_panels
from tests.gpu import test_shares_on_cpu as shares
from tests.gpu import test_simt_on_cpu as simt
from tests.gpu import test_streams_on_cpu as streams
from tests.gpu import test_tensor_cores_on_cpu as tensor
from tests.gpu import test_triangles_on_cpu as triangles
from tests.gpu import test_warp_panels_on_cpu as warp_panels
from tests.gpu.host_gpu import install
from tests.gpu.host_kernels import SHIM, HostExecution, HostOperands, KernelFault
from tests.gpu.mutants import MUTANTS
from tests.gpu.on_cpu import ON_CPU, RUNGS, SMALL, check, compute, together
from tests.gpu.panel_products import two_multiprocessors
from tests.gpu.residue_products import ByteProducts
from tests.gpu.test_mirror_on_cpu import mirror

pytestmark = ON_CPU

FOUND = (AssertionError, VerificationError, KernelFault)
SQUARE = simt.SQUARE


def rung(name):
    tile = SMALL[name]
    compute(name, "plus_times", "float32", (tile["bm"] + 3, tile["bn"] + 8, 5 * tile["bk"] - 4))


def settle(semiring):
    sign = 1 if semiring == "min_plus" else -1
    for rows in (2, 33):
        problem = Problem(rows, 41, 75, SEMIRINGS[semiring], np.dtype(np.float32))
        check(RUNGS["gpu-tuned"], problem, simt.mostly_of_one_sign(sign), **{**SMALL["gpu-tuned"], **SQUARE})


def share_k(patch):
    patch.setattr(simt_shares, "FOLD_THREADS", 1)
    compute("gpu-tuned", "plus_times", "float32", (100, 70, 61), **SQUARE, shares=3, wave=5)


def pairs(semiring, dtype, size, change):
    check(RUNGS["gpu-paired"], Problem(*size, SEMIRINGS[semiring], np.dtype(dtype)), change)


def panels(patch, module, *sizes):
    two_multiprocessors(patch)
    module.compute("plus_times", "float32", *sizes)


def argk(rng):
    a, b = (np.abs(draw(rng, shape, np.dtype(np.float32))) + 1 for shape in ((17, 23), (23, 19)))
    a[3] = np.inf
    parts.assert_argk("min_plus", a, b)


def log_sum_exp(rng):
    dtype = np.dtype(np.float32)
    parts.test_a_row_of_nothing_and_a_single_term_come_through(dtype, rng)
    parts.test_special_values_at_every_place(dtype)
    parts.test_what_cancels_between_rows_and_columns_loses_no_digit(dtype, rng)
    for gap in (60.0, 100.0):
        parts.log_sum_exp(*apart(rng, (9, 7, 12), gap, dtype))


def layout(patch, function):
    patch.setattr(layouts, "TILE", 4)
    x = np.random.default_rng(7).random((8, 12), np.float32)
    got = parts.run_layout(function, (x, np.empty(96, "f4")), (8, 12), (3, 2), a="columns")
    assert np.array_equal(got, layouts.stored(x, "columns"))


def uneven(number, n):
    tile = tensor.UNEVEN[number]
    tensor.compute("float64", (tile["bm"] + 1, n, 40), edge="redirected", **tile)


def split_parts():
    a, b, of_a, of_b = tensor.split((33, 40, 24))
    assert tensor.are_parts(a, of_a)
    assert tensor.are_parts(b.T, of_b)


FLOAT8 = {**float8.TILE, "edges": 4, "stages": 3}


def wgmma_stores(tile_columns, columns):
    tensor.compute_by_wgmma((300, columns, 200), alpha=3.0, accumulate=True, bn=tile_columns, tn=tile_columns // 16)


def few_rows():
    for number in (1, 2):
        tensor.compute_by_wgmma((21, 300, 200), alpha=3.0, bm=32, bn=128, tm=2, tn=8, shares=number)


def bits(tile, *sizes):
    for semiring in ("lor_land", "lxor_land"):
        for size in sizes:
            together(tensor.begin_words(tensor.RUNG, semiring, "bool", size, **tile))


def digits():
    integers.assert_exact(integers.product((129, 12, 131), "int32"))
    integers.assert_exact(integers.product((5, 13, 45), "int16"))
    integers.assert_exact(integers.product((5, 40, 131), "int32", layout="FFC"))


def ozaki(patch):
    patch.setattr(gpu_backend, "GpuExecution", ByteProducts)

    def change(operands):
        for number, factor in enumerate((1e120, 1e-120)):
            operands.a[number] *= factor
            operands.b[:, number] *= factor

    for order in ("CCC", "FFC"):
        operands, result, _ = residues.compute((19, 70, 131), change, layout=order, gate="off", moduli=12)
        assert residues.is_rounded_product(operands, result, 12)


def complex_residues(patch):
    patch.setattr(gpu_backend, "GpuExecution", ByteProducts)
    for conjugate, order in (("", "CCC"), ("a", "FFC"), ("b", "CFC")):
        scalars = {"alpha": 1.0 - 2j, "beta": 0.5j, "accumulate": True} if conjugate else {}
        residues.compute((9, 37, 35), dtype="complex128", layout=order, conjugate=conjugate, **scalars)  # natively
        residues.compute((9, 37, 35), dtype="complex128", layout=order, conjugate=conjugate, gate="off", **scalars)


def complex_tiles(patch):
    install(patch)
    complex_products.bring(patch)
    for size, layout, conjugate in (
        ((137, 72, 40), "CCC", ""),
        ((72, 137, 24), "FFC", "a"),
        ((75, 137, 24), "CFC", "b"),
    ):
        complex_products.call(
            "gpu-four-m", size, base="gpu-tensor-core", dtype="complex128", layout=layout, conjugate=conjugate
        )


def in_runs(patch):
    patch.setattr(gpu_backend, "GpuOperands", half_panels.Aligned)
    half_panels.compute((203, 23, 35), alpha=2.0)


def small(operands):
    operands.a[...], operands.b[...] = operands.a % 1000, operands.b % 1000


# By name: what is computed and proven. It takes pytest's monkeypatch.
CHECKS: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    **{name: lambda _, name=name: rung(name) for name in SMALL if name != "gpu-naive"},
    "gpu-tuned by neighbours": lambda _: compute("gpu-tuned", "plus_times", "float32", (19, 71, 76)),
    "gpu-tuned with uneven copies": lambda _: compute(
        "gpu-tuned", "plus_times", "float32", (70, 20, 70), bm=64, **simt.UNEVEN
    ),
    "gpu-tuned that begins anywhere": lambda _: check(*simt.staggered(simt.KINDS[0], (40, 300, 112), 3, 1)),
    "gpu-tuned that shares k": share_k,
    "sums of many shares": lambda _: shares.add_up(),
    "min_plus that settles": lambda _: settle("min_plus"),
    "max_plus that settles": lambda _: settle("max_plus"),
    "pairs of int16": lambda _: pairs("min_plus", "int16", (5, 9, 9), small),
    **{
        f"halves by {name}": lambda _, name=name: pairs(name, "float16", (33, 9, 6), simt.with_special_halves)
        for name in ("min_plus", "max_min", "max_times")
    },
    "gpu-tiled with threads that meet": lambda _: compute("gpu-tiled", "plus_times", "float32", (9, 9, 9)),
    "operands by columns": lambda _: check(
        RUNGS["gpu-naive"],
        Problem(70, 33, 97, SEMIRINGS["min_plus"], np.dtype(np.float32), layout="FFC"),
        **SMALL["gpu-naive"],
    ),
    "steps by factors": lambda _: sequences.by_factors(),
    "steps by terms": lambda _: sequences.compute("logaddexp_plus", "float32", 40, each=True),
    "steps of any": lambda _: [sequences.compute("min_plus", "int32", n, each=True, spread=0) for n in (40, 70)],
    "best paths": lambda _: sequences.best_paths(),
    "steps by products": sequences.by_products,
    "mirror": lambda _: mirror(70, np.float32),
    "row panels": lambda patch: panels(patch, row_panels, (135, 7, 34), (201, 7, 33), (400, 8, 40)),
    "warp panels": lambda patch: panels(patch, warp_panels, (135, 20, 45), (201, 19, 47), (200, 20, 40)),
    "triangles": lambda _: triangles.compute(
        "gpu-tuned", "plus_times", "float32", 161, 9, **{**SQUARE, "bm": 64, "wm": 32, "tm": 8, "group": 2}
    ),
    "triangles by gpu-tensor-core": lambda _: triangles.compute(
        "gpu-tensor-core", "plus_times", "float32", 161, 9, **tensor.SMALL["float32"]
    ),
    "argk": lambda _: argk(np.random.default_rng(7)),
    "log-sum-exp": lambda _: log_sum_exp(np.random.default_rng(7)),
    "layout by transpose": lambda patch: layout(patch, "transpose"),
    "layout by change": lambda patch: layout(patch, "change"),
    "short rows": lambda _: vectors.check_short_rows(),
    "shifted rows": lambda _: vectors.check_shifted_rows(),
    "A x": lambda _: vectors.check_sides("A x"),
    "x A": lambda _: vectors.check_sides("x A"),
    "symv": lambda _: streams.compute(RUNGS["gpu-symv"], streams.symmetric(301), side=64, warps=8, rows=8, tiles=2),
    "rank updates": lambda _: streams.compute_updates(),
    "float64": lambda _: [tensor.compute("float64", size, edge="redirected") for size in tensor.SIZES[2:4]],
    "float64 by columns": lambda _: tensor.compute("float64", (65, 47, 40), layout="FFC", edge="redirected", shares=2),
    "float64 of 160 columns": lambda _: uneven(1, 162),
    "float64 of 48 columns": lambda _: uneven(2, 50),
    "float64 of 80 columns": lambda _: uneven(4, 79),
    "float64 that begins anywhere": lambda _: tensor.compute("float64", (35, 150, 71), edge="redirected", stagger=3),
    "float64 that is padded": lambda _: tensor.compute("float64", (35, 41, 23), edge="padded"),
    "float64 that shares k": lambda _: tensor.compute("float64", shares.DEEP["float64"], shares=3),
    "float64 that is brought": lambda _: tensor.compute("float64", (300, 131, 70), **tensor.BROUGHT),
    "float64 that is brought and shares k": lambda _: tensor.compute(
        "float64", (140, 130, 80), **tensor.BROUGHT, shares=2
    ),
    **{
        f"float64 that is brought, {order}": lambda _, order=order: tensor.compute(
            "float64", (300, 131, 70), layout=order, **tensor.BROUGHT
        )
        for order in ("CFC", "FCC", "FFC")
    },
    "complex128 that is brought": complex_tiles,
    "parts of float32": lambda _: split_parts(),
    "float32 by parts": lambda _: tensor.compute_by_wgmma((140, 131, 70), "float32"),
    "wgmma": lambda _: tensor.compute_by_wgmma((300, 131, 200), alpha=3.0, group=1),
    "wgmma that begins anywhere": lambda _: tensor.compute_by_wgmma((140, 150, 700), stagger=3),
    "wgmma that stores 131 columns of 64": lambda _: wgmma_stores(64, 131),
    "wgmma that stores 131 columns of 128": lambda _: wgmma_stores(128, 131),
    "wgmma that stores 132 columns of 128": lambda _: wgmma_stores(128, 132),
    "wgmma, FCC": lambda _: tensor.compute_by_wgmma((140, 140, 200), layout="FCC"),
    "wgmma, CFC": lambda _: tensor.compute_by_wgmma((140, 140, 200), layout="CFC"),
    "wgmma of few rows, FCC": lambda _: tensor.compute_by_wgmma((32, 140, 200), layout="FCC", bm=32, tm=2),
    "wgmma of few rows": lambda _: few_rows(),
    "wgmma by clusters, wide": lambda patch: tensor.compute_together(patch, "wide"),
    "wgmma by clusters, flat": lambda patch: tensor.compute_together(patch, "flat"),
    "bits": lambda _: bits(tensor.BITS_TILE, (33, 80, 144), (40, 67, 1030), (31, 64, 64)),
    "bits by wgmma": lambda _: bits(tensor.BITS_BY_WGMMA, (130, 128, 144), (131, 147, 1100)),
    "closed bits": lambda patch: bit_closures.assert_closed(patch, 290, panel=1024),
    "digits": lambda _: digits(),
    "triangle of integers": lambda _: integers.assert_exact(integers.product((12, 12, 9), "int32", triangle="d")),
    "bytes": lambda _: integers.assert_exact(integers.product((130, 131, 529), "int32", "int8", layout="CFC"), edges=4),
    "float8": lambda _: float8.assert_exact((130, 130, 795), "float8_e4m3fn", layout="CFC", parameters=FLOAT8),
    "float8 of another format": lambda _: float8.assert_exact((3, 4, 70), "float8_e5m2", parameters=float8.TILE),
    "joined digits": lambda _: integers.assert_exact(integers.product((3, 5, 7), "int64")),
    "residues": lambda _: integers.assert_residues(20, 70, 140, count=2, most=2),
    "gpu-ozaki": ozaki,
    "complex residues": complex_residues,
    "half mma": lambda _: half_mma.compute((70, 35, 151), alpha=2.0, slices=2),
    "half panels": lambda _: half_panels.compute((203, 23, 35), alpha=2.0),
    "half panels in runs": in_runs,
    **{
        f"ends of operands: {name}": lambda patch, name=name: ends.compute_at_granules(patch, name)
        for name in ends.KERNELS
    },
    "last elements": lambda patch: ends.compute_last_elements(patch, HostOperands),
    "last elements of windows": lambda patch: ends.compute_last_elements(patch, ends.Offset),
}
# What a kernel that faults must be told, by how the names of checks begin.
TOLD = {"ends of operands": "beyond the end of a buffer", "gpu-tiled with threads": "barrier"}


@pytest.mark.deep(but=9)
@pytest.mark.parametrize("name", CHECKS)
def test_kernels_as_they_are_pass_each_check(name, monkeypatch):
    CHECKS[name](monkeypatch)


@pytest.mark.deep(but=9)
@pytest.mark.parametrize(
    ("name", "files", "mutants"),
    [
        pytest.param(name, files, (edit, *(x for x in edits if x != edit)), id=f"{name}-{number}")
        for (name, files), edits in MUTANTS.items()
        for number, edit in enumerate(edits)
    ],
)
def test_a_mutant_is_found(name, files, mutants, monkeypatch):
    old, _ = mutants[0]
    texts = [find_source(x, (SHIM, FOLDER)).read_text() for x in files.split() if x.endswith((".cu", ".cuh"))]
    assert "pairs.py" in files or any(old in text for text in texts), f"{files} have no {old!r}"
    monkeypatch.setattr(HostExecution, "mutants", mutants)
    told = next((told for begin, told in TOLD.items() if name.startswith(begin)), None)
    with pytest.raises(FOUND, match=told):
        CHECKS[name](monkeypatch)
