"""Products of 16-bit elements by mma.sync, executed: the same .cu file, the instructions emulated lane by lane.

Blocks are emulated one by one, so that clusters have one block here.
"""

import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from harness.errors import PlanError, VerificationError
from harness.tuning.gpu import thin_tiles
from tests.gpu import half_products
from tests.gpu.half_products import problem, program
from tests.gpu.host_kernels import COMPILER, KernelFault
from tests.gpu.simt_products import use_the_cpu
from tests.gpu.test_gpu_tensor_cores import needs_nvrtc

TILE = {"unit": "mma", "bm": 32, "bn": 32, "bk": 32, "wm": 16, "wn": 16, "tm": 2, "tn": 4, "stages": 2, "slices": 1,
        "together": 1, "resident": 1, "shares": 1}  # fmt: skip
# Rows of A and B that begin at multiples of 16, 4 and 2 bytes; less than a tile, whole ones, and more.
SIZES = ((1, 1, 1), (31, 40, 64), (33, 17, 30), (70, 35, 101), (16, 8, 16))

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")


def compute(size, dtype="bfloat16", *, accumulate=False, alpha=None, **parameters):
    half_products.compute(problem(size, dtype, accumulate=accumulate, alpha=alpha), {**TILE, **parameters})


@needs_compiler
@pytest.mark.no_cover
class TestOnTheCpu:
    @pytest.fixture(autouse=True)
    def _on_the_cpu(self, monkeypatch):
        use_the_cpu(monkeypatch)

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
        "edit",
        [
            ("shift_of(b + (2 * t + half)", "shift_of(b + (2 * t)"),
            ("from + GRANULE <= end ? size : 0", "size / GRANULE * GRANULE"),
            ("min((rank + 1) * EACH, LINES * VECTORS)", "rank * EACH + COUNT"),
            ("if (number + STAGES - 1 < tiles) copy_tile(number + STAGES - 1);", ""),
            ("(step * SLICES + slice) * STEP", "step * STEP"),
            ("total[v] *= alpha", "total[v] *= 1"),
        ],
    )
    def test_planted_mistakes_are_found(self, monkeypatch, edit):
        use_the_cpu(monkeypatch, edits=(edit,))
        with pytest.raises((VerificationError, KernelFault)):
            compute((70, 35, 151), alpha=2.0, slices=2)


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


@needs_nvrtc
@pytest.mark.parametrize("size", [(96, 96, 4096), (97, 97, 4097)], ids=["whole rows", "ragged rows"])
def test_kernels_of_all_tiles_fit_their_multiprocessor(size):
    for tile in thin_tiles.HALF_MMA.tiles[:: 1 if size[0] == 97 else 4]:
        options = {"unit": "mma", "slices": tile.slices, "together": 4, "resident": tile.blocks, "shares": 1}
        (kernel,) = program(problem(size), {**vars(tile.launch), **options}).kernels()
        taken = resources(compile_kernel(kernel.stem, kernel.defines, f"sm_90{kernel.suffix}"))["gemm"]
        assert taken.registers * kernel.block[0] * tile.blocks <= 65536
        assert tile.blocks * (kernel.shared_bytes + 1024) <= 228 << 10
