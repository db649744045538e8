"""cpu-simd on several threads: as right as on one, whatever the parts, more threads than cores too."""

import itertools

import pytest

from backends.cpu._generated_call import cut_evenly
from tests.unit.simd_products import KERNELS, PACKS, check

ONE_EACH = [
    next(k for k in KERNELS if k.semiring == name) for name in ("plus_times", "max_min", "min_plus", "lor_land")
]
THREADS = (1, 2, 3, 5)


@pytest.mark.parametrize("kernel", ONE_EACH, ids=str)
@pytest.mark.parametrize("layout", ("rows", "columns", "neither"))
def test_every_number_of_threads_computes_the_same(kernel, layout):
    mr, nr, lanes = kernel.mr, kernel.nr, kernel.lanes
    rows, columns = (1, mr - 1 or 1, 4 * mr + 1), (1, lanes + 1, 3 * nr + 1)
    for number, (m, n) in enumerate(itertools.product(rows, columns)):
        results = [
            check(kernel, (m, n, 21), (layout,) * 3, threads=threads, **PACKS[number % 4]).tobytes()
            for threads in THREADS
        ]
        assert set(results) == {results[0]}  # each element is computed by one thread, in one order


@pytest.mark.parametrize("kernel", ONE_EACH, ids=str)
def test_parts_smaller_than_a_tile(kernel):
    for sizes in ((kernel.mr + 1, 2, 5), (2, kernel.nr + 1, 5), (1, 1, 300), (kernel.mr, kernel.nr, 1)):
        check(kernel, sizes, threads=5)


@pytest.mark.parametrize("step", (1, 4, 24))
@pytest.mark.parametrize("parts", (1, 2, 3, 7))
def test_cuts_cover_the_extent_at_whole_steps(parts, step):
    for extent in range(1, 200):
        cuts = cut_evenly(extent, parts, step)
        assert (cuts[0], cuts[-1]) == (0, extent)
        lengths = [end - begin for begin, end in itertools.pairwise(cuts)]
        assert 1 <= len(lengths) <= parts
        assert min(lengths) > 0
        assert all(cut % step == 0 for cut in cuts[:-1])
        assert -(-max(lengths) // step) - -(-min(lengths) // step) <= 1
