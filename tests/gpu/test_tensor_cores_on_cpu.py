"""The kernels of gpu-tensor-core, executed: the same .cu files, the instructions emulated lane by lane."""

import numpy as np
import pytest

from backends.gpu._program.operators import Form
from backends.gpu._program.program import Place, Product, Program
from backends.gpu._tensor.split_product import add_split_product
from harness import SEMIRINGS, Operands
from harness.errors import PlanError, VerificationError
from harness.machine import detect
from harness.problem import Problem
from harness.proof.verify import verify
from harness.tuning.gpu import thin_tiles
from tests.gpu.host_kernels import COMPILER, HostExecution, HostOperands, KernelFault
from tests.gpu.simt_products import RUNGS, in_steps, together, use_the_cpu

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here"),
    pytest.mark.no_cover,
]

RUNG = "gpu-tensor-core"
EDGES = ("padded", "redirected", "conditional")
# Two warps, side by side or one above the other, that have more than one fragment each way.
SMALL = {
    "float64": {"bm": 32, "bn": 32, "bk": 8, "wm": 32, "wn": 16, "tm": 4, "tn": 4, "stages": 2},
    "float32": {"bm": 64, "bn": 16, "bk": 16, "wm": 32, "wn": 16, "tm": 4, "tn": 4, "stages": 3},
}
SIZES = ((1, 1, 1), (32, 32, 8), (31, 33, 9), (65, 47, 23), (35, 40, 24))


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    use_the_cpu(monkeypatch)


@in_steps
def compute(dtype, size, change=lambda operands: None, *, accumulate=False, alpha=None, layout="CCC", **parameters):
    scalars = {"accumulate": accumulate, "alpha": alpha}
    problem = Problem(*size, SEMIRINGS["plus_times"], np.dtype(dtype), **scalars, layout=layout)
    operands = Operands.generate(problem, sum(size))
    change(operands)
    rung = RUNGS[RUNG]
    plan = rung.plan(problem, detect()).override({**SMALL[dtype], **parameters})
    execution = rung.prepare(plan, operands)
    yield
    execution.run()
    verify(problem, operands, execution.result(), seed=1, extra_error=rung.extra_error(plan, operands))


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dtype", SMALL)
def test_product_is_right_at_every_edge_of_the_tiles(dtype, edge):
    together(*(compute.begin(dtype, size, accumulate=i % 2 == 1, edge=edge) for i, size in enumerate(SIZES)))


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


@pytest.mark.parametrize("tile", UNEVEN, ids=lambda tile: f"{tile['bm']}x{tile['bn']}")
@pytest.mark.parametrize("edge", EDGES)
def test_threads_need_not_cut_the_copies_evenly(tile, edge):
    columns = tile["bn"] + 2, tile["bn"] - 1
    together(*(compute.begin("float64", (tile["bm"] + 1, n, 40), edge=edge, **tile) for n in columns))


LAYOUTS = ("CFC", "FCC", "FFC")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("edge", EDGES)
def test_float64_by_columns_is_read_as_it_lies(layout, edge):
    problem = Problem(40, 40, 40, SEMIRINGS["plus_times"], np.dtype(np.float64), layout=layout)
    assert RUNGS[RUNG].reads_columns(RUNGS[RUNG].plan(problem, detect()).override({"unit": "mma"})) == {"a", "b"}
    products = []
    for number, (size, tile) in enumerate(zip(SIZES, (SMALL["float64"], *UNEVEN[:4]), strict=True)):
        options = {"layout": layout, "edge": edge, "shares": 1 + number % 2, "alpha": 1.5 if number > 2 else None}
        products.append(compute.begin("float64", size, accumulate=number % 2 == 1, **options, **tile))
    together(*products)


@pytest.mark.parametrize("edit", (
    ("next + offsets[ALONG_K ? pass : 0]", "next"), ("steps * ld", "steps"),
    ("place + (long long)begin * ld", "place + begin"),
    ("ALONG_K ? i * STRIDE + p : p * STRIDE + i", "p * STRIDE + i"),
))  # fmt: skip
def test_planted_mistake_with_columns_of_float64_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", (65, 47, 40), layout="FFC", edge="redirected", shares=2)


