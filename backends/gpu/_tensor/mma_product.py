"""Products by mma.sync, with their tiles and copies: float64, and float32 by three TF32 products."""

from __future__ import annotations

from typing import NamedTuple

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._simt.operators import Form, semiring_defines, triangle_defines
from backends.gpu._simt.padding import add_padding, is_aligned, width_of_loads
from backends.gpu._simt.passes import add_extremes
from backends.gpu._simt.program import Kernel, Product, Program
from backends.gpu._tensor.row_product import add_double_product
from backends.gpu._tensor.split_product import add_split_product
from harness.errors import PlanError
from harness.plan import Launch, Plan
from harness.tuning.tensor_cores import CAREFUL, GROUP

EDGES = ("padded", "redirected", "conditional")
# Numbers of edges.cuh. Padded rows are aligned, but edge tiles are partial; "whole": all tiles are whole.
_CODES = {"conditional": 0, "redirected": 1, "padded": 1, "whole": 2}

# 3xTF32 is right for magnitudes between these, and for zeros: parts are finite and normal, products finite.
TF32_LEAST, TF32_GREATEST = "1e-30f", "1e18f"
_MAGNITUDE = "((x) == 0 ? (T)1 : fabsf(x))"
_TF32_IS_SAFE = (
    f"((low_a) >= {TF32_LEAST} && (low_b) >= {TF32_LEAST} "
    f"&& (high_a) <= {TF32_GREATEST} && (high_b) <= {TF32_GREATEST})"
)


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
        Padding between rows of tiles, in elements, which avoids bank conflicts.
    """

    stem: str
    itemsize: int
    depth: int
    pad_a: int
    pad_b: int

    def shared_bytes(self, launch: Launch) -> int:
        """Return the shared memory of a block, in bytes."""
        rows = launch.bm * (launch.bk + self.pad_a) + launch.bk * (launch.bn + self.pad_b)
        return launch.stages * rows * self.itemsize


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


def mma_kernel(mma: Mma, launch: Launch, width: int, edge: str, lds: tuple[int, int], more: Defines) -> Kernel:
    """Return the kernel of `mma` with these tiles.

    Parameters
    ----------
    mma : Mma
    launch : Launch
    width : int
        Elements that one copy moves.
    edge : str
        One of `EDGES`, or ``"whole"`` if all tiles are whole.
    lds : (int, int)
        Leading dimensions of A and B.
    more : Defines
        Of the kernel file itself.

    Raises
    ------
    PlanError
        If warps, fragments or copies do not cut the tiles evenly.
    """
    bm, bn, bk, threads = launch.bm, launch.bn, launch.bk, launch.threads
    is_even = launch.wm % 16 == 0 and launch.wn % 8 == 0 and launch.wm > 0 and bk % (2 * mma.depth) == 0
    for across, down in ((bk // width, bm), (bn // width, bk)):
        is_even = is_even and across > 0 and threads % across == 0 and down % (threads // across) == 0
    if not is_even or launch.stages < 2:
        raise PlanError(
            "gpu-tensor-core: fragments and copies do not cut the tiles evenly",
            expected=f"wm % 16 == wn % 8 == bk % {2 * mma.depth} == 0, stages >= 2, {threads} threads on whole rows",
            got=str(launch),
        )
    farthest = max(bm * lds[0], bk * lds[1]) + bn
    offset = "int" if farthest < 1 << 31 else "long long"
    tile = {"BM": bm, "BN": bn, "BK": bk, "WM": launch.wm, "WN": launch.wn, "STAGES": launch.stages}
    rest = {"MIN_BLOCKS": 2 if threads <= 128 else 1, "PAD_A": mma.pad_a, "PAD_B": mma.pad_b, "VA": width, "VB": width}
    rest["GROUP"] = GROUP
    shared = mma.shared_bytes(launch)
    device.fitting("gpu-tensor-core", shared, launch)
    return Kernel(
        mma.stem, as_defines({**tile, **rest, "EDGE": _CODES[edge], "OFFSET": offset}) + more, (threads,), shared
    )


def add_float_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] a b`` in float64, or in float32 by three TF32 products where values allow."""
    problem, edge = plan.problem, str(plan.choice("edge", EDGES))
    unit, depth = plan.choice("unit", UNITS[problem.dtype.name]), int(plan.choice("depth", DEPTHS[problem.dtype.name]))
    is_single = problem.dtype.itemsize == 4
    if is_single:
        magnitudes = (*_single_defines(plan, Form.ANY), ("VALUE_OF(x)", _MAGNITUDE))  # least but 0, greatest
        product = product._replace(extremes=add_extremes(program, problem, product.a, product.b, magnitudes))
    if unit == "tma":
        add_double_product(program, plan, product, depth)
    elif unit == "wgmma":
        add_split_product(program, plan, product, _single_defines(plan, Form.FAST))
    else:
        _add_mma(program, plan, product, edge, depth)
    if is_single:
        careful = _single_defines(plan, Form.CAREFUL) + as_defines({"BM": CAREFUL.bm, "BN": CAREFUL.bn, "COALESCED": 1})
        naive = Kernel("naive", careful + triangle_defines(problem), (CAREFUL.threads,))
        program.launch(naive, product.tiles(CAREFUL.bm, CAREFUL.bn), *product.arguments)


def _add_mma(program: Program, plan: Plan, product: Product, edge: str, depth: int) -> None:
    """Add the kernel of mma.sync alone."""
    launch, dtype = plan.launch, plan.problem.dtype
    if edge == "padded":
        product = add_padding(program, product, dtype)
    a, b, out, m, n, k, *_ = product
    width = min(width_of_loads(x, dtype.itemsize) for x in (a, b))
    if dtype.itemsize == 4:
        mma, more = F32, _single_defines(plan, Form.FAST) + as_defines({"FLUSH": depth})
    else:
        mma, more = F64, as_defines({"ACCUMULATE": product.accumulate, "IS_LONG": 0, "K_STEP": depth})
    more += as_defines({"PAIRS": is_aligned(out, dtype.itemsize)}) + triangle_defines(plan.problem)
    if m % launch.bm == n % launch.bn == k % launch.bk == 0:
        edge = "whole"
    kernel = mma_kernel(mma._replace(depth=depth), launch, width, edge, (a.ld, b.ld), more)
    program.launch(kernel, product.tiles(launch.bm, launch.bn), *product.arguments)


def _single_defines(plan: Plan, form: Form) -> Defines:
    """Return the semiring's macros, with the condition under which three TF32 products are right."""
    problem = plan.problem
    macros = dict(semiring_defines(problem.semiring, problem.dtype, form=form, accumulate=problem.accumulate))
    return as_defines({**macros, "IS_SAFE(low_a, high_a, low_b, high_b)": _TF32_IS_SAFE})
