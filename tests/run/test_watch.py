from __future__ import annotations

import pytest

from harness.run.side_effects import excess


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
