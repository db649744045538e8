from __future__ import annotations

from harness.analysis.conditions import descheduled, marks, throttled


def test_one_thread_is_held_against_all_of_a_processor():
    assert descheduled([1.0, 0.99, 0.94, None, 0.5], threads=1) == [False, False, True, False, True]


def test_several_threads_are_held_against_what_they_usually_have():
    assert descheduled([1.5, 1.52, 1.2, 1.5, None], threads=2) == [False, False, True, False, False]
    assert descheduled([], threads=2) == descheduled([], threads=1) == []


def test_a_low_clock_is_seen_against_the_highest_or_the_nominal_one():
    assert throttled([3000, 2999, 2800, None]) == [False, False, True, False]
    assert throttled([1500, 1500]) == [False, False]
    assert throttled([1500, 1500], nominal=1980) == [True, True]
    assert throttled([]) == []


def test_marks_say_what_happened_and_in_how_many_samples():
    record = {
        "threads": 1,
        "readings": {
            "cpu_share": [[1.0, 0.6], [0.9, 1.0]],
            "mhz": [[2000, 1500], [None, 2000]],
            "power_capped": [[0, 1], [0, 1]],
            "watts": [[500, 700], [480, 700]],
            "is_queued": [[1, 1], [0, 1]],
            "preempted": [[0, 9], [5, 0]],
        },
        "stolen": 0.07,
    }
    assert marks(record) == [
        "descheduled in 2 of 4 samples",
        "throttled in 1 of 4 samples",
        "at its power limit in 2 of 4 samples",
        "timed with the launch in 1 of 4 samples",
        "the host took 7 % of the processors",
    ]
    assert marks({**record, "clock": {"nominal_mhz": 2100}})[1] == "throttled in 3 of 4 samples"


def test_nothing_is_said_of_what_is_quiet_or_not_known():
    assert marks({}) == []
    assert marks({"readings": {}, "clock": {}, "stolen": 0.01, "threads": 2}) == []
    assert marks({"threads": 1, "readings": {"cpu_share": [[1.0, None]]}}) == []