PLANTED_IN_COPIES = {
    "rows beyond the tile are copied": (UNEVEN[1], 162, ("COUNT % LINES == 0 || line + pass * LINES < COUNT", "true")),
    "the last rows of B are not": (
        UNEVEN[2], 50, ("PASSES = ceiling(COUNT, LINES)", "PASSES = ALONG_K ? ceiling(COUNT, LINES) : COUNT / LINES")
    ),
    "columns beyond the tile are copied": (
        UNEVEN[4], 79, ("COPIES % ACROSS == 0 || threadIdx.x + part * ACROSS < COPIES", "true")
    ),
    "the last part of a row of B is not": (UNEVEN[4], 79, ("part < PARTS; ++part) {", "part < 1; ++part) {")),
}  # fmt: skip


@pytest.mark.parametrize(("tile", "n", "edit"), PLANTED_IN_COPIES.values(), ids=PLANTED_IN_COPIES)
def test_planted_mistake_in_uneven_copies_is_found(monkeypatch, tile, n, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", (tile["bm"] + 1, n, 40), edge="redirected", **tile)


@pytest.mark.parametrize("stagger", (2, 5, 16))
def test_tiles_may_begin_anywhere_along_k(stagger):
    products = []
    for k in (1, 8, 40, 71):
        products += [
            compute.begin("float64", (35, 150, k), edge="redirected", stagger=stagger),
            compute.begin("float64", (35, 150, k), shares=3, stagger=stagger),
            compute.begin("float32", (130, 35, k), accumulate=True, stagger=stagger),
            compute_by_wgmma.begin((140, 150, 10 * k), stagger=stagger),
            compute_by_wgmma.begin((300, 20, 10 * k), bn=32, tn=2, shares=2, stagger=stagger),
        ]
    together(*products)


PLANTED_IN_STAGGER = {
    "no step after the last": ("STAGGER > 1 && coming + 1 == tiles ?", "STAGGER > 1 && coming == tiles ?"),
    "back to another place": ("copier_a.skip(steps), copier_b", "copier_a.skip(BK), copier_b"),
    "B stays behind": ("copier_b.skip(coming * BK);", "copier_b.skip(0);"),
}


@pytest.mark.parametrize("edit", PLANTED_IN_STAGGER.values(), ids=PLANTED_IN_STAGGER)
def test_planted_mistake_in_where_tiles_begin_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", (35, 150, 71), edge="redirected", stagger=3)


def test_planted_mistake_in_where_tiles_of_the_copy_engine_begin_is_found(monkeypatch):
    use_the_cpu(monkeypatch, edits=(("if (++at == steps) at = 0;", "++at;"),))
    with pytest.raises((VerificationError, KernelFault)):
        compute_by_wgmma((140, 150, 700), stagger=3)


def test_tiles_that_begin_nowhere_are_refused():
    for stagger in (0, -1, "2"):
        with pytest.raises(PlanError, match="stagger"):
            compute("float64", (35, 35, 40), stagger=stagger)


def test_sums_of_16_terms_may_be_flushed():
    compute("float32", (40, 19, 70), bk=32, depth=16)


def test_alpha_is_folded_into_a():
    compute("float64", (17, 9, 11), accumulate=True, alpha=-2.5)


def _scatter(*values):
    def change(operands):
        rng = np.random.default_rng(5)
        for x in (operands.a, operands.b):
            chosen = rng.random(x.shape) < 0.1
            x[chosen] = rng.choice(np.array(values, x.dtype), x.shape)[chosen]

    return change


@pytest.mark.parametrize("values", [(np.nan, np.inf, -np.inf), (3e38, -3e38, 0), (1e-45, 1e-39), (0.0, -0.0)])
def test_values_that_tf32_cannot_split_are_computed_otherwise(values):
    compute("float32", (33, 17, 21), _scatter(*values))


def test_nothing_before_the_operands_is_touched(monkeypatch):
    use_the_cpu(monkeypatch, at_end=False)
    for dtype in SMALL:
        compute(dtype, (33, 40, 24), edge="redirected")
        compute(dtype, (33, 41, 23), edge="redirected")


# What a mistake in a kernel looks like: each of these must be found.
PLANTED = {
    "rows of a fragment swapped": ("v % 2 * 8", "v % 2 * 4"),
    "columns of a fragment of B": ("OfB::at(warp_column + g, p + t)", "OfB::at(warp_column + g, p + g % 4)"),
    "no barrier before the next tile": ("__syncthreads();\n            }", "}"),
    "one stage too early": (
        "wait_copies<STAGES - 2>();\n                __sync",
        "wait_copies<STAGES - 1>();\n                __sync",
    ),
    "rows past the end are read": ("redirect_row(place + line", "(place + line"),
    "the end of k is taken for a whole tile": ("EDGE == PADDED ? SIZE :", "true ? SIZE :"),
    "last row is stored by all": ("if (row >= rows) continue;", "if (row > rows) continue;"),
}


@pytest.mark.parametrize("edit", PLANTED.values(), ids=PLANTED)
def test_planted_mistake_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    assert any(_is_found(size) for size in SIZES[2:4])


def _is_found(size):
    try:
        compute("float64", size, edge="redirected")
    except (VerificationError, KernelFault):
        return True
    return False


@pytest.mark.parametrize("depth", (8, 16))
def test_float64_instructions_may_take_more_steps_of_k(depth):
    compute("float64", (33, 20, 40), bk=2 * depth, depth=depth)


# float64 from tiles that the copy engine brings.
WHOLE = {"bm": 128, "bn": 128, "bk": 16, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "stages": 3}
BROUGHT = {**WHOLE, "unit": "tma", "blocks": 2, "group": 1}


@pytest.mark.parametrize("depth", (4, 8, 16))
def test_float64_of_tiles_that_are_brought_is_right(depth):
    together(*brought(((1, 1, 1), (140, 130, 40), (300, 131, 66)), depth, "CCC"))


def brought(sizes, depth, layout):
    """Yield products of tiles that the copy engine brings, to be computed."""
    for number, size in enumerate(sizes):
        warps = {"wm": 64, "wn": 32} if number == 1 else {}
        tile = {**BROUGHT, **warps, "depth": depth}
        yield compute.begin("float64", size, accumulate=number % 2 == 1, layout=layout, **tile)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("depth", (8, 16))
def test_float64_of_tiles_by_columns_is_right(layout, depth):
    together(*brought(((1, 1, 1), (140, 130, 40), (300, 131, 66), (20, 30, 200)), depth, layout))


PLANTED_IN_BROUGHT_COLUMNS = {
    "steps of B": ("CFC", "SECOND_ALONG_K ? v + 2 : 2 * v + 1", "2 * v + 1"),
    "the second half of B": ("CFC", "from_b[v] + half * half_of_b", "from_b[v]"),
    "columns of C": ("CFC", "warp_column + 2 * pair_of_b", "warp_column + 2 * g"),
    "rows of A for one another": (
        "FCC", "of_a[j][2 * half + v] = x.x, of_a[j + 1]", "of_a[j + 1][2 * half + v] = x.x, of_a[j]"
    ),
    "rows of C": ("FCC", "4 * t + 2 * v + j % 2", "2 * t + v + j % 2 * 8"),
    "steps of A": ("FFC", "place(2 * t + v, g));", "place(t + 4 * v, g));"),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "old", "new"), PLANTED_IN_BROUGHT_COLUMNS.values(), ids=PLANTED_IN_BROUGHT_COLUMNS)
