"""exp and log for SIMD: against NumPy in long double, over the whole range."""

import ctypes

import numpy as np
import pytest

from backends.cpu._ir.functions import compile_functions
from backends.cpu._log_sum.exp_log import exp_scale
from backends.cpu._log_sum.lines import Code
from backends.cpu._vector import code as v

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

# Units in the last place. Half of one is the rounding itself.
EXP_ULPS, LOG_ULPS = 1.0, 2.0


def apply(name, x, *scalars):
    """Return the function of that name of each element of `x` and of the scalars, in a loop that LLVM makes SIMD of."""
    dtype, out, others = x.dtype, np.empty_like(x), np.array(scalars, x.dtype)

    def emit(module):
        def loop(b, count, source, rest, target):
            code = Code(b, dtype)
            from_, more, to = map(code.pointer, (source, rest, target))
            values = [code.load(more, v.size(i)) for i in range(others.size)]
            code.for_each(count, (), lambda i: code.store(getattr(code, name)(code.load(from_, i), *values), to, i))

        return [v.own_function(module, "loop", [v.SIZE] * 4, loop)]

    (address,) = compile_functions(f"apply_{name}", (dtype.name, others.size), emit, unrolls=True)
    arguments = x.size, x.ctypes.data, others.ctypes.data, out.ctypes.data
    ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 4)(address)(*arguments)
    return out


def ulps(got, expected):
    """Return the greatest error in units of the last place of the dtype, for values of the order of `expected`."""
    return float((np.abs(got - expected) / np.abs(expected)).max() / np.finfo(got.dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("exponent", (0, 50))
def test_exp_is_within_an_ulp_from_its_floor_to_zero(dtype, exponent):
    scale, floor = exp_scale(dtype, exponent)
    dense = np.linspace(float(floor) * 0.9999, 0, 20011)
    near_zero = -np.geomspace(1e-30, 1, 5003)
    around_halves = (np.arange(-80, 0)[:, None] / 2 + np.linspace(-1e-3, 1e-3, 11)).ravel() * np.log(2)
    x = np.concatenate([dense, near_zero, around_halves]).astype(dtype)
    expected = np.exp(x.astype(np.longdouble)) * np.longdouble(2) ** exponent
    assert ulps(apply("exp", x, scale, floor), expected) < EXP_ULPS


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exp_is_zero_below_its_floor_and_never_subnormal(dtype):
    scale, floor = exp_scale(dtype, 0)
    below = np.array([np.nextafter(floor, -np.inf), 2 * floor, -1e30, np.finfo(dtype).min, -np.inf], dtype)
    assert (apply("exp", below, scale, floor) == 0).all()
    around = (floor + np.linspace(0, 2, 4001, dtype=dtype)).astype(dtype)
    assert (apply("exp", around, scale, floor) >= np.finfo(dtype).smallest_normal).all()
    assert np.isnan(apply("exp", np.array([np.nan], dtype), scale, floor)).all()
    assert (apply("exp", np.zeros(1, dtype), scale, floor) == 1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_is_within_two_ulps_over_all_normal_numbers(dtype):
    info = np.finfo(dtype)
    exponents = np.linspace(info.minexp, info.maxexp - 1, 20011)
    x = np.concatenate([2**exponents, 1 + np.linspace(-0.3, 0.45, 20011), [info.smallest_normal, info.max]])
    x = x.astype(dtype)
    x = x[x != 1]
    expected = np.log(x.astype(np.longdouble))
    assert ulps(apply("log", x, 0), expected) < LOG_ULPS


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_takes_a_power_of_two_off_without_error(dtype):
    exponents = np.arange(-100, 101, 20)
    x = (2.0**exponents).astype(dtype)
    for exponent, value in zip(exponents, x, strict=True):
        assert apply("log", np.array([value]), exponent)[0] == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_of_nothing_and_of_nan(dtype):
    values = apply("log", np.array([0, np.nan, 1], dtype), 0)
    np.testing.assert_array_equal(values, np.array([-np.inf, np.nan, 0], dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_selections_say_what_becomes_of_nan(dtype):
    nan, one, two = np.array([np.nan, 1, 2], dtype)
    for name, rule in (("maximum", np.maximum), ("smaller", np.fmin), ("greater", np.fmax)):
        for x, y in ((one, two), (two, one), (nan, one), (one, nan), (nan, nan)):
            got = apply(name, np.array([x]), y)
            np.testing.assert_array_equal(got, [rule(x, y)])
