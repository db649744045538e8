"""The local product of a rank, whose arrays are the same from panel to panel and hold other values each time."""

from __future__ import annotations

import numpy as np

from harness.distributed import local
from harness.interface import HostExecution
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import SEMIRINGS


class CopiedExecution(HostExecution):
    """A product of copies of the operands, as a GPU computes it for arrays on the host."""

    def __init__(self, operands: Operands) -> None:
        super().__init__(operands)
        self.upload()

    def upload(self) -> None:
        given = self.operands
        self._copies = given.a.copy(), given.b.copy(), None if given.c is None else given.c.copy()

    def run(self) -> None:
        a, b, c = self._copies
        self.operands.out[...] = a @ b + (0 if c is None else c)


class OnCopies:
    """A backend that keeps copies of the operands."""

    name, calls_libraries, accumulates_in_place = "copied", False, False

    def plan(self, problem, machine):
        return Plan(problem, machine.threads)

    def prepare(self, plan, operands):
        return CopiedExecution(operands)


def test_a_backend_that_keeps_copies_reads_each_panel_anew(monkeypatch, rng):
    monkeypatch.setattr(local, "choose", lambda *_: OnCopies())
    problem = Problem(4, 3, 6, SEMIRINGS["plus_times"], np.dtype("int64"))
    multiply = local.host_local(problem, "copied", 1)
    a, b = (rng.integers(-9, 9, shape) for shape in ((4, 6), (6, 3)))
    a_panel, b_panel, sums = np.empty((4, 2), int), np.empty((2, 3), int), [np.empty((4, 3), int) for _ in range(2)]
    total = None
    for step in range(3):
        part = slice(2 * step, 2 * step + 2)
        a_panel[...], b_panel[...] = a[:, part], b[part]
        multiply.ready(a_panel, b_panel, total, None, None, sums[step % 2])()
        total = sums[step % 2]
    np.testing.assert_array_equal(total, a @ b)
    multiply.ready(a_panel, b_panel, total, None, None, sums[1])()  # the arrays of the second panel
    np.testing.assert_array_equal(sums[1], a @ b + a_panel @ b_panel)
