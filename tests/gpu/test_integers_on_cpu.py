"""Products of integers by tensor cores, executed on the CPU, compared with Python's: bytes, digits, residues."""

import numpy as np
import pytest

from backends.gpu._program.program import Place, Program
from backends.gpu._tensor import integer_product, residue_product
from backends.gpu._tensor.residue_product import MODULI, Residues, add_residue_products, columns_of, neighbour
from harness import SEMIRINGS, Operands
from harness.machine import detect
from harness.problem import Problem
from tests.gpu.host_kernels import COMPILER, HostExecution, KernelFault, fenced
from tests.gpu.simt_products import RUNGS, use_the_cpu

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here"),
    pytest.mark.no_cover,
]

RUNG = RUNGS["gpu-tensor-core"]
TILE = {"bm": 128, "bn": 128, "bk": 128, "tm": 8, "tn": 8, "stages": 2, "blocks": 2, "cluster": 1, "group": 1}
LAYOUTS = ("CCC", "CFC", "FCC", "FFC")


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    use_the_cpu(monkeypatch)


def product(size, dtype, narrow=None, **options):
    operand_dtype = np.dtype(narrow) if narrow else None
    return Problem(*size, SEMIRINGS["plus_times"], np.dtype(dtype), operand_dtype=operand_dtype, **options)


def full_range(problem):
    """Return operands with every value of their dtypes, the least and the greatest often."""
    operands, rng = Operands.generate(problem, 1), np.random.default_rng(2)
    for x in operands.inputs():
        limits = np.iinfo(x.dtype)
        x[...] = rng.integers(limits.min, limits.max, x.shape, x.dtype, endpoint=True)
        x[rng.random(x.shape) < 0.2] = limits.min
        x[rng.random(x.shape) < 0.2] = limits.max
    return operands


def exact(problem, operands):
    """Return the product of Python's integers, wrapped to the dtype of D."""
    a, b = (x.astype(object) for x in (operands.a, operands.b))
    total = (a @ b) * (1 if problem.alpha is None else int(problem.alpha))
    if problem.accumulate:
        total = total + operands.c.astype(object)
    bits = 8 * problem.dtype.itemsize
    return (total % (1 << bits)).astype(f"u{problem.dtype.itemsize}").view(problem.dtype)


def compute(problem, **parameters):
    """Return D, what it should be, and the files of the kernels."""
    operands = full_range(problem)
    plan = RUNG.plan(problem, detect()).override({**TILE, **parameters})
    execution = RUNG.prepare(plan, operands)
    execution.run()
    stems = [step.kernel.stem for step in execution.program.steps]
    return execution.result(), exact(problem, operands), stems


def assert_exact(problem, **parameters):
    found, expected, stems = compute(problem, **parameters)
    where = np.tril(np.ones(found.shape, bool)) if problem.triangle else np.ones(found.shape, bool)
    np.testing.assert_array_equal(found[where], expected[where])
    assert (found[~where] == np.array(-1).astype(found.dtype)).all(), "poison above the diagonal"
    return stems


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_are_multiplied_however_they_lie(layout):
    for size in ((1, 1, 1), (20, 30, 131)):
        assert_exact(product(size, "int32", "int8", layout=layout), stages=3)


def test_what_lies_along_k_in_whole_vectors_is_used_as_it_lies():
    problem = product((140, 150, 208), "int32", "int8", layout="CFC", accumulate=True, alpha=-3)
    assert assert_exact(problem) == ["passes", "tensor_core_s8"]
    wide = {"bn": 256, "tn": 16, "stages": 3, "blocks": 1}
    assert assert_exact(product((20, 300, 208), "int32", "int8", layout="CCC"), **wide) == ["digits", "tensor_core_s8"]


def test_last_rows_and_columns_are_left_to_idle_warps():
    for size, layout in (((129, 132, 131), "CCC"), ((130, 128, 528), "CFC"), ((128, 129, 5), "FFC")):
        problem = product(size, "int32", "int8", layout=layout, accumulate=layout == "CFC", alpha=-3)
        assert_exact(problem, edges=4)
    assert_exact(product((5, 129, 20), "int32", "int8"), edges=4)  # no whole tile


def test_bytes_without_signs_have_wide_sums_too():
    for layout in ("CCC", "CFC"):
        assert_exact(product((129, 20, 144), "int32", "uint8", layout=layout, accumulate=True, alpha=5), edges=4)


