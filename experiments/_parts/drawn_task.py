"""A task whose operands are drawn where they are used, and whose result stays there: no large matrix is on the host.

Proven are the elements where some rows and columns cross, spread over all of D. The host draws the same rows of A and
columns of B, and compares with the definition. Every element of D depends on a whole row and a whole column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from experiments._parts import positional
from harness.errors import VerificationError
from harness.operands import Operands
from harness.problem import Problem
from harness.proof.verify import verify

LINES = 64  # rows, and columns, that cross


class Crossing(NamedTuple):
    """Elements of D that one device holds.

    Parameters
    ----------
    rows, columns : arrays of int
        Which of those that were asked for.
    elements : (rows, columns) array
    """

    rows: np.ndarray
    columns: np.ndarray
    elements: np.ndarray


class Devices(Protocol):
    """Devices, or ranks, that hold a product."""

    def draw(self, seed: int) -> None:
        """Fill A and B as `positional.values` has it."""

    def poison(self) -> None:
        """Overwrite D with NaN."""

    def multiply(self) -> None:
        """Compute once, and return when it is done."""

    def crossings(self, rows: np.ndarray, columns: np.ndarray) -> list[Crossing]:
        """Return the elements of D where `rows` and `columns` cross, each at least once."""
        ...


class DrawnTask:
    """A product of drawn operands of floats, timed by the host and proven.

    Parameters
    ----------
    problem : Problem
        Without alpha, beta and C.
    devices : Devices
    seed : int
    """

    starts_processes = True

    def __init__(self, problem: Problem, devices: Devices, seed: int) -> None:
        self.problem, self.devices, self._seed, self._is_second = problem, devices, seed, 0
        devices.draw(seed)

    def run(self) -> None:
        """Multiply once."""
        self.devices.multiply()

    def wait(self) -> None:
        """Return: a product has been waited for."""

    def spoil(self) -> None:
        """Overwrite the result."""
        self.devices.poison()

    def turn(self) -> None:
        """Draw other operands, or the first ones again."""
        self._is_second = 1 - self._is_second
        self.devices.draw(self._drawn_seed)

    def verify(self) -> str:
        """Compare elements of the last result with the definition."""
        problem, seed = self.problem, self._drawn_seed
        rows, columns = (spread(size, seed) for size in (problem.m, problem.n))
        part = dataclasses.replace(problem, m=rows.size, n=columns.size)
        out = np.full((rows.size, columns.size), np.nan, problem.dtype)
        for found in self.devices.crossings(rows, columns):
            out[np.ix_(np.searchsorted(rows, found.rows), np.searchsorted(columns, found.columns))] = found.elements
        if np.isnan(out).any():
            raise VerificationError(f"{problem}: NaN is left in the result, or elements of it were never computed")
        inner = np.arange(problem.k)
        a = positional.block(seed, "a", rows, inner, problem.input_dtype)
        b = positional.block(seed, "b", inner, columns, problem.input_dtype)
        compared = verify(part, Operands(a, b, None, out), out, seed=seed)
        lines = f"{rows.size} rows and {columns.size} columns of {problem.m}x{problem.n}"
        return f"where {lines} cross: {compared}"

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        return {**self.problem.work, "drawn": "by position, uniform in [-1, 1)"}

    @property
    def _drawn_seed(self) -> int:
        return self._seed + self._is_second


def spread(size: int, seed: int) -> np.ndarray:
    """Return at most `LINES` positions below `size`, in order: the first, the last, one of each equal part."""
    if size <= LINES:
        return np.arange(size)
    rng, edges = np.random.default_rng(seed), np.linspace(1, size - 1, LINES - 1).astype(int)
    return np.unique([0, *rng.integers(edges[:-1], edges[1:]), size - 1])


def within(positions: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Return those of `positions` that lie from `begin` to `end`, the end excluded."""
    return positions[(positions >= begin) & (positions < end)]
