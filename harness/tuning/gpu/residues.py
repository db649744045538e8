"""Numbers of products by residues: the gate's limits, and from which shapes on they pay, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from harness.dtypes import count_parts, dtype_name
from harness.problem import Problem

# What must hold before a product is computed by residues. "proven": every element is within the bound of ordinary sums,
# as counts of large elements say, and statistics say that the errors are no larger than theirs. "certified": the same,
# but a product of bytes bounds each element. "statistic": the statistics alone. "off": values are finite.
GATES = ("proven", "certified", "statistic", "off")


class ResidueNumbers(NamedTuple):
    """Numbers of products of one dtype.

    Attributes
    ----------
    unit_bits : int
        The unit roundoff is ``2**-unit_bits``.
    counts : tuple of int
        Numbers of moduli that may be asked for.
    fewest, most : int
        Those that the gate chooses from.
    limits : mapping
        Greatest product of the spreads of A and B for a number of moduli (look.cuh).
    shares : mapping
        By the number of moduli: an element is large if it is this part of the root mean square of its vector.
    native_rate : float
        Of the kernel that auto would choose instead [operations/s].
    """

    unit_bits: int
    counts: tuple[int, ...]
    fewest: int
    most: int
    limits: Mapping[int, float]
    shares: Mapping[int, float]
    native_rate: float


# float64: 17 moduli would need more than 63 bits of an integer, and 12 reach the bound of ordinary sums on no data up
# to k = 8192. Each further modulus makes the error 14 times smaller; so elements may be small that much, and more data
# are proven. float32: the same errors in units of u as float64 has with a modulus more, and integers below 2^32.
NUMBERS = {
    "float64": ResidueNumbers(
        53,
        (12, 13, 14, 15, 16),
        14,
        16,
        {12: 0.0, 13: 0.0, 14: 4.0, 15: 400.0, 16: 2500.0},
        {12: 1 / 4, 13: 1 / 4, 14: 1 / 4, 15: 1 / 16, 16: 1 / 64},
        53e12,
    ),
    "float32": ResidueNumbers(
        24, (6, 7, 8), 7, 8, {6: 0.0, 7: 12.0, 8: 1200.0}, {6: 1 / 4, 7: 1 / 8, 8: 1 / 32}, 51e12
    ),
    # Moduli of complex numbers are smaller. Limits are those of the real numbers with about as many bits, times what
    # they have more or less.
    "complex128": ResidueNumbers(
        53,
        (14, 15, 16, 17),
        15,
        17,
        {14: 0.0, 15: 5.5, 16: 380.0, 17: 1600.0},
        {14: 1 / 4, 15: 1 / 4, 16: 1 / 16, 17: 1 / 64},
        52e12,
    ),
    "complex64": ResidueNumbers(24, (7, 8), 7, 8, {7: 7.3, 8: 650.0}, {7: 1 / 8, 8: 1 / 32}, 53e12),
}

# Rates of an H200, for the rule from which shapes on residues pay: int8 tensor cores [operations/s], the passes
# [bytes/s], and the time of trial, gate and launches that return at once [s].
INT8_RATE, PASS_RATE, LAUNCHES = 1.4e15, 3.3e12, 50e-6

# Part of a GPU's memory that one panel of columns may take for residues; beyond it there are several panels.
MEMORY_SHARE = 0.4


def pays(problem: Problem) -> bool:
    """Return whether products of that shape are faster by residues modulo the fewest numbers than natively."""
    m, n, k, size = problem.m, problem.n, problem.k, problem.dtype.itemsize
    numbers = NUMBERS[dtype_name(problem.dtype)]
    # Complex numbers have two layers a modulus, which multiply half as many terms as their four real products, and a
    # pass more over the operands.
    parts = count_parts(problem.dtype)
    count = numbers.fewest
    saved = problem.operations * (1 / numbers.native_rate - count / parts / INT8_RATE)
    layers = parts * count
    passes = (m * k + k * n) * (2 * parts * size + layers) + m * n * (size + 2 * layers)
    return saved >= passes / PASS_RATE + LAUNCHES
