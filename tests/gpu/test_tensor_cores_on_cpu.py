"""The kernels of gpu-tensor-core, executed: the same .cu files, the instructions emulated lane by lane."""

import numpy as np
import pytest

from backends.gpu._program.operators import Form
from backends.gpu._program.program import Place, Product, Program
from backends.gpu._tensor.split_product import add_split_product
from harness import SEMIRINGS, Operands
from harness.errors import PlanError
from harness.machine import detect
from harness.problem import Problem
from harness.tuning.gpu import thin_tiles
from tests._support.pairs import pairs
from tests.gpu.host_kernels import HostExecution, HostOperands
from tests.gpu.on_cpu import ON_CPU, RUNGS, check, together, use_the_cpu

pytestmark = ON_CPU

RUNG = "gpu-tensor-core"
EDGES = ("padded", "redirected", "conditional")
# Two warps, side by side or one above the other, that have more than one fragment each way.
SMALL = {
    "float64": {"bm": 32, "bn": 32, "bk": 8, "wm": 32, "wn": 16, "tm": 4, "tn": 4, "stages": 2},
    "float32": {"bm": 64, "bn": 16, "bk": 16, "wm": 32, "wn": 16, "tm": 4, "tn": 4, "stages": 3},
}
SIZES = ((1, 1, 1), (32, 32, 8), (31, 33, 9), (65, 47, 23), (35, 40, 24))


def begin(dtype, size, change=lambda operands: None, *, accumulate=False, alpha=None, layout="CCC", **parameters):
    scalars = {"accumulate": accumulate, "alpha": alpha}
    problem = Problem(*size, SEMIRINGS["plus_times"], np.dtype(dtype), **scalars, layout=layout)
    return check.begin(RUNGS[RUNG], problem, change, **{**SMALL[dtype], **parameters})


def compute(*arguments, **options):
    together(begin(*arguments, **options))


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dtype", SMALL)
def test_product_is_right_at_every_edge_of_the_tiles(dtype, edge):
    together(*(begin(dtype, size, accumulate=i % 2 == 1, edge=edge) for i, size in enumerate(SIZES)))


def test_warps_and_stages_may_be_arranged_otherwise():
    compute("float64", (33, 20, 40), bm=32, bn=16, wm=16, tm=2, tn=4, wn=16, stages=4)


# Rows of A and of B that a pass copies, and the rows of the tiles: 20 and 4 for 48 and 16; 80 and 2 for 16 and 8; 32
# and 5 for 32 and 8. The last two have rows of B longer than a block where n is odd, in whole parts and not.
UNEVEN = (
    {"bm": 48, "bn": 80, "bk": 16, "wm": 48, "wn": 16, "tm": 6, "tn": 4, "stages": 3},
    {"bm": 16, "bn": 160, "bk": 8, "wm": 16, "wn": 16, "tm": 2, "tn": 4, "stages": 2},
    {"bm": 32, "bn": 48, "bk": 8, "wm": 16, "wn": 24, "tm": 2, "tn": 6, "stages": 2},
    {"bm": 32, "bn": 128, "bk": 8, "wm": 32, "wn": 64, "tm": 4, "tn": 16, "stages": 2},
    {"bm": 80, "bn": 80, "bk": 16, "wm": 80, "wn": 40, "tm": 10, "tn": 10, "stages": 2},
)


def test_threads_need_not_cut_the_copies_evenly():
    kinds = pairs(UNEVEN, EDGES, (2, -1))
    together(*(begin("float64", (tile["bm"] + 1, tile["bn"] + n, 40), edge=edge, **tile) for tile, edge, n in kinds))


LAYOUTS = ("CFC", "FCC", "FFC")


def test_float64_by_columns_is_read_as_it_lies():
    products = []
    for layout, edge, number in pairs(LAYOUTS, EDGES, range(len(SIZES))):
        problem = Problem(40, 40, 40, SEMIRINGS["plus_times"], np.dtype(np.float64), layout=layout)
        assert RUNGS[RUNG].reads_columns(RUNGS[RUNG].plan(problem, detect()).override({"unit": "mma"})) == {"a", "b"}
        options = {"layout": layout, "edge": edge, "shares": 1 + number % 2, "alpha": 1.5 if number > 2 else None}
        tile = (SMALL["float64"], *UNEVEN[:4])[number]
        products.append(begin("float64", SIZES[number], accumulate=number % 2 == 1, **options, **tile))
    together(*products)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("stagger", (2, 5, 16))
