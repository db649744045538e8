"""exp and log for SIMD: against NumPy in long double, over the whole range."""

import numpy as np
import pytest
from numba import njit

from backends.cpu._log_sum.exp_log import elementary, exp_scale

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

# Units in the last place. Half of one is the rounding itself.
EXP_ULPS, LOG_ULPS = 1.0, 2.0


def apply(function, x, *scalars):
    @njit
    def loop(x, out):
        for i in range(x.size):
            out[i] = function(x[i], *scalars)

    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        loop(x, out)
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
    assert ulps(apply(elementary(dtype).exp, x, scale, floor), expected) < EXP_ULPS


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exp_is_zero_below_its_floor_and_never_subnormal(dtype):
    scale, floor = exp_scale(dtype, 0)
    below = np.array([np.nextafter(floor, -np.inf), 2 * floor, -1e30, np.finfo(dtype).min, -np.inf], dtype)
    exp = elementary(dtype).exp
    assert (apply(exp, below, scale, floor) == 0).all()
    around = (floor + np.linspace(0, 2, 4001, dtype=dtype)).astype(dtype)
    assert (apply(exp, around, scale, floor) >= np.finfo(dtype).smallest_normal).all()
    assert np.isnan(apply(exp, np.array([np.nan], dtype), scale, floor)).all()
    assert (apply(exp, np.zeros(1, dtype), scale, floor) == 1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_is_within_two_ulps_over_all_normal_numbers(dtype):
    info = np.finfo(dtype)
    exponents = np.linspace(info.minexp, info.maxexp - 1, 20011)
    x = np.concatenate([2**exponents, 1 + np.linspace(-0.3, 0.45, 20011), [info.smallest_normal, info.max]])
    x = x.astype(dtype)
    x = x[x != 1]
    expected = np.log(x.astype(np.longdouble))
    assert ulps(apply(elementary(dtype).log, x, dtype.type(0)), expected) < LOG_ULPS


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_takes_a_power_of_two_off_without_error(dtype):
    log = elementary(dtype).log
    exponents = np.arange(-100, 101, 20)
    x = (2.0**exponents).astype(dtype)
    for exponent, value in zip(exponents, x, strict=True):
        assert apply(log, np.array([value]), dtype.type(exponent))[0] == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log_of_nothing_and_of_nan(dtype):
    values = apply(elementary(dtype).log, np.array([0, np.nan, 1], dtype), dtype.type(0))
    np.testing.assert_array_equal(values, np.array([-np.inf, np.nan, 0], dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_selections_say_what_becomes_of_nan(dtype):
    functions, (nan, one, two) = elementary(dtype), np.array([np.nan, 1, 2], dtype)
    for name, rule in (("maximum", np.maximum), ("smaller", np.fmin), ("greater", np.fmax)):
        for x, y in ((one, two), (two, one), (nan, one), (one, nan), (nan, nan)):
            got = apply(getattr(functions, name), np.array([x]), y)
            np.testing.assert_array_equal(got, [rule(x, y)])