def test_planted_mistake_with_tiles_by_columns_is_found(monkeypatch, layout, old, new):
    use_the_cpu(monkeypatch, edits=((old, new),))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", (300, 131, 70), layout=layout, **BROUGHT)


PLANTED_IN_BROUGHT = {
    "pieces where they were": ("(piece ^ row % 8)", "piece"),
    "rows of A in order": ("g / 2 + g % 2 * 4", "g"),
    "the second half of k": ("from_a[half]", "from_a[0]"),
    "nobody waits for the bytes": ("wait(ring.full + 8 * ring.stage, ring.parity);", ""),
    "a stage is left before it is read": (
        "        double of_b[MI][8], of_a[NI][4];",
        "        release(ring, ring.stage, lane); double of_b[MI][8], of_a[NI][4];",
    ),
    "rows of C": ("j * 8 + t + 4 * v :", "j * 8 + 2 * t + v :"),
    "a row too many": ("if (i_of_c >= m)", "if (i_of_c > m)"),
    "a column too many": ("if (left > 1) to[1]", "to[1]"),
}


@pytest.mark.parametrize("edit", PLANTED_IN_BROUGHT.values(), ids=PLANTED_IN_BROUGHT)
def test_planted_mistake_with_tiles_that_are_brought_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", (300, 131, 70), **BROUGHT)