@pytest.mark.parametrize("dtype", ("int8", "uint16", "int32", "uint64"))
def test_integers_are_multiplied_by_their_digits(dtype):
    assert_exact(product((20, 30, 131), dtype, layout="FFC", accumulate=True, alpha=3))
    assert_exact(product((131, 130, 9) if dtype in ("int8", "int32") else (1, 1, 1), dtype))


def test_sums_of_many_digits_are_joined_panel_by_panel(monkeypatch):
    monkeypatch.setattr(integer_product, "_LONGEST", 128)
    stems = assert_exact(product((3, 5, 140), "int64", accumulate=True))
    assert stems == ["passes", "digits", *2 * ["tensor_core_s8", "join"]]


def test_no_sum_of_a_panel_overflows():
    """The greatest sum of products of digits that must not wrap, at i + j = 3: four terms of (-128)^2 a step of k."""
    assert 4 * 128**2 * integer_product._LONGEST < 2**31
    assert integer_product._LONGEST % 128 == 0


@pytest.mark.parametrize(("dtype", "narrow"), (("int32", "int8"), ("int32", None), ("int64", None)))
def test_triangles_of_integers_are_right(dtype, narrow):
    size = 40 if dtype == "int64" else 150
    assert_exact(product((size, size, 20), dtype, narrow, triangle="d"))


def test_sums_above_the_diagonal_are_not_stored(monkeypatch):
    use_the_cpu(monkeypatch, edits=(("16 * v + e < left", "16 * v + e <= left"),))
    with pytest.raises((AssertionError, KernelFault)):
        assert_exact(product((12, 12, 9), "int32", triangle="d"))


PLANTED = {
    "digits without carries": ("x += 0x80808080ull;", ""),
    "elements in each other's place": ("* PER_LANE + byte / DIGITS) * 32", "* PER_LANE) * 32"),
    "steps of k in each other's place": ("<< s * 8;", "<< (3 - s) * 8;"),
    "a line too many": ("if (first + r >= side.lines) continue;", ""),
    "tiles written before all is there": ("__syncthreads();\n#pragma unroll\n        for (int place", "for (int place"),
    "digits of B in the order of A": ("Layers{term, s - term}", "Layers{term, term}"),
    "no shift": ("return term && layers_of(layer, term).of_a == 0;", "return false;"),
    "a term too many": ("APART * (APART + 1)) / 2", "APART * (APART + 1)) / 2 + 1"),
    "sums of the tile before": ("FLUSHES || (term == 0 && step == 0)", "FLUSHES || (step == 0 && false)"),
    "sums that are still computed are shifted": ("            wait_groups<0>();\n#pragma", "#pragma"),
    "pairs that are not exchanged": ("of_lane_across(is_odd ?", "(is_odd ?"),
    "pairs in each other's place": ("four[e] = is_odd ? taken : pairs[e]", "four[e] = is_odd ? pairs[e] : taken"),
    "a row too many": (
        "i < rows ? end_of_row(below + i, columns) - first : 0",
        "end_of_row(below + i, columns) - first",
    ),
    "words of the bytes before": ("words[w + 1], 8 * shift", "words[w + 1], 0"),
}


def is_found(problem, **parameters):
    try:
        found, expected, _ = compute(problem, **parameters)
    except KernelFault:
        return True
    return not np.array_equal(found, expected)


@pytest.mark.parametrize("edit", PLANTED.values(), ids=PLANTED)
def test_planted_mistake_with_digits_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    cases = (
        product((129, 12, 131), "int32"),
        product((5, 13, 45), "int16"),
        product((5, 40, 131), "int32", layout="FFC"),
    )
    assert any(is_found(problem) for problem in cases)


# Of bytes with wide sums: rows that begin anywhere, of operands and of C, and what idle warps compute.
PLANTED_IN_BYTES = {
    "bytes of the next word": ("shift % 4 * 8);", "0);"),
    "words of the next piece": ("shift & 8 ? words[w + 2]", "false ? words[w + 2]"),
    "the piece of the lane before": ("of_next_lane(lane == 0 ?", "of_next_lane(false ?"),
    "lines of memory that begin with a row": ("shift = (begin + (unsigned)row * ldc) % LINE", "shift = begin"),
    "the end of a row that is not stored": ("chunk <= CHUNKS", "chunk < CHUNKS"),
    "rows stored before all is there": (
        "        __syncwarp();\n#pragma unroll\n        for (int first",
        "        for (int first",
    ),
    "the first row at the edge alone": ("c + other * distance", "c"),
    "bytes at the end of k": ("rest < k)", "false)"),
    "columns of the last rows": ("a.whole < a.all ? b.all : 0", "0"),
}  # fmt: skip


