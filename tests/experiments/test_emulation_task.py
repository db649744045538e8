"""What the task of emulated products measures beside time."""

import fractions
import types

import numpy as np
import pytest

from experiments._parts.emulation_task import DRAWS, errors, fill, joules
from harness.operands import Operands
from harness.problem import Problem


class Execution:
    """Takes 3 J a product of a counter that stands at 100 J."""

    def __init__(self, *, is_counted=True):
        self.products = 0
        if is_counted:
            self.queue = types.SimpleNamespace(joules=lambda: 100 + 3.0 * self.products)

    def run(self):
        self.products += 1

    def wait(self):
        pass


def test_energy_is_that_of_one_product():
    assert joules(Execution(), 0.001) == 3


def test_without_a_counter_there_is_no_energy():
    assert joules(Execution(is_counted=False), 0.001) is None
    silent = Execution()
    silent.queue = types.SimpleNamespace(joules=lambda: None)
    assert joules(silent, 0.001) is None


@pytest.mark.parametrize("dtype", ("float64", "complex64", "complex128"))
def test_errors_are_those_of_each_part_in_units_of_its_terms(dtype):
    operands, unit = Operands.generate(Problem(3, 4, 5, dtype=dtype), 1), np.finfo(dtype).eps / 2
    for family in DRAWS:
        operands.a[...] = operands.b[...] = 0
        fill(family, operands, 2)
        assert not np.iscomplexobj(operands.a) or (operands.a.imag.any() and operands.b.imag.any())
        exact, sizes = product_of_fractions(operands)
        result = exact.astype(dtype)
        assert errors(operands, result, 3)[0] <= 1
        result.real[...] += 100 * unit * sizes  # of one part alone
        greatest, rms = errors(operands, result, 3)
        assert 98 < greatest < 102
        assert 98 / 2**0.5 < rms < 102


def product_of_fractions(operands):
    """The product, exact but for one rounding to float64, and the sums of the sizes of terms of real parts."""
    parts = (lambda x: (x.real, x.imag)) if np.iscomplexobj(operands.a) else lambda x: (x, np.zeros_like(x))
    (a, b), (c, d) = (
        [np.vectorize(fractions.Fraction, otypes=[object])(part.astype(float)) for part in parts(x)]
        for x in (operands.a, operands.b)
    )
    real, imaginary = ((x).astype(float) for x in (a @ c - b @ d, a @ d + b @ c))
    sizes = (abs(a) @ abs(c) + abs(b) @ abs(d)).astype(float)
    return (real + 1j * imaginary if np.iscomplexobj(operands.a) else real), sizes
