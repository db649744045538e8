"""Every grid of 1 to 8 ranks computes what one rank does, and receives the words that the formula says."""

from __future__ import annotations

import math

import pytest

from harness.distributed import Grid, grids, lower_bound, volume
from harness.distributed.grid import BLOCKS, FACES, Decomposition
from tests._support import ranks
from tests._support.distributed_faults import FAULTS

pytestmark = pytest.mark.mpi

# Ranks, and how many products: each grid, of one rank less too, is met by some. Eight processes do all, in groups that
# compute at once, since a process takes longer to start than a product to compute.
PRODUCTS = {8: 20, 7: 16, 1: 60, 6: 24, 2: 80, 4: 45, 3: 45}
GROUPS = ((8,), (7, 1), (6, 2), (4, 3))
FEW = {4: 10, 3: 10, 1: 10}


@pytest.mark.parametrize(
    ("products", "groups"),
    [
        pytest.param(FEW, ((4,), (3, 1)), id="4 ranks"),
        pytest.param(PRODUCTS, GROUPS, id="8 ranks", marks=pytest.mark.deep),
    ],
)
def test_any_product_is_that_of_one_rank_and_its_words_and_bytes_are_as_predicted(products, groups, subtests):
    asked = ("+".join(f"{size}x{products[size]}" for size in sizes) for sizes in groups)
    answer = ranks.run(max(products), "rank_products.py", "products", *asked)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    for count, number in products.items():
        with subtests.test(count):
            assert f"{count} ranks: {number} products, 0 wrong\n" in answer.stdout, answer.stdout


@pytest.mark.deep
def test_planted_faults_are_found(subtests):
    answer = ranks.run(4, "rank_products.py", "faults", *FAULTS)
    assert answer.returncode == 0, answer.stderr
    found = dict(line.split(": ") for line in answer.stdout.splitlines())
    assert set(found) == set(FAULTS)
    for fault, is_found in found.items():
        with subtests.test(fault):
            assert is_found == "True"


def test_backends_compute_on_ranks_what_they_compute_on_one():
    answer = ranks.run(2, "rank_kernels.py")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.splitlines()[-1] == "all as on one rank"


@pytest.mark.parametrize("layout", [BLOCKS, FACES])
@pytest.mark.parametrize("ranks_", [1, 2, 6, 8, 12])
def test_pieces_cover_each_matrix_once(ranks_, layout):
    for grid in grids(ranks_):
        for m, n, k in ((1, 1, 1), (0, 3, 2), (5, 7, 11), (24, 24, 24)):
            sizes = Decomposition(m, n, k, grid, layout)
            for piece, extents in ((sizes.a, (m, k)), (sizes.b, (k, n)), (sizes.d, (m, n))):
                held = [
                    (row, column)
                    for rank in range(grid.size)
                    for row in range(*piece(rank)[:2])
                    for column in range(*piece(rank)[2:])
                ]
                assert len(held) == len(set(held)) == math.prod(extents)


def test_a_cube_on_a_cube_of_ranks_moves_what_it_must():
    for side in (2, 4):
        assert volume(64, 64, 64, Grid(side, side, side)) / lower_bound(64, 64, 64, side**3) == pytest.approx(1.0)
    assert min(volume(840, 840, 840, grid) for grid in grids(8)) == volume(840, 840, 840, Grid(2, 2, 2))


def test_no_grid_moves_less_than_the_bound():
    for count in (1, 2, 3, 4, 6, 7, 8, 12):
        for m, n, k in ((60, 60, 60), (6000, 60, 60), (60, 6000, 600), (1, 1, 5000)):
            for grid in grids(count):
                assert volume(m, n, k, grid) >= lower_bound(m, n, k, count) * (1 - 1e-12)
