"""The launches of tuned.cu: one kernel for whole tiles and for shares of k, and one that adds up the shares."""

from __future__ import annotations

from backends.gpu._base.pipelined_rung import PipelinedRung
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.shares import Tail, fold, share_steps, stagger_defines
from backends.gpu._program.operators import Form
from backends.gpu._program.program import Kernel, Place, Product, Program, Step, ceil_div, product_defines
from backends.gpu._simt.alignments import of_other_rows
from backends.gpu._simt.row_panels import add_row_panels
from backends.gpu._simt.warp_panels import add_warp_panels
from backends.gpu._simt.warp_products import add_warp_products
from harness.plan import Launch, Plan


class TunedRung(PipelinedRung):
    """A pipeline that combines two steps of k at once if possible, and splits k of the last tiles among blocks."""

    stem = "tuned"
    takes_two_steps = True
    counts = ("blocks", "shares", "wave")

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles; those of warps, and panels, are checked where they are launched."""
        is_other = plan.options.get("products") or plan.options.get("panels")
        return plan.launch if is_other else super().prepare_launch(plan)

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the tiles of the pipeline, and at how many steps of k they begin."""
        return super().tile_defines(plan, product) + stagger_defines(plan)

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return what the pipeline reads by columns; of row panels B alone."""
        of_pipeline = super().reads_columns(plan)
        return frozenset("b") if of_pipeline and plan.options.get("panels") else of_pipeline

    def add_product(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the kernel; where k is shared among blocks, add up the sums of the shares after it."""
        if plan.options.get("products"):
            add_warp_products(program, plan, product)
            return
        if plan.options.get("panels"):
            add_panels = add_warp_panels if plan.options["lanes"] else add_row_panels
            add_panels(program, plan, product)
            return
        launch_tuned(program, self.kernel(plan, product), plan, product)

    def word_kernel(self, words: Plan, product: Product, semiring: Defines) -> Kernel:
        """Return the kernel of a product over words of several elements, by the macros of `semiring` on whole words."""
        launch, itemsize = self.prepare_launch(words), words.problem.dtype.itemsize
        redirected = as_defines({"EDGE": 1})  # REDIRECTED of edges.cuh
        defines = semiring + redirected + self.tile_defines(words, product)
        return Kernel(self.stem, defines, (launch.threads,), self.shared_bytes(launch, itemsize))


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
    program.alike = of_other_rows
    tail = _reserve_tail(program, plan, product)
    of_whole, of_shared = kernel.halves
    if tail is None:
        program.launch(of_whole, product.grid(product.tiles(plan.launch.bm, plan.launch.bn)), *product.arguments)
        return
    blocks = tail.whole + tail.rest * tail.shares
    program.launch(of_shared, blocks, *product.arguments, tail.parts, tail.whole, tail.rest, tail.depth)
    _add_fold(program, plan, product, tail)


def _reserve_tail(program: Program, plan: Plan, product: Product) -> Tail | None:
    """Reserve the sums of shares, and return the tiles to share: those after whole waves; None if the plan has none."""
    launch, shares, wave = plan.launch, plan.options["shares"], plan.options["wave"]
    tiles, steps = product.tiles(launch.bm, launch.bn), ceil_div(product.k, launch.bk)
    shares, each = share_steps(steps, shares)
    rest, dtype = tiles % wave, plan.problem.dtype
    if shares == 1 or rest == 0 or product.batch:
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
    tile = plan.launch.bm, plan.launch.bn, int(plan.options["group"])
    return fold(product_defines(plan.problem, product), tile, tail, product)
