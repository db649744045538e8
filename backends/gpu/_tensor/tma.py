"""Launches of kernels on tma_tile.cuh, whose tiles the copy engine reads: clusters and shared memory."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.shares import stagger_defines
from backends.gpu._program.operators import triangle_defines
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._tensor.shared_product import add_parts, add_sums
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning.gpu.tensor_cores import TILE_ROWS

ROW_BYTES = 128  # of a tile in shared memory
CLUSTERS = (1, 2, 4)
# Blocks of a cluster that share k: of more than eight not every GPU has one (CUDA C++ Programming Guide, "Thread Block
# Clusters"); and the most by which lines of sums are longer than those of a tile (wgmma_tile.cuh).
TOGETHER, _SUM_PAD, _SUM_BYTES = (1, 2, 4, 8), 8, 4
_ONE = np.float32(1)
# Most blocks of a multiprocessor at once, and registers of a thread that computes beside its sums.
_MOST_RESIDENT, _BESIDE_SUMS = 6, 32
_GROUP_ROWS, _GROUP_THREADS = 64, 128  # of a warpgroup that computes; one more copies
_SWIZZLE_ALIGNMENT = 1024
# How rows of C are stored (store_rows.cuh). By fours take tiles with a multiple of 16 columns: 50000 x 128 x 128 in
# bfloat16 takes 0.91 of the time, 4096 x 4096 x 64 0.91. By lines take wide ones: 8191 x 8191 x 512 0.86, 100003 x 97
# x 96 0.90; tiles of 64 columns would take longer, 1001^3 1.06, 3001 x 3001 x 25 1.19. 3xTF32 gains by neither (H200,
# 2026-11-24).
_STAGED, _FOURS, _LINES = range(3)
_FOUR, _COLUMNS_OF_FOURS, _COLUMNS_OF_LINES = 4, 16, 128
# Staging of a warpgroup's tile: 16 rows for each warp, of 40 floats, or of 64 by lines.
_ROOM_BYTES, _LINE_ROOM_BYTES = 4 * 16 * 40 * 4, 4 * 16 * 64 * 4


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
    rows : tuple of int
        Legal numbers of rows of a tile.
    room : int
        Bytes of shared memory that a warpgroup stages its rows of C in.
    box_columns : int
        Columns of a tile that take the room of so many at least: those of a box; 0: of none, as of rows along k.
    has_stores : bool
        Whether it stores rows of C in the way that is best for them, by wgmma_tile.cuh.
    shares_steps : bool
        Whether the blocks of a cluster may share k of a tile, as the option ``together`` says.
    """

    stem: str
    bk: int
    columns: tuple[int, ...]
    parts: int = 1
    warps: tuple[tuple[int, int], ...] = ()
    rows: tuple[int, ...] = (TILE_ROWS,)
    room: int = _ROOM_BYTES
    box_columns: int = 0
    has_stores: bool = False
    shares_steps: bool = False

    def shared_bytes(self, launch: Launch) -> int:
        """Return the shared memory of a block, in bytes.

        Raises
        ------
        PlanError
            If the kernel has no such tiles.
        """
        is_known = launch.bm in self.rows and launch.bn in self.columns and launch.bk == self.bk and launch.stages >= 2
        if not is_known or (self.warps and (launch.wm, launch.wn) not in self.warps):
            warps = f", (wm, wn) in {self.warps}" if self.warps else ""
            raise PlanError(
                f"gpu-tensor-core: {self.stem}.cu has no such tiles",
                expected=f"bm in {self.rows}, bk={self.bk}, bn in {self.columns}, stages >= 2{warps}",
                got=str(launch),
            )
        room = launch.bm // _GROUP_ROWS * self.room
        columns = ceil_div(launch.bn, self.box_columns or 1) * (self.box_columns or 1)
        return launch.stages * self.parts * (launch.bm + columns) * ROW_BYTES + room + _SWIZZLE_ALIGNMENT


