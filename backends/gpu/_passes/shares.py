"""Tiles of C that several blocks share, each for a part of k: where their sums go, and the launch that adds them up."""

from __future__ import annotations

import functools
from typing import NamedTuple

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.program import Kernel, Place, Product, Step, ceil_div
from harness.errors import PlanError
from harness.plan import Plan
from harness.tuning.gpu.sharing import FOLD_BLOCK, FOLD_EACH, FOLD_LEAST, FOLD_LINES, FOLD_THREADS


class Tail(NamedTuple):
    """The last tiles of a product, each computed by several blocks, each for a share of k.

    Attributes
    ----------
    parts : Place
        The sums of the shares: bm x bn each, share after share, and in each tile after tile.
    whole, rest : int
        Number of tiles that one block computes each, and of those after them.
    shares, depth : int
        Blocks for each of the rest; steps of k of a block, of the last block maybe fewer, but never 0.
    """

    parts: Place
    whole: int
    rest: int
    shares: int
    depth: int


def share_steps(steps: int, shares: int) -> tuple[int, int]:
    """Return how many blocks share `steps`, none of them without a step, and how many each takes, but for the last."""
    each = ceil_div(steps, max(min(shares, steps), 1))
    return ceil_div(steps, each), each


def stagger_defines(plan: Plan) -> Defines:
    """Return the macro of stagger.cuh: at how many steps of k tiles begin, by the plan's option ``stagger``.

    Raises
    ------
    PlanError
        If that is no number of steps.
    """
    stagger = plan.options.get("stagger", 1)
    if not isinstance(stagger, int) or stagger < 1:
        raise PlanError("tiles begin at no step of k", expected="stagger >= 1", got=f"stagger={stagger!r}")
    return as_defines({"STAGGER": stagger}) if stagger > 1 else ()


def fold(defines: Defines, tile: tuple[int, int, int], tail: Tail, product: Product) -> Step:
    """Return the launch that adds up the sums of shares, in the order of k.

    Parameters
    ----------
    defines : Defines
        The semiring's, and that of a triangle.
    tile : (int, int, int)
        Rows and columns of a tile, and rows of tiles that are walked through column by column (GROUP of grid.cuh).
    tail : Tail
    product : Product
    """
    bm, bn, group = tile
    elements, out = tail.rest * bm * bn, product.out
    each = FOLD_EACH if elements >= FOLD_EACH * FOLD_THREADS else 1
    lines = 1
    while each == 1 and lines < FOLD_LINES and elements * lines < FOLD_THREADS and lines * FOLD_LEAST < tail.shares:
        lines *= 2
    kernel = _fold_kernel(defines, bm, bn, group, each, lines)
    blocks = tail.rest * ceil_div(bm * bn, FOLD_BLOCK // lines * each)
    shares = tail.shares, tail.whole, tail.rest
    return Step.of(kernel, blocks, tail.parts, *shares, out.place, out.ld, product.m, product.n, product.extremes)


@functools.lru_cache(512)
def _fold_kernel(defines: Defines, bm: int, bn: int, group: int, each: int, lines: int) -> Kernel:
    numbers = {"BM": bm, "BN": bn, "GROUP": group, "THREADS": FOLD_BLOCK, "EACH": each, "LINES": lines}
    return Kernel("fold", defines + as_defines(numbers), (FOLD_BLOCK,), function="fold")
