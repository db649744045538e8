"""The kernels of the SIMT rungs, executed: the same .cu files, by a C++ compiler and threads that take turns."""

import numpy as np
import pytest

from backends.gpu._passes import shares as simt_shares
from harness import SEMIRINGS
from harness.machine import detect
from harness.problem import Problem
from tests._support.pairs import pairs
from tests.gpu import on_cpu
from tests.gpu.on_cpu import (
    ON_CPU,
    RUNGS,
    SMALL,
    TILED,
    check,
    check_all,
    compute,
    program_of,
    use_the_cpu,
    with_options,
    with_small_tiles,
)

pytestmark = ON_CPU

# One of each way to end a loop over k (edges.cuh), each width of an element, and with C and without.
KINDS = (
    ("plus_times", "float32", False),
    ("min_plus", "float64", True),
    ("plus_pair", "int16", False),
    ("max_plus", "int64", True),
    ("plus_times", "float64", True),
)
EDGES = ("redirected", "conditional", "mirrored", "padded", "big-small")

# gpu-tuned with several tiles along m, n and k in small products.
SQUARE = SMALL["gpu-pipelined"]


def _combinations():
    """Yield each rung with each way to deal with edges, and kinds of product in turn."""
    for i, name in enumerate(TILED):
        for j, edge in enumerate(EDGES if name in ("gpu-tiled", "gpu-pipelined") else EDGES[:2]):
            yield pytest.param(name, edge, *KINDS[(i + j) % len(KINDS)], id=f"{name}-{edge}")


@pytest.mark.deep(but=8)
@pytest.mark.parametrize(("name", "edge", "semiring", "dtype", "accumulate"), list(_combinations()))
def test_rung_is_right_at_every_edge_of_its_tiles(name, edge, semiring, dtype, accumulate):
    problem = Problem(8, 8, 8, SEMIRINGS[semiring], np.dtype(dtype))
    plan = RUNGS[name].plan(problem, detect()).override(SMALL[name])
    compute(name, semiring, dtype, *on_cpu.sizes(plan), accumulate=accumulate, edge=edge)


def test_nothing_before_the_operands_is_touched(monkeypatch):
    use_the_cpu(monkeypatch, at_end=False)
    compute("gpu-pipelined", "plus_times", "float32", (33, 40, 20))
    compute("gpu-pipelined", "plus_times", "float32", (33, 41, 21))


@pytest.mark.parametrize("order", range(7))
def test_every_order_of_products_combines_each_pair_once(order):
    tile = {"wm": 32, "wn": 64, "bm": 32, "bn": 64, "tm": 8, "tn": 8, "order": order, "stages": 2}
    compute("gpu-tuned", "plus_times", "float32", (32, 64, 16), **tile)


# One warp that copies five rows of B a pass, of 16, with two threads left over; two warps with ten and four.
UNEVEN = {"bn": 24, "bk": 16, "wm": 64, "wn": 24, "tm": 4, "tn": 12, "stages": 3, "order": 0}


@pytest.mark.parametrize("bm", (64, 128))
def test_threads_need_not_cut_the_copies_of_b_evenly(bm):
    for n in (24, 20, 27):
        compute("gpu-tuned", "plus_times", "float32", (bm + 3, n, 37), bm=bm, **UNEVEN)
        compute("gpu-tuned", "min_plus", "float64", (bm + 3, n, 16), accumulate=True, bm=bm, **UNEVEN)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("stagger", (2, 5, 16))
def test_tiles_may_begin_anywhere_along_k(stagger):
    kinds = pairs((KINDS[0], KINDS[1], KINDS[3]), (1, 16, 37, 112), (1, 2))
    check_all(staggered(kind, (40, 300, k), stagger, shares) for kind, k, shares in kinds)


def staggered(kind, size, stagger, shares):
    """Return a rung whose tiles begin at `stagger` steps of k, and a thin product, whose plan has that option."""
    semiring, dtype, accumulate = kind
    wave = {"shares": shares, "wave": 1 if shares == 1 else 1 << 30}
    rung = with_options("gpu-tuned", **SQUARE, **wave, stagger=stagger)
    return rung, Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=accumulate)


def test_one_dimensional_register_tiles_are_right():
    compute("gpu-register-tiled", "plus_times", "float32", (17, 13, 9), bm=16, bn=8, bk=4, tm=4, tn=1)


