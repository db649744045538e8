"""Mixed products by every method of this processor, compared with exact arithmetic on wide numbers.

``python -m tests._support.mixed_products [best]``: computes products between pages that may not be touched, by all
methods or the best of each dtype alone, and prints how many were right by which methods. A process of its own runs it,
with the processor's features as they are or with fewer.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from backends.cpu._mixed import product as mixed_product
from backends.cpu._mixed.methods import Method, usable_methods
from backends.cpu._vector.unit import VectorUnit
from backends.cpu.mixed import Mixed
from harness import Operands, Problem, machine
from harness.dtypes import MIXED, mixed_dtypes
from harness.operands import poison
from harness.plan import Plan
from harness.proof import fences
from harness.proof.contract import check_kernel
from harness.semiring import SEMIRINGS
from harness.tuning.amx import AMX_TILE
from tests._support.simd_products import LAYOUTS, lay_out

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
    is_float, widest = problem.dtype.kind in "fc", np.clongdouble if problem.is_complex else np.longdouble
    wide = np.dtype((np.float64 if problem.dtype.itemsize == 4 else widest) if is_float else np.int64)
    a, b = operands.a.astype(wide), operands.b.astype(wide)
    c = operands.c.astype(wide) if problem.accumulate else wide.type(0)
    assert result.dtype == problem.dtype
    if not is_float:
        np.testing.assert_array_equal(result, (a @ b + c).astype(np.int32))  # which wraps
        return
    unit, least = float(np.finfo(problem.dtype).eps) / 2, float(np.finfo(problem.dtype).smallest_normal)
    terms = (problem.k + 1) * (2 if problem.is_complex else 1)
    allowed = 1.01 * unit * terms * (np.abs(a) @ np.abs(b) + np.abs(c)) + terms * least
    error = np.abs(result.astype(wide) - (a @ b + c))
    assert (error <= allowed).all(), f"{problem}: {error.max()} at {np.argwhere(~(error <= allowed))[:3]}"


def assert_contract(way: Way, **how: bool) -> None:
    """Check that the contract of backends holds of a way."""
    findings = list(check_kernel(Forced(way), SEMIRINGS["plus_times"], way.wide, way.narrow, **how))
    failed = [f"{finding.what}: {finding.detail}" for finding in findings if finding.status != "ok"]
    assert findings
    assert not failed, "\n".join(failed)


def check_strides(way: Way, sizes: tuple[int, int, int], every: int) -> None:
    """Compute products of operands of any strides, one of so many; nothing beside the output may change."""
    inputs, outputs = [*LAYOUTS, "one row", "one column"], itertools.cycle(LAYOUTS)
    for number, (of_a, of_b) in enumerate(itertools.product(inputs, inputs)):
        if number % every:
            continue
        problem = way.problem(*sizes, accumulate=number % 2 == 1)
        drawn = Operands.generate(problem, number)
        a, b = lay_out(drawn.a, of_a), lay_out(drawn.b, of_b)
        base, out = LAYOUTS[next(outputs)](drawn.out.shape, problem.dtype)
        poison(base)
        outside, before = out.copy(), (base.tobytes(), a.tobytes(), b.tobytes())
        result = compute(way, Operands(a, b, drawn.c, out), problem)
        assert_right(problem, Operands(np.array(a), np.array(b), drawn.c, out), result)
        out[...] = outside
        assert (base.tobytes(), a.tobytes(), b.tobytes()) == before


def check_columns(way: Way, problem: Problem, **how: int) -> None:
    """Compute a product of operands and output by rows and by columns: all have the same sums, and none is copied."""
    drawn, results = Operands.generate(problem, 1), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed_product, "aligned_empty", lambda *_: pytest.fail("room for a copy"))
        for orders in itertools.product("CF", repeat=3):
            a, b, out = (np.array(x, order=o) for x, o in zip((drawn.a, drawn.b, drawn.out), orders, strict=True))
            results.append(compute(way, Operands(a, b, drawn.c, out), problem, **how))
            assert_right(problem, drawn, results[-1])
    assert len({np.ascontiguousarray(result).tobytes() for result in results}) == 1


def check_threads(way: Way, problem: Problem) -> None:
    """Compute a product by several numbers of threads, into rows and into columns."""
    for threads, order in itertools.product((2, 3, 4), "CF"):
        operands = Operands.generate(problem, threads)
        operands.out = np.asarray(operands.out, order=order)
        assert_right(problem, operands, compute(way, operands, problem, threads=threads))


class MarkedScratch:
    """Stands for `scratch`: memory of exactly the size that was asked for, with a mark after it."""

    def __init__(self) -> None:
        self._marks: list[np.ndarray] = []

    def __call__(self, size_bytes: int) -> Any:
        memory = np.full(size_bytes + 4096 + 64, 0xA5, np.uint8)
        begin = -memory.ctypes.data % 64
        self._marks.append(memory[begin + size_bytes :])
        return SimpleNamespace(address=memory.ctypes.data + begin, memory=memory)

    def is_whole(self) -> bool:
        """Whether something was asked for, and no mark is written over."""
        return bool(self._marks) and all((mark == 0xA5).all() for mark in self._marks)


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