# 3xTF32 by wgmma, and the passes that make its operands.
SPLIT = {"unit": "wgmma", "bm": 128, "bn": 128, "bk": 32, "wm": 0, "wn": 0, "tm": 8, "tn": 8, "stages": 2}
IGNORED_BITS, UNIT = 13, 2.0**-24


def split(size, edits=()):
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
    execution.edits = edits
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


@pytest.mark.parametrize(
    "edit",
    [
        ("& KEPT);\n    low", ");\n    low"),
        ("(__float_as_uint(x) + HALF)", "__float_as_uint(x)"),
        ("tile[along][down + offset]", "tile[down + offset][along]"),
        ("(long long)columns * width", "(long long)rows * width"),
    ],
)
def test_parts_that_are_none_are_found(edit):
    a, b, parts_a, parts_b = split((33, 40, 24), (edit,))
    assert not (are_parts(a, parts_a) and are_parts(b.T, parts_b))


# Products by wgmma, a block or two for several tiles, so that the ring of stages goes on from tile to tile.
HALF = {"unit": "wgmma", "bm": 128, "bn": 128, "bk": 64, "wm": 0, "wn": 0, "tm": 8, "tn": 8, "stages": 2, "blocks": 2,
        "cluster": 1}  # fmt: skip
LARGE_TILE = {**HALF, "bn": 256, "tn": 16, "stages": 3, "blocks": 1}
WGMMA_SIZES = ((1, 1, 1), (20, 30, 40), (140, 150, 200), (300, 132, 64))


@in_steps
def compute_by_wgmma(size, dtype="bfloat16", *, accumulate=False, alpha=None, layout="CCC", **parameters):
    narrow = None if dtype == "float32" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    scalars = {"accumulate": accumulate, "alpha": alpha}
    problem = Problem(
        *size, SEMIRINGS["plus_times"], np.dtype(np.float32), **scalars, operand_dtype=narrow, layout=layout
    )
    operands = Operands.generate(problem, sum(size))
    rung = RUNGS[RUNG]
    tile = {**SPLIT, "blocks": 2} if narrow is None else {**HALF, "together": 1}
    plan = rung.plan(problem, detect()).override({**tile, **parameters})
    execution = rung.prepare(plan, operands)
    yield
    execution.run()
    verify(problem, operands, execution.result(), seed=1, extra_error=rung.extra_error(plan, operands))


@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
def test_products_by_wgmma_are_right(dtype):
    for number, size in enumerate(WGMMA_SIZES):
        compute_by_wgmma(size, dtype, accumulate=number % 2 == 1, alpha=-1.5 if number > 1 else None)


def test_products_by_wgmma_are_right_with_wide_tiles_and_more_stages():
    compute_by_wgmma((140, 300, 130), alpha=2.0, **LARGE_TILE)
    compute_by_wgmma((40, 257, 200), accumulate=True, **LARGE_TILE)


