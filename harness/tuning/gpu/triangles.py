"""Where a triangle of a product on a GPU is computed alone, and by blocks of how many rows."""

from __future__ import annotations

from harness.problem import Problem

# Fewest rows of a block of gpu-triangle. With fewer a product of a block of rows does not fill a GPU.
TRIANGLE_ROWS = 512

# A matrix by its own transpose: from so many rows and steps of k on one triangle is computed and mirrored. (x)
# commutes, and (+) has no form of its own for sums of exponentials.
MIRRORED_FROM, MIRRORED_DEPTH = 768, 64


def is_mirrored(problem: Problem) -> bool:
    """Return whether of `problem` one triangle is computed and mirrored, if B is A transposed."""
    ring = problem.semiring
    is_plain = (
        not (problem.accumulate or problem.triangle or problem.batch or problem.is_mixed) and problem.alpha is None
    )
    is_large = problem.m == problem.n >= MIRRORED_FROM and problem.k >= MIRRORED_DEPTH
    return is_plain and is_large and ring.multiply.is_commutative and not ring.is_log_sum
