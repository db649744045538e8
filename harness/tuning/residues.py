"""Numbers of products by residues: the gate's limits, and from which shapes on they pay, each with its source."""

from __future__ import annotations

from harness.problem import Problem

# What must hold before a product is computed by residues, the strictest first. "proven": every element is within the
# bound of ordinary sums, and statistics say that the errors are no larger than theirs. "statistic": the latter alone.
# "off": values are finite.
GATES = ("proven", "statistic", "off")

# Numbers of moduli that the gate chooses from, and those that may be asked for. 17 would need more than 63 bits of an
# integer; 12 reach the bound of ordinary sums on no data up to k = 8192.
FEWEST, MOST = 14, 16
COUNTS = tuple(range(12, 17))

# Greatest product of the spreads of A and B for a number of moduli (look.cuh). 1.6 for normal data, 4.5 for (u - 1/2)
# exp(z), 80 for (u - 1/2) exp(2 z); u uniform, z normal. With these, and the trial, none of 50 families of data had
# larger errors than a float64 sum, greatest or root mean square (NumPy, k = 256 to 4096, 2026-11-22).
LIMITS = {12: 0.0, 13: 0.0, 14: 4.0, 15: 400.0, 16: 2500.0}

# An element is large if it is this part of the root mean square of its vector or more. Each further modulus makes the
# error 14 times smaller; so elements may be small that much, and more data are proven. With 1/4, normal vectors have
# 0.80 large elements and are proven from k = 310 on; with 1/16, (u - 1/2) exp(z) is from k = 320 on.
SHARES = {12: 1 / 4, 13: 1 / 4, 14: 1 / 4, 15: 1 / 16, 16: 1 / 64}

# Rates of an H200, for the rule from which shapes on residues pay: float64 tensor cores and int8 tensor cores
# [operations/s], the passes [bytes/s], and the time of trial, gate and launches that return at once [s]. Over cuBLAS
# 0.92 at n = 2048, 1.42 at 4096, 1.65 at 8192 x 4096 x 8192; of squares it admits those of n = 2200 and more (in turns,
# 2026-11-22).
NATIVE_RATE, INT8_RATE, PASS_RATE, LAUNCHES = 53e12, 1.4e15, 3.3e12, 50e-6

# Part of a GPU's memory that one panel of columns may take for residues; beyond it there are several panels.
MEMORY_SHARE = 0.4


def pays(problem: Problem, count: int = FEWEST) -> bool:
    """Return whether products of that shape are faster by residues modulo `count` numbers than natively."""
    m, n, k = problem.m, problem.n, problem.k
    saved = problem.operations * (1 / NATIVE_RATE - count / INT8_RATE)
    passes = (m * k + k * n) * (16 + count) + m * n * (8 + 2 * count)
    return saved >= passes / PASS_RATE + LAUNCHES
