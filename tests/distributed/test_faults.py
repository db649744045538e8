"""A rank that fails ends the program on all ranks, with the cause printed; bad input gives one message on one rank."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests._support import ranks

pytestmark = pytest.mark.mpi

# From a fault to the end of all processes, on a busy machine. What hangs would take all the time of the test.
WITHIN_S = 60
# What is wrong on rank 1 alone, and what is printed about it.
FAULTS = {
    "raises": "ZeroDivisionError: planted",
    "killed": "Killed (signal 9)",
    "segfault": "Segmentation fault (signal 11)",
    "thread": "ZeroDivisionError: planted",
}
# The message of each bad argument, parts of it.
MESSAGES = {
    "shape": "parts of a do not fit together in the layout 'rows'",
    "inner": "the inner sizes of a and b differ",
    "dtype": "ranks 0 and 1 do not agree on dtype",
    "semiring of one": "ranks 0 and 1 do not agree on semiring",
    "functions": "ranks 0 and 1 do not agree on semiring",
    "option": "ranks 0 and 1 do not agree on layout, grid and other options",
    "c": "ranks 0 and 1 do not agree on which of a, b and c are given",
    "no a": "a is missing",
    "vector": "a is no matrix",
    "masked": "rank 1: gemm: a is a masked array",
    "rates": "rates are none",
    "grid": "the grid does not fit the ranks",
    "grid text": "the grid is not understood",
    "cap": "within the memory cap",
    "cap of a grid": "too few",
    "layout": "layout has no such value",
    "blocks": "the layout 'blocks' needs a grid",
    "out": "rank 1: gemm: out cannot take the result",
    "out of others": "only rank 0 has operands in the layout 'root'",
    "local": "did you mean 'cpu-simd'?",
    "semiring": "did you mean 'min_plus'?",
    "threads": "threads is no number of threads of this machine",
    "panel": "panel has no such value",
    "in flight": "in_flight has no such value",
    "reduction": "reduction has no such value",
    "transport": "transport has no such value",
    "engine": "transport 'nccl' cannot work between processors",
    "domains": "the ranks share no memory",
    "communicator": "comm is no communicator",
    "null": "comm is no communicator",
    "intercommunicator": "merge an intercommunicator by Merge()",
}
# Of these no rank can tell which is the first.
ON_EVERY_RANK = ("communicator", "null", "intercommunicator")
# One whose message ranks agree on, and one that each finds for itself: the ways in which a program ends by a message.
UNCAUGHT = ("shape", "communicator")


def ended(*faults: str, count: int = 2, **options: object):
    """Run the program with faults; return how it ended, having seen that it left nothing."""
    traces = ranks.Traces()
    answer = ranks.run(count, "rank_faults.py", *faults, **traces.variables, **options)
    traces.eventually_none()
    ended_at = time.monotonic()
    lines = [line.split() for line in answer.stdout.splitlines()]
    told = {what: [line[1] for line in lines if line[:1] == [what]] for what in ("opened", "begun")}
    assert all(ended_at - float(begun) < WITHIN_S * len(faults) for begun in told["begun"])
    assert [name for name in told["opened"] if Path(name).exists()] == []
    return answer


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_rank_ends_all_and_the_cause_is_printed(fault):
    answer = ended(fault, count=3)
    assert answer.returncode != 0
    assert FAULTS[fault] in answer.stdout + answer.stderr


@pytest.mark.parametrize("fault", UNCAUGHT)
def test_bad_input_gives_one_message_and_ends_all(fault):
    answer = ended(fault)
    assert answer.returncode != 0
    said = answer.stderr.count(MESSAGES[fault])
    assert said == 1 or (fault in ON_EVERY_RANK and said > 0), answer.stderr
    assert MESSAGES[fault] in "\n".join(answer.stderr.splitlines()[-12:])


def test_bad_input_is_raised_on_all_ranks_and_a_program_that_catches_it_goes_on(subtests):
    answer = ended(*MESSAGES)
    assert (answer.returncode, answer.stderr) == (0, "")
    errors = json.loads(answer.stdout.splitlines()[-1])
    assert list(errors) == list(MESSAGES)
    for fault, on_ranks in errors.items():
        with subtests.test(fault):
            assert None not in on_ranks, "not raised on every rank"
            messages, printed = zip(*on_ranks, strict=True)
            assert all(MESSAGES[fault] in message for message in messages), messages
            assert printed == ((True, True) if fault in ON_EVERY_RANK else (True, False))


def test_a_program_that_mpi4py_did_not_start_is_told_how_to():
    answer = ended("grid", module=False)
    assert answer.returncode != 0
    assert answer.stderr.count("add -m mpi4py, or set GEMM_HARNESS_ANY_LAUNCHER=1") == 1


def test_a_program_that_ends_all_ranks_itself_is_let():
    answer = ended("grid", "layout", module=False, GEMM_HARNESS_ANY_LAUNCHER="1")
    assert (answer.returncode, answer.stderr) == (0, "")


def test_without_mpi4py_the_message_says_what_to_install(monkeypatch):
    from harness.distributed import DistributedError, gemm

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(DistributedError, match="pip install mpi4py mpich"):
        gemm([[1.0]], [[1.0]], comm=None)
