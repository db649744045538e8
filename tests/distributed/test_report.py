"""The report of a distributed product."""

from __future__ import annotations

import json

import pytest

from tests._support import ranks

LOAD_S, PREPARE_S = 0.5, 1.0


@pytest.mark.mpi
def test_what_a_first_call_prepares_is_neither_computing_nor_communication():
    answer = ranks.run(2, "rank_preparing.py", str(LOAD_S), str(PREPARE_S))
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert told["prepare"] >= LOAD_S + PREPARE_S
    assert told["stages"]["compute"] < PREPARE_S
    others = told["total"] - told["prepare"] - told["stages"]["compute"]
    assert told["exposed"] == pytest.approx(others)
    assert told["exposed"] < LOAD_S, "little is sent"
    assert told["lines"]["  prepare"] == f"{1e3 * told['prepare']:.2f} ms"
