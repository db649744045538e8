"""The common part of the tiled rungs: four ways to treat tiles that stick out of a matrix, and the width of loads.

    conditional   the kernel asks at every load whether it lies inside
    redirected    rows and columns past the end become others, before the loop, which asks nothing
    padded        A and B are copied into buffers of whole tiles first (timed), if they are not made of whole tiles
    big-small     the kernel computes what is made of whole tiles, and a simple one with small tiles the rest: the
                  remaining steps of k, the columns to the right and the rows below

Source of redirected: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), section 3,
"Pointer Redirecting"; of the last two: course work on matrix products on GPUs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.operators import Form
from backends.gpu._simt.program import Kernel, Matrix, Place, Program, ceil_div
from backends.gpu._simt.rung import Rung, add_pass, product_defines
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.problem import Problem
from harness.tuning.gpu import SMALL_TILE

EDGES = ("redirected", "conditional", "padded", "big-small")
_EDGE_NUMBERS = {"conditional": 0, "redirected": 1, "padded": 2}  # those of edges.cuh
WIDE = 16  # bytes of the widest load
_LARGEST_INT = (1 << 31) - 1


class Product(NamedTuple):
    """One product that a kernel is to compute.

    Attributes
    ----------
    a, b, out : Matrix
    m, n, k : int
    edge : str
        ``"padded"`` also where everything is made of whole tiles.
    accumulate : bool
    """

    a: Matrix
    b: Matrix
    out: Matrix
    m: int
    n: int
    k: int
    edge: str
    accumulate: bool


class TiledRung(Rung):
    """A rung whose blocks load tiles of A and B into shared memory."""

    def prepare_launch(self, plan: Plan) -> Launch:
        """Return the tiles of `plan`.

        Raises
        ------
        PlanError
            If the kernel cannot have them.
        """
        assert plan.launch is not None
        limit, needed = device.shared_limit(), self.shared_bytes(plan.launch, plan.problem.dtype.itemsize)
        if needed > limit:
            raise PlanError(
                f"{self.name}: the tiles do not fit into shared memory",
                expected=f"{limit} bytes",
                got=f"{needed} bytes for {plan.launch}",
                fix="smaller tiles, or fewer stages",
            )
        return plan.launch

    def edge(self, plan: Plan, launch: Launch) -> str:
        """Return the chosen way; where nothing sticks out, the one that asks nothing and then copies nothing."""
        problem, chosen = plan.problem, str(plan.choice("edge", EDGES))
        is_whole = problem.m % launch.bm == problem.n % launch.bn == problem.k % launch.bk == 0
        return "padded" if is_whole else chosen

    @abstractmethod
    def shared_bytes(self, launch: Launch, itemsize: int) -> int:
        """Return the shared memory of a block."""

    @abstractmethod
    def tile_defines(self, plan: Plan, product: Product) -> Defines:
        """Return the macros of the rung's own kernel, apart from those of the semiring and of the edges."""

    @property
    @abstractmethod
    def stem(self) -> str:
        """The rung's ``.cu`` file."""

    def multiply(
        self, program: Program, plan: Plan, form: Form, a: Matrix, b: Matrix, out: Matrix, extremes: Place
    ) -> None:
        """Add the launches for the chosen way with edges."""
        problem, launch = plan.problem, self.prepare_launch(plan)
        edge, m, n, k = self.edge(plan, launch), problem.m, problem.n, problem.k
        whole = Product(a, b, out, m, n, k, edge, problem.accumulate)
        if edge == "big-small":
            big = whole._replace(
                m=m // launch.bm * launch.bm, n=n // launch.bn * launch.bn, k=k // launch.bk * launch.bk, edge="padded"
            )
            self._add_big_and_small(program, plan, form, whole, big, extremes)
            return
        if edge == "padded":
            whole = whole._replace(
                a=_padded(program, problem, "padded_a", a, (m, k), (launch.bm, launch.bk)),
                b=_padded(program, problem, "padded_b", b, (k, n), (launch.bk, launch.bn)),
            )
        self.add_product(program, plan, form, whole, extremes)

    def add_product(self, program: Program, plan: Plan, form: Form, product: Product, extremes: Place) -> None:
        """Add one launch of the rung's own kernel."""
        launch = plan.launch
        assert launch is not None
        launch_product(program, self.kernel(plan, form, product), product, (launch.bm, launch.bn), extremes)

    def kernel(self, plan: Plan, form: Form, product: Product) -> Kernel:
        """Return the rung's own kernel for `product`."""
        launch = plan.launch
        assert launch is not None
        defines = product_defines(plan.problem, form, accumulate=product.accumulate, EDGE=_EDGE_NUMBERS[product.edge])
        size = self.shared_bytes(launch, plan.problem.dtype.itemsize)
        return Kernel(self.stem, defines + self.tile_defines(plan, product), (launch.threads,), size)

    def _add_big_and_small(
        self, program: Program, plan: Plan, form: Form, whole: Product, big: Product, extremes: Place
    ) -> None:
        """Add the kernel for `big`, and small tiles for what it leaves of `whole`."""
        if not (big.m and big.n and big.k):
            _add_small(program, plan.problem, form, whole, extremes)
            return
        self.add_product(program, plan, form, big, extremes)
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
                _add_small(program, plan.problem, form, rest, extremes)


