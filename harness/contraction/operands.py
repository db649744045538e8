"""Simplify one operand by itself: take diagonals, drop axes of size 1, and sum over labels that it alone has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.api.arrays import Arrays
from harness.contraction.lowering import Labelled, Multiply, multiply, runs
from harness.contraction.subscripts import Labels
from harness.semiring import BINARY_OPS, Semiring


def without_repeats(x: Any, labels: Labels) -> Labelled:
    """Return the diagonal view in which every label of `x` has one axis."""
    operand = Labelled(x, labels)
    for label in dict.fromkeys(labels):
        while operand.labels.count(label) > 1:
            first = operand.labels.index(label)
            second = operand.labels.index(label, first + 1)
            rest = [other for axis, other in enumerate(operand.labels) if axis not in (first, second)]
            operand = Labelled(operand.array.diagonal(0, first, second), (*rest, label))
    return operand


def without_ones(x: Labelled) -> Labelled:
    """Return the view without axes of size 1: those say nothing of their label, nor does a sum over them."""
    labels = tuple(label for label, size in zip(x.labels, x.array.shape, strict=True) if size != 1)
    return Labelled(x.array.squeeze(), labels)


def repeated_along(x: Labelled, labels: Labels, sizes: dict[str, int], arrays: Arrays) -> Labelled:
    """Return the view with more axes, along which its elements are repeated by a stride of zero."""
    shape = (*(sizes[label] for label in labels), *x.array.shape)
    return Labelled(arrays.module.broadcast_to(x.array, shape), (*labels, *x.labels)) if labels else x


class Sums:
    """Sums by (+) over labels of one operand: products by the one of the semiring.

    Over a semiring without a one it is the semiring of the same (+) with ``first`` as (x).

    Parameters
    ----------
    semiring : Semiring
    dtype : numpy dtype
        Of the operands.
    arrays : Arrays
        The kind of the operands.
    call : callable
        ``call(semiring)`` returns what computes products, as `multiply` wants it.
    """

    def __init__(
        self, semiring: Semiring, dtype: np.dtype[Any], arrays: Arrays, call: Callable[[Semiring], Multiply]
    ) -> None:
        one = semiring.one(dtype)
        self._value = semiring.zero(dtype) if one is None else one
        self._dtype, self._arrays, self._call = (
            dtype,
            arrays,
            call(semiring if one is not None else _with_first(semiring)),
        )

    def __call__(self, x: Labelled, labels: Labels, out: Labelled | None = None) -> Labelled:
        """Return the sums over `labels`; a run of axes after the other, so that nothing is copied."""
        *groups, last = runs(x.layout, labels)
        for group in groups:
            x = self._sum(x, group, None)
        return self._sum(x, last, out)

    def _sum(self, x: Labelled, group: list[str], out: Labelled | None) -> Labelled:
        shape = tuple(x.array.shape[x.labels.index(label)] for label in group)
        ones = Labelled(self._arrays.module.full(shape, self._value, self._dtype), tuple(group))
        return multiply(x, ones, tuple(label for label in x.labels if label not in group), self._call, out)


@functools.lru_cache(maxsize=64)  # kernels are compiled once for each object
def _with_first(semiring: Semiring) -> Semiring:
    """Return the semiring of the same (+) whose (x) is its first operand."""
    return Semiring(semiring.add, BINARY_OPS["first"])
