"""Backends that cheat: each is an honest product with one trick. `harness judge tests/red_team/cheats.py` judges them.

`CLUES` has what must be said of each. `Honest` is the product that all of them would be without their trick.
"""

from __future__ import annotations

import sys
import threading
import time

import numpy as np

from harness.interface import Backend, HostExecution
from harness.plan import Plan
from harness.timing import clock

SLOW_S = 0.03  # as if the product took so long


class Execution(HostExecution):
    """One product of a backend."""

    def __init__(self, backend, operands):
        super().__init__(operands)
        self.backend, self.calls, self.kept = backend, 0, None
        backend.begin(self)

    def run(self):
        self.calls += 1
        self.backend.compute(self, self.operands)


class Honest(Backend):
    """Computes the product by the definition that NumPy has, and no more."""

    name, step, idea, source = "out-good", 1, "a test", "a test"

    def declines(self, problem):
        is_plain = problem.semiring.is_ordinary and problem.dtype == np.float64
        return None if is_plain and problem.alpha is None and not problem.accumulate else "plain sums of float64 only"

    def plan(self, problem, machine):
        return Plan(problem, machine.threads)

    def prepare(self, plan, operands):
        return Execution(self, operands)

    def begin(self, execution):
        """Do what is not timed."""

    def compute(self, execution, x):
        with np.errstate(all="ignore"):
            np.matmul(x.a, x.b, out=x.out)


class Later(Honest):
    """Returns at once; a thread that nobody waits for computes a little later."""

    name, step = "out-later", 2

    def compute(self, execution, x):
        def later():
            time.sleep(SLOW_S)
            np.matmul(x.a, x.b, out=x.out)

        threading.Thread(target=later).start()


class Lazy(Honest):
    """Computes once, and then finds the result still there."""

    name, step = "out-lazy", 3

    def compute(self, execution, x):
        if execution.calls == 1:
            super().compute(execution, x)


class Addresses(Honest):
    """Keeps results by the addresses of the operands, and copies them from then on."""

    name, step = "out-addresses", 4

    def compute(self, execution, x):
        kept = execution.kept = execution.kept or {}
        place = (x.a.ctypes.data, x.b.ctypes.data)
        if place not in kept:
            super().compute(execution, x)
            kept[place] = x.out.copy()
        x.out[...] = kept[place]


class Digests(Honest):
    """Keeps results by all values of the operands."""

    name, step = "out-digests", 5

    def compute(self, execution, x):
        kept = execution.kept = execution.kept or {}
        digest = hash(x.a.tobytes() + x.b.tobytes())
        if digest not in kept:
            time.sleep(SLOW_S)
            super().compute(execution, x)
            kept[digest] = x.out.copy()
        x.out[...] = kept[digest]


class StopsTheClock(Honest):
    """Replaces the clock and the function that times by such as stand still."""

    name, step = "out-stops-the-clock", 6

    def compute(self, execution, x):
        super().compute(execution, x)
        time.perf_counter_ns = lambda: 0
        clock.CpuClock.sample = lambda *_: clock.Sample(1.0, {})


class Narrow(Honest):
    """Computes in half the precision that it was asked for."""

    name, step = "out-narrow", 7

    def compute(self, execution, x):
        with np.errstate(all="ignore"):
            x.out[...] = x.a.astype(np.float32) @ x.b.astype(np.float32)


class Corners(Honest):
    """Is right in the corners alone."""

    name, step = "out-corners", 8

    def compute(self, execution, x):
        super().compute(execution, x)
        x.out[2:-2, 2:-2] = 1.0


class OnlyWhenProven(Honest):
    """Is right in the first call, which is proven, and leaves out the last row when it is timed."""

    name, step = "out-only-when-proven", 9

    def compute(self, execution, x):
        super().compute(execution, x)
        if execution.calls > 1:
            x.out[-1:] = 0


class OnlyWhenTimed(Honest):
    """Is wrong in the first call, and right from then on."""

    name, step = "out-only-when-timed", 10

    def compute(self, execution, x):
        super().compute(execution, x)
        if execution.calls == 1:
            x.out[-1:] = 0


class Scribbles(Honest):
    """Uses an operand as its memory, so little that the product stays right."""

    name, step = "out-scribbles", 11

    def compute(self, execution, x):
        super().compute(execution, x)
        x.a[:1, :1] = np.nextafter(x.a[:1, :1], np.inf)


class Peeks(Honest):
    """Reads the output first, and does nothing if the result still stands there."""

    name, step = "out-peeks", 12

    def compute(self, execution, x):
        if x.out.size and x.out[0, 0] != x.a[0] @ x.b[:, 0]:
            time.sleep(SLOW_S)
            super().compute(execution, x)
            x.out[0, 0] = x.a[0] @ x.b[:, 0]


class Asks(Honest):
    """Looks for the expected result in the frames that called it."""

    name, step = "out-asks", 13

    def compute(self, execution, x):
        frame = sys._getframe()
        while frame:
            for value in list(frame.f_locals.values()):
                if isinstance(value, np.ndarray) and value.shape == x.out.shape and value is not x.out:
                    x.out[...] = value
                    return
            frame = frame.f_back


class Nothing(Honest):
    """Writes NaN everywhere, which no comparison by < finds."""

    name, step = "out-nan", 14

    def compute(self, execution, x):
        x.out[...] = np.nan


class Early(Honest):
    """Packs B when it is prepared, which is not timed."""

    name, step = "out-early", 15

    def begin(self, execution):
        execution.kept = execution.operands.b.copy()

    def compute(self, execution, x):
        with np.errstate(all="ignore"):
            np.matmul(x.a, execution.kept, out=x.out)


CLUES = {
    "out-later": "was not written",
    "out-lazy": "was not written",
    "out-addresses": "it is the product of A and B as they were before",
    "out-digests": "it keeps results",
    "out-stops-the-clock": "it replaced harness.timing.clock.CpuClock.sample, time.perf_counter_ns",
    "out-narrow": "the precision of float32",
    "out-corners": "element [2, 2] is wrong",
    "out-only-when-proven": "in the last row alone",
    "out-only-when-timed": "in the last row alone",
    "out-scribbles": "the backend changed its operand a",
    "out-peeks": "it keeps results",
    "out-asks": "was not written",
    "out-nan": "was not written",
    "out-early": "it is the product of B as they were before",
}
