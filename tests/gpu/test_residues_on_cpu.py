"""gpu-ozaki, executed: residues against Python's integers, errors against exact sums, and what the gate decides."""

import math

import numpy as np
import pytest

from backends.gpu._base import backend as gpu_backend
from backends.gpu._residues.moduli import table
from backends.gpu._tensor import residue_product
from backends.gpu._tensor.residue_product import MODULI, columns_of, neighbour, width_of
from harness.errors import PlanError
from harness.tuning.gpu import residues as tuning
from tests.gpu.host_kernels import HostExecution, HostOperands
from tests.gpu.on_cpu import ON_CPU
from tests.gpu.residue_products import ByteProducts, compute

pytestmark = ON_CPU

OFF = {"gate": "off", "moduli": 14}
SMALL = (5, 7, 30)
UNIT = 2.0**-53


@pytest.fixture(autouse=True)
def _bytes_are_multiplied_by_numpy(on_the_cpu, monkeypatch):
    monkeypatch.setattr(gpu_backend, "GpuExecution", ByteProducts)


# ------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("count", tuning.NUMBERS["float64"].counts)
def test_weights_undo_residues_and_their_upper_parts_sum_exactly(count, rng):
    x, moduli = table(count), MODULI[:count]
    assert x.product == math.prod(moduli) == math.lcm(*moduli)
    for p, upper, lower in zip(moduli, x.upper, x.lower, strict=True):
        weight = int(upper) + int(lower)
        assert abs(weight - x.product // p * pow(x.product // p, -1, p)) <= int(lower) >> 52  # it is rounded
        assert float(sum(int(u) * 255 for u in x.upper)) == sum(u * 255 for u in x.upper)
    grain = min(int(u) & -int(u) for u in x.upper if u)
    assert sum(255 * int(u) for u in x.upper) < grain << 53
    assert 2 ** (2 * x.half_bits + 1) < x.product


# ----------------------------------------------------------------------------------------------- passes, one by one


def scaled(vectors, count):
    """The integers that vectors become, and their exponents."""
    exponents = []
    for x in vectors:
        squares = math.fsum(v * v for v in x)
        exponents.append(math.floor(table(count).half_bits - 0.5 * math.log2(squares)) if squares else 0)
    return [[round(math.ldexp(v, e)) for v in x] for x, e in zip(vectors.tolist(), exponents, strict=True)], exponents


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(("count", "layout"), [(12, "CCC"), (16, "CCC"), (16, "FFC")])
def test_residues_are_those_of_the_scaled_integers(count, layout, rng):
    size = m, n, k = 20, 70, 150

    def change(operands):
        operands.a[2] = 0
        operands.a[3] *= 1e100
        operands.b[:, 5] *= 1e-90
        operands.b[:, 6] = 0

    operands, _, execution = compute(size, change, gate="off", moduli=count, layout=layout)
    width, columns = width_of(k), columns_of(n)
    for name, vectors, rows, place in (
        ("a", operands.a, m, list(range(m))),
        ("b", operands.b.T, columns, [neighbour(j) for j in range(n)]),
    ):
        integers, _ = scaled(np.ascontiguousarray(vectors), count)
        found = execution.found(f"residues_{name}")[: count * rows * width].view(np.int8).reshape(count, rows, width)
        for t, p in enumerate(MODULI[:count]):
            expected = np.array([[(v + p // 2) % p - p // 2 for v in x] for x in integers])
            difference = found[t][place, :k] - expected
            assert (difference % p == 0).all()  # of an even p the half has two signs
            assert (np.abs(found[t][place, :k].astype(int)) <= p // 2).all()


@pytest.mark.parametrize("count", tuning.NUMBERS["float64"].counts)
def test_errors_are_those_of_rounding_to_integers_alone(count):
    operands, result, _ = compute((9, 10, 60), gate="off", moduli=count)
    assert is_rounded_product(operands, result, count)


def is_rounded_product(operands, result, count):
    """Whether each element is the product of the scaled integers but for two roundings, by Python's integers."""
    a, e = scaled(operands.a, count)
    b, f = scaled(np.ascontiguousarray(operands.b.T), count)
    exact = ((sum(map(int.__mul__, x, y)), e[i] + f[j], result[i, j]) for i, x in enumerate(a) for j, y in enumerate(b))
    return all(abs(got - math.ldexp(product, -shift)) <= 2 * UNIT * abs(got) for product, shift, got in exact)


def test_integers_of_few_bits_are_exact():
    def change(operands):
        operands.a[...] = np.rint(1000 * operands.a)
        operands.b[...] = np.rint(1000 * operands.b)

    operands, result, _ = compute((20, 70, 130), change, **OFF)
    assert (result == operands.a @ operands.b).all()


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("layout", ("CCC", "FFC"))
def test_float32_by_fewer_moduli_in_any_layout(layout):
    for moduli in tuning.NUMBERS["float32"].counts:
        compute((19, 70, 35), layout=layout, dtype="float32", gate="off", moduli=moduli)
    compute((19, 70, 35), accumulate=True, alpha=2.5, beta=-0.5, layout=layout, dtype="float32", **OFF | {"moduli": 7})
    _, _, execution = compute((19, 70, 35), accumulate=True, alpha=2.5, beta=-0.5, layout=layout, dtype="float32")
    assert execution.found("moduli")[0] == 0  # k is too small for the proof
    operands, result, _ = compute((19, 68, 36), dtype="float32", gate="off", moduli=8)
    exact = operands.a.astype(float) @ operands.b.astype(float)
    assert (np.abs(result - exact) <= 2.0**-24 * np.abs(exact) + 2.0**-29 * np.abs(exact).max()).all()


@pytest.mark.deep(but=2)
@pytest.mark.parametrize(
    ("name", "chosen"), [("normal", 7), ("phi1", 7), ("D 2^+-4", 0), ("nan", 0), ("half zeros", 0)]
)
def test_gate_chooses_for_float32_too(name, chosen, rng):
    _, _, execution = compute((24, 20, 2000), lambda operands: vectors(name, operands, rng), dtype="float32")
    assert execution.found("moduli")[0] == chosen


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("layout", ("CCC", "FFC", "CFC", "FCC"))
def test_any_layout_with_alpha_beta_and_c(layout, monkeypatch):
    monkeypatch.setattr(ByteProducts, "has_native", True)
    for moduli, gate in ((14, "off"), (0, "proven")):  # by residues, and natively since k is small
        compute((19, 70, 35), accumulate=True, alpha=2.5, beta=-0.5, layout=layout, gate=gate, moduli=moduli)
    compute((19, 70, 36), alpha=-3.0, layout=layout)


def test_sizes_around_every_edge():
    for size in ((1, 1, 1), (2, 65, 128), (17, 64, 129), (33, 31, 127), (3, 130, 1030)):
        compute(size, **OFF)


def test_without_terms_there_is_c_alone():
    compute((3, 4, 0), accumulate=True, beta=2.0)
    compute((3, 4, 0))
    compute((0, 4, 3))


def test_panels_of_columns_are_products_of_their_own():
    _, whole, _ = compute((5, 150, 40), accumulate=True, beta=3.0, **OFF)
    _, parts, _ = compute((5, 150, 40), accumulate=True, beta=3.0, panel=64, **OFF)
    assert (whole == parts).all()


def test_long_k_goes_by_panels(monkeypatch):
    _, whole, _ = compute((5, 7, 400), **OFF)
    monkeypatch.setattr(residue_product, "LONGEST", 128)
    _, parts, _ = compute((5, 7, 400), **OFF)
    assert (whole == parts).all()


def test_nothing_before_the_operands_is_touched(monkeypatch):
    monkeypatch.setattr(HostOperands, "at_end", False)
    for layout in ("CCC", "FFC"):
        compute((19, 70, 35), accumulate=True, beta=2.0, layout=layout, **OFF)


def test_the_products_of_bytes_are_those_of_the_kernel(monkeypatch):
    _, expected, _ = compute(SMALL, **OFF)
    monkeypatch.setattr(gpu_backend, "GpuExecution", HostExecution)
    _, result, _ = compute(SMALL, **OFF, bn=128, stages=2)
    assert (result == expected).all()


# ------------------------------------------------------------------------------------------------------------ the gate


def vectors(name, operands, rng):
    """Change `operands` to the data of that name; k is 2000."""
    a, b = operands.a, operands.b
    a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    spread = {"D 2^+-2": 2, "D 2^+-4": 4, "D 2^+-20": 20}.get(name)
    if spread:
        d = rng.integers(-spread, spread + 1, a.shape[1])
        a[...], b[...] = np.ldexp(a, d), np.ldexp(b, -d[:, None])
    elif name.startswith("phi"):
        for x in (a, b):
            x[...] = (rng.random(x.shape) - 0.5) * np.exp(float(name[3:]) * rng.standard_normal(x.shape))
    elif name == "factors":  # partial sums stay small, and so do the errors of float64
        b[...] = np.diff(rng.standard_normal((a.shape[1] + 1, b.shape[1])), axis=0)
        a[...] = np.abs(a) / np.abs(a)
    elif name == "zeros":
        a[1], b[:, 2] = 0, 0
    elif name == "half zeros":
        a[rng.random(a.shape) < 0.5], b[rng.random(b.shape) < 0.5] = 0, 0
    elif name == "one-sided spike":
        a[:, 0], b[0] = 1e8, 0
    elif name == "bad pair":  # one row and one column whose large elements meet small ones
        a[0, :1000] *= 1e-6
        b[1000:, 0] *= 1e-6
    elif name != "normal":
        a[1, 3] = float(name)


# By data: what the gate chooses by proof, and by statistics alone.
CHOSEN = {
    "normal": (14, 14), "phi0.5": (14, 14), "phi1": (15, 15), "phi2": (0, 15), "zeros": (14, 14), "D 2^+-2": (15, 15),
    "D 2^+-4": (16, 16), "D 2^+-20": (0, 0), "factors": (16, 16), "half zeros": (0, 14), "one-sided spike": (0, 0),
    "bad pair": (0, 14), "nan": (0, 0), "inf": (0, 0), "1e308": (0, 0), "1e-320": (14, 14),
}  # fmt: skip


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("name", CHOSEN)
def test_gate_chooses_by_the_values(name, rng):
    for gate, expected in zip(("proven", "statistic"), CHOSEN[name], strict=True):
        _, _, execution = compute((24, 20, 2000), lambda operands: vectors(name, operands, rng), gate=gate)
        assert execution.found("moduli")[0] == expected
        assert not any(execution.found(x).any() for x in ("look", "large_a", "large_b", "ticket"))


# What the certificate says. Counts of large elements prove no data with zeros; a pair that hardly meets, nothing does.
CERTIFIED = {"normal": 14, "phi1": 15, "half zeros": 14, "zeros": 14, "bad pair": 0, "D 2^+-20": 0, "nan": 0}


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("name", CERTIFIED)
def test_a_product_of_sizes_certifies_each_element(name, rng):
    for layout in ("CCC", "FFC"):
        _, _, execution = compute(
            (24, 20, 2000), lambda operands: vectors(name, operands, rng), gate="certified", layout=layout
        )
        assert execution.found("moduli")[0] == CERTIFIED[name]


# With powers of two that make A and B alike along k, what is native otherwise.
BALANCED = {"normal": (14,), "D 2^+-20": (14, 15), "one-sided spike": (14, 15), "nan": (0,), "1e308": (0,)}


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("name", BALANCED)
def test_balance_makes_large_elements_meet_large_ones(name, rng):
    for layout in ("CCC", "FFC"):
        size = (24, 20, 2000)
        _, _, execution = compute(size, lambda operands: vectors(name, operands, rng), layout=layout, balance=1)
        assert execution.found("moduli")[0] in BALANCED[name]
        assert not any(execution.found(x).any() for x in ("look", "large_a", "large_b", "peaks_a", "peaks_b"))


def test_a_product_is_computed_again_with_the_same_bits():
    _, first, execution = compute((24, 20, 2000), lambda x: vectors("normal", x, np.random.default_rng(2)))
    assert execution.found("moduli")[0] == 14
    execution.run()
    assert (execution.result() == first).all()
    assert execution.found("moduli")[0] == 14


def test_values_out_of_range_are_computed_natively_whatever_the_options():
    for value in (np.nan, np.inf, 1e300):

        def change(operands, value=value):
            operands.a[1, 3] = value

        _, _, execution = compute(SMALL, change, **OFF)
        assert execution.found("moduli")[0] == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [({"moduli": 17}, "moduli"), ({"moduli": 3}, "moduli"), ({"gate": "none"}, "gate"), ({"panel": 0}, "panel")],
)
def test_options_without_a_meaning_are_refused(options, word):
    with pytest.raises(PlanError, match=word):
        compute(SMALL, **options)
