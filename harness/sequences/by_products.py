"""The steps of sequences as products of any backend, one after the other, for backends that have no kernel for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.argk import gemm_argk
from harness.api.arrays import Arrays
from harness.api.gemm import gemm
from harness.dtypes import is_float
from harness.interface import Stepped
from harness.problem import Problem


def steps_by_products(
    arrays: Arrays, problem: Problem, keeps: str, is_relative: bool, is_traced: bool, backend: str, threads: int | None,
    initial: Any, transition: Any, emission: Any, lengths: np.ndarray, firsts: np.ndarray,
) -> Stepped:  # fmt: skip
    """Compute all steps, as `Abilities.prepare_steps` says; sequences that have ended keep their states."""
    xp, semiring, dtype = arrays.module, problem.semiring, problem.dtype
    (count, steps, states), zero = emission.shape, semiring.zero(dtype)
    options: dict[str, Any] = {"semiring": semiring, "backend": backend, "threads": threads}
    is_one = transition.shape[1] == 0 or transition.strides[:2] == (0, 0)
    is_settled = is_float(dtype) and semiring.multiply.name == "plus" and semiring.add.name in ("max", "logaddexp")
    is_ragged = bool((lengths != steps).any())
    begin, end = (xp.asarray(x)[:, None] for x in (firsts, firsts + lengths))
    multiply = semiring.multiply.ufunc
    kept = xp.full((count, steps if keeps else 0, states), zero, dtype)
    pointers = xp.zeros((max(steps - 1, 0), count, states), _narrowest(states)) if is_traced else None
    x, offsets = arrays.empty((count, states), dtype), xp.zeros(count)
    for t in range(steps):
        if t == 0:
            sums = initial
        else:
            matrix = transition[0, 0] if is_one else transition[:, t - 1]
            rows = x if is_one else x[:, None, :]
            if pointers is None:
                sums = gemm(rows, matrix, **options).reshape(count, states)
            else:
                sums, which = (y.reshape(count, states) for y in gemm_argk(rows, matrix, **options))
                pointers[t - 1] = xp.maximum(which, 0)
        if is_ragged:
            sums = xp.where(t == begin, initial, sums)
        following = sums if multiply is None else multiply(sums, emission[:, t])  # without one: ones of a scan
        top = xp.zeros((count, 1), dtype)
        if is_settled and states:
            top = following.max(axis=1, keepdims=True)
            top = xp.where(top > -np.inf, top, xp.zeros_like(top))
            following = following - top
        is_here = (t >= begin) & (t < end)
        if keeps:
            chosen, offset = (sums, offsets) if keeps == "before" else (following, offsets + top[:, 0])
            chosen = chosen if is_relative or not is_settled else (chosen + offset[:, None]).astype(dtype)
            kept[:, t] = xp.where(is_here, chosen, zero)
        x = xp.where(is_here, following, x) if is_ragged and t else following
        offsets = offsets + xp.where(is_here[:, 0], top[:, 0], 0)
    paths = None if pointers is None else _walk(xp, x, pointers, lengths)
    return Stepped(kept if keeps else None, x, offsets, paths)


def _narrowest(states: int) -> Any:
    return np.uint8 if states <= 256 else np.uint16 if states <= 65536 else np.int32


def _walk(xp: Any, last: Any, pointers: Any, lengths: np.ndarray) -> Any:
    """Return the paths that end in the best of the last states."""
    steps, (count, states) = pointers.shape[0] + 1, last.shape
    paths = xp.full((count, steps), -1, np.int32)
    if not lengths.any() or not states:
        return paths[:, : lengths.max(initial=0)]
    state, there, rows = last.argmax(axis=1), xp.asarray(lengths), xp.arange(count)
    for t in range(steps - 1, -1, -1):
        if t < steps - 1:
            state = xp.where(t < there - 1, pointers[t, rows, state], state)
        paths[:, t] = xp.where(t < there, state, -1)
    return paths