def test_uncoalesced_access_is_right():
    compute("gpu-naive", "plus_times", "float32", (13, 7, 9), access="uncoalesced")


# Ideas left out, several at once: a wrong result would not say which, but the texts of the planted bugs would.
LEFT_OUT = (
    ("gpu-tiled", {"unroll": 0, "bm": 4, "bn": 4, "bk": 4}),
    ("gpu-register-tiled", {"places": "each load"}),
    ("gpu-warp-tiled", {"global_load": 4, "shared_load": 4, "tile_a": "rows"}),
    ("gpu-warp-tiled", {"global_load": 32, "shared_load": 32, "tm": 8, "tn": 8, "wn": 64, "tile_a": "padded rows"}),
    ("gpu-pipelined", {"stages": 1, "fragments": "at step", "shared_load": 8}),
    ("gpu-pipelined", {"stages": 3, "fragments": "rolled", "past_end": "wrapped", "global_load": 4}),
)


@pytest.mark.parametrize(("name", "left_out"), LEFT_OUT)
def test_a_rung_without_an_idea_is_right_at_every_edge_of_its_tiles(name, left_out):
    problem = Problem(8, 8, 8, SEMIRINGS["plus_times"], np.dtype(np.float32))
    plan = RUNGS[name].plan(problem, detect()).override({**SMALL[name], **left_out})
    compute(name, "plus_times", "float32", *on_cpu.sizes(plan), **left_out)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_rows_are_right(kind):
    for size in ((1, 1, 1), (32, 3, 8), (33, 4, 9), (70, 8, 17)):
        compute("gpu-row", kind[0], kind[1], size, accumulate=kind[2])
        columns = Problem(*size, SEMIRINGS[kind[0]], np.dtype(kind[1]), layout="FCC")
        check(with_small_tiles("gpu-row"), columns)


def test_rows_take_an_a_by_columns_as_it_lies():
    for n, alpha in ((64, None), (64, 2.0), (700, None)):
        problem = Problem(n, n, n, SEMIRINGS["min_plus"], np.dtype(np.float32), alpha=alpha, layout="FCC")
        plan = RUNGS["gpu-row"].plan(problem, detect())
        assert RUNGS["gpu-row"].reads_columns(plan) == {"a"}
        assert not {"rows_of_a"} & set(program_of(plan, RUNGS["gpu-row"]).scratch)


# Tiles whose copies threads cut evenly, and others.
COLUMN_TILES = (SQUARE, UNEVEN | {"bm": 64}, UNEVEN | {"bm": 192, "wm": 64, "bn": 24})


@pytest.mark.deep
def test_pipelines_take_columns_as_they_lie():
    cases = []
    for name, layout, i in pairs(("gpu-pipelined", "gpu-tuned"), ("FCC", "CFC", "FFC"), range(len(KINDS))):
        semiring, dtype, accumulate = KINDS[i]
        rung = with_options(name, **COLUMN_TILES[i % len(COLUMN_TILES)], edge=EDGES[(i + len(layout.strip("C"))) % 3])
        for size in ((16, 16, 16), (33, 20, 61), (5, 7, 64), (70, 41, 9)):
            problem = Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=accumulate, layout=layout)
            assert not {"rows_of_a", "rows_of_b"} & set(program_of(rung.plan(problem, detect()), rung).scratch)
            cases.append((rung, problem))
    check_all(cases)


def test_a_b_by_columns_that_many_rows_use_is_turned_first():
    for m, turned in ((1000, set()), (1024, {"rows_of_b"})):
        problem = Problem(m, 64, 4096, SEMIRINGS["min_plus"], np.dtype(np.float32), layout="FFC")
        scratch = program_of(RUNGS["gpu-tuned"].plan(problem, detect()), RUNGS["gpu-tuned"]).scratch
        assert {"rows_of_a", "rows_of_b"} & set(scratch) == turned


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("layout", ("CFC", "FCC", "FFC"))
def test_shares_of_k_and_of_the_last_tiles_are_right_by_columns(layout):
    cases = []
    for i, (semiring, dtype, accumulate) in enumerate((KINDS[0], KINDS[1], KINDS[3])):
        for size, options in (
            ((70, 33, 61 + i), {"shares": 3, "wave": 1 << 30}),
            ((70, 33, 61 + i), {"shares": 3, "wave": 5}),
            ((300, 20, 61 + i), {"shares": 2, "wave": 1 << 30, "stagger": 4}),
        ):
            problem = Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=accumulate, layout=layout)
            cases.append((with_options("gpu-tuned", **{**SQUARE, **options}), problem))
    check_all(cases)


