"""The macros of a pipeline of asynchronous copies, and the conditions on its tiles: for pipelined.cu and tuned.cu."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import ClassVar

from backends.gpu._base.warp_rung import LOADS, WarpRung, widest_load
from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.padding import WIDE
from backends.gpu._program.program import Kernel, Matrix, Product, largest_power
from backends.gpu._simt.copies import group_size, has_whole_passes, offset_type, width_of_copies
from backends.gpu._simt.log_sum_exp import is_log_sum_exp
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning.device import ASYNC_COPY
from harness.tuning.gpu.rungs import LANES_K, TURNED_FROM

# Bytes that cp.async copies at once.
COPIES = (4, 8, 16)


class PipelinedRung(WarpRung):
    """A pipeline of asynchronous copies.

    Attributes
    ----------
    counts : tuple of str
        Options of a plan that are integers of at least 1.
    fewest_stages : int
    """

    needs = ASYNC_COPY
    counts: ClassVar[tuple[str, ...]] = ("blocks",)
    fewest_stages: ClassVar[int] = 2

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles; raise PlanError if there is no pipeline, or copies do not divide into whole passes."""
        launch = super().prepare_launch(plan)
        rows = launch.threads // LANES_K
        is_whole = launch.bk % LANES_K == 0 and launch.bm % rows == 0 and has_whole_passes(launch, launch.bn)
        counts = {name: plan.options[name] for name in self.counts}
        if (
            not is_whole
            or launch.stages < self.fewest_stages
            or not all(isinstance(x, int) and x >= 1 for x in counts.values())
        ):
            raise PlanError(
                f"{self.name}: no whole passes over a tile",
                expected=f"bk % {LANES_K} == 0, bm % {rows} == 0, a row of B for passes of {launch.threads} threads, "
                f"stages >= {self.fewest_stages}, {', '.join(counts)} >= 1",
                got=", ".join([str(launch), *(f"{name}={x!r}" for name, x in counts.items())]),
            )
        return launch

    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the bytes of all stages."""
        return launch.stages * super().shared_bytes(launch, itemsize)

    def shared_of(self, plan: Plan, product: Product) -> int:
        """Return the bytes of all stages: tiles are padded whose elements are copied one by one, as of A by rows.

        Raises
        ------
        PlanError
            If they do not fit into shared memory.
        """
        launch, itemsize = plan.launch, plan.problem.dtype.itemsize
        padded = (not product.a.by_columns) + product.b.by_columns
        padding = launch.stages * launch.bk * group_size(itemsize) * itemsize
        needed = self.shared_by(plan) + (padded - 1) * padding
        device.fitting(self.name, needed, launch)
        return needed

    def reads_columns(self, plan: Plan) -> frozenset[str]:
        """Return A and B, unless they are read by another kernel than that of the pipeline, which takes rows.

        B is copied element by element then, so one that many rows of C use is turned by a launch before.
        """
        if plan.options.get("products") or not self.has_one_launch(plan) or is_log_sum_exp(plan.problem):
            return frozenset()
        return frozenset("a" if plan.problem.m >= TURNED_FROM else "ab")

    def kernel(self, plan: Plan, product: Product) -> Kernel:
        """Return the kernel: one object for all sizes, by all that it is made from."""
        problem, (a, b, out, *_) = plan.problem, product
        of_product = product.form, product.accumulate, product.edge, product.is_triangle, product.batch is None
        most = max(WIDE // problem.dtype.itemsize, group_size(problem.dtype.itemsize))
        of_lines = [traits for x in (a, b, out) for traits in _traits(x, most)]
        options = plan.options
        key = (
            *(plan.launch, problem.semiring, problem.dtype, offset_type(plan.launch, a, b)),
            *of_product, *of_lines, *options, *options.values(), *map(type, options.values()),
        )  # fmt: skip
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels[key] = super().kernel(plan, product)
        return kernel

    @functools.cached_property
    def _kernels(self) -> dict[Hashable, Kernel]:
        return {}

    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the tiles, the stages, and how wide copies may be."""
        launch, itemsize = plan.launch, plan.problem.dtype.itemsize
        widest, (a, b, *_) = widest_load(plan, "global_load", COPIES), product
        pipeline = {"STAGES": launch.stages, "LANES_K": LANES_K, "BLOCKS": plan.options["blocks"]}
        if b.by_columns:
            pipeline["B_BY_COLUMNS"] = 1
        else:
            pipeline["WIDTH_B"] = width_of_copies(b, launch.bn, launch, itemsize, widest)
        if a.by_columns:
            pipeline |= {"A_BY_COLUMNS": 1, "WIDTH_A": width_of_copies(a, launch.bm, launch, itemsize, widest)}
        return super().tile_defines(plan, product) + as_defines(pipeline)


def _traits(x: Matrix, most: int) -> tuple[int, int, int, bool]:
    """Return what loads of lines, of `most` elements or fewer, depend on: which numbers cut them, and how they lie."""
    return largest_power(x.ld, most), largest_power(x.line or x.ld, most), x.alignment % LOADS[-1], x.by_columns
