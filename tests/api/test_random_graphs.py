"""2,000 random graphs of every semiring with a closure and of its dtypes, against loops of NumPy over float64."""

import numpy as np
import pytest

from harness.machine import detect
from harness.paths import closure
from tests._support.graphs import assert_trees, closure_by_definition, random_graph

# Compiling is what costs: one semiring in every dtype, the others in one dtype of each kind, of widths in turn.
KINDS = [
    *(("min_plus", x) for x in "float64 float32 float16 int8 int16 int32 int64 uint8 uint16".split()),
    *(("max_plus", x) for x in ("float32", "int16", "int64")),
    *(("max_min", x) for x in ("float32", "int16", "uint8")),
    *(("min_max", x) for x in ("float64", "int32")),
    ("lor_land", "bool"),
]
# Other kernels that say which k take 10 s each to compile.
WITH_PREDECESSORS = {
    ("min_plus", "float64"), ("min_plus", "int32"), ("max_min", "float32"), ("min_max", "float64"), ("lor_land", "bool")
}  # fmt: skip
SIZES = (0, 1, 2, 3, 7, 13, 31, 32, 33, 61, 64, 67, 97, 131)
GRAPHS = 112
MOST_THREADS = min(2, detect().cores)


@pytest.mark.deep(but=3)
@pytest.mark.parametrize(("semiring", "dtype"), KINDS)
def test_closures_are_those_of_the_definition(semiring, dtype):
    rng = np.random.default_rng(KINDS.index((semiring, dtype)))
    for graph in range(GRAPHS):
        n, undirected = SIZES[graph % len(SIZES)], bool(graph % 3 == 0)
        weights = random_graph(rng, n, semiring, dtype, undirected=undirected)
        threads, block = int(rng.integers(1, MOST_THREADS + 1)), rng.choice([None, 8, 50])
        how = {"threads": threads, "block": block, "directed": not undirected}
        expected = closure_by_definition(weights, semiring)
        np.testing.assert_array_equal(closure(weights, semiring, **how), expected, str((n, how)))
        if (semiring, dtype) in WITH_PREDECESSORS:
            best, before = closure(weights, semiring, return_predecessors=True, **how)
            np.testing.assert_array_equal(best, expected)
            assert_trees(weights, best, before, semiring)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("undirected", [False, True])
def test_threads_share_what_is_large_enough(undirected):
    rng = np.random.default_rng(1)
    for semiring, dtype in (("min_plus", "float32"), ("min_plus", "int32")):
        for n in (300, 521):
            weights = random_graph(rng, n, semiring, dtype, undirected=undirected)
            expected = closure_by_definition(weights, semiring)
            for threads in range(1, MOST_THREADS + 1):
                best = closure(weights, semiring, threads=threads, directed=not undirected)
                np.testing.assert_array_equal(best, expected)
