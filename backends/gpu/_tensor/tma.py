"""Launches of kernels on tma_tile.cuh, whose tiles the copy engine reads: clusters and shared memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.operators import triangle_defines
from backends.gpu._simt.program import Kernel, Matrix, Product, Program
from backends.gpu._tensor.tensor_map import TensorMap
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning.tensor_cores import TILE_ROWS

ROW_BYTES = 128  # of a tile in shared memory
CLUSTERS = (1, 2)
_ONE = np.float32(1)
_THREADS = 3 * 128  # a warpgroup that copies and two that compute
_SWIZZLE_ALIGNMENT = 1024
_ROOM_BYTES = 8 * 16 * 40 * 4  # staging of the tile of C: 16 rows of 40 floats for each warp


class TmaKernel(NamedTuple):
    """Fixed sizes of a kernel on tma_tile.cuh.

    Attributes
    ----------
    stem : str
    bk : int
        Steps of k of a stage.
    columns : tuple of int
        Legal numbers of columns of a tile.
    parts : int
        Matrices that each operand consists of.
    warps : tuple of (int, int)
        Rows and columns that a warp may have, where that is a choice.
    """

    stem: str
    bk: int
    columns: tuple[int, ...]
    parts: int = 1
    warps: tuple[tuple[int, int], ...] = ()

    def shared_bytes(self, launch: Launch) -> int:
        """Return the shared memory of a block, in bytes.

        Raises
        ------
        PlanError
            If the kernel has no such tiles.
        """
        is_known = (launch.bm, launch.bk) == (TILE_ROWS, self.bk) and launch.bn in self.columns and launch.stages >= 2
        if not is_known or (self.warps and (launch.wm, launch.wn) not in self.warps):
            warps = f", (wm, wn) in {self.warps}" if self.warps else ""
            raise PlanError(
                f"gpu-tensor-core: {self.stem}.cu has no such tiles",
                expected=f"bm={TILE_ROWS}, bk={self.bk}, bn in {self.columns}, stages >= 2{warps}",
                got=str(launch),
            )
        return launch.stages * self.parts * (TILE_ROWS + launch.bn) * ROW_BYTES + _ROOM_BYTES + _SWIZZLE_ALIGNMENT


def add_tma(
    program: Program,
    plan: Plan,
    tma: TmaKernel,
    more: Defines,
    maps: tuple[TensorMap, TensorMap],
    product: Product,
    alpha: np.generic = _ONE,
    *,
    width: int | None = None,
    layers: int = 1,
) -> None:
    """Add ``out := [out (+)] alpha a b``, with as many steps of k as A's map has columns.

    Parameters
    ----------
    program : Program
    plan : Plan
        With the options ``cluster``, ``group`` and ``blocks``.
    tma : TmaKernel
    more : Defines
        Of the kernel file itself.
    maps : (TensorMap, TensorMap)
    product : Product
    alpha : NumPy scalar
        Of the type that the kernel takes.
    width : int, optional
        Elements of C that are stored at once. None: as many as its rows allow.
    layers : int
        Most matrices of the stack that out is.

    Raises
    ------
    PlanError
        If the kernel has no such tiles, or they do not fit into shared memory.
    """
    launch, out, itemsize = plan.launch, product.out, plan.problem.dtype.itemsize
    cluster = int(plan.choice("cluster", CLUSTERS))
    macros = {
        "BN": launch.bn,
        "STAGES": launch.stages,
        "CLUSTER": cluster,
        "GROUP": int(plan.options["group"]),
        "WIDTH": width or bytes_at_once(out, itemsize) // itemsize,
    }
    shared = tma.shared_bytes(launch)
    device.fitting("gpu-tensor-core", shared, launch)
    kernel = Kernel(
        tma.stem, as_defines(macros) + triangle_defines(plan.problem) + more, (_THREADS,), shared, suffix="a"
    )
    clusters = layers * product.tiles(cluster * TILE_ROWS, launch.bn)
    blocks = cluster * min(max(int(plan.options["blocks"]) // cluster, 1), clusters)
    sizes = product.m, product.n, maps[0].columns
    program.launch(kernel, blocks, *maps, out.place, *sizes, out.ld, alpha, product.extremes)


def bytes_at_once(out: Matrix, itemsize: int) -> int:
    """Return how many bytes of a row of C may be stored at once: 16 or 4, or one element."""
    wide = (x for x in (16, 4) if x > itemsize and out.ld * itemsize % x == 0 and out.alignment % x == 0)
    return next(wide, itemsize)
