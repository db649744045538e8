"""What contract cases put into generated operands: broadcast and spread layouts, ties, values that break kernels.

A change takes the operands and a generator of random numbers, and works in place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.dtypes import float_limits, is_bool, is_complex, is_exact
from harness.operands import Operands
from harness.problem import Problem
from harness.semiring import Semiring

OperandChange = Callable[[Operands, np.random.Generator], None]


def broadcast_a(operands: Operands, rng: np.random.Generator) -> None:
    """Have all products share one A."""
    operands.a = np.broadcast_to(operands.a[:1, :1], operands.a.shape)


def broadcast_both(operands: Operands, rng: np.random.Generator) -> None:
    """Have A, B and C broadcast, A and B along other dimensions."""
    operands.a = np.broadcast_to(operands.a[:, :1], operands.a.shape)
    operands.b = np.broadcast_to(operands.b[:1], operands.b.shape)
    operands.c = None if operands.c is None else np.broadcast_to(operands.c[:1, :1], operands.c.shape)


def spread_out(operands: Operands, rng: np.random.Generator) -> None:
    """Have the products lie backwards and apart, and those of B in another order of dimensions."""
    operands.a = operands.a[::-1, ::-1]
    operands.b = np.ascontiguousarray(operands.b.swapaxes(0, 1)).swapaxes(0, 1)
    room = np.full((2 * len(operands.out), *operands.out.shape[1:]), operands.out.flat[0], operands.out.dtype)
    operands.out = room[::2]


def upside_down(operands: Operands, rng: np.random.Generator) -> None:
    """Turn the steps of every array around: of layout ``A``, rows go down in memory and columns up, each with gaps."""
    operands.a, operands.b, operands.out = (x[..., ::-1, ::-1] for x in (operands.a, operands.b, operands.out))
    operands.c = None if operands.c is None else operands.c[..., ::-1, ::-1]


def rows_backwards(*names: str) -> OperandChange:
    """Return the change that puts the last row of the arrays called `names` first in memory, as in ``x[::-1]``."""

    def change(operands: Operands, rng: np.random.Generator) -> None:
        for name in names:
            x = getattr(operands, name)
            setattr(operands, name, None if x is None else np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :])

    return change


def few_values(operands: Operands, rng: np.random.Generator) -> None:
    """Have ties everywhere."""
    for x in (operands.a, operands.b):
        x[...] = rng.integers(0, 2 if is_bool(x.dtype) else 9, x.shape)


def few_values_backwards(operands: Operands, rng: np.random.Generator) -> None:
    """Have ties everywhere, and negative strides."""
    few_values(operands, rng)
    operands.a, operands.b = operands.a[..., ::-1, ::-1], operands.b[..., ::-1, ::-1]


def special_values(problem: Problem) -> list[Any]:
    """Return the values that break kernels, of those that A and B of `problem` can hold."""
    narrow = problem.input_dtype
    if not is_exact(problem.dtype):
        info = float_limits(narrow)
        parts = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, info.max, -info.max, info.smallest_subnormal]
        return [complex(*both) for both in itertools.product(parts, repeat=2)] if is_complex(narrow) else parts
    if is_bool(problem.dtype):
        return [False, True]
    least, greatest = int(np.iinfo(narrow).min), int(np.iinfo(narrow).max)
    return [least, greatest, least + 1, greatest - 1, 0, 1, 7, greatest // 2 + 1]


def scatter(values: list[Any], share: float) -> OperandChange:
    """Return the change that puts `values` at random places, a `share` of all."""

    def change(operands: Operands, rng: np.random.Generator) -> None:
        for x in operands.inputs():
            chosen = rng.random(x.shape) < share
            x[chosen] = rng.choice(np.array(values, x.dtype), x.shape)[chosen]

    return change


def nan_at_ends(operands: Operands, rng: np.random.Generator) -> None:
    """Have NaN where k begins in some rows of A, and where it ends in some columns of B."""
    operands.a[::2, 0] = np.nan
    operands.b[-1, ::2] = np.nan


def negate(operands: Operands, rng: np.random.Generator) -> None:
    """Have nothing but negative numbers in A."""
    operands.a[...] = -np.abs(operands.a)


def identity(name: str, semiring: Semiring) -> OperandChange:
    """Return the change that makes an identity matrix of the operand called `name`."""

    def change(operands: Operands, rng: np.random.Generator) -> None:
        x = getattr(operands, name)
        x[...] = semiring.zero(x.dtype)
        np.fill_diagonal(x, semiring.one(x.dtype))

    return change
