"""The launch of a kernel of wgmma_tile.cuh: tiles, clusters, shared memory."""

from __future__ import annotations

from typing import Any

from backends.gpu._padding import is_aligned
from backends.gpu._program import Kernel, Matrix, Place, Program, ceil_div
from backends.gpu._raw_kernel import Defines, as_defines
from backends.gpu._tensor_map import TensorMap
from harness.errors import PlanError
from harness.plan import Launch, Plan

BM, ROW_BYTES = 128, 128  # of a tile in shared memory
CLUSTERS = (1, 2)
_THREADS = 3 * 128  # a warpgroup that copies and two that compute
_SWIZZLE_ALIGNMENT = 1024
_ROOM_BYTES = 8 * 16 * 40 * 4  # what the tile of C leaves through: 16 rows of 40 floats a warp
_VECTOR = 4


def check_tiles(launch: Launch, bk: int, columns: tuple[int, ...], limit: int, stage_bytes: int) -> None:
    """Raise PlanError if the kernel has no such tiles, or they do not fit into `limit` bytes of shared memory."""
    if (launch.bm, launch.bk) != (BM, bk) or launch.bn not in columns or launch.stages < 2:
        raise PlanError(
            "gpu-tensor-core: wgmma has no such tiles",
            expected=f"bm={BM}, bk={bk}, bn in {columns}, stages >= 2",
            got=str(launch),
        )
    shared = shared_bytes(launch, stage_bytes)
    if shared > limit:
        raise PlanError(
            "gpu-tensor-core: the tiles do not fit into shared memory",
            expected=f"{limit} bytes",
            got=f"{shared} bytes for {launch}",
            fix="fewer stages",
        )


def shared_bytes(launch: Launch, stage_bytes: int) -> int:
    """Return the shared memory of a block whose stages take `stage_bytes` each, in bytes."""
    return launch.stages * stage_bytes + _ROOM_BYTES + _SWIZZLE_ALIGNMENT


def add_wgmma(
    program: Program,
    plan: Plan,
    stem: str,
    stage_bytes: int,
    more: Defines,
    maps: tuple[TensorMap, TensorMap],
    out: Matrix,
    alpha: Any,
    found: Place,
) -> None:
    """Add ``out := [out +] alpha a b``.

    Parameters
    ----------
    program : Program
    plan : Plan
        With the options ``cluster``, ``group`` and ``blocks``.
    stem : str
        Of the kernel file.
    stage_bytes : int
    more : Defines
        Of the kernel file itself.
    maps : (TensorMap, TensorMap)
    out : Matrix
    alpha : float32
    found : Place
        What the form of the kernel goes by.
    """
    problem, launch = plan.problem, plan.launch
    assert launch is not None
    cluster = int(plan.choice("cluster", CLUSTERS))
    macros = {
        "BN": launch.bn,
        "STAGES": launch.stages,
        "CLUSTER": cluster,
        "GROUP": int(plan.options["group"]),
        "WIDTH": _VECTOR if is_aligned(out, problem.dtype.itemsize) else 1,
    }
    shared = shared_bytes(launch, stage_bytes)
    kernel = Kernel(stem, as_defines(macros) + more, (_THREADS,), shared, suffix="a")
    clusters = ceil_div(problem.m, cluster * BM) * ceil_div(problem.n, launch.bn)
    blocks = cluster * min(max(int(plan.options["blocks"]) // cluster, 1), clusters)
    program.launch(kernel, blocks, *maps, out.place, problem.m, problem.n, problem.k, out.ld, alpha, found)