@pytest.mark.parametrize("accumulate", (False, True))
def test_operands_of_float32_are_summed_in_float64(accumulate):
    narrow = np.dtype(np.float32)
    check(with_small_tiles("gpu-naive"), Problem(13, 7, 90, accumulate=accumulate, operand_dtype=narrow))


@pytest.mark.parametrize("sign", (1, -1))
@pytest.mark.parametrize("semiring", ("min_plus", "max_plus"))
def test_two_steps_at_once_are_taken_for_floats_of_one_sign_only(semiring, sign):
    problem = Problem(21, 19, 19, SEMIRINGS[semiring], np.dtype(np.float32))

    def change(operands):
        for x in (operands.a, operands.b):
            x[...] = sign * np.abs(x)
        operands.a[3, 4] = sign * np.inf

    check(with_small_tiles("gpu-tuned", **SQUARE), problem, change)


def mostly_of_one_sign(sign):
    """Return a change of operands: sums of all but a few elements settle, and there are terms of every kind."""

    def change(operands):
        a, b = operands.a, operands.b
        for x in (a, b):
            x[...] = sign * (1 - np.abs(x))
            x[::5, ::3], x[1::5, 1::4], x[2::5, 2::4] = sign * np.inf, np.nan, -np.nan
        b[30, ::4] = -sign * np.inf  # row 30 of B meets infinities of A with the other sign: such terms are absent
        a[2:4] = b[:, 7] = sign * 2.0  # one row and one column of C do not settle

    return change


@pytest.mark.parametrize("semiring", ("min_plus", "max_plus"))
@pytest.mark.parametrize("rows", (2, 33))
def test_sums_settle_and_terms_of_every_kind_are_right(semiring, rows):
    problem = Problem(rows, 41, 75, SEMIRINGS[semiring], np.dtype(np.float32))
    check(with_small_tiles("gpu-tuned", **SQUARE), problem, mostly_of_one_sign(1 if semiring == "min_plus" else -1))


@pytest.mark.deep(but=5)
@pytest.mark.parametrize("shares", (2, 3, 7))
@pytest.mark.parametrize(("semiring", "dtype", "accumulate"), KINDS)
def test_shares_of_k_are_right(semiring, dtype, accumulate, shares):
    for size in ((33, 20, 61), (5, 7, 64), (9, 9, 3)):
        compute("gpu-tuned", semiring, dtype, size, accumulate=accumulate, **SQUARE, shares=shares)


@pytest.mark.deep(but=4)
@pytest.mark.parametrize(("semiring", "dtype", "accumulate"), KINDS)
@pytest.mark.parametrize("edge", ("redirected", "padded"))
def test_tiles_after_whole_waves_are_shared(semiring, dtype, accumulate, edge):
    for size, wave in (((100, 70, 61), 5), ((97, 96, 16), 8)):  # 12 tiles, of which 2, or 4, are left over
        options = {**SQUARE, "edge": edge, "shares": 3, "wave": wave}
        compute("gpu-tuned", semiring, dtype, size, accumulate=accumulate, **options)


def test_what_is_shared_is_right_for_both_forms_of_a_kernel():
    for semiring, dtype in (("min_plus", "float32"), ("min_plus", "int32")):
        compute("gpu-tuned", semiring, dtype, (17, 66, 75), shares=3, edge="padded")
        compute("gpu-tuned", semiring, dtype, (50, 130, 75), shares=3, wave=5)
        compute("gpu-tuned", semiring, dtype, (50, 130, 75), shares=3, wave=7, bn=32)


@pytest.mark.parametrize("bn", (64, 32))
def test_sums_of_shares_are_added_up_right_by_threads_of_several_elements(monkeypatch, bn):
    monkeypatch.setattr(simt_shares, "FOLD_THREADS", 1)
    compute("gpu-tuned", "min_plus", "int32", (50, 130, 75), shares=3, wave=7, bn=bn)
    compute("gpu-tuned", "plus_times", "float64", (50, 130, 75), accumulate=True, shares=3, wave=5, bn=bn)


