"""All pairs of shortest paths in a road map, and the towns along one of them.

A product over min_plus takes the best of all paths through one more town, so closing the matrix under it gives all
shortest paths. `shortest_paths` does that in blocks, and remembers the town before the last of each path.
"""

import numpy as np

from harness import gemm
from harness.paths import shortest_paths

TOWNS = ("Ayr", "Brae", "Clun", "Diss", "Esk")
NONE = np.inf
roads = np.array(  # km from row to column
    [
        [0.0, 7.0, 3.0, NONE, NONE],
        [7.0, 0.0, 1.0, 2.0, NONE],
        [3.0, 1.0, 0.0, 8.0, NONE],
        [NONE, 2.0, 8.0, 0.0, 4.0],
        [NONE, NONE, NONE, 4.0, 0.0],
    ]
)

two_roads = gemm(roads, roads, semiring="min_plus")
assert two_roads[0, 1] == 4.0  # Ayr - Clun - Brae, not the direct 7

lengths, before = shortest_paths(roads, return_predecessors=True)
route = [4]
while route[-1] != 0:
    route.append(int(before[0, route[-1]]))
names = " - ".join(TOWNS[town] for town in reversed(route))
print(f"{names}: {lengths[0, 4]:g} km")
assert names == "Ayr - Clun - Brae - Diss - Esk"
assert lengths[0, 4] == 3.0 + 1.0 + 2.0 + 4.0
assert np.array_equal(gemm(lengths, lengths, semiring="min_plus"), lengths)  # no path gets shorter
