"""Locks are held across a fork, also those that are added while the fork waits for another one."""

from __future__ import annotations

import os
import threading
import time

import pytest

from harness.surroundings import forks, hold_across_forks

FREE, TAKEN = 0, 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python 3.12 warns of a fork beside threads
@pytest.mark.parametrize("kind", forks.KINDS)
def test_a_child_inherits_no_lock_that_was_added_as_its_fork_waited(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_locks", {kind: [] for kind in forks.KINDS})
    importing, compiling = threading.Lock(), threading.Lock()
    hold_across_forks(forks.KINDS[0], importing)
    statuses = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(FREE if compiling.acquire(timeout=1) else TAKEN)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    forking = threading.Thread(target=fork)
    with importing:  # as a thread that imports a backend, whose module adds a lock and takes it
        forking.start()
        time.sleep(0.1)  # until the fork waits; if that takes longer, the test shows nothing
        hold_across_forks(kind, compiling)
        compiling.acquire()
    time.sleep(0.1)
    compiling.release()
    forking.join()
    assert statuses == [FREE]
    assert not importing.locked()
    assert not compiling.locked()
