"""Products by mma.sync, with their tiles and copies: float64, and float32 by three TF32 products."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.padding import add_padding, is_aligned, width_of_loads
from backends.gpu._passes.passes import add_extremes
from backends.gpu._passes.shares import stagger_defines
from backends.gpu._program.operators import Form, triangle_defines
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div
from backends.gpu._tensor.row_product import add_double_product
from backends.gpu._tensor.shared_product import add_parts, add_sums
from backends.gpu._tensor.split_product import add_split_product
from backends.gpu._tensor.tf32 import MAGNITUDE, single_defines
from harness.dtypes import dtype_name
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning.gpu.tensor_cores import CAREFUL, GROUP

EDGES = ("padded", "redirected", "conditional")
# Numbers of edges.cuh. Padded rows are aligned, but edge tiles are partial; "whole": all tiles are whole.
_CODES = {"conditional": 0, "redirected": 1, "padded": 1, "whole": 2}


# Elements of C of an instruction. A warp has several: with one, where each instruction waits for the sums of the one
# before, an H200 computed wrong sums in float64 (64 x 8 by 16 x 8, bk = 32; NVRTC 13.0.88, 2026-11-22). The same text
# is right on the CPU.
_FRAGMENT = 16 * 8

# Threads of a multiprocessor that registers are left for, if a block has not more: 204 of each, enough for 48 sums.
_THREADS = 320


class Mma(NamedTuple):
    """Fixed sizes of a kernel on mma_tile.cuh.

    Attributes
    ----------
    stem : str
    itemsize : int
        Of an element in shared memory, in bytes.
    depth : int
        Steps of k of a fragment.
    pad_a, pad_b : int
        Padding between lines of a tile that lie along k, as those of A by rows, and of others, in elements; it avoids
        bank conflicts.
    """

    stem: str
    itemsize: int
    depth: int
    pad_a: int
    pad_b: int

    def shared_bytes(self, launch: Launch, *by_columns: bool) -> int:
        """Return the shared memory of a block, in bytes; of A and B by rows unless `by_columns` says so."""
        of_a, of_b = by_columns or (False, False)
        tile_a, tile_b = self._tile(launch.bm, launch.bk, not of_a), self._tile(launch.bn, launch.bk, of_b)
        return launch.stages * (tile_a + tile_b) * self.itemsize

    def most_shared_bytes(self, launch: Launch) -> int:
        """Return the shared memory of a block however A and B lie."""
        return max(self.shared_bytes(launch, *orders) for orders in itertools.product((False, True), repeat=2))

    def _tile(self, side: int, bk: int, along_k: bool) -> int:
        """Return the elements of a tile with its padding."""
        return side * (bk + self.pad_a) if along_k else bk * (side + self.pad_b)


F64, F32, B1 = (
    Mma("tensor_core_f64", 8, 4, 4, 4),
    Mma("tensor_core_f32", 4, 8, 4, 8),
    Mma("tensor_core_b1", 4, 8, 4, 8),
)


# By the dtype of A and B. Steps of k: in float64 of an instruction, in float32 between two flushes.
DEPTHS = {"float64": (4, 8, 16), "float32": (8, 16)}
# Instructions, the second on Hopper: wgmma of operands that a pass has split or transposed, or mma.sync of tiles that
# the copy engine brings.
UNITS = {"float64": ("mma", "tma"), "float32": ("mma", "wgmma"), "bool": ("mma", "wgmma")}
MMA = {"float64": F64, "float32": F32, "bool": B1}


def mma_kernel(mma: Mma, launch: Launch, a: Matrix, b: Matrix, edge: str, more: Defines) -> Kernel:
    """Return the kernel of `mma` with these tiles.

    Parameters
    ----------
    mma : Mma
    launch : Launch
    a, b : Matrix
        By rows or by columns.
    edge : str
        One of `EDGES`, or ``"whole"`` if all tiles are whole.
    more : Defines
        Of the kernel file itself.

    Raises
    ------
    PlanError
        If warps, fragments or copies do not cut the tiles evenly.
    """
    bm, bn, bk, threads = launch.bm, launch.bn, launch.bk, launch.threads
    is_even = launch.wm % 16 == 0 and launch.wn % 8 == 0 and launch.wm > 0 and bk % (2 * mma.depth) == 0
    if not is_even or launch.wm * launch.wn <= _FRAGMENT or launch.stages < 2:
        raise PlanError(
            "gpu-tensor-core: fragments do not cut the tiles evenly",
            expected=f"wm % 16 == wn % 8 == bk % {2 * mma.depth} == 0, wm * wn > {_FRAGMENT}, stages >= 2",
            got=str(launch),
        )
    lines_a, lines_b = (bk, bm) if a.by_columns else (bm, bk), (bn, bk) if b.by_columns else (bk, bn)
    farthest = max(lines * x.ld + length for x, (lines, length) in ((a, lines_a), (b, lines_b)))
    offset = "int" if farthest < 1 << 31 else "long long"
    va, vb = (_cutting(width_of_loads(x, mma.itemsize), length) for x, (_, length) in ((a, lines_a), (b, lines_b)))
    tile = {"BM": bm, "BN": bn, "BK": bk, "WM": launch.wm, "WN": launch.wn, "STAGES": launch.stages}
    rest = {"MIN_BLOCKS": max(1, _THREADS // threads), "PAD_A": mma.pad_a, "PAD_B": mma.pad_b, "VA": va, "VB": vb}
    orders = {name: 1 for name, x in (("A_BY_COLUMNS", a), ("B_BY_COLUMNS", b)) if x.by_columns}
    shared = mma.shared_bytes(launch, a.by_columns, b.by_columns)
    device.fitting("gpu-tensor-core", shared, launch)
    macros = {**tile, **rest, **orders, "GROUP": GROUP, "EDGE": _CODES[edge], "OFFSET": offset}
    return Kernel(mma.stem, as_defines(macros) + more, (threads,), shared)


def _cutting(width: int, columns: int) -> int:
    """Return how many elements a copy moves so that copies cut rows evenly: `width`, or fewer."""
    while columns % width:
        width //= 2
    return width


def add_float_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] a b`` in float64, or in float32 by three TF32 products where values allow."""
    problem, edge = plan.problem, str(plan.choice("edge", EDGES))
    unit, depth = (
        plan.choice("unit", UNITS[dtype_name(problem.dtype)]),
        int(plan.choice("depth", DEPTHS[dtype_name(problem.dtype)])),
    )
    is_single, accumulate = problem.dtype.itemsize == 4, product.accumulate
    if is_single:
        magnitudes = single_defines(problem, Form.ANY, accumulate=accumulate)  # least but 0, greatest
        magnitudes += (("VALUE_OF(x)", MAGNITUDE),)
        extremes = add_extremes(program, problem, product.a, product.b, magnitudes)
        product = product._replace(extremes=extremes, form=Form.FAST)
    if unit == "tma":
        add_double_product(program, plan, product, depth)
    elif unit == "wgmma":
        add_split_product(program, plan, product)
    else:
        _add_mma(program, plan, product, edge, depth)
    if is_single:
        careful = single_defines(problem, Form.CAREFUL, accumulate=accumulate)
        careful += as_defines({"BM": CAREFUL.bm, "BN": CAREFUL.bn, "COALESCED": 1})
        naive = Kernel("naive", careful + triangle_defines(problem), (CAREFUL.threads,))
        program.launch(naive, product.tiles(CAREFUL.bm, CAREFUL.bn), *product.arguments)