PLANTED_IN_WGMMA = {
    "nobody waits for the bytes": ("wait(ring.full + 8 * ring.stage, ring.parity);", ""),
    "nobody waits for an empty stage": ("wait(ring.empty + 8 * ring.stage, ring.parity);", ""),
    "fewer bytes are expected": ("expect(barrier, BYTES);", "expect(barrier, BYTES - 128);"),
    "a round is taken for the one before": ("stage = 0, parity ^= 1;", "stage = 0;"),
    "a stage is left before it is used": ("wait_groups<1>();", "wait_groups<2>();"),
    "the last stage is never left": ("if (!FLUSHES && before >= 0) release(ring, before, thread);", ""),
    "the last products are not waited for": ("wait_groups<0>();\n    if (!FLUSHES &&", "if (!FLUSHES &&"),
    "the end of a row": ("n - place.column, i", "n - place.column + 1, i"),
    "one box of B for all": ("place.column + box * BOX_COLUMNS", "place.column"),
    "tiles of the same row": ("{tile.row + (TOGETHER", "{(TOGETHER"),
}
# Of rows that begin anywhere, by narrow and by wide tiles, and of aligned ones: the columns of a tile, and those of C.
PLANTED_IN_STORES = {
    "rows of a fragment": (64, 131, "(half * 8 + g) * PITCH", "(half + 2 * g) * PITCH"),
    "a row too many": (64, 131, "first + i >= rows", "first + i > rows"),
    "half of alpha": (64, 131, "alpha * from[1]", "from[1]"),
    "alpha left out of lines": (128, 131, "(Result)(alpha * sums[chunk", "(Result)(sums[chunk"),
    "a row too many by lines": (128, 131, "if (row >= rows || j", "if (row > rows || j"),
    "pairs that are not exchanged": (128, 132, "of_lane_across(is_odd ?", "(is_odd ?"),
    "a row too many by fours": (
        128,
        132,
        "i < rows ? end_of_row(below + i, columns) - first : 0",
        "end_of_row(below + i, columns) - first",
    ),
}
PLANTED_IN_SPLIT = {
    "high parts for low ones": ("barrier, p, m + place.row", "barrier, p, place.row"),
    "low parts of other columns": ("n + place.column + first", "m + place.column + first"),
    "terms of the stage before": ("high_b + 2 * p, p > 0);", "high_b + 2 * p, 1);"),
    "a product left out": ("multiply(terms, high_a + 2 * p, low_b + 2 * p, 1);", ""),
}


@pytest.mark.parametrize("edit", PLANTED_IN_WGMMA.values(), ids=PLANTED_IN_WGMMA)
def test_planted_mistake_with_wgmma_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute_by_wgmma((300, 131, 200), alpha=3.0, group=1)


