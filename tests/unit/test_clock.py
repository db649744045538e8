from __future__ import annotations

import gc
import time

import pytest

from harness.clock import CpuClock


def test_runs_and_waits_as_often_as_it_is_told_and_in_turn():
    calls: list[str] = []
    CpuClock().elapsed_ns(lambda: calls.append("run"), lambda: calls.append("wait"), 3)
    assert calls == ["run", "wait"] * 3


def test_covers_run_and_wait():
    elapsed = CpuClock().elapsed_ns(lambda: time.sleep(0.002), lambda: time.sleep(0.003), 2)
    assert elapsed >= 10e6


def test_no_garbage_is_collected_while_it_runs_and_it_is_again_afterwards():
    seen: list[bool] = []
    CpuClock().elapsed_ns(lambda: seen.append(gc.isenabled()), lambda: None, 1)
    assert seen == [False]
    assert gc.isenabled()


def test_the_collector_comes_back_after_an_exception_and_stays_off_if_it_was():
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        CpuClock().elapsed_ns(fail, lambda: None, 1)
    assert gc.isenabled()
    gc.disable()
    try:
        CpuClock().elapsed_ns(lambda: None, lambda: None, 1)
        assert not gc.isenabled()
    finally:
        gc.enable()
