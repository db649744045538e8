"""The launches of tuned.cu: one kernel for whole tiles and for shares of k, and one that adds up the shares."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.operators import Form
from backends.gpu._simt.pipelined_rung import PipelinedRung
from backends.gpu._simt.program import Kernel, Place, Product, Program, Step, ceil_div
from backends.gpu._simt.rung import product_defines
from harness.plan import Plan

# Threads of a block that adds up shares of k; elements of a thread, and the threads that a GPU has to have for that.
_FOLD_BLOCK, _FOLD_EACH, _FOLD_THREADS = 256, 4, 1 << 16


class TunedRung(PipelinedRung):
    """A pipeline that combines two steps of k at once if possible, and splits k of the last tiles among blocks."""

    stem = "tuned"
    takes_two_steps = True
    counts = ("blocks", "shares", "wave")

    def add_product(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the kernel; where k is shared among blocks, add up the sums of the shares after it."""
        launch_tuned(program, self.kernel(plan, product), plan, product)

    def word_kernel(self, words: Plan, product: Product, semiring: Defines) -> Kernel:
        """Return the kernel of a product over words of several elements, by the macros of `semiring` on whole words."""
        launch, itemsize = self.prepare_launch(words), words.problem.dtype.itemsize
        redirected = as_defines({"EDGE": 1})  # REDIRECTED of edges.cuh
        defines = semiring + redirected + self.tile_defines(words, product)
        return Kernel(self.stem, defines, (launch.threads,), self.shared_bytes(launch, itemsize))


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


def launch_tuned(program: Program, kernel: Kernel, plan: Plan, product: Product) -> None:
    """Add the launch of `kernel`, and of fold.cu where shares of k are to be added up.

    Parameters
    ----------
    program : Program
    kernel : Kernel
        tuned.cu with all its macros but ``IS_SPLIT``.
    plan : Plan
        With the dtype and semiring of C, by which shares are stored and added up.
    product : Product
    """
    tail = _reserve_tail(program, plan, product)
    split = dataclasses.replace(kernel, defines=kernel.defines + as_defines({"IS_SPLIT": tail is not None}))
    if tail is None:
        program.launch(split, product.tiles(plan.launch.bm, plan.launch.bn), *product.arguments)
        return
    blocks = tail.whole + tail.rest * tail.shares
    program.launch(split, blocks, *product.arguments, tail.parts, tail.whole, tail.rest, tail.depth)
    _add_fold(program, plan, product, tail)


def _reserve_tail(program: Program, plan: Plan, product: Product) -> Tail | None:
    """Reserve the sums of shares, and return the tiles to share: those after whole waves; None if the plan has none."""
    launch, shares, wave = plan.launch, plan.options["shares"], plan.options["wave"]
    tiles, steps = product.tiles(launch.bm, launch.bn), ceil_div(product.k, launch.bk)
    each = ceil_div(steps, shares)
    shares, rest, dtype = ceil_div(steps, each), tiles % wave, plan.problem.dtype
    if shares == 1 or rest == 0:
        return None
    # the other form of the kernel has shares too, maybe fewer
    most = max(shares * rest * launch.bm * launch.bn, program.scratch.get("parts", (0, dtype))[0])
    program.scratch["parts"] = (most, dtype)
    return Tail(Place("parts"), tiles - rest, rest, shares, each * launch.bk)


def _add_fold(program: Program, plan: Plan, product: Product, tail: Tail) -> None:
    """Add the launch that adds up the sums of shares.

    One serves both forms of a kernel if they share alike: the form that the extremes choose has left the sums.
    """
    if product.form is Form.CAREFUL:
        of_fast = _fold(plan, product._replace(form=Form.FAST), tail)
        if of_fast in program.steps:
            program.steps.remove(of_fast)
            product = product._replace(form=Form.ANY)
    program.steps.append(_fold(plan, product, tail))


def _fold(plan: Plan, product: Product, tail: Tail) -> Step:
    launch, out = plan.launch, product.out
    size = launch.bm * launch.bn
    each = _FOLD_EACH if tail.rest * size >= _FOLD_EACH * _FOLD_THREADS else 1
    tile = {"BM": launch.bm, "BN": launch.bn, "GROUP": plan.options["group"]}
    defines = product_defines(plan.problem, product, **tile, THREADS=_FOLD_BLOCK, EACH=each)
    blocks = tail.rest * ceil_div(size, _FOLD_BLOCK * each)
    shares = tail.shares, tail.whole, tail.rest
    fold = Kernel("fold", defines, (_FOLD_BLOCK,), function="fold")
    return Step.of(fold, blocks, tail.parts, *shares, out.place, out.ld, product.m, product.n, product.extremes)
