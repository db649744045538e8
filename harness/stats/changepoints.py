"""Change points: where a series of ratios changes its level, and where it is only noise. Pure.

A change is believed if the order of the points matters. The largest difference between the points before and after a
cut, or inside and outside of two, must rarely be as large after shuffling. Shuffling assumes nothing
about size and shape of the noise, so `ALPHA` bounds how often noise is called a change, however many outliers it has.
The test needs points: 8 are the fewest that can show a step in their middle. A single new point never can; for that,
`harness.compare.revisions` measures both states at once.

Source: A. B. Olshen et al., "Circular binary segmentation" (2004): bisection by one cut or two, with permutation tests.
A. N. Pettitt (1979): ranks in place of values. Weights by the width of intervals are asv's idea.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

ALPHA = 0.05
FEWEST_POINTS = 8
SHUFFLES = 499
# Shuffles where the p-value is small or close to its limit. Of 8 points there are 40320 orders: all of them are tried.
MORE_SHUFFLES = 20159
_ELEMENTS, _MOST_ELEMENTS = 250_000, 10_000_000  # at once, and in all
# Parts of `ALPHA` for one cut and for two cuts: just enough for a step between 4 points and 4 to show.
_SHARES = (0.6, 0.2)
_TOLERANCE = 1e-9
_Array = np.ndarray[Any, np.dtype[Any]]


class ChangePoint(NamedTuple):
    """The most marked change of a series."""

    cuts: tuple[int, ...]  # first point of each new level: one, or two if another change ends the first
    p_value: float  # how often shuffled points show as marked a change


class LevelChange(NamedTuple):
    """A change of level."""

    start: int  # its first point
    before: float  # median of the level before
    after: float  # median of its own level
    p_value: float


def largest_change(
    values: Sequence[float], widths: Sequence[float] | None = None, *, seed: int = 1
) -> ChangePoint | None:
    """Return the most marked change, believable or not; None of fewer than `FEWEST_POINTS` points.

    `widths` are those of the values' intervals: an imprecise value counts less. `seed` is that of the shuffles.
    """
    count = len(values)
    if count < FEWEST_POINTS:
        return None
    ranks, weights = _ranks(np.asarray(values, float)), _weights(widths, count)
    changes = []
    for cuts, share in zip((1, 2), _SHARES, strict=True):
        begins, ends = _spans(count, cuts)
        contrast = _contrasts(ranks[None], weights[None], begins, ends)[0]
        best = int(contrast.argmax())
        p_value = _p_value(ranks, weights, cuts, float(contrast[best]), SHUFFLES, seed)
        if p_value <= 2 * share * ALPHA:
            p_value = _p_value(ranks, weights, cuts, float(contrast[best]), MORE_SHUFFLES, seed)
        bounds = tuple(sorted({int(begins[best]), int(ends[best])} - {0}))
        changes.append(ChangePoint(bounds, min(1.0, p_value / share)))
    return min(changes, key=lambda change: change.p_value)


def steps(
    values: Sequence[float], widths: Sequence[float] | None = None, *, minimum: float = 0.0, alpha: float = ALPHA
) -> list[LevelChange]:
    """Return the steps of a series, in order: the most marked change, and those between and beside its cuts.

    Parameters
    ----------
    values, widths : sequence of float
        As for `largest_change`.
    minimum : float
        A smaller difference of levels is no step.
    alpha : float
        The probability of calling noise a step; of what lies beside a step, half of it.
    """
    bounds = sorted(_bounds(values, widths, 0, len(values), alpha))
    if not bounds:
        return []
    edges = [0, *(start for start, _ in bounds), len(values)]
    levels = [float(np.median(values[low:high])) for low, high in itertools.pairwise(edges)]
    all_steps = [
        LevelChange(start, before, after, p_value)
        for (start, p_value), (before, after) in zip(bounds, itertools.pairwise(levels), strict=True)
    ]
    return [step for step in all_steps if abs(step.after - step.before) >= minimum]


def _bounds(
    values: Sequence[float], widths: Sequence[float] | None, low: int, high: int, alpha: float
) -> Iterator[tuple[int, float]]:
    """Yield where levels begin between `low` and `high`, with p-values, by bisection."""
    change = largest_change(values[low:high], widths[low:high] if widths is not None else None)
    if change is not None and change.p_value <= alpha:
        cuts = [low + cut for cut in change.cuts]
        for begin, end in itertools.pairwise([low, *cuts, high]):
            yield from _bounds(values, widths, begin, end, alpha / 2)
        yield from ((cut, change.p_value) for cut in cuts)


def _ranks(y: _Array) -> _Array:
    """Return ranks from 0; equal values have equal, middle ranks."""
    ordered = np.sort(y)
    below, up_to = np.searchsorted(ordered, y, "left"), np.searchsorted(ordered, y, "right")
    return np.asarray((below + up_to - 1) / 2)


def _weights(widths: Sequence[float] | None, count: int) -> _Array:
    """Return a weight for each point: 1 for an interval of median width, at most 2, towards 0 for a wide one."""
    typical = 0.0 if widths is None else float(np.median(widths))
    return np.ones(count) if typical <= 0 else 2 / (1 + (np.asarray(widths, float) / typical) ** 2)


@functools.cache
def _spans(count: int, cuts: int) -> tuple[_Array, _Array]:
    """Return where each span begins and ends that one cut (what lies before it) or two cuts set apart."""
    if cuts == 1:
        return np.zeros(count - 1, int), np.arange(1, count)
    begins, ends = np.triu_indices(count, 1)
    return begins[begins > 0], ends[begins > 0]


def _contrasts(ranks: _Array, weights: _Array, begins: _Array, ends: _Array) -> _Array:
    """Return, by row and span, the difference of weighted mean ranks inside and outside, in standard errors."""
    total = weights.sum(axis=1, keepdims=True)
    centred = weights * (ranks - (weights * ranks).sum(axis=1, keepdims=True) / total)
    sums, inside = (np.pad(np.cumsum(rows, axis=1), ((0, 0), (1, 0))) for rows in (centred, weights))
    share = inside[:, ends] - inside[:, begins]
    return np.asarray(np.abs(sums[:, ends] - sums[:, begins]) / np.sqrt(share * (total - share) / total))


def _p_value(ranks: _Array, weights: _Array, cuts: int, observed: float, shuffles: int, seed: int) -> float:
    """Return how often shuffled points show as large a contrast, the observed order counted in."""
    count, (begins, ends) = len(ranks), _spans(len(ranks), cuts)

    def reached(orders: _Array) -> int:
        largest = _contrasts(ranks[orders], weights[orders], begins, ends).max(axis=1)
        return int((largest >= observed - _TOLERANCE).sum())

    if math.factorial(count) <= 2 * shuffles + 2:
        orders = _all_orders(count)
        return reached(orders) / len(orders)
    rng, block = np.random.default_rng(seed), max(1, _ELEMENTS // len(begins))
    shuffles = min(shuffles, max(SHUFFLES, _MOST_ELEMENTS // len(begins)))
    as_marked = 0
    for done in range(0, shuffles, block):
        as_marked += reached(rng.permuted(np.tile(np.arange(count), (min(block, shuffles - done), 1)), axis=1))
    return (1 + as_marked) / (1 + shuffles)


@functools.cache
def _all_orders(count: int) -> _Array:
    """Return every order of so few points, a row each."""
    return np.array(list(itertools.permutations(range(count))))
