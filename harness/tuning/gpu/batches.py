"""Batches on a GPU: which of them one launch computes, by which tiles, and where cuBLAS is slower."""

from __future__ import annotations

from harness.plan import Launch
from harness.problem import Problem
from harness.tuning.device import Device
from harness.tuning.gpu import rungs
from harness.tuning.gpu.sharing import count_of, whole

# Pairs from which on products of bools in a batch are launched one after the other; of other kinds the numbers above.
LARGE_BOOLS = 1 << 26

# Tiles of warps for small products of a batch, by their side, by bytes of an element (up to 4, or 8), and by whether a
# pair is one instruction: tile of a warp (bm, bn), tile of a thread (tm, tn), warps of a block. And the depths of such
# tiles.
WARP_TILES = {
    8: {4: (8, 8, 1, 2, 8), 8: (8, 8, 1, 2, 8)},
    16: {4: (16, 16, 2, 4, 8), 8: (16, 16, 4, 2, 8)},
    32: {4: (16, 32, 4, 4, 4), 8: (16, 16, 2, 4, 2)},
}
WARP_TILES_FUSED = {**WARP_TILES, 32: {**WARP_TILES[32], 4: (32, 32, 8, 4, 4)}}
WARP_DEPTHS = {4: (8, 16, 32), 8: (8, 16)}

# cuBLAS is behind gpu-tuned at batches of products up to these sides, with k up to the last number, by bytes of an
# element: 15 to 17 us of its 16 to 20 us a call pass on the host, where gpu-tuned takes 10. On the device see above.
CUBLAS_BEHIND = {4: 32, 8: 16}
CUBLAS_BEHIND_DEPTH = 64


def is_at_once(problem: Problem) -> bool:
    """Return whether one launch computes a batch of such products; large ones fill a GPU one after the other.

    Those of a kind that has a fast form for some values are large where that form pays.
    """
    return problem.of_one().pairs < rungs.SCANNED_FROM.get(problem.dtype.kind, LARGE_BOOLS)


def batched_tiles(problem: Problem, device: Device) -> tuple[Launch, rungs.Options]:
    """Return the tiles and options of gpu-tuned for a batch: of warps for small products, else unshared tiles."""
    row, size = rungs.TUNED[rungs.kind_of(problem)], 8 if problem.dtype.itemsize == 8 else 4
    side = next((side for side in WARP_TILES if max(problem.m, problem.n) <= side), 0)
    if side and is_at_once(problem):
        is_fused = problem.dtype.kind == "f" and problem.semiring.is_ordinary
        bm, bn, tm, tn, products = (WARP_TILES_FUSED if is_fused else WARP_TILES)[side][size]
        bk = next((bk for bk in WARP_DEPTHS[size] if problem.k <= bk), WARP_DEPTHS[size][-1])
        tiles = Launch(bm=bm, bn=bn, bk=bk, tm=tm, tn=tn)
        return tiles, {
            "edge": "redirected",
            "order": row.order,
            "group": 1,
            "blocks": 1,
            **whole(device),
            "products": products,
        }
    if not is_at_once(problem):  # launched one after the other
        return rungs.tuned_tiles(problem.of_one(), device)
    is_narrow = min(problem.m, problem.n) <= row.few.bn
    tiles = (
        row.few if is_narrow or problem.products * count_of(problem, row.many) < device.multiprocessors else row.many
    )
    return tiles, {
        "edge": "redirected",
        "order": row.order,
        "group": 8,
        "blocks": row.blocks,
        **whole(device),
        "products": 0,
    }


def cublas_is_behind(problem: Problem) -> bool:
    """Return whether gpu-tuned is known to be faster than cuBLAS at a batch."""
    is_small = max(problem.m, problem.n) <= CUBLAS_BEHIND.get(problem.dtype.itemsize, 0)
    return bool(problem.batch) and not problem.is_mixed and is_small and problem.k <= CUBLAS_BEHIND_DEPTH