def test_tiles_may_begin_anywhere_along_k(stagger):
    products = []
    for k in (1, 8, 40, 71):
        products += [
            begin("float64", (35, 150, k), edge="redirected", stagger=stagger),
            begin("float64", (35, 150, k), shares=3, stagger=stagger),
            begin("float32", (130, 35, k), accumulate=True, stagger=stagger),
            begin_by_wgmma((140, 150, 10 * k), stagger=stagger),
            begin_by_wgmma((300, 20, 10 * k), bn=32, tn=2, shares=2, stagger=stagger),
        ]
    together(*products)


def test_tiles_that_begin_nowhere_are_refused():
    for stagger in (0, -1, "2"):
        with pytest.raises(PlanError, match="stagger"):
            compute("float64", (35, 35, 40), stagger=stagger)


def test_sums_of_16_terms_may_be_flushed():
    compute("float32", (40, 19, 70), bk=32, depth=16)


def test_alpha_is_folded_into_a():
    compute("float64", (17, 9, 11), accumulate=True, alpha=-2.5)


def scatter(*values):
    def change(operands):
        rng = np.random.default_rng(5)
        for x in (operands.a, operands.b):
            chosen = rng.random(x.shape) < 0.1
            x[chosen] = rng.choice(np.array(values, x.dtype), x.shape)[chosen]

    return change


@pytest.mark.parametrize("values", [(np.nan, np.inf, -np.inf), (3e38, -3e38, 0), (1e-45, 1e-39), (0.0, -0.0)])
def test_values_that_tf32_cannot_split_are_computed_otherwise(values):
    compute("float32", (33, 17, 21), scatter(*values))


def test_nothing_before_the_operands_is_touched(monkeypatch):
    use_the_cpu(monkeypatch, at_end=False)
    for dtype in SMALL:
        compute(dtype, (33, 40, 24), edge="redirected")
        compute(dtype, (33, 41, 23), edge="redirected")


@pytest.mark.parametrize("depth", (8, 16))
def test_float64_instructions_may_take_more_steps_of_k(depth):
    compute("float64", (33, 20, 40), bk=2 * depth, depth=depth)


# float64 from tiles that the copy engine brings.
WHOLE = {"bm": 128, "bn": 128, "bk": 16, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "stages": 3}
BROUGHT = {**WHOLE, "unit": "tma", "blocks": 2, "group": 1}


@pytest.mark.deep
def test_float64_of_tiles_that_are_brought_is_right_in_any_layout():
    sizes = ((1, 1, 1), (140, 130, 40), (300, 131, 66), (20, 30, 200))
    kinds = [*pairs(range(3), (4, 8, 16), ("CCC",)), *pairs(range(4), (8, 16), LAYOUTS)]
    together(*(
        begin("float64", sizes[number], accumulate=number % 2 == 1, layout=layout,
              **{**BROUGHT, **({"wm": 64, "wn": 32} if number == 1 else {}), "depth": depth})
        for number, depth, layout in kinds
    ))  # fmt: skip


# 3xTF32 by wgmma, and the passes that make its operands.
SPLIT = {"unit": "wgmma", "bm": 128, "bn": 128, "bk": 32, "wm": 0, "wn": 0, "tm": 8, "tn": 8, "stages": 2}
IGNORED_BITS, UNIT = 13, 2.0**-24


def split(size):
    """Return A and B with the parts that the passes make of them: (2, m, k) and, transposed, (2, n, k)."""
    problem = Problem(*size, SEMIRINGS["plus_times"], np.dtype(np.float32))
    given = Operands.generate(problem, sum(size))
    program = Program()
    placed = HostOperands(given)
    matrices = (placed.matrix(name) for name in ("a", "b", "out"))
    product = Product(*matrices, *size, Form.FAST, accumulate=False, extremes=Place("a"))
    plan = RUNGS[RUNG].plan(problem, detect()).override(SPLIT)
    add_split_product(program, plan, product)
    program.steps = [step for step in program.steps if step.kernel.stem == "split"]
    execution = HostExecution(program, placed)
    execution.run()
    m, n, k = size
    parts = (execution._buffers[name].reshape(2, rows, -1)[:, :, :k] for name, rows in (("parts_a", m), ("parts_b", n)))
    return given.a, given.b, *parts


def are_parts(x, parts):
    high, low = parts
    is_tf32 = (np.ascontiguousarray(parts).view(np.uint32) & ((1 << IGNORED_BITS) - 1) == 0).all()
    error = np.abs(high.astype(np.float64) + low - x)
    return bool(is_tf32 and (error <= 2 * UNIT * np.abs(x)).all())


