from __future__ import annotations

import pytest

from tests._support import ranks

pytestmark = pytest.mark.mpi


def test_calls_leave_no_communicators_and_parts_of_one_compute_at_once():
    answer = ranks.run(4, "rank_communicators.py")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "nothing grows\n"