@pytest.mark.parametrize(("tile_columns", "columns", "old", "new"), PLANTED_IN_STORES.values(), ids=PLANTED_IN_STORES)
def test_planted_mistake_in_stores_is_found(monkeypatch, tile_columns, columns, old, new):
    parameters = {"alpha": 3.0, "accumulate": True, "bn": tile_columns, "tn": tile_columns // 16}
    compute_by_wgmma((300, columns, 200), **parameters)
    use_the_cpu(monkeypatch, edits=((old, new),))
    with pytest.raises((VerificationError, KernelFault)):
        compute_by_wgmma((300, columns, 200), **parameters)


@pytest.mark.parametrize("edit", PLANTED_IN_SPLIT.values(), ids=PLANTED_IN_SPLIT)
def test_planted_mistake_with_split_operands_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute_by_wgmma((140, 131, 70), "float32")


# Tiles of 16-bit elements with a side below 64, those of few rows computed transposed.
NARROW = [tile.launch for tile in thin_tiles.HALF.tiles if min(tile.launch.bm, tile.launch.bn) < 64]
NARROW_SIZES = ((5, 140, 200), (40, 300, 131), (300, 9, 70), (130, 40, 264), (1, 1, 1))


@pytest.mark.parametrize("launch", NARROW, ids=lambda launch: f"{launch.bm}x{launch.bn}x{launch.stages}")
def test_products_by_wgmma_are_right_with_narrow_tiles(launch):
    products = []
    for number, size in enumerate(NARROW_SIZES):
        scalars = {"accumulate": number % 2 == 1, "alpha": -1.5 if number > 1 else None}
        shares = 1 if launch.bm < min(size[0], 64) else 1 + number % 3
        products.append(compute_by_wgmma.begin(size, **scalars, **vars(launch), blocks=3, shares=shares))
    together(*products)


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
        products += [compute_by_wgmma.begin(size, accumulate=number % 2 == 1, **options) for size in sizes]
    together(*products)


# What is planted shows by an operand that lies by columns, in the tiles of the usual kernel or in those with few rows.
PLANTED_IN_COLUMNS = {
    "columns of A side by side": ("FCC", {}, "copy_box(to + box * BOX, first", "copy_box(to, first"),
    "one box of A for all": ("FCC", {}, "place.row + box * BOX_COLUMNS", "place.row"),
    "the same steps of A": ("FCC", {}, "first + NEXT_STEPS<FIRST_ALONG_K> * p", "first"),
    "A along k": ("FCC", {}, '#define FIRST_FLAG ", 1"', '#define FIRST_FLAG ", 0"'),
    "steps of B for columns": (
        "CFC", {}, "second, barrier, p, place.column + rows", "second, barrier, place.column + rows, p"
    ),
    "the same steps of B": ("CFC", {}, "second + NEXT_STEPS<SECOND_ALONG_K> * p", "second"),
    "B along n": ("CFC", {}, 'FIRST_FLAG ", 0"', 'FIRST_FLAG ", 1"'),
    "few rows by columns": ("FCC", {"bm": 32, "tm": 2}, 'FIRST_FLAG ", 1"', 'FIRST_FLAG ", 0"'),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "tile", "old", "new"), PLANTED_IN_COLUMNS.values(), ids=PLANTED_IN_COLUMNS)
def test_planted_mistake_with_columns_is_found(monkeypatch, layout, tile, old, new):
    size = (tile.get("bm", 140), 140, 200)
    compute_by_wgmma(size, layout=layout, **tile)
    use_the_cpu(monkeypatch, edits=((old, new),))
    with pytest.raises((VerificationError, KernelFault)):
        compute_by_wgmma(size, layout=layout, **tile)


def test_a_c_higher_than_flat_tiles_shares_no_k():
    with pytest.raises(PlanError, match="shares=1, or bm >= 21"):
        compute_by_wgmma((21, 300, 200), bm=16, bn=128, tm=1, tn=8, shares=2)


def test_flat_tiles_compute_no_triangle():
    narrow = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    problem = Problem(16, 16, 64, "plus_times", np.dtype(np.float32), operand_dtype=narrow, triangle="d")
    plan = RUNGS[RUNG].plan(problem, detect()).override({**HALF, "bm": 16, "tm": 1})
    with pytest.raises(PlanError, match="compute no triangle"):
        RUNGS[RUNG].prepare(plan, Operands.generate(problem, 1))


PLANTED_IN_FLAT = {
    "rows of a fragment": ("i % 4 / 2 * 8 + g", "i % 4 / 2 + g"),
    "columns of a fragment": ("i / 4 * 8 + 2 * t + i % 2;", "i / 4 * 8 + t + i % 2;"),
    "a row of C too many": ("column < columns)", "column <= columns)"),
    "a column of C too many": ("if (row < rows && ", "if ("),
    "alpha": ("alpha * sums[i] : alpha * sums[i]", "alpha * sums[i] : sums[i]"),
    "C by rows": ("(long long)place.column * ldc + i", "(long long)i * ldc + place.column"),
    "one box of B for all": ("place.row + box * BOX_COLUMNS", "place.row"),
    "columns of the warpgroup beside": ("(tile + part * BOX)", "(tile)"),
    "the same rows of B": ("first + NEXT_STEPS<FIRST_ALONG_K> * p", "first"),
    "parts as wide as high": ("BY_COLUMNS ? FETCHERS * BM : BN", "BN"),
}


def compute_flat():
    for shares in (1, 2):
        compute_by_wgmma((21, 300, 200), alpha=3.0, bm=32, bn=128, tm=2, tn=8, shares=shares)


