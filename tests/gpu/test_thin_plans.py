"""Plans of narrow, flat and deep products: tiles as narrow as C, shares of k, and plans that kernels can have."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._program.program import Matrix, Place
from harness.machine import detect
from harness.problem import Problem
from harness.tuning.device import MEASURED
from harness.tuning.gpu import sharing, thin, thin_tiles
from harness.tuning.gpu.family import Choice, Costs, Stagger
from tests.gpu.on_cpu import RUNGS, needs_nvrtc

SIZES = (0, 1, 33, 64, 129, 5000)
FASTEST = json.loads(thin.MEASURED.read_text(encoding="utf-8"))["fastest"]


def plan(name, size, dtype, semiring="plus_times", narrow=None):
    return RUNGS[name].plan(Problem(*size, semiring, np.dtype(dtype), operand_dtype=narrow), detect())


@pytest.mark.parametrize(
    ("size", "dtype", "rows", "columns"),
    [
        ((31, 5000, 5000), "float32", 32, 128),
        ((5000, 31, 5000), "float32", 128, 32),
        ((3, 5000, 5000), "float32", 8, 128),
        ((100000, 96, 96), "float32", 128, 128),
        ((31, 5000, 5000), "int64", 32, 256),
    ],
)
def test_tiles_are_as_narrow_as_the_product(size, dtype, rows, columns):
    for semiring in ("plus_times", "min_plus"):
        launch = plan("gpu-tuned", size, dtype, semiring).launch
        assert launch.bm <= rows
        assert launch.bn <= columns


def test_few_tiles_share_a_long_k_and_many_do_not():
    for name, dtype in (("gpu-tuned", "float32"), ("gpu-tensor-core", "float64"), ("gpu-tensor-core", "float32")):
        deep = plan(name, (64, 64, 50000), dtype)
        tiles = -(-64 // deep.launch.bm) * -(-64 // deep.launch.bn)
        assert tiles * int(deep.options["shares"]) >= MEASURED.multiprocessors
        assert plan(name, (10**6, 64, 64), dtype).options["shares"] == 1
        assert plan(name, (4096, 4096, 4096), dtype).options["shares"] != 0
    assert plan("gpu-tensor-core", (256, 256, 65536), "float64").options["shares"] > 1
    assert plan("gpu-tensor-core", (4096, 4096, 4096), "float64").options["shares"] == 1


def test_no_share_is_without_work():
    for size in itertools.product((1, 33, 64), (31, 5000), (1, 15, 40, 3000)):
        choice = thin_tiles.SIMT_4.choose(Problem(*size, dtype=np.dtype(np.float32)), MEASURED)
        assert choice.shares == 1 or size[2] // choice.shares >= choice.tile.launch.bk


def seconds(family, problem, tile=None, **options):
    """Return the least time by the model, of all tiles or of one."""
    family = family if tile is None else dataclasses.replace(family, tiles=(tile,))
    return family.fastest(problem, MEASURED, math.inf, **options)[0]


def test_more_work_never_takes_less_time():
    """The model is monotonic in k for each tile whose blocks share none."""
    for family in (thin_tiles.SIMT_4, thin_tiles.DOUBLE, thin_tiles.HALF_MMA):
        for tile in family.tiles:
            problems = [Problem(31, 5000, k, dtype=np.dtype(np.float32)) for k in (100, 1000, 10000)]
            assert np.all(np.diff([seconds(family, x, tile, can_share=False) for x in problems]) >= 0)


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("family", (thin_tiles.SIMT_4, thin_tiles.DOUBLE, thin_tiles.HALF, thin_tiles.HALF_MMA))
def test_no_tile_that_is_passed_over_is_faster(family):
    for size in np.random.default_rng(1).integers(1, [400, 3000, 5000], (60, 3)).tolist():
        problem = Problem(*size, dtype=np.dtype(np.float32))
        tiles = {x.tile for x in family.rows(*size[:2], MEASURED, is_small=max(size) <= 128, can_share=True).all}
        assert seconds(family, problem) == min(seconds(family, problem, tile) for tile in tiles)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("gpu-tuned", "float32"), ("gpu-tuned", "int64"), ("gpu-tensor-core", "float64"), ("gpu-tensor-core", "float32")],
)
@pytest.mark.parametrize("has_wgmma", (False, True))
def test_every_plan_is_legal(monkeypatch, name, dtype, has_wgmma):
    monkeypatch.setattr(type(RUNGS["gpu-tensor-core"]), "_has_wgmma", lambda self: has_wgmma)
    for m, n, k in itertools.product(SIZES, SIZES, (1, 301, 50000)):
        if max(m, n) > 5000 < m * n:
            continue
        chosen = plan(name, (m, n, k), dtype)
        for alignment in (16, 8):
            matrices = (Matrix(Place(x), max(ld, 1), alignment) for x, ld in (("a", k), ("b", n), ("out", n)))
            RUNGS[name].program(chosen, *matrices)


HALF_SIZES = ((64, 256), (8, 64), (40, 192), (48, 128), (64, 48), (128, 16))
# The narrowest and the widest of each kind; the others differ in numbers alone.
COMPILED = [
    ("gpu-tuned", "float32", None, thin_tiles.SIMT_4.tiles, ((8, 128), (128, 16), (96, 96))),
    ("gpu-tensor-core", "float64", None, thin_tiles.DOUBLE.tiles, ((48, 64), (128, 8))),
    ("gpu-tensor-core", "float32", "bfloat16", thin_tiles.HALF.tiles, HALF_SIZES),
]


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize(("name", "dtype", "narrow", "tiles", "sizes"), COMPILED)
def test_narrow_tiles_compile_and_spill_nothing(name, dtype, narrow, tiles, sizes):
    narrow = narrow and np.dtype(getattr(pytest.importorskip("ml_dtypes"), narrow))
    chosen = plan(name, (7, 35, 5000), dtype, narrow=narrow)
    for tile in (tile for tile in tiles if (tile.launch.bm, tile.launch.bn) in sizes):
        blocks = {"blocks": tile.blocks, "wave": MEASURED.multiprocessors} if name == "gpu-tuned" else {}
        blocks |= {"unit": "wgmma"} if narrow else {}
        kernels = RUNGS[name].kernels_of(chosen.override({**vars(tile.launch), **blocks, "shares": 3}))
        (kernel,) = (kernel for kernel in kernels if kernel.function == "gemm")
        taken = resources(compile_kernel(kernel.stem, kernel.defines, f"sm_90{kernel.suffix}"))["gemm"]
        assert taken.spill_bytes == 0
        assert dict(kernel.defines)["IS_SPLIT"] == "1"
        assert taken.registers * kernel.block[0] * tile.blocks <= 65536


def test_tiles_of_16_bits_are_as_low_and_as_narrow_as_c():
    narrow = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    rows = {m: plan("gpu-tensor-core", (m, 12344, 2000), "float32", narrow=narrow).launch.bm for m in (1, 8, 9, 30, 48)}
    assert rows == {1: 8, 8: 8, 9: 16, 30: 32, 48: 48}
    columns = {
        n: tile in [row.tile for row in thin_tiles.HALF.rows(12345, n, MEASURED, is_small=False, can_share=True).all]
        for n, tile in _tiles_of_columns()
    }
    assert columns == {10: True, 17: False, 48: True}


def _tiles_of_columns():
    tiles = {tile.launch.bn: tile for tile in thin_tiles.HALF.tiles}
    return (10, tiles[16]), (17, tiles[16]), (48, tiles[48])


def test_near_a_measured_product_the_fastest_is_taken():
    """Also where the model would take another tile; not for other sizes, nor for rows that begin otherwise."""
    kind = {"mma": thin_tiles.DOUBLE_TMA}
    (_, choice), near = thin.measured(Problem(40, 30000, 400), kind, MEASURED), Problem(40, 31000, 416)
    assert choice.tile != thin_tiles.DOUBLE_TMA.choose(near, MEASURED).tile
    assert thin.measured(near, kind, MEASURED) == ("mma", choice)
    far = (80, 30000, 400), (40, 30000, 800), (40, 30000, 401), (40, 30001, 400)
    assert not any(thin.measured(Problem(*sizes), kind, MEASURED) for sizes in far)


def test_tiles_begin_at_several_steps_where_all_of_them_read_the_same_rows():
    tile = thin_tiles.DOUBLE.tiles[0]
    rows, columns = tile.launch.bm, tile.launch.bn
    of = Stagger(flat=16, tall=4, columns=100).of
    flat, tall, square = (rows, 99 * columns + 1, 999), (99 * rows, columns - 30, 999), (2 * rows, 2 * columns, 999)
    for size, shares, found in ((flat, 1, 16), (flat, 2, 16), (flat, 3, 1), (tall, 1, 4), (square, 1, 1)):
        assert of(Problem(*size), Choice(tile, shares)) == found
    assert of(Problem(rows, 128 * columns, 999), Choice(tile, 1)) == 1  # rows of B lie at multiples of 1 KiB
    assert of(Problem(99 * rows, 101, 999), Choice(tile, 1)) == 1  # more columns than are meant
    assert of(Problem(*flat), Choice(tile, 1, together=4)) == 1


def test_every_measured_product_has_a_tile_of_the_table():
    half = {"wgmma": thin_tiles.HALF, "mma": thin_tiles.HALF_MMA}
    kinds = {"float32": {"": thin_tiles.SIMT_4}, "float64": {"mma": thin_tiles.DOUBLE_TMA}, "bfloat16": half}
    narrow = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    for dtype, entries in FASTEST.items():
        assert len(entries) > 40
        for text in entries:
            size = tuple(map(int, text.split("x")))
            of = np.dtype("float64" if dtype == "float64" else "float32")
            problem = Problem(*size, dtype=of, operand_dtype=narrow if dtype == "bfloat16" else None)
            _, choice = thin.measured(problem, kinds[dtype], MEASURED)
            of_tile = choice.tile.launch
            *sides, _, _, shares, together, stagger, cluster = entries[text]
            assert sides == [of_tile.bm, of_tile.bn, of_tile.bk]
            assert choice[1:] == (shares, together, stagger, cluster)


def test_what_was_measured_of_plus_times_holds_for_it_alone():
    text = next(text for text in FASTEST["float32"] if text.startswith("7000x"))
    size = tuple(map(int, text.split("x")))
    tiles = [plan("gpu-tuned", size, "float32", semiring).launch for semiring in ("plus_times", "min_plus")]
    known = FASTEST["float32"][text]
    assert [tiles[0].bm, tiles[0].bn, tiles[0].bk] == known[:3]
    problem = Problem(*size, "min_plus", np.dtype(np.float32))
    assert tiles[1] == thin_tiles.SIMT_4.choose(problem, MEASURED).tile.launch


def test_16_bits_by_columns_are_left_to_wgmma_which_reads_them_as_they_lie():
    narrow, rung = np.dtype(pytest.importorskip("ml_dtypes").bfloat16), RUNGS["gpu-tensor-core"]
    units = {
        layout: rung.plan(
            Problem(31, 5001, 5003, dtype="float32", operand_dtype=narrow, layout=layout), detect()
        ).options["unit"]
        for layout in ("CCC", "CFC", "FCC")
    }
    assert units == {"CCC": "mma", "CFC": "wgmma", "FCC": "wgmma"}


@pytest.mark.parametrize("gap", (0, 1, 72))
@pytest.mark.parametrize("layout", ("CCC", "FCC", "CFC", "FFC"))
def test_every_plan_of_16_bits_is_legal_as_operands_lie(monkeypatch, layout, gap):
    monkeypatch.setattr(type(RUNGS["gpu-tensor-core"]), "_has_wgmma", lambda self: True)
    narrow, rung = np.dtype(pytest.importorskip("ml_dtypes").bfloat16), RUNGS["gpu-tensor-core"]
    for m, n, k in itertools.product((1, 8, 33, 65, 72, 96, 300, 5000), (1, 24, 65, 300, 5000), (34, 2048)):
        planned = layout if not gap else "AAC"  # rows or columns with gaps between them have any strides
        problem = Problem(m, n, k, dtype=np.dtype(np.float32), operand_dtype=narrow, layout=planned)
        chosen = rung.plan(problem, detect())
        taken = rung.columns_taken(chosen)
        sides = (("a", m, k, layout[0]), ("b", k, n, layout[1]), ("out", m, n, "C"))
        matrices = []
        for name, rows, columns, order in sides:
            by_columns = order == "F" and name in taken
            line = rows if by_columns else columns
            matrices.append(Matrix(Place(name), line + gap * (name != "out"), 16 if gap else 2, by_columns, line=line))
        rung.program(chosen, *matrices)


def test_a_cluster_is_thought_of_where_it_has_neighbours():
    tiles = tuple(tile for tile in thin_tiles.HALF.tiles if not tile.is_transposed)
    family = dataclasses.replace(thin_tiles.HALF, tiles=tiles, together=(1,), costs=Costs(fetch=1e9))

    def cluster(m, n):
        problem = Problem(m, n, 4096, dtype=np.dtype(np.float32), operand_dtype=np.dtype(np.float16))
        return family.choose(problem, MEASURED).cluster

    assert cluster(5000, 32) == 4
    assert cluster(150, 5000) == 1  # three tiles of 64 rows


@pytest.mark.parametrize(
    ("sides", "size", "alone", "together"),
    [
        ((64, 32), (40 * 64, 32), 40 * (64 + 32), 40 * (64 + 32 / 4)),
        ((64, 32), (1025, 30), 17 * (64 + 32), 20 * (64 + 32 / 4)),  # whole clusters
        ((32, 64), (30, 1000), 16 * (64 + 32), 16 * (64 + 32 / 4)),  # computed transposed
    ],
)
def test_a_cluster_spares_fetches_of_what_its_tiles_have_in_common(sides, size, alone, together):
    """Blocks of a cluster lie along the longer side."""
    tile = next(tile for tile in thin_tiles.HALF.tiles if (tile.launch.bm, tile.launch.bn) == sides)
    family = dataclasses.replace(
        thin_tiles.HALF, tiles=(tile._replace(rate=1e30),), costs=Costs(0, 0, 1e30, 1e30, fetch=1e9, ends=0)
    )
    problem = Problem(*size, 640, dtype=np.dtype(np.float32), operand_dtype=np.dtype(np.float16))
    found = [seconds(dataclasses.replace(family, clusters=x), problem, can_share=False) for x in ((1,), (1, 4))]
    assert found[0] / found[1] == pytest.approx(alone / together)


@pytest.mark.parametrize("size", ((979, 979, 979), (1013, 1001, 1100), (2387, 2399, 2000)))
def test_a_ragged_square_has_the_tiles_that_were_fastest_for_so_many_lines(size):
    chosen = plan("gpu-tuned", size, "float32")
    bm, bn, blocks, shares, is_all = sharing._ragged_squares()[str(-(-size[0] // 32))]
    launch, options = chosen.launch, chosen.options
    assert (launch.bm, launch.bn, options["blocks"], options["shares"]) == (bm, bn, blocks, shares)
    assert (options["wave"] == sharing.ENDLESS) == bool(is_all)
    assert options["edge"] == "redirected"


@pytest.mark.parametrize(
    ("size", "dtype", "semiring"),
    [
        ((1024, 1024, 1024), "float32", "plus_times"),  # whole lines
        ((1013, 1500, 1013), "float32", "plus_times"),
        ((1013, 1013, 3000), "float32", "plus_times"),
        ((1013, 1013, 1013), "float32", "min_plus"),
        ((1013, 1013, 1013), "float64", "plus_times"),
        ((5001, 5001, 5001), "float32", "plus_times"),
    ],
)
def test_other_products_have_the_tiles_of_the_rules(monkeypatch, size, dtype, semiring):
    before = plan("gpu-tuned", size, dtype, semiring)
    monkeypatch.setattr(sharing, "_ragged_squares", dict)
    assert plan("gpu-tuned", size, dtype, semiring) == before


def test_every_ragged_square_that_was_measured_has_a_legal_plan():
    for lines in map(int, sharing._ragged_squares()):
        n = 32 * lines - 13
        chosen = plan("gpu-tuned", (n, n, n), "float32")
        RUNGS["gpu-tuned"].program(chosen, *(Matrix(Place(x), n) for x in ("a", "b", "out")))
