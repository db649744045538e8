"""The rungs of the CPU ladder from inside: packing, micro-kernel, every option of every plan.

This file also runs in the Python form of the kernels (``NUMBA_DISABLE_JIT=1``, see the Makefile), so sizes are small.
"""

import numba
import numpy as np
import pytest

from backends.cpu._ladder.operators import operators
from backends.cpu._ladder.row import lengths_of_row
from backends.cpu._ladder.rows import build_transpose
from backends.cpu.packed import build_micro_kernel, build_pack_b_panel, build_store, empty_panels, pack_a
from harness import SEMIRINGS, Operands, PlanError, Problem, Semiring, machine, registry
from harness.operands import CACHE_LINE
from harness.proof.verify import verify

FLOAT64 = np.dtype(np.float64)
LANES = lengths_of_row(FLOAT64)
SIZES = ((1, 1, 1), (2, 3, 5), (4, 4, 4), (5, 9, 7), (8, 3, 17), (13, 11, 10))
# Alpha and beta by semiring: of one with sums in any order, and of one whose sums are in the order of k.
SCALARS = {"plus_times": ((0.5, -2.0), (None, None)), "min_plus": ((1.0, 3.0), (None, None))}

# The rungs as they are, with blocks that cut small products; then with single ideas switched off.
VARIANTS = (
    ("cpu-naive", {}),
    ("cpu-transposed", {}),
    ("cpu-tiled", {"reuse": 1, "mc": 4, "nc": 3, "kc": 5}),
    ("cpu-tiled", {"reuse": 2, "mc": 5, "nc": 4, "kc": 3}),
    ("cpu-packed", {"parallel_loop": "ic", "mc": 8, "nc": 32, "kc": 6}),
    ("cpu-packed", {"parallel_loop": "jr", "mc": 4, "nc": 32, "kc": 5}),
    *(("cpu-packed", {"parallel_loop": loop, "mc": 8, "nc": 32, "kc": 5}) for loop in ("jc", "ir", "ic+jr")),
)
SWITCHED = (
    ("cpu-naive", {"loops": "ikj"}),
    ("cpu-naive", {"loops": "jki"}),
    ("cpu-naive", {"loops": "kij"}),
    ("cpu-tiled", {"schedule": "chunks", "mc": 5, "nc": 4, "kc": 3}),
    ("cpu-packed", {"packing": "off", "mc": 8, "nc": 32, "kc": 6}),
)


def compute(name, problem, parameters, seed=3):
    backend = registry.find(name)
    operands = Operands.generate(problem, seed)
    execution = backend.prepare(backend.plan(problem, machine.detect()).override(parameters), operands)
    execution.run()
    execution.wait()
    return operands, execution.result()


# Compiling is what costs. An option changes loops, a semiring what these call: each option meets one of two.
# Every rung meets every semiring, in small blocks too, in tests/test_contract.py.
@pytest.mark.deep(but=4)
@pytest.mark.parametrize(
    ("name", "parameters", "semiring"),
    [(*variant, tuple(SCALARS)[number % 2]) for number, variant in enumerate((*VARIANTS, *SWITCHED))],
    ids=str,
)
def test_every_option_computes_sizes_around_its_blocks_with_scalars_too(name, parameters, semiring):
    problems = [Problem(*size, semiring, layout=layout) for size in SIZES for layout in ("CCC", "FAF")]
    for alpha, beta in SCALARS[semiring]:
        problems.append(Problem(5, 6, 7, semiring, alpha=alpha, beta=beta, accumulate=True))
    for problem in problems:
        operands, result = compute(name, problem, parameters)
        verify(problem, operands, result, seed=3)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("cpu-naive", {"loops": "ijj"}),
        ("cpu-transposed", {"simd": 1}),
        ("cpu-tiled", {"reuse": 3}),
        ("cpu-tiled", {"schedule": "dynamic"}),
        ("cpu-packed", {"parallel_loop": "kc"}),
        ("cpu-packed", {"packing": "no"}),
    ],
)
def test_an_option_without_such_a_value_is_refused_by_name(name, option):
    with pytest.raises(PlanError, match=next(iter(option))):
        compute(name, Problem(4, 4, 4), option)


def test_without_packing_no_loop_but_ic_is_parallel():
    with pytest.raises(PlanError, match="without packing only one loop"):
        compute("cpu-packed", Problem(8, 8, 8), {"packing": "off", "parallel_loop": "jr"})


def test_packed_refuses_another_register_block():
    with pytest.raises(PlanError, match="no such register block"):
        compute("cpu-packed", Problem(16, 16, 16), {"mr": 2})


