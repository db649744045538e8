"""Random graphs of any semiring and dtype, their closures by the definition, and predecessors that are walked."""

import numpy as np

from harness import SEMIRINGS

MULTIPLY = {"plus": np.add, "min": np.minimum, "max": np.maximum, "land": np.logical_and}


def random_graph(rng, n, semiring, dtype, *, undirected=False):
    """Return edges whose best paths are exact in any dtype; some graphs are dense, others in pieces or full of ties.

    Where (x) is plus, half of the graphs of signed numbers have edges better than the one, and cycles of value zero,
    but no cycle that is better.
    """
    kind, density, high = np.dtype(dtype), rng.choice([0.02, 0.1, 0.4, 1.0]), int(rng.choice([1, 3, 9]))
    weights = rng.integers(0, high, (n, n), endpoint=True).astype(float)
    if semiring.endswith("_plus"):
        if kind.kind != "u" and not undirected and rng.random() < 0.5:
            potential = rng.integers(-3, 4, n)
            weights += potential[:, None] - potential[None, :]
        if semiring.startswith("max"):
            weights = -weights
    if kind.kind == "b":
        weights[...] = 1
    zero = SEMIRINGS[semiring].zero(kind)
    with np.errstate(invalid="ignore"):
        weights = weights.astype(kind)
    weights[rng.random((n, n)) >= density] = zero
    return SEMIRINGS[semiring].add.ufunc(weights, weights.T) if undirected else weights


def closure_by_definition(weights, semiring):
    """Return best values by a loop over pivots, in float64, whose infinity integers have no value for."""
    kind, is_same = weights.dtype, np.eye(len(weights), dtype=bool)
    if kind.kind == "b":
        best, add, multiply = weights | is_same, np.logical_or, np.logical_and
    else:
        add, multiply = ({"plus": np.add, "min": np.minimum, "max": np.maximum}[name] for name in semiring.split("_"))
        absent = np.inf if add is np.minimum else -np.inf
        best = np.where(weights == SEMIRINGS[semiring].zero(kind), absent, weights.astype(float))
        best = add(best, np.where(is_same, 0 if multiply is np.add else -absent, absent))
    for k in range(len(weights)):
        best = add(best, multiply(best[:, k, None], best[None, k, :]))
    if kind.kind in "iu":
        info = np.iinfo(kind)
        best = np.where(
            best >= info.max,
            info.max,
            np.where(best <= info.min, info.min, np.where(np.isinf(best), 0, best).astype("i8")),
        )
    return best.astype(kind)


def assert_trees(weights, best, before, semiring, rows=None):
    """Every predecessor is an edge that ends a best path, and walking back reaches the root of the row."""
    n, zero = weights.shape[0], SEMIRINGS[semiring].zero(weights.dtype)
    roots = np.arange(n) if rows is None else np.asarray(rows)
    has_path = (best != zero) & (np.arange(n)[None, :] != roots[:, None])
    assert before.dtype == np.int32
    np.testing.assert_array_equal(before != -9999, has_path)
    i, j = has_path.nonzero()
    p = before[i, j]
    assert ((p >= 0) & (p < n)).all()
    edges = weights[p, j]
    assert (edges != zero).all()
    np.testing.assert_array_equal(MULTIPLY[semiring.split("_")[1]](best[i, p], edges), best[i, j])
    ends = np.where(has_path, before, np.arange(n)[None, :])
    for _ in range(n.bit_length()):
        ends = np.take_along_axis(ends, ends, axis=1)
    assert (ends == roots[:, None])[has_path].all(), "a circle"
