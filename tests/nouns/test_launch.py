"""Invariants of the tiles of GPU kernels, overriding by name, and the record of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from harness import Plan, PlanError, Problem
from harness.plan import Launch

TILES = {"bm": 64, "bn": 128, "bk": 16, "wm": 32, "wn": 64, "tm": 8, "tn": 8, "stages": 2}
PLAN = Plan(Problem(8, 8, 8), options={"edge": "redirected"}, launch=Launch(**TILES))


def test_threads_follow_from_the_tiles() -> None:
    assert Launch(**TILES).threads == 128
    assert Launch(bm=8, bn=32).threads == 256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bm": 0}, "bm is not a tile size"),
        ({"wm": True}, "wm is not a tile size"),
        ({"bm": 72}, "bm is not a multiple of wm"),
        ({"tn": 3}, "wn is not a multiple of tn"),
        ({"tm": 4}, "a warp has not 32 threads"),
        ({"wm": 0}, "a warp has not 32 threads"),
        ({"wm": 0, "wn": 0, "tm": 1, "tn": 1}, "a block has 8192 threads"),
    ],
)
def test_tiles_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Launch(**{**TILES, **changes})


def test_override_replaces_tiles_and_options_by_name() -> None:
    changed = PLAN.override({"bm": 128, "edge": "padded"})
    assert changed.launch == Launch(**{**TILES, "bm": 128})
    assert changed.options == {"edge": "padded"}
    with pytest.raises(PlanError, match="unknown parameter 'mc'"):
        PLAN.override({"mc": 1})


def test_tiles_stand_in_the_record_of_a_plan() -> None:
    assert PLAN.to_json() == {"threads": 1, **TILES, "edge": "redirected"}
