"""Shortcuts of `gemm`: what a backend offers for small products, and those that calls have taken before.

A shortcut computes a product of NumPy arrays without checks, plan and execution, or returns False.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from harness import threads
from harness.api.limits import machine_of
from harness.interface import Backend, Shortcut
from harness.problem import Problem
from harness.semiring import Semiring

_NUMPY, _empty = np.ndarray, np.empty  # an attribute of a module takes 10 ns of a call of 0.9 us

# Shortcuts, with the dtype of the result, by the arguments of `gemm` of a call that has passed every check. Other calls
# with the same key differ only in sizes, strides and values of arrays.
known_shortcuts: dict[tuple[Any, ...], tuple[Shortcut, np.dtype[Any]]] = {}
MOST_SHORTCUTS = 1024  # scalars have any number of values


def new_result(a: np.ndarray, b: Any, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Return an array for the product of matrices, or of batches of which one is the other's or absent.

    The shortcut checks whether the sizes fit.
    """
    if b.__class__ is not _NUMPY:
        return None
    of_a, of_b = a.shape, b.shape
    try:
        if len(of_a) == len(of_b) == 2:
            return _empty((of_a[0], of_b[1]), dtype)
        if len(of_a) < 2 or len(of_b) < 2:
            return None
        batch, batch_of_b = of_a[:-2], of_b[:-2]
        if batch != batch_of_b and batch and batch_of_b:
            return None
        return _empty((*(batch or batch_of_b), of_a[-2], of_b[-1]), dtype)
    except (MemoryError, ValueError):  # which the checks report
        return None


def shortcut_of(backend: Backend, problem: Problem, count: int | None) -> Shortcut | None:
    """Return the short way of `backend` for products of that kind on `count` threads, if there is one."""
    if problem.triangle or problem.conjugate or not problem.semiring.is_named:
        return None
    if problem.alpha is None and not problem.accumulate:
        return plain_shortcut(backend, problem.semiring, problem.dtype, problem.operand_dtype, count)
    # a zero has two signs, and as a key they are one
    has_zero = any(x is not None and not x for x in (problem.alpha, problem.beta))
    if has_zero or problem.is_mixed:
        return None
    return _on_threads(backend.whole_shortcut(problem, machine_of(count)), count)


@functools.cache
def plain_shortcut(
    backend: Backend,
    semiring: Semiring,
    dtype: np.dtype[Any],
    operand_dtype: np.dtype[Any] | None,
    count: int | None,
) -> Shortcut | None:
    """Return the short way of `backend` without scalars and C."""
    here = machine_of(count)
    if operand_dtype is None:
        return _on_threads(backend.shortcut(semiring, dtype, here), count)
    return _on_threads(backend.mixed_shortcut(dtype, operand_dtype, here), count)


def _on_threads(shortcut: Shortcut | None, count: int | None) -> Shortcut | None:
    """Return a shortcut that takes no product if fewer threads than `count` are allowed."""
    if shortcut is None or count is None or count == 1:
        return shortcut

    def where_threads_suffice(*arrays: Any) -> bool:
        return threads.available() >= count and shortcut(*arrays)

    return where_threads_suffice
