"""The cycle time of a timetable: the eigenvalue of a matrix over max_plus.

A train leaves when the trains that it waits for are in. So the next departures are the last ones times the matrix of
journeys, over max_plus. No timetable is faster than the cycle of journeys with the greatest mean. That mean is the
eigenvalue, and a timetable with the same time between all departures is an eigenvector.
"""

from itertools import permutations

import numpy as np

from harness import gemm
from harness.paths import closure

TOWNS = ("Ayr", "Brae", "Clun", "Diss")
NONE = -np.inf
journeys = np.array(  # minutes from row to column, with the time to change trains
    [
        [20.0, 31.0, NONE, 17.0],
        [28.0, NONE, 40.0, NONE],
        [NONE, 12.0, 22.0, 35.0],
        [33.0, NONE, NONE, 25.0],
    ]
)
n = len(TOWNS)

# Karp's formula: it needs the first n departures alone.
departures = [np.zeros((1, n))]
for _ in range(n):
    departures.append(gemm(departures[-1], journeys, semiring="max_plus"))
departures = np.concatenate(departures)
means = (departures[n] - departures[:n]) / np.arange(n, 0, -1)[:, None]
cycle_time = means.min(axis=0).max()

cycles = [cycle for length in range(1, n + 1) for cycle in permutations(range(n), length)]
slowest = max(cycles, key=lambda cycle: journeys[cycle, np.roll(cycle, -1)].mean())
assert cycle_time == journeys[slowest, np.roll(slowest, -1)].mean()  # as if every cycle is tried

# From a town of that cycle the longest ways, less a cycle time for each journey, are a timetable.
timetable = closure(journeys - cycle_time, "max_plus")[[slowest[0]]]
following = gemm(timetable, journeys, semiring="max_plus")
assert np.array_equal(following, timetable + cycle_time)  # x (x) A = x + cycle time

print(f"a train every {cycle_time:g} minutes; the slowest cycle: {' - '.join(TOWNS[town] for town in slowest)}")
print("departures:", ", ".join(f"{town} {time:+g}" for town, time in zip(TOWNS, timetable[0], strict=True)))
