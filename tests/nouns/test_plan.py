"""Invariants of block sizes, overriding by name, and the record of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from harness import Blocking, Plan, PlanError, Problem

PLAN = Plan(Problem(8, 8, 8), 2, Blocking(mc=8, nc=12, kc=5, mr=4, nr=4), {"reuse": 2, "parallel_loop": "ic"})


@pytest.mark.parametrize("size", [0, -4, 2.0, True, "8", None])
def test_block_sizes_are_positive_integers(size: Any) -> None:
    with pytest.raises(PlanError, match="mc is not a block size"):
        Blocking(mc=size, nc=4, kc=4)


def test_cache_block_is_a_multiple_of_its_register_block() -> None:
    with pytest.raises(PlanError) as caught:
        Blocking(mc=70, nc=4, kc=4, mr=4)
    assert caught.value.fix == "mc=68 or mc=72"
    with pytest.raises(PlanError) as caught:
        Blocking(mc=4, nc=3, kc=4, nr=4)
    assert caught.value.fix == "nc=4"


def test_override_replaces_blocks_and_options_and_nothing_else() -> None:
    changed = PLAN.override({"mc": 16, "reuse": 1})
    assert changed.blocking == Blocking(mc=16, nc=12, kc=5, mr=4, nr=4)
    assert changed.options == {"reuse": 1, "parallel_loop": "ic"}
    assert (changed.problem, changed.threads) == (PLAN.problem, 2)
    assert PLAN.override({}) == PLAN


def test_override_refuses_unknown_names_and_broken_invariants() -> None:
    with pytest.raises(PlanError, match="unknown parameter 'bm'") as caught:
        PLAN.override({"bm": 1})
    assert "parallel_loop" in caught.value.expected
    with pytest.raises(PlanError, match="mc is not a multiple of mr"):
        PLAN.override({"mc": 6})
    with pytest.raises(PlanError, match="no parameter"):
        Plan(Problem(1, 1, 1)).override({"mc": 4})


def test_choice_returns_a_legal_value_or_raises() -> None:
    assert PLAN.choice("reuse", (1, 2)) == 2
    with pytest.raises(PlanError, match="parallel_loop has no such value"):
        PLAN.choice("parallel_loop", ("jr",))


def test_record_is_one_flat_object() -> None:
    record = {"threads": 2, "mc": 8, "nc": 12, "kc": 5, "mr": 4, "nr": 4, "reuse": 2, "parallel_loop": "ic"}
    assert PLAN.to_json() == record
    assert Plan(Problem(1, 1, 1)).to_json() == {"threads": 1}