@pytest.mark.parametrize("edit", PLANTED_IN_FLAT.values(), ids=PLANTED_IN_FLAT)
def test_planted_mistake_in_products_with_few_rows_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute_flat()


# Blocks that share k by a cluster: here a cluster of one, whose block has all steps, and adds up its own sums.
TOGETHER = ("#define TOGETHER 0", "#define TOGETHER 1")
SHARED_TILES = {
    "wide": {"stages": 3},
    "narrow": {"bn": 16, "tn": 1},
    "flat": {"bm": 48, "bn": 128, "tm": 3, "tn": 8, "stages": 3},
}


def compute_together(monkeypatch, tile, edit=None):
    use_the_cpu(monkeypatch, edits=(TOGETHER, *([edit] if edit else [])))
    for n, accumulate in ((300, False), (131, True)):
        compute_by_wgmma((40, n, 200), accumulate=accumulate, alpha=3.0, blocks=100, **SHARED_TILES[tile])


@pytest.mark.parametrize("tile", SHARED_TILES)
def test_sums_of_blocks_that_share_k_are_added_up(tile, monkeypatch):
    compute_together(monkeypatch, tile)


@pytest.mark.parametrize(
    ("tile", "old", "new"),
    [
        ("wide", "row * PITCH + column]", "column * PITCH + row]"),
        ("flat", "column * PITCH + row :", "row * PITCH + column :"),
        ("wide", "first = thread / 32 * 16 + lane / 4", "first = lane / 4"),
        ("flat", "BY_COLUMNS ? columns : rows", "rows"),
        ("wide", "total[v] *= alpha", "total[v] *= 1"),
        ("wide", "(long long)place.column * (BY_COLUMNS ? ldc : 1)", "0"),
        ("wide", "steps_of(0, steps).count", "steps_of(0, steps).count - 1"),
    ],
)
def test_planted_mistake_in_sums_of_a_cluster_is_found(tile, old, new, monkeypatch):
    with pytest.raises((VerificationError, KernelFault)):
        compute_together(monkeypatch, tile, (old, new))


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


@in_steps
def compute_words(name, semiring, dtype, size, change=lambda operands: None, *, accumulate=False, **tile):
    problem = Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=accumulate)
    operands = Operands.generate(problem, sum(size))
    change(operands)
    plan = RUNGS[name].plan(problem, detect()).override({**WORDS, **tile})
    execution = RUNGS[name].prepare(plan, operands)
    yield
    execution.run()
    verify(problem, operands, execution.result(), seed=1)


BITS_TILE = {"bm": 32, "bn": 16, "bk": 16, "tm": 4, "tn": 4, "wm": 32, "wn": 16}


BITS_BY_WGMMA = {**HALF, "bk": 32, "wm": 0, "wn": 0, "unit": "wgmma"}


@pytest.mark.parametrize("accumulate", (False, True))
@pytest.mark.parametrize("semiring", ("lor_land", "lxor_land"))
def test_bits_by_wgmma_are_right(semiring, accumulate):
    cases = [(size, {}) for size in ((1, 1, 1), (33, 70, 80), (140, 148, 1030), (129, 272, 2100))]
    cases.append(((128, 256, 300), {"bn": 256, "tn": 16}))
    how = {"accumulate": accumulate, **BITS_BY_WGMMA}
    together(*(compute_words.begin(RUNG, semiring, "bool", size, **{**how, **tile}) for size, tile in cases))


@pytest.mark.parametrize("accumulate", (False, True))
@pytest.mark.parametrize("semiring", ("lor_land", "lxor_land"))
def test_bits_are_right_along_n_and_along_k(semiring, accumulate):
    sizes = (1, 1, 1), (33, 70, 80), (40, 64, 1030), (31, 84, 96)
    by_words = [compute_words.begin("gpu-bits", semiring, "bool", size, accumulate=accumulate) for size in sizes]
    tile = {"accumulate": accumulate, **BITS_TILE}
    together(*by_words, *(compute_words.begin(RUNG, semiring, "bool", size, **tile) for size in sizes))


