"""What the rungs on pipelined.cu share: its macros, and what it asks of the tiles. They differ in their numbers."""

from __future__ import annotations

from backends.gpu import _device
from backends.gpu._raw_kernel import Defines, as_defines
from backends.gpu._tiled_rung import Product, TiledRung, width_of_loads
from backends.gpu._warp_tiles import check_warp_tiles, tile_bytes, warp_tile_defines
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning_gpu import LANES_K

_LARGEST_INT = (1 << 31) - 1


class PipelinedRung(TiledRung):
    """A pipeline of asynchronous copies."""

    stem = "pipelined"
    needs = _device.ASYNC_COPY
    takes_two_steps = True

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles; raise PlanError where there is no pipeline, or a copy has no whole passes."""
        launch = check_warp_tiles(self.name, super().prepare_launch(plan), plan.problem.dtype.itemsize)
        rows, blocks = launch.threads // LANES_K, plan.options["blocks"]
        is_whole = launch.bk % LANES_K == 0 and launch.bm % rows == 0 and _has_whole_passes(launch, launch.bn)
        if not is_whole or launch.stages < 2 or not isinstance(blocks, int) or blocks < 1:
            raise PlanError(
                f"{self.name}: no whole passes over a tile",
                expected=f"bk % {LANES_K} == 0, bm % {rows} == 0, rows of B for all threads, stages >= 2, blocks >= 1",
                got=f"{launch}, blocks={blocks!r}",
            )
        return launch

    def edge(self, plan: Plan, launch: Launch) -> str:
        """Return the chosen way; where nothing sticks out, the one that asks nothing and then copies nothing."""
        problem, chosen = plan.problem, super().edge(plan, launch)
        is_whole = problem.m % launch.bm == problem.n % launch.bn == problem.k % launch.bk == 0
        return "padded" if is_whole else chosen

    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the bytes of all stages."""
        return launch.stages * tile_bytes(launch, itemsize)

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the tiles, the stages, and how wide copies may be."""
        launch, itemsize = plan.launch, plan.problem.dtype.itemsize
        assert launch is not None
        width = width_of_loads(product.b, itemsize)
        while not _has_whole_passes(launch, launch.bn // width):
            width //= 2
        farthest = max(launch.bm * product.a.ld, launch.bk * product.b.ld) + launch.bn
        own = {
            "STAGES": launch.stages,
            "WIDTH_B": width,
            "LANES_K": LANES_K,
            "BLOCKS": plan.options["blocks"],
            "OFFSET": "int" if farthest <= _LARGEST_INT else "long long",
        }
        return warp_tile_defines(plan, product) + as_defines(own)


def _has_whole_passes(launch: Launch, vectors: int) -> bool:
    """Whether the threads of a block go over the `vectors` of a row of B, and over its bk rows, in whole passes."""
    across = min(launch.threads, vectors)
    return launch.threads % across == vectors % across == 0 and launch.bk % (launch.threads // across) == 0
