from __future__ import annotations

import pytest

from harness.timing.clock import Sample
from harness.timing.warmup import MOST_WINDOWS, warm_up


class Curve:
    """The call number i takes `call_ns(i)`; a sample is the mean of its calls."""

    def __init__(self, call_ns) -> None:
        self.call_ns, self.calls = call_ns, 0
        self.samples: list[tuple[int, float]] = []

    def sample(self, loops: int, count: int) -> list[Sample]:
        taken = []
        for _ in range(count):
            times = [self.call_ns(self.calls + i) for i in range(loops)]
            self.calls += loops
            taken.append(Sample(sum(times) / loops, {}))
            self.samples.append((loops, taken[-1].ns))
        return taken


@pytest.mark.parametrize("call_ns", [10.0, 3e3, 0.4e6, 0.999e6, 1e6, 5e6, 1e9])
def test_a_sample_lasts_as_long_as_it_should(call_ns):
    curve = Curve(lambda i: call_ns)
    warm = warm_up(curve, 1e6, 1e8)
    assert warm.loops * call_ns >= 1e6
    assert warm.loops * call_ns <= max(2e6, call_ns)
    assert warm.calls == curve.calls
    assert warm.is_stable


@pytest.mark.parametrize("first_ns", [5e6, 2e9])
def test_a_slow_first_call_does_not_decide_the_number_of_loops(first_ns):
    warm = warm_up(Curve(lambda i: 1e4 if i else first_ns), 1e6, 1e10)
    assert warm.loops >= 100
    assert warm.is_stable


def test_a_long_call_is_made_twice_if_the_second_is_no_faster():
    curve = Curve(lambda i: 1e9)
    assert warm_up(curve, 5e6, 0.0).calls == curve.calls == 2


@pytest.mark.parametrize(("proven_ns", "calls"), [(1e9, 1), (1.05e9, 1), (2e9, 2), (0.0, 2)])
def test_a_long_call_that_was_proven_before_is_compared_with(proven_ns, calls):
    assert warm_up(Curve(lambda i: 1e9), 5e6, 0.0, proven_ns=proven_ns).calls == calls


def test_a_short_call_that_was_proven_before_says_nothing():
    assert warm_up(Curve(lambda i: 1e6), 1e6, 1e9, proven_ns=1e6).calls == warm_up(Curve(lambda i: 1e6), 1e6, 1e9).calls


def test_goes_on_while_calls_get_faster():
    curve = Curve(lambda i: 5e6 * (1 + 9 * 0.8**i))
    warm = warm_up(curve, 1e6, 1e12)
    assert warm.is_stable
    assert curve.samples[-1][1] < 1.4 * 5e6


def test_getting_slower_is_no_warming_up():
    warm = warm_up(Curve(lambda i: 5e6 * 1.3**i), 1e6, 1e12)
    assert warm.is_stable


def test_gives_up_in_time_and_says_how_much_it_still_gained():
    curve = Curve(lambda i: 1e9 * 0.5**i)
    warm = warm_up(curve, 1.0, 0.5e9)
    assert not warm.is_stable
    assert warm.gain == pytest.approx(1.0)
    assert warm.calls == curve.calls == 3, "two windows that differ are followed by a third"


def test_gives_up_without_a_limit_of_time():
    curve = Curve(lambda i: 1e300 * 0.8**i)
    warm = warm_up(curve, 1.0, float("inf"))
    assert not warm.is_stable
    assert warm.calls == MOST_WINDOWS


def test_begins_with_the_loops_that_another_process_found():
    curve = Curve(lambda i: 1e6)
    assert warm_up(curve, 5e6, 1e9, loops=7).loops == 7
    assert {loops for loops, _ in curve.samples} == {7}


def test_loops_grow_again_if_calls_have_become_much_shorter():
    curve = Curve(lambda i: 1e6 if i < 12 else 1e5)
    warm = warm_up(curve, 5e6, 1e9)
    assert warm.loops * 1e5 >= 5e6
