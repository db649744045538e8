"""A product by residues as launches: norms, trial, residues, gate, products of bytes, and what puts them together.

Which kernels compute is known only on the GPU. All are launched, and those that the gate did not choose return at once:
the passes of residues, or the native kernel with the copies that it needs. Nobody waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._residues.moduli import crt_defines, look_defines
from backends.gpu._simt.operators import Form
from backends.gpu._simt.padding import LINE_BYTES, is_aligned
from backends.gpu._simt.program import Kernel, Matrix, Place, Product, Program, ceil_div
from backends.gpu._simt.scalars import Scalars
from backends.gpu._tensor.residue_product import MODULI, Residues, add_residue_products, columns_of, width_of
from backends.gpu._tensor.row_product import add_double_product
from backends.gpu._tensor.tma import bytes_at_once
from harness.errors import PlanError
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning import residues as tuning
from harness.tuning import tensor_cores
from harness.tuning.tensor_cores import PACKED_RUN

_NORM_THREADS, _NORM_ROWS, _NORM_COLUMNS = 1024, 32, 32  # norms.cu
_THREADS, _RUN, _ROWS, _SIDE, _DEEP = 256, 4, 4, 32, 128  # residues.cu
_GATE_THREADS = 1024
_TRIAL_THREADS, _TRIAL_GROUPS, _TRIAL_PART = 512, 4, 256  # trial.cu
_TRIAL_BYTES, _TRIAL_SUMS = (32 + 4) * (_TRIAL_PART + 1) * 8, 4
_CRT_BLOCKS, _COPY_BLOCKS = 132 * 16, 132 * 8
_BYTE, _UINT, _INT, _DOUBLE = (np.dtype(x) for x in (np.uint8, np.uint32, np.int32, np.float64))
_LOOK_WORDS = 4


class Operand(NamedTuple):
    """A or B as the passes see it: vectors of k elements, rows of A or columns of B.

    Attributes
    ----------
    matrix : Matrix
    vectors : int
    is_along : bool
        Whether the elements of a vector are neighbours; else the vectors are.
    norms, large, residues : Place
        What the passes find of each vector, and its residues.
    layer : int
        Vectors of a layer of residues.
    """

    matrix: Matrix
    vectors: int
    is_along: bool
    norms: Place
    large: Place
    residues: Place
    layer: int


class ResidueProduct(NamedTuple):
    """``out := alpha a b [+ beta c]`` by residues or natively, for m, n, k >= 1; out is by rows.

    Attributes
    ----------
    problem : Problem
        Its scalars.
    a, b, c, out : Matrix
    m, n, k : int
    """

    problem: Problem
    a: Matrix
    b: Matrix
    c: Matrix
    out: Matrix
    m: int
    n: int
    k: int

    def columns(self, first: int, count: int) -> ResidueProduct:
        """Return the product of some columns."""
        b, c, out = (_shifted(x, first) for x in (self.b, self.c, self.out))
        return self._replace(b=b, c=c, out=out, n=count)

    def transposed(self) -> ResidueProduct:
        """Return the same product by its transpose, whose output is by rows if this one's is by columns."""
        a, b, c, out = (x._replace(by_columns=not x.by_columns) for x in (self.b, self.a, self.c, self.out))
        return self._replace(a=a, b=b, c=c, out=out, m=self.n, n=self.m)


def _shifted(x: Matrix, columns: int) -> Matrix:
    offset = x.place.offset + columns * x.steps[1]
    return x._replace(place=x.place._replace(offset=offset))


class Buffers(NamedTuple):
    """Scratch of a product, all of it that of the widest panel of columns."""

    norms_a: Place
    norms_b: Place
    large_a: Place
    large_b: Place
    look: Place
    moduli: Place
    trial: Place
    ticket: Place
    a: Place
    b: Place
    c: Place

    @classmethod
    def reserve(cls, program: Program, m: int, n: int, k: int, most: int) -> Buffers:
        """Reserve them in `program`, for products of n columns at most."""
        sizes = stack_bytes(m, n, k, most)
        return cls(
            program.reserve("norms_a", m, _DOUBLE),
            program.reserve("norms_b", n, _DOUBLE),
            program.reserve("large_a", m, _UINT, is_zeroed=True),
            program.reserve("large_b", n, _UINT, is_zeroed=True),
            program.reserve("look", _LOOK_WORDS, _UINT, is_zeroed=True),
            program.reserve("moduli", 1, _INT),
            program.reserve("trial", ceil_div(k, _TRIAL_PART) * _TRIAL_THREADS * _TRIAL_SUMS, _DOUBLE),
            program.reserve("ticket", 1, _UINT, is_zeroed=True),
            *(program.reserve(f"residues_{name}", size, _BYTE) for name, size in zip("abc", sizes, strict=True)),
        )


