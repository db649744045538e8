"""The common part of the tiled rungs: five ways to treat partial tiles at edges of a matrix, and the width of loads.

    conditional   the kernel checks at every load whether it lies inside
    redirected    before the loop, rows and columns past the end are replaced by others; the loop has no checks
    mirrored      likewise, by their mirror images: the last one, the last but one, and so on
    padded        A and B are copied into buffers of whole tiles first (timed), if they are not made of whole tiles
    big-small     the kernel computes all whole tiles, and a simple one with small tiles the rest: the
                  remaining steps of k, the columns to the right and the rows below

Source of redirected and mirrored: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010),
section 3, "Pointer Redirecting", and its figure 5; of the last two: course work on matrix products on GPUs.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

from backends.gpu._base.rung import Rung
from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines
from backends.gpu._passes.passes import add_pass
from backends.gpu._program.program import Kernel, Matrix, Place, Product, Program, ceil_div, product_defines
from harness.errors import PlanError
from harness.machine import Machine
from harness.plan import Launch, Plan
from harness.problem import Problem
from harness.tuning.gpu.rungs import SMALL_TILE, tiles_of

EDGES = ("redirected", "mirrored", "conditional", "padded", "big-small")
# Macros of edges.cuh.
_EDGE_MACROS = {
    "conditional": {"EDGE": 0},
    "redirected": {"EDGE": 1},
    "mirrored": {"EDGE": 1, "MIRRORED": 1},
    "padded": {"EDGE": 2},
}
_AT_ONCE = ("redirected", "mirrored", "conditional")  # of all products of a batch


class TiledRung(Rung):
    """A rung whose blocks load tiles of A and B into shared memory."""

    most_dimensions = 2

    def dimensions_at_once(self, plan: Plan) -> int:
        """Return 0 also where an edge takes passes or launches of its own."""
        return super().dimensions_at_once(plan) if self.has_one_launch(plan) else 0

    def has_one_launch(self, plan: Plan) -> bool:
        """Return whether the rung's own kernel alone reads A and B, and no pass or launch for edges."""
        return self.edge(plan, plan.launch) in _AT_ONCE or self._is_whole(plan.problem, plan.launch)

    @functools.cached_property
    def _legal(self) -> set[tuple[Any, ...]]:
        """Launches that the kernel can have, by all that `prepare_launch` looks at."""
        return set()

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Return the tiles and options of the rung, with all its ideas."""
        launch, options = tiles_of(self.name, problem)
        return Plan(problem, 1, options=options, launch=launch)

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles of `plan`.

        Raises
        ------
        PlanError
            If the kernel cannot have them.
        """
        return device.fitting(self.name, self.shared_by(plan), plan.launch)

    def edge(self, plan: Plan, launch: Launch) -> str:
        """Return the chosen way; if all tiles are whole, ``"padded"``, which then copies nothing."""
        chosen = str(plan.choice("edge", EDGES))
        return "padded" if self._is_whole(plan.problem, launch) else chosen

    def _is_whole(self, problem: Problem, launch: Launch) -> bool:
        """Return whether all tiles are whole."""
        return not (problem.m % launch.bm or problem.n % launch.bn or problem.k % launch.bk)

    @abstractmethod
    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the shared memory of a block."""

    def shared_by(self, plan: Plan) -> int:
        """Return the shared memory of a block by the tiles of `plan`, whatever its options unless overridden."""
        return self.shared_bytes(plan.launch, plan.problem.dtype.itemsize)

    def shared_of(self, plan: Plan, product: Product) -> int:
        """Return the shared memory of a block of the rung's own kernel: `shared_by`, unless overridden."""
        return self.shared_by(plan)

    @abstractmethod
    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the macros of the rung's own kernel, apart from those of the semiring and of the edges."""

    @property
    @abstractmethod
    def stem(self) -> str:
        """The rung's ``.cu`` file."""

    def multiply(self, program: Program, plan: Plan, product: Product) -> None:
        """Add the launches for the chosen treatment of edges."""
        problem, launch, (a, b, _, m, n, k, *_) = plan.problem, plan.launch, product
        legal = launch, problem.dtype, device.planned(), *plan.options.values()
        if legal not in self._legal:
            self.prepare_launch(plan)
            self._legal.add(legal)
        whole = product._replace(edge=self.edge(plan, launch))
        if whole.edge == "big-small":
            if product.is_triangle:
                raise PlanError(f"{self.name}: no triangle by big and small tiles", got="edge=big-small")
            big = whole._replace(
                m=m // launch.bm * launch.bm, n=n // launch.bn * launch.bn, k=k // launch.bk * launch.bk, edge="padded"
            )
            self._add_big_and_small(program, plan, whole, big)
            return
        if whole.edge == "padded":
            whole = whole._replace(
                a=_padded(program, problem, "padded_a", a, (m, k), (launch.bm, launch.bk)),
                b=_padded(program, problem, "padded_b", b, (k, n), (launch.bk, launch.bn)),
            )
        self.add_product(program, plan, whole)

    def add_product(self, program: Program, plan: Plan, product: Product) -> None:
        """Add one launch of the rung's own kernel."""
        tiles = product.tiles(plan.launch.bm, plan.launch.bn)
        program.launch(self.kernel(plan, product), product.grid(tiles), *product.arguments)

    def kernel(self, plan: Plan, product: Product) -> Kernel:
        """Return the rung's own kernel for `product`."""
        defines = product_defines(plan.problem, product, **_EDGE_MACROS[product.edge])
        own = defines + self.tile_defines(plan, product)
        return Kernel(self.stem, own, (plan.launch.threads,), self.shared_of(plan, product))

    def _add_big_and_small(self, program: Program, plan: Plan, whole: Product, big: Product) -> None:
        """Add the kernel for `big`, and small tiles for the rest of `whole`."""
        if not (big.m and big.n and big.k):
            _add_small(program, plan.problem, whole)
            return
        self.add_product(program, plan, big)
        right = whole._replace(b=_moved(whole.b, big.n), out=_moved(whole.out, big.n), n=whole.n - big.n)
        below = whole._replace(
            a=_moved(whole.a, big.m * whole.a.ld),
            out=_moved(whole.out, big.m * whole.out.ld),
            m=whole.m - big.m,
            n=big.n,
        )
        rest_of_k = big._replace(
            a=_moved(whole.a, big.k), b=_moved(whole.b, big.k * whole.b.ld), k=whole.k - big.k, accumulate=True
        )
        for rest in (rest_of_k, right, below):
            if rest.m and rest.n and rest.k:
                _add_small(program, plan.problem, rest)