@pytest.mark.parametrize("size", ((1, 1, 1), (5, 7, 3), (33, 40, 24), (40, 35, 65)))
def test_operands_are_split_into_what_tf32_holds(size):
    a, b, parts_a, parts_b = split(size)
    assert are_parts(a, parts_a)
    assert are_parts(b.T, parts_b)


# Products by wgmma, a block or two for several tiles, so that the ring of stages goes on from tile to tile.
HALF = {"unit": "wgmma", "bm": 128, "bn": 128, "bk": 64, "wm": 0, "wn": 0, "tm": 8, "tn": 8, "stages": 2, "blocks": 2,
        "cluster": 1}  # fmt: skip
LARGE_TILE = {**HALF, "bn": 256, "tn": 16, "stages": 3, "blocks": 1}
WGMMA_SIZES = ((1, 1, 1), (20, 30, 40), (140, 150, 200), (300, 132, 64))


def begin_by_wgmma(size, dtype="bfloat16", *, accumulate=False, alpha=None, layout="CCC", **parameters):
    narrow = None if dtype == "float32" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    scalars = {"accumulate": accumulate, "alpha": alpha}
    problem = Problem(
        *size, SEMIRINGS["plus_times"], np.dtype(np.float32), **scalars, operand_dtype=narrow, layout=layout
    )
    tile = {**SPLIT, "blocks": 2} if narrow is None else {**HALF, "together": 1}
    return check.begin(RUNGS[RUNG], problem, **{**tile, **parameters})


def compute_by_wgmma(*arguments, **options):
    together(begin_by_wgmma(*arguments, **options))


@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
def test_products_by_wgmma_are_right(dtype):
    for number, size in enumerate(WGMMA_SIZES):
        compute_by_wgmma(size, dtype, accumulate=number % 2 == 1, alpha=-1.5 if number > 1 else None)


def test_products_by_wgmma_are_right_with_wide_tiles_and_more_stages():
    compute_by_wgmma((140, 300, 130), alpha=2.0, **LARGE_TILE)
    compute_by_wgmma((40, 257, 200), accumulate=True, **LARGE_TILE)


# Tiles of 16-bit elements with a side below 64, those of few rows computed transposed.
NARROW = [tile.launch for tile in thin_tiles.HALF.tiles if min(tile.launch.bm, tile.launch.bn) < 64]
NARROW_SIZES = ((5, 140, 200), (40, 300, 131), (300, 9, 70), (130, 40, 264), (1, 1, 1))


@pytest.mark.deep(but=12)
@pytest.mark.parametrize("launch", NARROW, ids=lambda launch: f"{launch.bm}x{launch.bn}x{launch.stages}")
def test_products_by_wgmma_are_right_with_narrow_tiles(launch):
    number = NARROW.index(launch) % len(NARROW_SIZES)  # in turn: tiles differ little, and each is another kernel
    size = NARROW_SIZES[number]
    scalars = {"accumulate": number % 2 == 1, "alpha": -1.5 if number > 1 else None}
    shares = 1 if launch.bm < min(size[0], 64) else 1 + number % 3
    compute_by_wgmma(size, **scalars, **vars(launch), blocks=3, shares=shares)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_by_wgmma_take_columns_as_they_lie(layout):
    tiles = (
        {},
        {"bn": 256, "tn": 16},
        {"bn": 32, "tn": 2},
        {"bm": 16, "bn": 128, "tm": 1},
        {"bm": 8, "bn": 64, "tm": 1},
    )
    products = []
    for number, (tile, (rows, n, k)) in enumerate(zip(tiles, NARROW_SIZES, strict=True)):
        options = {"layout": layout, "alpha": -1.5 if number > 1 else None, "shares": 1 + number % 2, **tile}
        sizes = ((min(rows, tile.get("bm", 300)), n, k + odd) for odd in (0, 1))
        products += [begin_by_wgmma(size, accumulate=number % 2 == 1, **options) for size in sizes]
    together(*products)


def test_a_c_higher_than_flat_tiles_shares_no_k():
    with pytest.raises(PlanError, match="shares=1, or bm >= 21"):
        compute_by_wgmma((21, 300, 200), bm=16, bn=128, tm=1, tn=8, shares=2)


