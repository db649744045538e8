"""The launch of warp_products.cu: small products of a batch, several of them for a block, a warp each."""

from __future__ import annotations

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import WIDE, is_aligned
from backends.gpu._program.program import Batch, Kernel, Matrix, Product, Program, ceil_div, product_defines
from harness.errors import PlanError
from harness.plan import WARP, Plan

# Elements after which every group in shared memory begins as it must, in bytes, as in the kernel.
_ALIGNED_BYTES = 32


def add_warp_products(program: Program, plan: Plan, product: Product) -> None:
    """Add the launch for a plan with the option ``products``, the warps of a block.

    Raises
    ------
    PlanError
        If the tile of a warp has not 32 threads, or a block is too large.
    """
    launch, itemsize, warps = plan.launch, plan.problem.dtype.itemsize, plan.options["products"]
    batch = product.batch or Batch(1, 1)  # a batch of one has no dimension left
    product = product._replace(batch=batch)
    assert launch is not None
    is_warp = (launch.bm // launch.tm) * (launch.bn // launch.tn) == WARP
    if not is_warp or not isinstance(warps, int) or not 1 <= warps <= WARP:
        raise PlanError(
            "these tiles are none of warps, one for a product",
            expected=f"(bm / tm) * (bn / tn) == {WARP}, 1 <= products <= {WARP}",
            got=f"{launch}, products={warps!r}",
        )
    widths = _width(product.a, product.k, itemsize, launch.bk), _width(product.b, product.n, itemsize, launch.bn)
    in_groups = launch.tn * itemsize
    vectors = product.n % launch.tn == 0 and in_groups <= WIDE and _is_aligned(product.out, in_groups, itemsize)
    sizes = {name.upper(): getattr(launch, name) for name in ("bm", "bn", "bk", "tm", "tn")}
    more = {"PRODUCTS": warps, "WIDTH_A": widths[0], "WIDTH_B": widths[1], "C_VECTORS": vectors}
    defines = product_defines(plan.problem, product) + as_defines({**sizes, **more})
    kernel = Kernel("warp_products", defines, (WARP * warps,), warps * _warp_bytes(plan), function="products")
    blocks = batch._replace(count=ceil_div(batch.count, warps)).grid
    program.launch(kernel, (product.tiles(launch.bm, launch.bn), *blocks), *product.arguments)


def _warp_bytes(plan: Plan) -> int:
    """Return the shared memory of one warp: a tile of A, with one element more in each row, and one of B."""
    launch, itemsize = plan.launch, plan.problem.dtype.itemsize
    assert launch is not None
    step = _ALIGNED_BYTES // itemsize
    return (ceil_div(launch.bk * (launch.bm + 1), step) * step + launch.bk * launch.bn) * itemsize


def _width(matrix: Matrix, extent: int, itemsize: int, side: int) -> int:
    """Return the elements of a row that a load takes: 16 bytes of them where rows and tiles are made of such."""
    width = min(WIDE // itemsize, side)
    while width > 1 and (extent % width or not _is_aligned(matrix, width * itemsize, itemsize)):
        width //= 2
    return width


def _is_aligned(matrix: Matrix, size: int, itemsize: int) -> bool:
    """Return whether every row begins at a multiple of `size` bytes."""
    return is_aligned(matrix, itemsize) or (matrix.ld * itemsize % size == 0 and matrix.alignment % size == 0)