def add_tma(
    program: Program,
    plan: Plan,
    tma: TmaKernel,
    more: Defines,
    maps: tuple[TensorMap, TensorMap],
    product: Product,
    alpha: Any = _ONE,
    *,
    steps: int | None = None,
    by_columns: bool = False,
    width: int | None = None,
    itemsize: int | None = None,
    layers: int = 1,
    beside: tuple[Any, ...] = (),
) -> None:
    """Add ``out := [out (+)] alpha a b``.

    Parameters
    ----------
    program : Program
    plan : Plan
        With the options ``cluster``, ``group`` and ``blocks``; ``shares`` if blocks may share k.
    tma : TmaKernel
    more : Defines
        Of the kernel file itself.
    maps : (TensorMap, TensorMap)
    product : Product
    alpha : NumPy scalar or Place
        Of the type that the kernel takes.
    steps : int, optional
        Steps of k. None: as many as the first map has columns.
    by_columns : bool
        Whether the kernel computes C transposed: the maps are those of B and A then, and clusters have one block.
    width, itemsize : int, optional
        Elements of C that are stored at once, and bytes of one. None: as many as its rows allow; those of D.
    layers : int
        Most matrices of the stack that out is.
    beside : tuple
        Arguments of what idle warps compute, if `more` says so.

    Raises
    ------
    PlanError
        If the kernel has no such tiles, a cluster cannot share them, or they do not fit into shared memory.
    """
    launch, itemsize = plan.launch, plan.problem.dtype.itemsize if itemsize is None else itemsize
    cluster, together = int(plan.choice("cluster", CLUSTERS)), _together(tma, plan)
    if by_columns:  # as the kernel sees it
        launch = dataclasses.replace(launch, bm=launch.bn, bn=launch.bm, tm=launch.tn, tn=launch.tm)
    k = maps[0].columns if steps is None else steps
    along = (1, cluster) if by_columns else (cluster, 1)
    tile = along[0] * plan.launch.bm, along[1] * plan.launch.bn, int(plan.options["group"])
    if product.is_triangle and max(together, int(plan.options.get("shares", 1))) > 1:
        raise PlanError("gpu-tensor-core: blocks share no k of a triangle", expected="shares=1, together=1", got="more")
    to, tail = add_parts(program, plan, product, tile, tma.bk, ceil_div(k, tma.bk))
    width = width or bytes_at_once(to.out, itemsize) // itemsize
    store = _store_of(width, itemsize, launch, product) if tma.has_stores else _STAGED
    tma = tma._replace(room={_LINES: _LINE_ROOM_BYTES, _FOURS: 0}.get(store, tma.room))  # lanes exchange fours
    shared = tma.shared_bytes(launch)
    if together > 1:
        _check_sums(launch, shared - launch.bm // _GROUP_ROWS * tma.room - _SWIZZLE_ALIGNMENT, by_columns=by_columns)
    device.fitting("gpu-tensor-core", shared, launch)
    threads = (launch.bm // _GROUP_ROWS + 1) * _GROUP_THREADS
    resident = device.planned().blocks_at_once(threads, launch.bn // 2 + _BESIDE_SUMS, shared, _MOST_RESIDENT)
    macros = {
        "BM": launch.bm,
        "BN": launch.bn,
        "RESIDENT": resident,
        "STAGES": launch.stages,
        "CLUSTER": cluster * together,
        **({"TOGETHER": 1} if together > 1 else {}),
        "GROUP": tile[-1],
        "WIDTH": width,
        **({"STORE": store} if tma.has_stores else {}),
        **({} if "ACCUMULATE" in dict(more) else {"ACCUMULATE": to.accumulate}),
        **({} if tail is None else {"IS_SPLIT": 1}),
    }
    defines = as_defines(macros) + stagger_defines(plan) + triangle_defines(plan.problem) + more
    kernel = Kernel(tma.stem, defines, (threads,), shared, suffix="a", is_chained=True)
    clusters = layers * product.tiles(*tile[:2]) * (1 if tail is None else tail.shares)
    most = min(int(plan.options["blocks"]), device.planned().alone(cluster))
    at_once = clusters if together > 1 else max(resident * most // cluster, 1)
    blocks = cluster * together * min(at_once, clusters)
    sides = (product.n, product.m) if by_columns else (product.m, product.n)
    split = () if tail is None else (tail.shares, tail.depth // tma.bk)
    out, extremes = to.out, product.extremes
    program.launch(kernel, blocks, *maps, out.place, *sides, k, out.ld, alpha, extremes, *split, *beside)
    add_sums(program, plan, product, tile, tail)


def _together(tma: TmaKernel, plan: Plan) -> int:
    """Return how many blocks of a cluster share k of a tile.

    Raises
    ------
    PlanError
        If blocks of a cluster are to share what they fetch too.
    """
    if not tma.shares_steps:
        return 1
    together = int(plan.choice("together", TOGETHER))
    if together > 1 and int(plan.options["cluster"]) > 1:
        raise PlanError(
            "gpu-tensor-core: blocks of a cluster share k, or what they fetch",
            expected="cluster=1 or together=1",
            got=f"cluster={plan.options['cluster']}, together={together}",
        )
    return together


def _check_sums(launch: Launch, stages: int, *, by_columns: bool) -> None:
    """Raise PlanError if the sums of a tile have no room where its stages are, of so many bytes."""
    lines, elements = (launch.bn, launch.bm) if by_columns else (launch.bm, launch.bn)
    needed = lines * (elements + _SUM_PAD) * _SUM_BYTES
    if needed > stages:
        raise PlanError(
            "gpu-tensor-core: sums of blocks that share k have no room",
            expected=f"stages that take {needed} bytes at least",
            got=f"{stages}, {launch}",
        )


def _store_of(width: int, itemsize: int, launch: Launch, product: Product) -> int:
    """Return how rows of C are stored."""
    if width == _FOUR and launch.bn % _COLUMNS_OF_FOURS == 0:
        return _FOURS
    is_by_lines = width == 1 and itemsize == _FOUR and launch.bn >= _COLUMNS_OF_LINES and not product.is_triangle
    return _LINES if is_by_lines else _STAGED


def bytes_at_once(out: Matrix, itemsize: int) -> int:
    """Return how many bytes of a row of C may be stored at once: 16 or 4, or one element."""
    wide = (x for x in (16, 4) if x > itemsize and out.ld * itemsize % x == 0 and out.alignment % x == 0)
    return next(wide, itemsize)