def test_flat_tiles_compute_no_triangle():
    narrow = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    problem = Problem(16, 16, 64, "plus_times", np.dtype(np.float32), operand_dtype=narrow, triangle="d")
    plan = RUNGS[RUNG].plan(problem, detect()).override({**HALF, "bm": 16, "tm": 1})
    with pytest.raises(PlanError, match="compute no triangle"):
        RUNGS[RUNG].prepare(plan, Operands.generate(problem, 1))


# Blocks that share k by a cluster: here a cluster of one, whose block has all steps, and adds up its own sums.
TOGETHER = ("#define TOGETHER 0", "#define TOGETHER 1")
SHARED_TILES = {
    "wide": {"stages": 3},
    "narrow": {"bn": 16, "tn": 1},
    "flat": {"bm": 48, "bn": 128, "tm": 3, "tn": 8, "stages": 3},
}


def compute_together(monkeypatch, tile):
    monkeypatch.setattr(HostExecution, "edits", (TOGETHER, *HostExecution.edits))
    for n, accumulate in ((300, False), (131, True)):
        compute_by_wgmma((40, n, 200), accumulate=accumulate, alpha=3.0, blocks=100, **SHARED_TILES[tile])


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("tile", SHARED_TILES)
def test_sums_of_blocks_that_share_k_are_added_up(tile, monkeypatch):
    compute_together(monkeypatch, tile)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cluster": 2, "stages": 3}, "share k, or what they fetch"),
        ({}, "have no room"),
        ({"triangle": "d"}, "share no k of a triangle"),
        ({"together": 3}, "together"),
    ],
    ids=str,
)
def test_blocks_that_cannot_share_k_are_refused(options, match):
    narrow = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    parameters = {**HALF, "together": 2, **options}
    triangle = parameters.pop("triangle", "")
    problem = Problem(160, 160, 200, "plus_times", np.dtype(np.float32), operand_dtype=narrow, triangle=triangle)
    plan = RUNGS[RUNG].plan(problem, detect()).override(parameters)
    with pytest.raises(PlanError, match=match):
        RUNGS[RUNG].prepare(plan, Operands.generate(problem, 1))


# Tiles of words, for products over bits and over pairs.
WORDS = {"bm": 16, "bn": 32, "bk": 8, "wm": 16, "wn": 32, "tm": 4, "tn": 4, "stages": 2}


def begin_words(name, semiring, dtype, size, change=lambda operands: None, *, accumulate=False, **tile):
    problem = Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=accumulate)
    return check.begin(RUNGS[name], problem, change, **{**WORDS, **tile})


BITS_TILE = {"bm": 32, "bn": 16, "bk": 16, "tm": 4, "tn": 4, "wm": 32, "wn": 16}


BITS_BY_WGMMA = {**HALF, "bk": 32, "wm": 0, "wn": 0, "unit": "wgmma"}


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("accumulate", (False, True))
@pytest.mark.parametrize("semiring", ("lor_land", "lxor_land"))
def test_bits_by_wgmma_are_right(semiring, accumulate):
    cases = [(size, {}) for size in ((1, 1, 1), (33, 70, 80), (140, 148, 1030), (129, 272, 2100))]
    cases.append(((128, 256, 300), {"bn": 256, "tn": 16}))
    how = {"accumulate": accumulate, **BITS_BY_WGMMA}
    together(*(begin_words(RUNG, semiring, "bool", size, **{**how, **tile}) for size, tile in cases))


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("accumulate", (False, True))
@pytest.mark.parametrize("semiring", ("lor_land", "lxor_land"))
def test_bits_are_right_along_n_and_along_k(semiring, accumulate):
    sizes = (1, 1, 1), (33, 70, 80), (40, 64, 1030), (31, 84, 96)
    by_words = [begin_words("gpu-bits", semiring, "bool", size, accumulate=accumulate) for size in sizes]
    tile = {"accumulate": accumulate, **BITS_TILE}
    together(*by_words, *(begin_words(RUNG, semiring, "bool", size, **tile) for size in sizes))


def _no_extremes(operands):
    operands.a[...], operands.b[...] = operands.a % 1000, operands.b % 1000


@pytest.mark.parametrize("change", (_no_extremes, lambda operands: None, scatter(32767), scatter(-32768)))
@pytest.mark.parametrize("semiring", ("min_plus", "max_plus"))
def test_pairs_of_16_bits_are_right_for_values_that_allow_them_and_for_others(semiring, change):
    for number, size in enumerate(((1, 1, 1), (21, 75, 19))):
        together(begin_words("gpu-paired", semiring, "int16", size, change, accumulate=number == 1))