def test_sums_settle_in_shares_of_k_too():
    problem = Problem(70, 41, 75, SEMIRINGS["min_plus"], np.dtype(np.float32))
    check(with_small_tiles("gpu-tuned", **SQUARE, shares=2, wave=4), problem, mostly_of_one_sign(1))


def test_no_tile_is_shared_where_none_is_left_over_or_k_is_one_tile():
    for size, wave in (((64, 64, 61), 4), ((100, 70, 8), 5)):
        problem = Problem(*size, SEMIRINGS["plus_times"], np.dtype(np.float32))
        backend = with_small_tiles("gpu-tuned", **SQUARE, shares=3, wave=wave)
        check(backend, problem)
        program = program_of(backend.plan(problem, detect()), backend)
        assert [step.kernel.function for step in program.steps if step.kernel.stem != "pad_rows"] == ["gemm"]


@pytest.mark.deep(but=4)
@pytest.mark.parametrize(("semiring", "dtype"), (("min_plus", "int16"), ("max_plus", "int16"), ("min_plus", "uint16")))
@pytest.mark.parametrize("size", ((5, 9, 8), (67, 6, 33), (3, 130, 18)))
def test_two_elements_a_word_are_right(semiring, dtype, size):
    problems = (Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=x) for x in (False, True))
    cases = [(RUNGS["gpu-paired"], problem) for problem in problems]
    check_all(cases, lambda operands: [x.__imod__(1000) for x in (operands.a, operands.b)])


@pytest.mark.parametrize("dtype", ("int16", "float16"))
def test_words_share_k_where_tiles_leave_a_gpu_idle(dtype):
    """Nearly a wave of tiles is not shared by products whose sums of shares take as long to add up as that saves."""

    def shares(m, n, k):
        plan = RUNGS["gpu-paired"].plan(Problem(m, n, k, SEMIRINGS["min_plus"], np.dtype(dtype)), detect())
        return plan.options["shares"]

    assert shares(512, 512, 512) > 1
    assert shares(1024, 1024, 1024) == 1
    assert shares(1024, 1024, 8192) > 1


def with_special_halves(operands):
    """Put infinities of both signs, NaN, zeros of both signs, extremes and subnormal numbers among ordinary ones."""
    rng = np.random.default_rng(1)
    for x in (operands.a, operands.b):
        values = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 65504, -65504, 6e-8, -3e-5], x.dtype)
        x[...] = np.where(rng.random(x.shape) < 0.3, rng.choice(values, x.shape), x)
    operands.a[0] = np.nan  # of which nothing is left but the zero


@pytest.mark.deep(but=2)
@pytest.mark.parametrize(("semiring", "dtype"), (("min_plus", "int16"), ("max_plus", "float16")))
@pytest.mark.parametrize("has_zero", (False, True))
def test_shares_of_k_are_right_for_two_elements_a_word(semiring, dtype, has_zero):
    """Words and single elements, which integers take that absorb, have another number of shares."""
    rung = with_options("gpu-paired", shares=4, bk=8)

    def change(operands):
        if has_zero:
            operands.a[1, 2] = SEMIRINGS[semiring].zero(operands.a.dtype)

    for size in ((17, 66, 75), (5, 70, 153)):
        for accumulate in (False, True):
            check(rung, Problem(*size, SEMIRINGS[semiring], np.dtype(dtype), accumulate=accumulate), change)


@pytest.mark.deep(but=6)
@pytest.mark.parametrize("semiring", ("min_plus", "max_plus", "max_min", "min_max", "max_times", "min_times"))
@pytest.mark.parametrize(("size", "accumulate"), (((5, 9, 8), True), ((67, 6, 33), False), ((1, 1, 1), False)))
def test_two_halves_a_word_are_right_for_all_values(semiring, size, accumulate):
    problem = Problem(*size, SEMIRINGS[semiring], np.dtype(np.float16), accumulate=accumulate)
    check(RUNGS["gpu-paired"], problem, with_special_halves)


@pytest.mark.parametrize("kind", KINDS)
def test_one_block_is_right(kind):
    problem = Problem(31, 32, 9, SEMIRINGS[kind[0]], np.dtype(kind[1]), accumulate=kind[2])
    check(RUNGS["gpu-naive-block"], problem)
