"""cpu-simd on several threads: as right as on one, whatever the parts, more threads than cores too."""

import itertools

import pytest

from backends.cpu._simd.argument_table import cut_evenly
from harness.tuning import simd_parts as tuning_parts
from tests._support.simd_products import GUARDED, KERNELS, PACKS, check

ONE_EACH = [next(k for k in KERNELS if k.semiring == name) for name in ("plus_times", "min_plus", "lor_land")]
ONE_EACH.append(GUARDED)
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


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.dtype.startswith("float")], ids=str)
def test_columns_left_over_have_the_same_bits_by_any_threads(kernel):
    """They are dot products, of as many rows at a time as a block and a part of C leave."""
    k = 700
    for m, n in ((2, 1), (13, kernel.lanes + 1), (6 * kernel.mr + 5, 3 * kernel.nr + 1)):
        how = {"mc": kernel.mr, "pack_b": "always"}
        results = [
            check(kernel, (m, n, k), ("rows", "columns", "rows"), threads=threads, **how).tobytes()
            for threads in THREADS
        ]
        assert set(results) == {results[0]}


@pytest.mark.parametrize("kernel", ONE_EACH, ids=str)
def test_more_parts_than_threads_compute_the_same(kernel, monkeypatch):
    sizes, layout = (5 * kernel.mr + 1, 3 * kernel.nr + 1, 40), ("neither",) * 3
    expected = check(kernel, sizes, layout, threads=1, **PACKS[3])
    for fewest, most in ((1, 2), (1, 7), (sizes[0] * sizes[1] * 10, 4)):
        monkeypatch.setattr(tuning_parts, "SIMD_FEWEST_PAIRS_PER_PART", fewest)
        monkeypatch.setattr(tuning_parts, "SIMD_MOST_PARTS_PER_THREAD", most)
        for threads in (2, 3):
            assert check(kernel, sizes, layout, threads=threads, **PACKS[3]).tobytes() == expected.tobytes()


def test_a_large_product_has_more_parts_than_threads_and_a_small_one_as_many():
    fewest, most = tuning_parts.SIMD_FEWEST_PAIRS_PER_PART, tuning_parts.SIMD_MOST_PARTS_PER_THREAD
    assert tuning_parts.simd_parts(10**12, 1) == 1
    assert tuning_parts.simd_parts(2 * fewest, 2) == tuning_parts.simd_parts(4 * fewest - 1, 2) == 2
    assert tuning_parts.simd_parts(4 * fewest, 2) == 4
    assert tuning_parts.simd_parts(10**12, 2) == 2 * most


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