def width_of_loads(matrix: Matrix, itemsize: int) -> int:
    """Return how many elements of a row one load of `matrix` may take: 16 bytes, or one where that is not aligned."""
    is_aligned = matrix.ld * itemsize % WIDE == 0 and matrix.alignment % WIDE == 0
    return WIDE // itemsize if is_aligned else 1


def offset_type(launch: Launch, product: Product) -> str:
    """Return the type of C that holds every distance within a tile of A or of B."""
    farthest = max(launch.bm * product.a.ld, launch.bk * product.b.ld) + launch.bn
    return "int" if farthest <= _LARGEST_INT else "long long"


def _add_small(program: Program, problem: Problem, form: Form, product: Product, extremes: Place) -> None:
    tile = as_defines({"TILE": SMALL_TILE})
    defines = product_defines(problem, form, accumulate=product.accumulate, EDGE=_EDGE_NUMBERS["conditional"]) + tile
    kernel = Kernel("tiled", defines, (SMALL_TILE**2,), 2 * SMALL_TILE**2 * problem.dtype.itemsize)
    launch_product(program, kernel, product, (SMALL_TILE, SMALL_TILE), extremes)


def launch_product(program: Program, kernel: Kernel, product: Product, tile: tuple[int, int], extremes: Place) -> None:
    """Add the launch of `kernel`, one block for each tile of `tile` (rows, columns)."""
    blocks = ceil_div(product.m, tile[0]) * ceil_div(product.n, tile[1])
    program.launch(kernel, blocks, *product_arguments(product, extremes))


def product_arguments(product: Product, extremes: Place) -> tuple[Any, ...]:
    """Return the arguments of a kernel of `product`: GEMM_PARAMETERS of semiring.cuh."""
    a, b, out = product.a, product.b, product.out
    return a.place, b.place, out.place, product.m, product.n, product.k, a.ld, b.ld, out.ld, extremes


def _moved(matrix: Matrix, elements: int) -> Matrix:
    """Return the matrix that begins `elements` further on, of unknown alignment."""
    place = matrix.place._replace(offset=matrix.place.offset + elements)
    return matrix._replace(place=place, alignment=1)


def _padded(
    program: Program, problem: Problem, name: str, x: Matrix, shape: tuple[int, int], tile: tuple[int, int]
) -> Matrix:
    """Return `x`, or a copy of it in whole tiles if it is not made of such; copied once for all forms of a kernel."""
    rows, columns = (ceil_div(size, step) * step for size, step in zip(shape, tile, strict=True))
    if (rows, columns) == shape:
        return x
    copy = Matrix(Place(name), columns)
    if name not in program.scratch:
        program.reserve(name, rows * columns, problem.dtype)
        is_a = name == "padded_a"
        add_pass(program, problem, "pad", rows * columns, x.place, x.ld, *shape, copy.place, rows, columns, is_a)
    return copy
