"""Contractions in index notation, over any semiring: the cheapest route through a chain of stages, for many goods.

`einsum` takes subscripts as `numpy.einsum` does, multiplies by (x) and sums by (+).
"""

import numpy as np

from harness import einsum

rng = np.random.default_rng(1)
GOODS, PORTS, HUBS, SHOPS = 3, 4, 5, 6
by_sea = rng.random((GOODS, PORTS, HUBS))
by_road = rng.random((GOODS, HUBS, SHOPS))
at_door = rng.random((SHOPS,))

cheapest = einsum("gph,ghs->gps", by_sea, by_road, semiring="min_plus")
assert np.allclose(cheapest, (by_sea[:, :, :, None] + by_road[:, None]).min(axis=2))

best_shop = einsum("gph,ghs,s->gp", by_sea, by_road, at_door, semiring="min_plus")
assert np.allclose(best_shop, (cheapest + at_door).min(axis=2))

weakest_link = einsum("gph,ghs->gps", by_sea, by_road, semiring="max_min")
assert np.allclose(weakest_link, np.minimum(by_sea[:, :, :, None], by_road[:, None]).max(axis=2))
print(f"cheapest way of each of the goods: {best_shop.min(axis=1).round(3).tolist()}")