def stack_bytes(m: int, n: int, k: int, most: int) -> tuple[int, int, int]:
    """Return the bytes of the residues of A and B, or of copies in their place, and of those of the product."""
    a, b, c = Residues(*[Place("")] * 4, most, m, n, k).sizes
    return max(a, m * _padded(k) * _DOUBLE.itemsize), max(b, k * _padded(n) * _DOUBLE.itemsize), c


def _padded(columns: int) -> int:
    line = LINE_BYTES // _DOUBLE.itemsize
    return ceil_div(columns, line) * line


def add_residue_product(program: Program, plan: Plan, product: ResidueProduct) -> None:
    """Add the launches of the product, panel of columns by panel.

    Parameters
    ----------
    program : Program
    plan : Plan
        With the options of gpu-ozaki.
    product : ResidueProduct

    Raises
    ------
    PlanError
        If an option has no legal value.
    """
    gate, moduli = str(plan.choice("gate", tuning.GATES)), int(plan.choice("moduli", (0, *tuning.COUNTS)))
    least, most = (moduli, moduli) if moduli else (tuning.FEWEST, tuning.MOST)
    panel = min(_panel(plan, product), product.n)
    look = look_defines(least, most, tuning.LIMITS, tuning.SHARES, gate)
    buffers = Buffers.reserve(program, product.m, panel, product.k, most)
    for first in range(0, product.n, panel):
        part = product.columns(first, min(panel, product.n - first))
        _add_emulated(program, plan, part, buffers, look, (least, most))
        _add_native(program, plan, part, buffers)


def _panel(plan: Plan, product: ResidueProduct) -> int:
    columns = plan.options["panel"]
    if isinstance(columns, int) and columns >= max(plan.problem.n, 1):  # all, of a transposed product too
        return product.n
    if isinstance(columns, int) and columns > 0 and columns % PACKED_RUN == 0:
        return columns
    raise PlanError(
        "panel has no such value", expected=f"columns of a panel, a multiple of {PACKED_RUN}", got=f"panel={columns!r}"
    )


def _add_emulated(
    program: Program, plan: Plan, product: ResidueProduct, buffers: Buffers, look: Defines, counts: tuple[int, int]
) -> None:
    """Add the passes and the products of bytes, all that computes unless the gate finds none."""
    m, n, k, (least, most) = product.m, product.n, product.k, counts
    a = Operand(product.a, m, not product.a.by_columns, buffers.norms_a, buffers.large_a, buffers.a, m)
    b = Operand(product.b, n, product.b.by_columns, buffers.norms_b, buffers.large_b, buffers.b, columns_of(n))
    element = {"T": "double"}
    defines = look + as_defines(element)
    blocks = [ceil_div(x.vectors, _NORM_ROWS if x.is_along else _NORM_COLUMNS) for x in (a, b)]
    of_a, of_b = ((x.matrix.place, x.matrix.ld, int(x.is_along), x.vectors) for x in (a, b))
    norms = Kernel("norms", defines, (_NORM_THREADS,), function="norms")
    program.launch(norms, sum(blocks), *of_a, *of_b, k, a.norms, b.norms, buffers.look, blocks[0])
    if plan.options["gate"] != "off":
        _add_trial(program, defines, product, buffers)
    for x in (a, b):
        _add_residues(program, defines, x, k, buffers.look, most, permutes=x is b)
    gate = Kernel("gate", look, (_GATE_THREADS,), function="gate")
    sides = a.norms, a.large, m, b.norms, b.large, n
    program.launch(gate, 1, buffers.look, *sides, k, buffers.moduli)
    add_residue_products(program, plan, Residues(buffers.a, buffers.b, buffers.c, buffers.moduli, most, m, n, k))
    _add_crt(program, defines + crt_defines(least, most), product, buffers)


def _add_trial(program: Program, defines: Defines, product: ResidueProduct, buffers: Buffers) -> None:
    a, b = ((x.place, *map(np.int64, x.steps)) for x in (product.a, product.b))
    norms = buffers.norms_a, buffers.norms_b
    kernel = Kernel("trial", defines, (_TRIAL_THREADS,), _TRIAL_BYTES, "trial")
    blocks = _TRIAL_GROUPS * ceil_div(product.k, _TRIAL_PART)
    sizes = product.n, product.k
    program.launch(kernel, blocks, *a, product.m, *b, *sizes, *norms, buffers.trial, buffers.ticket, buffers.look)