@pytest.mark.parametrize("edit", PLANTED_IN_BYTES.values(), ids=PLANTED_IN_BYTES)
def test_planted_mistake_with_bytes_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    assert is_found(product((130, 131, 529), "int32", "int8", layout="CFC"), edges=4)


@pytest.mark.parametrize("edit", (("(long long)layers[s]", "(unsigned)layers[s]"), ("LAYERS - 1 - s", "s")))
def test_planted_mistake_in_joining_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    assert is_found(product((3, 5, 7), "int64"))


def residues(m, n, k, count, most=3):
    """Return bytes A_t and B_t (most, m, k), (most, n, k), and the kernel's C_t (most, m, n) of the first `count`."""
    program, sizes = Program(), product((m, n, k), "int32", "int8")
    given = Residues(*(Place(name) for name in ("a", "b", "out", "count")), most, m, n, k)
    add_residue_products(program, RUNG.plan(sizes, detect()).override(TILE), given)
    rng = np.random.default_rng(3)
    sizes_of = zip(("a", "b", "out"), given.sizes, strict=True)
    buffers = {name: fenced(size, np.dtype(np.int8), at_end=True) for name, size in sizes_of}
    for name in "ab":
        buffers[name][...] = rng.choice(np.array([-128, -127, 5, 126, 127], np.int8), buffers[name].size)
    buffers["count"] = np.array([count], np.int32)
    HostExecution(program, type("Given", (), {"buffers": buffers})()).run()
    a, b, c = (buffers[name].reshape(most, rows, -1) for name, rows in (("a", m), ("b", columns_of(n)), ("out", m)))
    return a[:, :, :k], b[:, [neighbour(j) for j in range(n)], :k], c.view(np.uint8)[:, :, :n]


def are_residues(a, b, c, p):
    expected = a.astype(np.int64) @ b.astype(np.int64).T
    return bool(((c.astype(np.int64) - expected) % p == 0).all() and c.max() <= p)


@pytest.mark.parametrize(("m", "n", "k"), ((1, 1, 1), (130, 70, 140)))
def test_residues_of_products_are_those_of_python(m, n, k):
    assert all(map(are_residues, *residues(m, n, k, count=3), MODULI))


def test_the_gpu_says_how_many_products_are_computed():
    for count in (0, 2):
        a, b, c = residues(20, 30, 40, count)
        assert all(map(are_residues, a[:count], b, c, MODULI))
        assert (c[count:] == 0xFF).all(), "poison"


def test_long_residues_are_added_panel_by_panel(monkeypatch):
    monkeypatch.setattr(residue_product, "LONGEST", 128)
    assert all(map(are_residues, *residues(20, 30, 300, count=3), MODULI))


@pytest.mark.parametrize(
    "edit",
    [
        ("(BITS - 32)) * p", "(BITS - 33)) * p"),
        ("first + 4, first + 5", "first + 2, first + 3"),
        ("half * 8 + g >= rows", "half * 8 + g > rows"),
        ("moduli[layer]", "moduli[0]"),
        ("Layers{layer, layer}", "Layers{layer, 0}"),
        ("return *(const int*)given", "return 1"),
    ],
)
def test_planted_mistake_with_residues_is_found(monkeypatch, edit):
    use_the_cpu(monkeypatch, edits=(edit,))
    try:
        found = residues(20, 70, 140, count=2, most=2)
    except KernelFault:
        return
    assert not all(map(are_residues, *found, MODULI))


def test_reciprocals_of_the_moduli_are_exact_enough():
    """For sums of up to 65536 products of bytes, and a former byte: the quotient of tensor_core_s8.cu, in integers."""
    greatest = 2**14 * residue_product.LONGEST
    for p in MODULI:
        near = greatest - np.arange(4 * p)
        sums = np.concatenate([near, -near, near + p, np.arange(-4 * p, 4 * p)]).astype(np.int64)
        found = sums - ((sums * -(-(2**38) // p) >> 32) >> 6) * p
        assert ((found - sums) % p == 0).all()
        assert found.min() >= 0
        assert found.max() <= p
