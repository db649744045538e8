"""What the rungs on pipelined.cu share: its macros, and what it asks of the tiles. They differ in their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.operators import Form, semiring_defines
from backends.gpu._simt.program import Kernel, Place, Program, ceil_div
from backends.gpu._simt.tiled_rung import Product, Tail, TiledRung, width_of_loads
from backends.gpu._simt.warp_tiles import check_warp_tiles, tile_bytes, warp_tile_defines
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning.gpu import LANES_K

# Threads of a block that adds up shares of k; elements of a thread, and the threads that a GPU has to have for that.
_FOLD_BLOCK, _FOLD_EACH, _FOLD_THREADS = 256, 4, 1 << 16


class PipelinedRung(TiledRung):
    """A pipeline of asynchronous copies."""

    stem = "pipelined"
    needs = device.ASYNC_COPY
    takes_two_steps = True

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles; raise PlanError where there is no pipeline, or a copy has no whole passes."""
        launch = check_warp_tiles(self.name, super().prepare_launch(plan), plan.problem.dtype.itemsize)
        rows = launch.threads // LANES_K
        is_whole = launch.bk % LANES_K == 0 and launch.bm % rows == 0 and _has_whole_passes(launch, launch.bn)
        counts = {name: plan.options[name] for name in ("blocks", "shares", "turn")}
        if not is_whole or launch.stages < 2 or not all(isinstance(x, int) and x >= 1 for x in counts.values()):
            raise PlanError(
                f"{self.name}: no whole passes over a tile",
                expected=f"bk % {LANES_K} == 0, bm % {rows} == 0, rows of B for all threads, stages >= 2, "
                "blocks, shares and turn >= 1",
                got=", ".join([str(launch), *(f"{name}={x!r}" for name, x in counts.items())]),
            )
        return launch

    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the bytes of all stages."""
        return launch.stages * tile_bytes(launch, itemsize)

    def add_product(self, program: Program, plan: Plan, form: Form, product: Product, found: Place) -> None:
        """Add the kernel; where k is shared among blocks, with the sums of shares aside, and what adds those up."""
        tail = tail_of(program, plan, product, plan.problem.dtype)
        super().add_product(program, plan, form, product._replace(tail=tail), found)
        if tail is not None:
            add_fold(program, plan, form, product, tail, found)

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the tiles, the stages, and how wide copies may be."""
        launch, itemsize = plan.launch, plan.problem.dtype.itemsize
        assert launch is not None
        width = width_of_loads(product.b, itemsize)
        while not _has_whole_passes(launch, launch.bn // width):
            width //= 2
        own = {
            "STAGES": launch.stages,
            "WIDTH_B": width,
            "LANES_K": LANES_K,
            "BLOCKS": plan.options["blocks"],
            "IS_SPLIT": product.tail is not None,
        }
        return warp_tile_defines(plan, product) + as_defines(own)


def _has_whole_passes(launch: Launch, vectors: int) -> bool:
    """Whether the threads of a block go over the `vectors` of a row of B, and over its bk rows, in whole passes."""
    across = min(launch.threads, vectors)
    return launch.threads % across == vectors % across == 0 and launch.bk % (launch.threads // across) == 0


def tail_of(program: Program, plan: Plan, product: Product, dtype: np.dtype[Any]) -> Tail | None:
    """Return which tiles are shared: those after whole turns, if the plan says that any are and k is long enough.

    The sums of shares are reserved, as elements of `dtype`, which C consists of.
    """
    launch, shares, turn = plan.launch, plan.options["shares"], plan.options["turn"]
    assert launch is not None
    assert isinstance(shares, int)
    assert isinstance(turn, int)
    tiles, steps = ceil_div(product.m, launch.bm) * ceil_div(product.n, launch.bn), ceil_div(product.k, launch.bk)
    each = ceil_div(steps, shares)
    shares, rest = ceil_div(steps, each), tiles % turn
    if shares == 1 or rest == 0:
        return None
    # the other form of a kernel has them too, and maybe fewer of them
    most = max(shares * rest * launch.bm * launch.bn, program.scratch.get("parts", (0, dtype))[0])
    program.scratch["parts"] = (most, dtype)
    return Tail(Place("parts"), tiles - rest, rest, shares, each * launch.bk)


def add_fold(program: Program, plan: Plan, form: Form, product: Product, tail: Tail, found: Place) -> None:
    """Add what adds up the sums of shares."""
    launch, out = plan.launch, product.out
    assert launch is not None
    semiring = semiring_defines(plan.problem.semiring, plan.problem.dtype, form=form, accumulate=product.accumulate)
    tile = {"BM": launch.bm, "BN": launch.bn, "GROUP": plan.options["group"]}
    size = launch.bm * launch.bn
    each = _FOLD_EACH if tail.rest * size >= _FOLD_EACH * _FOLD_THREADS else 1
    defines = semiring + as_defines({**tile, "THREADS": _FOLD_BLOCK, "EACH": each})
    blocks = tail.rest * ceil_div(size, _FOLD_BLOCK * each)
    shares = tail.shares, tail.whole, tail.rest
    fold = Kernel("fold", defines, (_FOLD_BLOCK,), function="fold")
    program.launch(fold, blocks, tail.parts, *shares, out.place, out.ld, product.m, product.n, found)