def _add_residues(
    program: Program, defines: Defines, x: Operand, k: int, look: Place, most: int, *, permutes: bool
) -> None:
    """Add the pass over `x`, through shared memory if its elements along k are no neighbours."""
    width = width_of(k)
    wide = is_aligned(x.matrix, _DOUBLE.itemsize)
    more = defines + as_defines({"MODULI": ", ".join(map(str, MODULI)), "WIDE": wide})
    if x.is_along:
        function, shared = "residue_rows", 0
        blocks = ceil_div(width, _THREADS * _RUN) * ceil_div(x.vectors, _ROWS)
    else:
        function, shared = "residue_columns", most * _SIDE * (_SIDE + 1) * 4
        blocks = ceil_div(x.vectors, _SIDE) * (width // _DEEP)
    arguments = x.norms, look, x.residues, width, x.layer, int(permutes), x.large
    kernel = Kernel("residues", more, (_THREADS,), shared, function)
    program.launch(kernel, blocks, x.matrix.place, x.matrix.ld, x.vectors, k, *arguments)


def _add_crt(program: Program, defines: Defines, product: ResidueProduct, buffers: Buffers) -> None:
    m, n, out, scalars = product.m, product.n, product.out, Scalars.of(product.problem)
    width = columns_of(n)
    wide = bytes_at_once(out, _DOUBLE.itemsize) // _DOUBLE.itemsize
    kernel = Kernel("crt", defines + scalars.defines + as_defines({"WIDTH": wide}), (_THREADS,), function="crt")
    blocks = min(ceil_div(m * width // _RUN, _THREADS), _CRT_BLOCKS)
    norms = buffers.norms_a, buffers.norms_b
    c = product.c.place, *map(np.int64, product.c.steps)
    factors = scalars.alpha, scalars.beta
    program.launch(kernel, blocks, buffers.moduli, buffers.c, width, m, n, *norms, *factors, *c, out.place, out.ld)


def _add_native(program: Program, plan: Plan, product: ResidueProduct, buffers: Buffers) -> None:
    """Add the float64 kernel, and copies of operands that it cannot take as they are, in place of their residues."""
    problem, (m, n, k), out = product.problem, product[-3:], product.out
    one = problem.dtype.type(1)
    alpha = one if problem.alpha is None else problem.alpha
    a = _native_operand(program, buffers, product.a, buffers.a, (m, k), alpha)
    b = _native_operand(program, buffers, product.b, buffers.b, (k, n), one)
    if problem.accumulate:
        _add_begin(program, product, buffers.moduli)
    native = Plan(problem, 1, None, plan.options, tensor_cores.HOPPER_TILES["float64"])
    whole = Product(a, b, out, m, n, k, Form.ANY, problem.accumulate, a.place)
    add_double_product(program, native, whole, tensor_cores.HOPPER_DEPTH, unless=buffers.moduli)


def add_start(program: Program, product: ResidueProduct) -> None:
    """Add the launch of a product without terms: beta C, or zeros."""
    _add_begin(program, product, np.uint64(0))


def _add_begin(program: Program, product: ResidueProduct, unless: Place | np.uint64) -> None:
    problem, (m, n, _), out = product.problem, product[-3:], product.out
    beta = problem.dtype.type(1 if problem.beta is None else problem.beta)
    c = product.c.place, *map(np.int64, product.c.steps)
    kernel = _native("begin", has_c=problem.accumulate)
    program.launch(kernel, min(m, _COPY_BLOCKS), unless, beta, *c, out.place, out.ld, m, n)


def _native(function: str, *, has_c: bool = False) -> Kernel:
    return Kernel("native", as_defines({"T": "double", "HAS_C": has_c}), (_THREADS,), function=function)


def _native_operand(
    program: Program, buffers: Buffers, x: Matrix, to: Place, size: tuple[int, int], alpha: np.generic
) -> Matrix:
    """Return `x` by aligned rows, times alpha: itself, or a copy that is made unless the product is emulated."""
    if not x.by_columns and is_aligned(x, _DOUBLE.itemsize) and alpha == 1:
        return x
    ld = _padded(size[1])
    blocks = min(ceil_div(size[0], _SIDE) * ceil_div(ld, _SIDE), _COPY_BLOCKS)
    arguments = x.place, x.ld, int(x.by_columns), *size, to, ld
    program.launch(_native("copy_rows"), blocks, buffers.moduli, alpha, *arguments)
    return Matrix(to, ld)
