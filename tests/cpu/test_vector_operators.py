"""Every operation of every vector unit on the values that break kernels, against the definition.

One step of k is ``C := C (+) A (x) B``. Here it runs alone, as generated code on vectors, for every semiring that has
vector code, every dtype and every unit of this processor, in its fast form and in its careful one.
"""

import itertools

import numpy as np
import pytest

from backends.cpu._vector import code as v
from backends.cpu._vector.operators import Guard, guard, operations
from backends.cpu._vector.unit import usable_units
from backends.cpu._vector.vectors import VectorCode
from harness import SEMIRINGS, Problem, Semiring
from harness.proof import reference
from harness.semiring import DTYPES, HALF, MONOIDS, BinaryOp
from tests._support.vector_functions import Functions, pointer

NUMBERS = [dtype for dtype in DTYPES if dtype.kind != "b" and dtype != HALF]
# Every (x) under plus, every (+) with what it is used with: the rest are the same instructions in other company.
PRODUCTS = [
    Semiring.of(*name.split("_"))
    for name in """plus_times plus_plus plus_min plus_max plus_pair plus_first plus_second plus_absdiff plus_sqdiff
    min_plus min_max min_times min_first min_second max_plus max_min max_times max_second times_plus""".split()
]
UNITS = usable_units()


def _name(semiring, dtype, is_careful):
    return f"{semiring.name}_{dtype.name}" + ("_careful" if is_careful else "")


def _forms():
    """Yield every (semiring, dtype, is_careful) that has a form."""
    for semiring, dtype in itertools.product(PRODUCTS, NUMBERS):
        is_real = dtype.kind != "c"  # complex numbers are vectors of their parts (test_simd_complex.py)
        if is_real and semiring.unsupported(dtype) is None and operations(semiring, dtype) is not None:
            yield semiring, dtype, False
            if guard(semiring, dtype) is not Guard.NONE:
                yield semiring, dtype, True


def _compile(unit):
    """Return ``call(name, turns, x, y, c)``, which extends `turns` vectors of c by x (x) y."""
    functions = Functions()
    for semiring, dtype, is_careful in _forms():
        code = VectorCode(unit, dtype)
        wanted = operations(semiring, dtype)._replace(is_careful=is_careful)

        def emit(b, turns, *addresses, code=code, wanted=wanted):
            def turn(state):
                x, y, c = (code.load(b, place) for place in state)
                code.store(b, wanted.extend(code, b, c, x, y), state[2])
                return [v.advance(b, place, code.size_bytes) for place in state]

            v.loop(b, turns, [pointer(b, x) for x in addresses], turn)

        functions.add(_name(semiring, dtype, is_careful), 4, emit)
    return functions.compile()


@pytest.fixture(
    scope="module",
    params=[UNITS[0], *(pytest.param(unit, marks=pytest.mark.deep) for unit in UNITS[1:])],
    ids=lambda unit: unit.name,
)
def unit_and_call(request):
    return request.param, _compile(request.param)


