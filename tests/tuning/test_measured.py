"""The search for the nearest of what was measured, against a search by the definition."""

import random

import pytest

from harness.tuning.measured import Measured


def by_definition(entries, reach, point):
    """Return distances and values near a point, the nearest first, of equal ones the earlier first."""
    apart = [[abs(x - y) for x, y in zip(at, point, strict=True)] for at, _ in entries]
    near = [(max(x) + sum(x) / 100, i) for i, x in enumerate(apart) if max(x) <= reach]
    return [(distance, entries[i][1]) for distance, i in sorted(near)]


@pytest.mark.parametrize("size", (1, 2, 50, 400))
def test_the_nearest_come_first_and_farther_ones_do_not_come(size):
    draw = random.Random(size)
    entries = [([draw.randint(0, 30) for _ in range(3)], number) for number in range(size)]
    table, found = Measured(entries, 8), 0
    for _ in range(300):
        point = [draw.randint(0, 40) for _ in range(3)]
        expected = by_definition(entries, 8, point)
        assert list(table.near(point)) == expected
        found += bool(expected)
    assert found > 10


def test_a_coordinate_beyond_all_measured_ones_counts_as_the_greatest_unless_that_is_small():
    table = Measured([((20, 3), "a"), ((4, 50), "b")], 1)
    assert table.within((90, 90), 10) == [20, 50]
    assert table.within((5, 90), 60) == [5, 60]
    assert list(Measured([], 1).near((1, 2))) == []
    assert Measured([], 1).within((1, 2), 0) == [1, 2]
