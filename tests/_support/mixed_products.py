"""Mixed products by every method of this processor, compared with exact arithmetic on wide numbers.

``python -m tests._support.mixed_products [best]``: computes products between pages that may not be touched, by all
methods or the best of each dtype alone, and prints how many were right by which methods. A process of its own runs it,
with the processor's features as they are or with fewer.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from typing import Any, NamedTuple

import numpy as np

from backends.cpu._mixed.methods import Method, usable_methods
from backends.cpu._vector.unit import VectorUnit
from backends.cpu.mixed import Mixed
from harness import Operands, Problem, machine
from harness.dtypes import MIXED, mixed_dtypes
from harness.plan import Plan
from harness.proof import fences
from harness.tuning.amx import AMX_TILE
from tests._support.simd_products import lay_out

HERE = machine.detect()
# Dtypes that are packed in words; float32 is copied as float64.
NARROW = {narrow.name: narrow for narrow, _ in mixed_dtypes() if narrow.itemsize < 4}


class Way(NamedTuple):
    """One method for one dtype on one vector unit."""

    method: Method
    unit: VectorUnit

    @property
    def narrow(self) -> np.dtype[Any]:
        """The dtype of A and B."""
        return NARROW[self.method.operands]

    @property
    def wide(self) -> np.dtype[Any]:
        """The dtype of the sums."""
        return np.dtype(MIXED[self.narrow.name])

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return self.unit.size_bytes // 4

    @property
    def mr(self) -> int:
        """Rows of the register tile."""
        return AMX_TILE if self.method.is_tiled else self.unit.mr

    @property
    def nr(self) -> int:
        """Columns of the register tile."""
        return AMX_TILE if self.method.is_tiled else self.unit.nv * self.lanes

    def problem(self, m: int, n: int, k: int, **options: Any) -> Problem:
        """Return a product of these dtypes."""
        return Problem(m, n, k, "plus_times", self.wide, operand_dtype=self.narrow, **options)

    def __str__(self) -> str:
        return f"{self.narrow.name}-{self.method.name}-{self.unit.name}"


WAYS = [Way(*found) for name in NARROW for found in usable_methods(name)]


class Forced(Mixed):
    """cpu-mixed with one way for every plan; blocks of two tiles, unless `is_small` is False."""

    def __init__(self, way: Way, *, is_small: bool = False) -> None:
        self.way, self.is_small = way, is_small

    def plan(self, problem: Problem, machine: machine.Machine) -> Plan:
        """Return the plan of cpu-mixed, with the way forced."""
        mr, nr = self.way.mr, self.way.nr
        plan = super().plan(problem, machine)
        blocks = {"mc": 2 * mr, "nc": 2 * nr, "kc": 36} if self.is_small else {"mc": 64 * mr, "nc": 32 * nr}
        return plan.override({**blocks, "mr": mr, "nr": nr, "method": self.way.method.name, "unit": self.way.unit.name})


def compute(way: Way, operands: Operands, problem: Problem, threads: int = 1, **parameters: Any) -> np.ndarray:
    """Return a copy of the product in small blocks, computed into `operands.out`."""
    backend = Forced(way, is_small=True)
    plan = dataclasses.replace(backend.plan(problem, HERE).override(parameters), threads=threads)
    execution = backend.prepare(plan, operands)
    execution.run()
    return execution.result().copy()


def assert_right(problem: Problem, operands: Operands, result: np.ndarray) -> None:
    """Compare a product of finite operands, without alpha and beta, with one in exact or much wider arithmetic."""
    is_float = problem.dtype.kind == "f"
    wide = np.dtype((np.float64 if problem.dtype.itemsize == 4 else np.longdouble) if is_float else np.int64)
    a, b = operands.a.astype(wide), operands.b.astype(wide)
    c = operands.c.astype(wide) if problem.accumulate else wide.type(0)
    assert result.dtype == problem.dtype
    if not is_float:
        np.testing.assert_array_equal(result, (a @ b + c).astype(np.int32))  # which wraps
        return
    unit, least = float(np.finfo(problem.dtype).eps) / 2, float(np.finfo(problem.dtype).smallest_normal)
    allowed = 1.01 * unit * (problem.k + 1) * (np.abs(a) @ np.abs(b) + np.abs(c)) + (problem.k + 1) * least
    error = np.abs(result.astype(wide) - (a @ b + c))
    assert (error <= allowed).all(), f"{problem}: {error.max()} at {np.argwhere(~(error <= allowed))[:3]}"


def main(which: str) -> None:
    """Compute products between fences, by all ways or by the "best" of each dtype."""
    numbers = itertools.count()
    ways = [next(way for way in WAYS if way.narrow == dtype) for dtype in NARROW.values()] if which == "best" else WAYS
    for way, side in itertools.product(ways, fences.SIDES):
        for m, n, k in itertools.product((1, way.mr + 1), (1, way.lanes - 1, way.nr + 1), (1, 3, 37, 66)):
            number = next(numbers)
            problem = way.problem(m, n, k)
            drawn = Operands.generate(problem, number)
            by_columns, tight = ("", "", "abd", "a")[number % 4], "" if number % 3 else "tight "
            orders = (tight + ("columns" if name in by_columns else "rows") for name in "abd")
            a, b, out = (
                fences.fenced(lay_out(x, order), side)
                for x, order in zip((drawn.a, drawn.b, drawn.out), orders, strict=True)
            )
            with fences.watched():
                result = compute(way, Operands(a, b, None, out), problem)
            assert_right(problem, drawn, result)
    print(next(numbers), *ways)  # noqa: T201 (for the test that started this)


if __name__ == "__main__":
    main("".join(sys.argv[1:]))
