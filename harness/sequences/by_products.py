"""The steps of sequences as products of any backend, one after the other, for backends that have no kernel for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.argk import gemm_argk
from harness.api.arrays import Arrays
from harness.api.gemm import gemm
from harness.dtypes import highest, is_float, lowest
from harness.interface import Stepped
from harness.problem import Problem
from harness.semiring import Semiring


def steps_by_products(
    arrays: Arrays, problem: Problem, keeps: str, is_relative: bool, is_traced: bool, backend: str, threads: int | None,
    initial: Any, transition: Any, emission: Any, lengths: np.ndarray, firsts: np.ndarray,
) -> Stepped:  # fmt: skip
    """Compute all steps, as `Abilities.prepare_steps` says; sequences that have ended keep their states."""
    xp, semiring, dtype = arrays.module, problem.semiring, problem.dtype
    (count, steps, states), zero = emission.shape, semiring.zero(dtype)
    options: dict[str, Any] = {"semiring": semiring, "backend": backend, "threads": threads}
    is_one = transition.size > 0 and transition.strides[:2] == (0, 0)
    is_settled = is_float(dtype) and semiring.multiply.name == "plus" and semiring.add.name in ("max", "logaddexp")
    is_ragged = bool((lengths != steps).any())
    begin, end = (xp.asarray(x)[:, None] for x in (firsts, firsts + lengths))
    multiply = _multiplication(xp, semiring, dtype)
    by_factors = _Factors(xp, transition[0, 0], options) if semiring.is_log_sum and is_one else None
    kept = xp.full((count, steps if keeps else 0, states), zero, dtype)
    pointers = xp.zeros((max(steps - 1, 0), count, states), _narrowest(states)) if is_traced else None
    x, offsets = arrays.empty((count, states), dtype), xp.zeros(count)
    taken = xp.zeros((count, steps)) if is_relative else None
    for t in range(steps):
        if t == 0:
            sums = initial
        else:
            matrix = transition[0, 0] if is_one else transition[:, t - 1]
            rows = x if is_one else x[:, None, :]
            if by_factors is not None:
                sums = by_factors(x)
            elif pointers is None:
                sums = gemm(rows, matrix, **options).reshape(count, states)
            else:
                sums, which = (y.reshape(count, states) for y in gemm_argk(rows, matrix, **options))
                pointers[t - 1] = xp.maximum(which, 0)
        if is_ragged:
            sums = xp.where(t == begin, initial, sums)
        # without one: ones of a scan
        following = sums if multiply is None else multiply(sums, emission[:, t])
        top = finite_tops(xp, following) if is_settled else xp.zeros((count, 1), dtype)
        following = following - top if is_settled else following
        is_here = (t >= begin) & (t < end) if is_ragged else None
        if keeps:
            chosen, offset = (sums, offsets) if keeps == "before" else (following, offsets + top[:, 0])
            chosen = chosen if is_relative or not is_settled else chosen + offset[:, None]
            kept[:, t] = chosen if is_here is None else xp.where(is_here, chosen, zero)
        x = following if is_here is None or not t else xp.where(is_here, following, x)
        now = top[:, 0] if is_here is None else xp.where(is_here[:, 0], top[:, 0], 0)
        offsets = offsets + now
        if taken is not None:
            taken[:, t] = now
    paths = None if pointers is None else _walk(xp, x, pointers, lengths)[:, :steps]
    return Stepped(kept if keeps else None, x, offsets, paths, taken)


def finite_tops(xp: Any, x: Any) -> Any:
    """Return the largest elements along the last axis, which stays; 0 where all are -inf."""
    top = x.max(axis=-1, keepdims=True) if x.size else x[..., :1]
    return xp.where(top > -np.inf, top, xp.zeros_like(top))


class _Factors:
    """Sums over logaddexp by products of exponentials with one matrix A, of states whose largest is 0.

    ``log(exp(x) P) + c, P[i, j] = exp(A[i, j] - c[j])``. A sum is trusted if nothing of it underflows, or if it is far
    above what may be lost. Sequences with another one are computed by the product over logaddexp_plus.
    """

    def __init__(self, xp: Any, matrix: Any, options: dict[str, Any]) -> None:
        info = np.finfo(matrix.dtype)
        self._xp, self._matrix, self._options = xp, matrix, options
        self._tops = finite_tops(xp, matrix.T).T[0]
        differences = matrix - self._tops
        self._factors = xp.exp(differences)
        self._least = _least_finite(xp, differences.reshape(1, -1))
        self._narrow = np.log(float(info.smallest_normal))
        self._limit = len(matrix) * float(info.smallest_normal) / float(info.eps)

    def __call__(self, x: Any) -> Any:
        xp, ordinary = self._xp, {**self._options, "semiring": "plus_times"}
        totals = gemm(xp.exp(x), self._factors, **ordinary)
        sums = xp.log(totals)
        sums += self._tops
        is_wide = _least_finite(xp, x) + self._least < self._narrow
        if not is_wide.any():
            return sums
        rows = xp.flatnonzero((is_wide & ~(totals >= self._limit)).any(axis=1))
        if rows.size:
            sums[rows] = gemm(x[rows], self._matrix, **self._options)
        return sums


def _multiplication(xp: Any, semiring: Semiring, dtype: np.dtype[Any]) -> Any:
    """Return (x) of arrays; sums of integers under min and max saturate, and the zero absorbs."""
    if not semiring.absorbs(dtype):
        return semiring.multiply.ufunc
    low, high, zero = lowest(dtype), highest(dtype), semiring.zero(dtype)

    def plus(x: Any, y: Any) -> Any:
        total = y + xp.where(y > 0, xp.minimum(x, high - y), xp.maximum(x, low - y))
        return xp.where((x == zero) | (y == zero), xp.full_like(total, zero), total)

    return plus


def _least_finite(xp: Any, x: Any) -> Any:
    """Return the least element of each row that is not -inf, or 0."""
    least = xp.minimum(x.min(axis=1, keepdims=True), 0)
    if (least > -np.inf).all():
        return least
    return xp.minimum(xp.where(x > -np.inf, x, xp.zeros_like(x)).min(axis=1, keepdims=True), 0)


def _narrowest(states: int) -> Any:
    return np.uint8 if states <= 256 else np.uint16 if states <= 65536 else np.int32


def _walk(xp: Any, last: Any, pointers: Any, lengths: np.ndarray) -> Any:
    """Return the paths that end in the best of the last states."""
    steps, count = pointers.shape[0] + 1, len(last)
    paths = xp.full((count, steps), -1, np.int32)
    state, there, rows = last.argmax(axis=1), xp.asarray(lengths), xp.arange(count)
    for t in range(steps - 1, -1, -1):
        if t < steps - 1:
            state = xp.where(t < there - 1, pointers[t, rows, state], state)
        paths[:, t] = xp.where(t < there, state, -1)
    return paths