@pytest.mark.deep(but=4)
@pytest.mark.parametrize("semiring", ("plus_times", "min_plus", "max_times"))
@pytest.mark.parametrize(("lanes", "simd"), [*((x, "on") for x in LANES), (LANES[0], "off")])
def test_micro_kernel_is_exact_over_any_number_of_steps(lanes, simd, semiring):
    ring, rng = SEMIRINGS[semiring], np.random.default_rng(5)
    micro_kernel = build_micro_kernel(ring, FLOAT64, lanes, simd)
    for steps in (0, 1, 2, 7):
        a, b = rng.integers(1, 9, (steps, 4)).astype(float), rng.integers(1, 9, (steps, lanes)).astype(float)
        tile, expected = np.empty((4, lanes)), np.full((4, lanes), ring.zero(FLOAT64))
        for p, i, j in np.ndindex(steps, 4, lanes):
            expected[i, j] = ring.add.function(expected[i, j], ring.multiply.function(a[p, i], b[p, j]))
        micro_kernel(np.vstack([a, rng.random((2, 4))]), np.vstack([b, rng.random((2, lanes))]), steps, tile)
        np.testing.assert_array_equal(tile, expected)


def test_store_writes_only_the_part_of_the_tile_that_exists():
    store = build_store(SEMIRINGS["plus_times"], FLOAT64, 4)
    tile = np.arange(16.0).reshape(4, 4)
    c = np.full((6, 6), -1.0)
    store(tile, c[3:5, 2:5], False)
    np.testing.assert_array_equal(c[3:5, 2:5], tile[:2, :3])
    assert (np.delete(c, (3, 4), axis=0) == -1).all()
    assert (c[3:5, [0, 1, 5]] == -1).all()
    store(tile, c[3:5, 2:5], True)
    np.testing.assert_array_equal(c[3:5, 2:5], 2 * tile[:2, :3])


def test_pack_a_fills_the_last_micro_panel_with_zeros():
    a = np.arange(35.0).reshape(5, 7)
    packed = empty_panels((2, 3, 4), FLOAT64)
    pack_a(a, 0, 2, 5, 3, np.inf, packed)
    np.testing.assert_array_equal(packed[0, :3], a[:4, 2:5].T)
    np.testing.assert_array_equal(packed[1, :3, 0], a[4, 2:5])
    assert (packed[1, :3, 1:] == np.inf).all()


def test_pack_b_panel_fills_columns_that_do_not_exist():
    b = np.arange(30.0).reshape(5, 6)
    panel = empty_panels((3, 4), FLOAT64)
    build_pack_b_panel(4)(b, 1, 0, 3, 6, np.inf, panel)
    np.testing.assert_array_equal(panel[:3], b[1:4, :4])
    build_pack_b_panel(4)(b, 1, 4, 3, 6, np.inf, panel)
    np.testing.assert_array_equal(panel[:3, :2], b[1:4, 4:])
    assert (panel[:3, 2:] == np.inf).all()


@pytest.mark.parametrize("dtype", ("float64", "float32", "int16", "bool"))
def test_micro_panels_begin_on_cache_lines(dtype):
    for width in (4, 16):
        panels = empty_panels((3, 511, width), np.dtype(dtype))
        assert panels.shape[::2] == (3, width)
        assert panels.shape[1] >= 511
        assert panels.ctypes.data % CACHE_LINE == 0
        assert panels.strides[0] % CACHE_LINE == 0


def test_transpose_of_any_size_and_strides():
    transpose = build_transpose(FLOAT64)
    for k, n in ((1, 1), (3, 8), (9, 17), (8, 1)):
        b = np.arange(4.0 * k * n).reshape(2 * k, 2 * n)[::2, ::-2]
        rows = np.empty((n, k))
        transpose(b, rows)
        np.testing.assert_array_equal(rows, b.T)


@pytest.mark.deep(but=1)
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="NumPy warns of each sum that wraps")
@pytest.mark.parametrize("name", ["cpu-naive", "cpu-packed"])  # by single elements, and by vectors
def test_distances_of_8_bytes_wrap(name):
    # where LLVM may take it for impossible that they do, it computes an absolute value
    least, greatest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    values = np.array([least, least + 1, -1, 0, 3, greatest - 1, greatest])
    problem = Problem(7, 7, 9, Semiring.of("plus", "absdiff"), np.dtype(np.int64))
    a, b = np.repeat(values[:, None], 9, axis=1), np.repeat(values[None], 9, axis=0)
    operands, backend = Operands(a, b, None, np.empty((7, 7), np.int64)), registry.find(name)
    backend.prepare(backend.plan(problem, machine.detect()), operands).run()
    verify(problem, operands, operands.out, seed=1)


@pytest.mark.parametrize("name", ("min", "max"))
def test_a_nan_term_is_absent_whatever_the_form_of_the_operation(name):
    operation = operators(Semiring.of(name, "plus"), FLOAT64).add
    add = numba.njit(lambda c, t: operation(c, t))  # noqa: PLW0108 only compiled code can call it
    assert add(2.0, np.nan) == 2.0
    assert add(2.0, 3.0) == (2.0 if name == "min" else 3.0)
    assert add(-np.inf, np.inf) == (-np.inf if name == "min" else np.inf)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="an intrinsic has no Python form")
class TestCeilings:
    def test_the_read_loop_reads_what_it_says(self):
        from backends.cpu import _ceilings

        task = _ceilings.bandwidth(size_bytes=1 << 14, threads=1)
        task.spoil()
        task.run()
        assert task.verify()
        assert task.facts()["bytes_moved"] == _ceilings.BYTES_PER_CALL
        assert task._loop.args[0].ctypes.data % CACHE_LINE == 0