PLANTED_IN_BITS = {
    "fours of bits in each other's place": ("<< 4 * u;\n                    to[", "<< u;\n                    to["),
    "eight rows of four": ("<< 8 * eight;", "<< 4 * eight;"),
    "a row of B too many": ("min(i, rows - 1) * ld", "i * ld"),
    "a column of B too many": ("if (j + u < columns) words", "words"),
    "words of the bytes before": ("first >= 4 && first + COUNT + 4 <= columns", "true"),
    "bytes of C read before all are there": ("__syncthreads();\n    for (int index", "for (int index"),
    "a row of C too many": ("if (row >= rows || left", "if (row > rows || left"),
}
PLANTED_IN_BITS_BY_WGMMA = {
    "columns in another order": ("j % 16 / 2 * 8", "j % 16 / 4 * 8"),
    "words read before all are there": ("__syncthreads();\n        const int column", "const int column"),
    "words of another column": ("const int column = threadIdx.x / 2,", "const int column = threadIdx.x / 4,"),
    "counts of another row": ("counts + run * 32 + 2 * half", "counts + run * 32 + half"),
    "a run too far": ("* PITCH + run * 64 + 16 * t)", "* PITCH + 16 * t)"),
    "rows past the end leave at once": ("rows >= 16 && columns >= BN", "columns >= BN"),
    "rows of C past the end": ("min(rows - first, 4)", "4"),
    "words where rows begin": ("j % 4 * 8)", "0)"),
    "bytes before the first word": ("lane < head ? lane : columns", "columns"),
    "bytes after the last word": (": tail + lane - 4", ": columns"),
    "columns of C past the end": ("min(columns - chunk * CHUNK, CHUNK)", "CHUNK"),
}


def _is_found_in_bits(sizes, tile):
    for semiring in ("lor_land", "lxor_land"):
        for size in sizes:
            try:
                compute_words(RUNG, semiring, "bool", size, **tile)
            except (VerificationError, KernelFault):
                return True
    return False


@pytest.mark.parametrize("edit", PLANTED_IN_BITS.values(), ids=PLANTED_IN_BITS)
def test_planted_mistake_with_bits_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    assert _is_found_in_bits(((33, 80, 144), (40, 67, 1030), (31, 64, 64)), BITS_TILE)


@pytest.mark.parametrize("edit", PLANTED_IN_BITS_BY_WGMMA.values(), ids=PLANTED_IN_BITS_BY_WGMMA)
def test_planted_mistake_with_bits_by_wgmma_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    assert _is_found_in_bits(((130, 128, 144), (131, 147, 1100)), BITS_BY_WGMMA)


PLANTED_IN_PADDING = {
    "rows past the end": ("min(first + r * lines, copy.rows - 1)", "(first + r * lines)"),
    "rows of the copy as far apart as those of x": (
        "(first + r * lines) * copy.all_columns + j",
        "(first + r * lines) * copy.ld + j",
    ),
    "columns past the end": ("j + v < copy.columns ? from[v]", "true ? from[v]"),
    "B as A": ("if (blockIdx.y == 0) copy_rows", "if (true) copy_rows"),
}


@pytest.mark.parametrize("edit", PLANTED_IN_PADDING.values(), ids=PLANTED_IN_PADDING)
def test_planted_mistake_in_padding_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    with pytest.raises((VerificationError, KernelFault)):
        compute("float64", (35, 41, 23), edge="padded")


def _no_extremes(operands):
    operands.a[...], operands.b[...] = operands.a % 1000, operands.b % 1000


@pytest.mark.parametrize("change", (_no_extremes, lambda operands: None, _scatter(32767), _scatter(-32768)))
@pytest.mark.parametrize("semiring", ("min_plus", "max_plus"))
def test_pairs_of_16_bits_are_right_for_values_that_allow_them_and_for_others(semiring, change):
    for number, size in enumerate(((1, 1, 1), (21, 75, 19))):
        compute_words("gpu-paired", semiring, "int16", size, change, accumulate=number == 1)
