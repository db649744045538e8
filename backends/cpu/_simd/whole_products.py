"""Products with alpha and C without a plan and an execution: the passes of the ladder around `small_products`.

The passes and their order are those of `_ladder.execution.KernelExecution`, and so are the bits: beta times C goes to
`out`, alpha times A to a new array, and the product is added. Nothing is written before all arrays are known to fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.cpu._compile.jit import entry_point
from backends.cpu._ladder.execution import build_begin, build_scale
from harness.dtypes import is_exact
from harness.interface import Shortcut
from harness.operands import distinct, stacks
from harness.problem import Problem


def whole_products(problem: Problem, product: Shortcut) -> Shortcut:
    """Return ``compute(a, b, out, c)`` for the scalars of `problem`, without c if it has none.

    Parameters
    ----------
    problem : Problem
        Of any sizes.
    product : callable
        What `small_products.plain_products` returned for its dtype, with `adds` if there is a C.
    """
    dtype, alpha, beta, array = problem.dtype, problem.alpha, problem.beta, np.ndarray
    fits, is_scaled = product.fits, beta is not None  # type: ignore[attr-defined]
    scale = None if alpha is None else entry_point(build_scale(problem.semiring, dtype, dtype))
    begin = entry_point(build_begin(problem.semiring, dtype, is_triangle=False)) if problem.accumulate else None
    factor = dtype.type(0) if beta is None else beta
    # (+) takes NaN out of a C that it selects from
    adds_in_place = not is_scaled and (is_exact(dtype) or not problem.semiring.add.is_selective)

    def compute(a: Any, b: Any, out: Any, c: Any = None) -> bool:
        # that of a batch is begun anew, as it is where the batch is planned
        is_ready = begin is None or (adds_in_place and c is out and c.__class__ is array and c.ndim == 2)
        if is_ready and scale is None:
            return product(a, b, out)
        if not fits(a, b, out) or not (c is None or c is out or suits(c, out)):
            return False
        if out.ndim > 2:
            return compute_batch(a, b, out, c)
        if scale is not None:
            scaled = np.empty(a.shape, dtype)
            scale(alpha, a, scaled)
            a = scaled
        if not is_ready:
            begin(is_scaled, factor, c, out)  # type: ignore[misc]
        return product(a, b, out)

    def compute_batch(a: np.ndarray, b: np.ndarray, out: np.ndarray, c: Any) -> bool:
        if scale is not None:
            few = distinct(a)
            scaled = np.empty(few.shape, dtype)
            for x, target in stacks(few, scaled):
                scale(alpha, x, target)
            a = scaled if few.shape == a.shape else np.broadcast_to(scaled, a.shape)
        if begin is not None:
            for x, target in stacks(c, out):
                begin(is_scaled, factor, x, target)
        return product(a, b, out)

    def suits(c: Any, out: np.ndarray) -> bool:
        """Return whether C is an array as `out`, and shares no memory with it."""
        if c.__class__ is not array or c.shape != out.shape or c.dtype != dtype or not c.flags.aligned:
            return False
        return not np.may_share_memory(c, out)

    return compute
