"""What finds each cheat, and how to switch it off: ``python -m tests.red_team.detectors`` says who then gets through.

It prints as JSON, for each detector and each of its cheats, the reason that a worker gives with the detector off.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import sys
import time
from unittest import mock

import numpy as np
import pytest

from harness.problem import Problem
from harness.proof import verify
from harness.run import side_effects, task, worker
from tests._support.planted_registry import entry_of, plant_entries
from tests.red_team import cheats


def _nothing(*_):
    """Stand in for a detector."""


def _run_only(self):
    self._task.run()
    return {"verified": "", "elapsed_ns": 1.0}


def _run_beside_the_answer(self):
    answer = self.operands.a @ self.operands.b  # noqa: F841 it stands in the frame
    self.execution.run()


def _verify_late(self, verify_now=task.GemmTask.verify):
    time.sleep(4 * cheats.SLOW_S)
    return verify_now(self)


def _not_above(problem, expected, got, allowed, magnitude):
    return ~(np.abs(got - expected) > allowed), 0.0


def _corners(problem, rng):
    yield np.array([0, problem.m - 1]), np.array([0, problem.n - 1]), "corners"


def _as_of_float32(problem, expected, magnitude, of_its_dtype=verify.allowed_error):
    return of_its_dtype(problem, expected, magnitude) * 2**29


GEMM, WORKER = task.GemmTask, worker.Worker
OFF = {  # what is replaced by what, and the cheats that then get through
    "results are compared as soon as a call returns": ([(GEMM, "verify", _verify_late)], ["out-later"]),
    "a call is proven on other operands": ([(GEMM, "turn", _nothing)], ["out-addresses", "out-early"]),
    "outputs are overwritten": ([(GEMM, "spoil", _nothing), (GEMM, "turn", _nothing)], ["out-lazy"]),
    "new operands are timed": ([(WORKER, "_check_computes_anew", _nothing)], ["out-digests", "out-peeks"]),
    "functions are watched": ([(side_effects, "functions", dict)], ["out-stops-the-clock"]),
    "the bound is that of the dtype": ([(verify, "allowed_error", _as_of_float32)], ["out-narrow"]),
    "not corners alone are compared": ([(verify, "_samples", _corners)], ["out-corners"]),
    "NaN is no number": ([(verify, "_compare_floats", _not_above)], ["out-nan"]),
    "the last timed result is compared": ([(WORKER, "verify", _nothing)], ["out-only-when-proven"]),
    "the first result is compared": ([(WORKER, "prove", _run_only)], ["out-only-when-timed"]),
    "operands are compared": ([(task, "_is_same", lambda *_: True)], ["out-scribbles"]),
    "what is expected is in no frame": ([(GEMM, "run", _run_beside_the_answer)], ["out-asks"]),
}


def judged(backend: str, detector: str) -> str:
    """Return the reason that a worker gives for having no time of `backend` while `detector` is off, or nothing."""
    for owner, name, replacement in OFF[detector][0]:
        mock.patch.object(owner, name, replacement).start()
    plant_entries(pytest.MonkeyPatch(), [entry_of(x()) for x in (cheats.Honest, *cheats.Honest.__subclasses__())])
    making = {"problem": Problem(24, 20, 16).to_json(), "backend": backend, "seed": 1}
    prepared = {"task": "harness.run.task:gemm", "arguments": making, "threads": 1}
    own, watch = worker.Worker(), side_effects.Watch()
    commands = {"prepare": prepared, "prove": {}, "sample": {"loops": 1, "count": 4}, "verify": {}}
    answers = (worker.answer_to(own, watch, command, arguments) for command, arguments in commands.items())
    return next((f"{status}: {answer}" for status, answer in answers if status != "ok"), "")


if __name__ == "__main__":
    pairs = [pair for detector, (_, names) in OFF.items() for pair in itertools.product(names, [detector])]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        json.dump(
            [[*pair, reason] for pair, reason in zip(pairs, pool.starmap(judged, pairs, 1), strict=True)], sys.stdout
        )
