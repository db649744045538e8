"""Tiles of tensor cores that several blocks share, each for a part of k: where their sums go, and their addition."""

from __future__ import annotations

from backends.gpu._passes.shares import Tail, fold, share_steps
from backends.gpu._program.operators import Form, triangle_defines
from backends.gpu._program.program import Matrix, Product, Program, product_defines
from backends.gpu._tensor.tf32 import single_defines
from harness.plan import Plan

Tile = tuple[int, int, int]  # rows and columns, and GROUP of grid.cuh


def add_parts(
    program: Program, plan: Plan, product: Product, tile: Tile, bk: int, steps: int
) -> tuple[Product, Tail | None]:
    """Return the product that blocks compute, and what remains to be added up; None: each tile has one block.

    Parameters
    ----------
    program : Program
    plan : Plan
        Its option ``shares`` says how many blocks compute each tile; without it, one does.
    product : Product
    tile : (int, int, int)
    bk, steps : int
        Steps of k of a tile along k, and the number of those tiles.

    Returns
    -------
    product : Product
        Its output is `product`'s, or the sums of the shares, whole tiles one after the other.
    tail : Tail or None
    """
    shares, each = share_steps(steps, int(plan.options.get("shares", 1)))
    if shares == 1:
        return product, None
    bm, bn, _ = tile
    count = product.tiles(bm, bn)
    parts = program.reserve("parts", shares * count * bm * bn, plan.problem.dtype)
    return product._replace(out=Matrix(parts, bn), accumulate=False), Tail(parts, 0, count, shares, each * bk)


def add_sums(program: Program, plan: Plan, product: Product, tile: Tile, tail: Tail | None) -> None:
    """Add the launch that adds up the sums of shares, if there are any."""
    if tail is None:
        return
    problem = plan.problem
    if product.form is Form.FAST:
        defines = single_defines(problem, product.form, accumulate=product.accumulate) + triangle_defines(problem)
    else:
        defines = product_defines(problem, product)
    program.steps.append(fold(defines, tile, tail, product))