def special_values(semiring, dtype):
    """Return the values that break kernels. Where (+) rounds, none whose sums or products leave the range of floats."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        extremes = [info.max, info.min, info.tiny, info.smallest_subnormal] if semiring.add.is_selective else []
        return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 2.75, 3e-7, *extremes], dtype)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    values = {low, low + 1, low // 2, low // 2 - 1, 0, 1, 3, high // 2, high // 2 + 1, high - 1, high}
    return np.array(sorted({max(x, low) for x in values}), dtype)


def all_triples(semiring, dtype):
    """Return x, y and c, in which every special value meets every other, and ``c (+) x (x) y`` as it is defined.

    A kernel that selects never holds a NaN in c: it begins with the zero, and a NaN of C is dropped before.
    """
    special = special_values(semiring, dtype)
    held = special[~np.isnan(special)] if semiring.add.is_selective else special
    x, c = (grid.ravel() for grid in np.meshgrid(special, held))
    one_column = Problem(x.size, special.size, 1, semiring, dtype, accumulate=True)
    before = np.repeat(c[:, None], special.size, axis=1)
    expected = reference.product(one_column, x[:, None], special[None, :], before)
    return np.repeat(x, special.size), np.tile(special, x.size), before.ravel(), expected.ravel()


def is_vouched_for(semiring, x, y):
    """Return which operands the fast form is for, by the words of `Guard`."""
    what, dtype = guard(semiring, x.dtype), x.dtype
    if what is Guard.NO_NAN_IN_A:
        return ~np.isnan(x)
    if what is Guard.NO_EXTREME:
        info, zero = np.iinfo(dtype), int(semiring.zero(dtype))
        pairs = [(int(p), int(q)) for p, q in zip(x, y, strict=True)]
        return np.array([zero not in pair and info.min <= sum(pair) <= info.max for pair in pairs])
    return np.ones(x.shape, bool)


def differs(semiring, got, expected, c):
    """Return where `got` is not `expected`; where (+) rounds, by more than the two roundings of a step."""
    with np.errstate(all="ignore"):
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        if got.dtype.kind == "f" and not semiring.add.is_selective:
            same |= np.abs(got - expected) <= 2 * np.finfo(got.dtype).eps * (np.abs(expected) + 2 * np.abs(c))
    return ~same


def wrong_steps(unit, call, semiring, dtype, is_careful):
    """Run one form on all triples, and say where it is wrong of what it is for."""
    x, y, c, expected = all_triples(semiring, dtype)
    turns = -(-x.size // unit.lanes(dtype))
    padded = [np.resize(array, turns * unit.lanes(dtype)) for array in (x, y, c)]
    call(_name(semiring, dtype, is_careful), turns, *padded)
    got = padded[2][: x.size]
    wrong = differs(semiring, got, expected, c)
    if not is_careful:
        wrong &= is_vouched_for(semiring, x, y)
    return [
        f"{_name(semiring, dtype, is_careful)}: {c[i]} (+) {x[i]} (x) {y[i]} gave {got[i]}, not {expected[i]}"
        for i in np.flatnonzero(wrong)
    ]


def test_every_operation_on_special_values(unit_and_call):
    unit, call = unit_and_call
    wrong = [line for form in _forms() for line in wrong_steps(unit, call, *form)]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize(("semiring", "dtype"), [("min_plus", "int8"), ("max_plus", "int64"), ("max_min", "float64")])
def test_the_fast_form_alone_would_be_wrong(unit_and_call, semiring, dtype, monkeypatch):
    unit, call = unit_and_call
    monkeypatch.setattr(f"{__name__}.is_vouched_for", lambda semiring, x, y: np.ones(x.shape, bool))
    is_right = unit.orders_nan and np.dtype(dtype).kind == "f"
    assert bool(wrong_steps(unit, call, SEMIRINGS[semiring], np.dtype(dtype), False)) is not is_right


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_a_signalling_nan_is_dropped_as_any_nan(unit_and_call, dtype):
    unit, call = unit_and_call
    dtype = np.dtype(dtype)
    bits = np.array([np.inf], dtype).view(f"u{dtype.itemsize}") + 1
    for name in ("min_second", "min_first", "max_second", "min_plus", "min_max", "max_min"):
        semiring = Semiring.of(*name.split("_"))
        x, y, c = (np.full(unit.lanes(dtype), value, dtype) for value in (1.5, 0.5, 2.5))
        (x if name == "min_first" else y).view(bits.dtype)[:] = bits
        assert np.isnan(x).any() or np.isnan(y).any()
        call(_name(semiring, dtype, False), 1, x, y, c)
        assert (c == 2.5).all(), name


def test_what_is_not_in_the_tables_has_no_operations():
    squared = Semiring.from_functions("squared", lambda c, t: c + t, lambda x, y: (x * y) ** 2, zero=0)
    own_plus = Semiring(MONOIDS["min"], BinaryOp("plus", lambda x, y: x + y + 1), "min_plus")
    for semiring in (squared, own_plus, SEMIRINGS["logaddexp_plus"]):
        assert operations(semiring, np.dtype(np.float64)) is None
