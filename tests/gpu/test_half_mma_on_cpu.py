"""Products of 16-bit elements by mma.sync, executed: the same .cu file, the instructions emulated lane by lane.

Blocks are emulated one by one, so that clusters have one block here.
"""

import pytest

from harness.errors import PlanError
from harness.tuning.gpu import thin_tiles
from tests.gpu.half_products import RUNG, problem, program
from tests.gpu.on_cpu import ON_CPU, check, check_resources, needs_nvrtc

TILE = {"unit": "mma", "bm": 32, "bn": 32, "bk": 32, "wm": 16, "wn": 16, "tm": 2, "tn": 4, "stages": 2, "slices": 1,
        "together": 1, "resident": 1, "shares": 1}  # fmt: skip
# Rows of A and B that begin at multiples of 16, 4 and 2 bytes; less than a tile, whole ones, and more.
SIZES = ((1, 1, 1), (31, 40, 64), (33, 17, 30), (70, 35, 101), (16, 8, 16))


def compute(size, dtype="bfloat16", *, accumulate=False, alpha=None, **parameters):
    check(RUNG, problem(size, dtype, accumulate=accumulate, alpha=alpha), **{**TILE, **parameters})


class TestOnTheCpu:
    pytestmark = ON_CPU

    @pytest.mark.parametrize("dtype", ("bfloat16", "float16"))
    def test_products_are_right_wherever_rows_begin(self, dtype):
        for number, size in enumerate(SIZES):
            compute(size, dtype, accumulate=number % 2 == 1, alpha=-1.5 if number > 2 else None)

    def test_warps_may_take_turns_along_k(self):
        for size in ((33, 40, 130), (20, 35, 101)):
            compute(size, slices=2, stages=3)

    def test_blocks_may_share_k(self):
        for size in ((33, 40, 200), (20, 35, 101)):
            compute(size, accumulate=True, shares=3)


@pytest.mark.parametrize(
    "parameters", [{"wn": 12, "tn": 3}, {"bk": 24}, {"slices": 4}, {"stages": 1}, {"together": 3}, {"unit": "tma"}]
)
def test_tiles_that_warps_do_not_cut_are_refused(parameters):
    with pytest.raises(PlanError):
        program(problem((33, 40, 70)), {**TILE, **parameters})


def test_triangles_are_refused():
    of = problem((64, 64, 64), triangle="d")
    with pytest.raises(PlanError, match="triangle"):
        program(of, TILE)


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize("size", [(96, 96, 4096), (97, 97, 4097)], ids=["whole rows", "ragged rows"])
def test_kernels_of_all_tiles_fit_their_multiprocessor(size):
    for tile in thin_tiles.HALF_MMA.tiles[:: 1 if size[0] == 97 else 4]:
        options = {"unit": "mma", "slices": tile.slices, "together": 4, "resident": tile.blocks, "shares": 1}
        check_resources(program(problem(size), {**vars(tile.launch), **options}), tile.blocks, most_spilled=1 << 10)