def _add_mma(program: Program, plan: Plan, product: Product, edge: str, depth: int) -> None:
    """Add the kernel of mma.sync alone, and the addition of its sums where blocks share k."""
    launch, problem, itemsize = plan.launch, plan.problem, plan.problem.dtype.itemsize
    if edge == "padded":
        product = add_padding(program, product, problem.dtype)
    tile = launch.bm, launch.bn, GROUP
    to, tail = add_parts(program, plan, product, tile, launch.bk, ceil_div(product.k, launch.bk))
    a, b, out, m, n, k, *_ = to
    if itemsize == 4:
        mma, more = F32, single_defines(problem, Form.FAST, accumulate=to.accumulate) + as_defines({"FLUSH": depth})
    else:
        mma, more = F64, as_defines({"ACCUMULATE": to.accumulate, "IS_LONG": 0, "K_STEP": depth})
    more += as_defines({"PAIRS": is_aligned(out, itemsize), **({} if tail is None else {"IS_SPLIT": 1})})
    more += stagger_defines(plan)
    if not (m % launch.bm or n % launch.bn or k % launch.bk):
        edge = "whole"
    kernel = mma_kernel(mma._replace(depth=depth), launch, a, b, edge, more + triangle_defines(problem))
    split, shares = ((), 1) if tail is None else ((tail.rest, tail.depth), tail.shares)
    program.launch(kernel, shares * product.tiles(launch.bm, launch.bn), *to.arguments, *split)
    add_sums(program, plan, product, tile, tail)
