from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.run.side_effects import Misbehaved, Watch, excess


@pytest.mark.parametrize(
    ("wall_s", "processor_s", "threads"),
    [(1.0, 1.0, 1), (1.0, 1.4, 1), (1.0, 2.4, 2), (0.01, 0.08, 1), (0.0, 0.0, 1), (1.0, 0.2, 4)],
)
def test_what_the_threads_told_can_use_is_no_excess(wall_s, processor_s, threads):
    assert not excess(wall_s, processor_s, threads)


@pytest.mark.parametrize(("processor_s", "threads"), [(1.6, 1), (3.0, 2)])
def test_what_they_cannot_have_used_is(processor_s, threads):
    assert excess(1.0, processor_s, threads) == (
        f"it used {processor_s:.1f} processors while it was timed, told to use {threads}"
    )


SLEEPS, RUNS = "import time; print(flush=True); time.sleep(600)", "print(flush=True)\nwhile True: pass"


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def child(watch, request) -> Iterator[subprocess.Popen]:
    with subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize("child", [SLEEPS], indirect=True)
def test_a_process_that_sleeps_may_be_kept_by_who_declares_it_and_nobody_else(watch, child):
    watch.check("sample", 1, may_keep_processes=True)
    with pytest.raises(Misbehaved, match="it left a process running: python"):
        watch.check("sample", 1)


@pytest.mark.parametrize("child", [RUNS], indirect=True)
@pytest.mark.parametrize("command", ["prepare", "prove", "sample"])
def test_a_process_that_goes_on_running_is_caught_whoever_left_it(watch, child, command):
    with pytest.raises(Misbehaved, match="it left a process running: python"):
        watch.check(command, 1, may_keep_processes=True)
