"""The best paths from some sources alone: their rows are extended by an edge at a time, until nothing changes.

    rows := rows (+) rows (x) W        k n^2 pairs a step, for k sources; all pairs take n^3

A step costs k / n of the whole. How many steps there are is that of the edges of best paths, which nobody knows before.
So steps are taken for up to half of the work of the whole; where that is few steps, or they do not end, the whole is
computed. A cycle that is better than the empty path never ends, so it is found there.

A path's predecessor is the pivot of the last step that made it strictly better. Predecessors then run in no circle:
on one, the last step would have improved a vertex beyond what its own value allows.

Source: Bellman (1958); Moore (1959).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from harness.api import argk, gemm
from harness.api.arrays import Arrays
from harness.api.paths import predecessors
from harness.api.paths.checks import check_found
from harness.elimination import find_nan, put_one
from harness.interface import Findings
from harness.semiring import Semiring

# Fewest steps that are worth a try.
_FEWEST = 3


class Options(Protocol):
    """What is taken of the options of a call."""

    @property
    def backend(self) -> str: ...
    @property
    def threads(self) -> int | None: ...
    @property
    def keeps(self) -> bool: ...
    @property
    def symmetric(self) -> bool: ...


def rows_of(
    arrays: Arrays, edges: Any, sources: np.ndarray, semiring: Semiring, options: Options
) -> tuple[Any, Any] | None:
    """Return the rows of `sources` and their predecessors, or None where that is more work than all rows.

    `edges` is (..., n, n), and stays as it is.
    """
    n, add = edges.shape[-1], semiring.add.ufunc
    steps = n // ((2 + 2 * options.symmetric) * max(len(sources), 1)) if len(sources) else _FEWEST
    if steps < _FEWEST:
        return None
    check_found(edges, semiring, Findings(find_nan(edges), False, -1))
    weights = edges.copy()
    put_one(weights.reshape(-1, n, n), semiring)
    rows = weights[..., arrays.module.asarray(sources), :]
    zero, one = semiring.zero(edges.dtype), semiring.one(edges.dtype)
    before = predecessors.of_edges(arrays, rows, zero, sources) if options.keeps else None
    how: dict[str, Any] = {"semiring": semiring, "backend": options.backend, "threads": options.threads}
    for _ in range(steps if rows.size else 1):
        if before is None:
            improved = gemm.gemm(rows, weights, rows, **how)
            has_changed = not arrays.module.array_equal(improved, rows)
        else:
            terms, which = argk.gemm_argk(rows, weights, **how)
            improved = add(rows, terms)
            better = improved != rows
            before = arrays.module.where(better, which, before)
            has_changed = bool(better.any())
        rows = improved
        if not has_changed:
            if before is not None and rows.size and bool((add(edges, one) != one).any()):
                predecessors.untangle_all(arrays, before, rows, edges, sources)
            return rows, before
    return None
