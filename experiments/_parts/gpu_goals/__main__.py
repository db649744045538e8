"""The command that prints the table."""

from __future__ import annotations

import sys

from experiments._parts.goals import print_goals
from experiments._parts.gpu_goals import calls, products, vectors

GROUPS = (
    products.thin, products.tall, products.ragged, products.integers, products.converted, calls.host, calls.first,
    calls.batches, calls.gradients, calls.symmetric, vectors.vectors, vectors.triangles, vectors.solves,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(print_goals("experiments._parts.gpu_goals", GROUPS))
