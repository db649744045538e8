"""Tasks with planted faults, for tests of the worker and the runner: ``"tests._support.planted_tasks:crash"``."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import Declined, PlanError, VerificationError
from harness.timing.clock import Action, CpuClock, Sample

# Time for which a planted thread goes on after a call [s], MKL's too.
SPINNING_S = 0.2


class Planted:
    """Fills an array with ones; `fault`, if any, happens in call number `after`."""

    def __init__(self, fault: Callable[[Planted], None] | None = None, after: int = 1) -> None:
        self.out = np.zeros(4)
        self._fault, self._after, self._calls = fault, after, 0

    def run(self) -> None:
        self._calls += 1
        if self._fault and self._calls >= self._after:
            self._fault(self)
        else:
            self.out[...] = 1.0

    def wait(self) -> None:
        pass

    def spoil(self) -> None:
        self.out[...] = np.nan

    def verify(self) -> str:
        if not np.all(self.out == 1.0):
            raise VerificationError("planted: the result is wrong", expected="1.0", got=str(self.out[0]))
        return "all 4 elements, exactly"

    def facts(self) -> dict[str, object]:
        return {"operations": np.int64(8), "plan": {"pid": os.getpid()}}


def good(threads: int, **arguments: object) -> Planted:
    return Planted()


def also(threads: int, **arguments: object) -> Planted:
    return Planted()


_made: list[Planted] = []


def once(threads: int, **arguments: object) -> Planted:
    """Refuse to be made a second time in the same process."""
    if _made:
        raise PlanError("planted: this process is not fresh")
    _made.append(Planted())
    return _made[0]


def make_raise(threads: int, **arguments: object) -> Planted:
    raise ZeroDivisionError("planted in the factory")


def make_refuse(threads: int, **arguments: object) -> Planted:
    raise PlanError("planted: no such block size", expected="8", got="7")


def decline(threads: int, status: str = "declined", **arguments: object) -> Planted:
    raise Declined(status, "planted: out of scope")


def make_hang(threads: int, **arguments: object) -> Planted:
    time.sleep(600)
    return Planted()


def crash(threads: int, after: int = 1, **arguments: object) -> Planted:
    return Planted(lambda _: os.kill(os.getpid(), signal.SIGSEGV), after)


def leave(threads: int, after: int = 1, **arguments: object) -> Planted:
    def fault(_: Planted) -> None:
        print("planted last words")  # noqa: T201
        os._exit(3)

    return Planted(fault, after)


def hang(threads: int, after: int = 1, **arguments: object) -> Planted:
    return Planted(lambda _: time.sleep(600), after)


def talk(threads: int, **arguments: object) -> Planted:
    def fault(task: Planted) -> None:
        sys.stdout.write("planted chatter\n" * 10_000)
        os.write(2, b"planted noise\n" * 10_000)
        task.out[...] = 1.0

    return Planted(fault)


def wrong(threads: int, after: int = 1, **arguments: object) -> Planted:
    def fault(task: Planted) -> None:
        task.out[...] = [1.0, 1.0, 1.0, 2.0]

    return Planted(fault, after)


def write_nothing(threads: int, after: int = 1, **arguments: object) -> Planted:
    return Planted(lambda _: None, after)


def come_back_twice(threads: int, **arguments: object) -> Planted:
    """Fork in the call: parent and child both go on, first the child to its end."""

    def fault(task: Planted) -> None:
        task.out[...] = 1.0
        child = os.fork()
        if child:
            os.waitpid(child, 0)

    return Planted(fault)


class Inquiry(Planted):
    """Reports the limits that it lives under."""

    def facts(self) -> dict[str, object]:
        names = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_DATA")
        limits = {name: resource.getrlimit(getattr(resource, name)) for name in names}
        return {**limits, "first to go": Path("/proc/self/oom_score_adj").read_text().strip()}


def inquire(threads: int, **arguments: object) -> Planted:
    return Inquiry()


class Spinning(Planted):
    """Leaves a thread that spins on for a while after each call, as those of a library do that wait for the next."""

    def run(self) -> None:
        super().run()
        threading.Thread(target=self._spin, args=(time.monotonic() + SPINNING_S,), daemon=True).start()

    @staticmethod
    def _spin(end: float) -> None:
        """Compute without the interpreter's lock until a time of the clock, however loaded the machine is."""
        while time.monotonic() < end:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10_000)


def spinning(threads: int, **arguments: object) -> Spinning:
    return Spinning()


class OfAStage(Planted):
    """Has a clock of one stage: what the host does around it is none of its time, and takes far longer."""

    def run(self) -> None:
        super().run()
        time.sleep(0.02)

    def clock(self) -> Any:
        return OfAStage.StageClock()

    def renew(self) -> None:
        """Have the same operands."""

    class StageClock(CpuClock):
        def sample(self, run: Action, wait: Action, loops: int) -> Sample:
            return super().sample(run, wait, loops)._replace(ns=1000.0)


def of_a_stage(threads: int, **arguments: object) -> OfAStage:
    return OfAStage()


class Cold(Planted):
    """Takes longer on operands that were never there, from then on if it `stays`, and says how many bytes it moves."""

    def __init__(self, seconds: float, moved: int, *, stays: bool) -> None:
        super().__init__()
        self._seconds, self._moved, self._stays, self._is_new = seconds, moved, stays, False

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "bytes_moved": self._moved}

    def renew(self) -> None:
        """Have operands that lie in no cache."""
        self._is_new = True

    def run(self) -> None:
        super().run()
        if self._is_new:
            time.sleep(self._seconds)
        self._is_new &= self._stays


def cold(threads: int, seconds: float, moved: int, *, stays: bool = False, **arguments: object) -> Cold:
    return Cold(seconds, moved, stays=stays)
