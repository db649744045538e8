"""The products of `bench-compare` by preset, the time for each, and a parser of products that a user writes."""

from __future__ import annotations

import re

from harness.errors import ProblemError
from harness.experiment import Budget
from harness.problem import Problem
from harness.semiring import as_semiring

# Several processes: the placement of memory differs from one to the next, and is the main cause of false alarms. They
# are fresh in each cell, so that no two cells share a false alarm.
BUDGETS = {
    "smoke": Budget(rounds=5, seconds=0.5, processes=2, fresh=True),
    "quick": Budget(rounds=10, seconds=3.0, processes=4, precision=0.01, fresh=True),
    "full": Budget(rounds=30, seconds=6.0, processes=8, precision=0.005, fresh=True),
}

_SMOKE = ("plus_times float64 64", "min_plus float32 64")
_QUICK = (
    "plus_times float64 512",
    "plus_times float32 512",
    "plus_times float64 65x63x66",
    "min_plus float32 512",
    "max_times float64 257",
    "lor_land bool 512",
)
_FULL = (
    "plus_times float64 32",
    "plus_times float64 1024",
    "plus_times float32 1537",
    "plus_times float64 2048x16x2048",
    "plus_times float64 16x2048x2048",
    "plus_times int64 257",
    "min_plus float64 512",
    "max_min int32 512",
    "plus_pair int16 512",
    "logaddexp_plus float64 257",
)
PRODUCTS = {"smoke": _SMOKE, "quick": _QUICK, "full": (*_QUICK, *_FULL)}


def problem(text: str) -> Problem:
    """Return the product that `text` describes: "min_plus float32 512", or "plus_times float64 64x512x64" (m x n x k).

    Raises
    ------
    ProblemError
        If it does not describe a product.
    """
    match = re.fullmatch(r"(\w+) (\w+) ([1-9]\d*)(?:x([1-9]\d*)x([1-9]\d*))?", text.strip())
    if match is None:
        raise ProblemError(
            f"{text!r} is no product",
            expected="semiring, dtype and size, or sizes, above 0",
            fix='"min_plus float32 512", "... 64x512x64"',
        )
    semiring, dtype, *sizes = match.groups()
    m, n, k = (int(size or sizes[0]) for size in sizes)
    return Problem(m, n, k, as_semiring(semiring), dtype)  # type: ignore[arg-type]  # a name, which it checks