def _add_small(program: Program, problem: Problem, product: Product) -> None:
    defines = product_defines(problem, product, **_EDGE_MACROS["conditional"], TILE=SMALL_TILE)
    kernel = Kernel("tiled", defines, (SMALL_TILE**2,), 2 * SMALL_TILE**2 * problem.dtype.itemsize)
    program.launch(kernel, product.tiles(SMALL_TILE, SMALL_TILE), *product.arguments)


def _moved(matrix: Matrix, elements: int) -> Matrix:
    """Return the matrix that begins `elements` further on, of unknown alignment."""
    position = matrix.place._replace(offset=matrix.place.offset + elements)
    return matrix._replace(place=position, alignment=1)


def _padded(
    program: Program, problem: Problem, name: str, x: Matrix, shape: tuple[int, int], tile: tuple[int, int]
) -> Matrix:
    """Return `x`, or its copy in whole tiles if it has partial ones; one copy serves all forms of a kernel."""
    rows, columns = (ceil_div(size, step) * step for size, step in zip(shape, tile, strict=True))
    if (rows, columns) == shape:
        return x
    copy = Matrix(Place(name), columns)
    if name not in program.scratch:
        program.reserve(name, rows * columns, problem.dtype)
        is_a = name == "padded_a"
        add_pass(program, problem, "pad", rows * columns, x.place, x.ld, *shape, copy.place, rows, columns, is_a)
    return copy
