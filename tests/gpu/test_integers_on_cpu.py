"""Products of integers by tensor cores, executed on the CPU, compared with Python's: bytes, digits, residues."""

import numpy as np
import pytest

from backends.gpu._program.program import Place, Program
from backends.gpu._tensor import integer_product, residue_product
from backends.gpu._tensor.residue_product import MODULI, Residues, add_residue_products, columns_of, neighbour
from harness import SEMIRINGS, Operands
from harness.machine import detect
from harness.problem import Problem
from tests.gpu.host_kernels import HostExecution, fenced
from tests.gpu.on_cpu import ON_CPU, RUNGS

pytestmark = ON_CPU

RUNG = RUNGS["gpu-tensor-core"]
TILE = {"bm": 128, "bn": 128, "bk": 128, "tm": 8, "tn": 8, "stages": 2, "blocks": 2, "cluster": 1, "group": 1}
LAYOUTS = ("CCC", "CFC", "FCC", "FFC")


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


@pytest.mark.deep(but=2)
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


def assert_residues(*sizes, **options):
    assert all(map(are_residues, *residues(*sizes, **options), MODULI))


@pytest.mark.parametrize(("m", "n", "k"), ((1, 1, 1), (130, 70, 140)))
def test_residues_of_products_are_those_of_python(m, n, k):
    assert_residues(m, n, k, count=3)


def test_the_gpu_says_how_many_products_are_computed():
    for count in (0, 2):
        a, b, c = residues(20, 30, 40, count)
        assert all(map(are_residues, a[:count], b, c, MODULI))
        assert (c[count:] == 0xFF).all(), "poison"


def test_long_residues_are_added_panel_by_panel(monkeypatch):
    monkeypatch.setattr(residue_product, "LONGEST", 128)
    assert_residues(20, 30, 300, count=3)


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
