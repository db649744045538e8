"""A product by residues as launches: norms, trial, residues, gate, products of bytes, and what puts them together.

Which kernels compute is known only on the GPU. All are launched, and those that the gate did not choose return at once:
the passes of residues, or the native kernel with the copies that it needs. Nobody waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._residues.moduli import crt_defines, look_defines, table
from backends.gpu._residues.native import Copies, add_native
from backends.gpu._residues.norms import Grades, Operand, add_grades, add_norms
from backends.gpu._residues.shape import ResidueProduct, padded
from backends.gpu._simt.operators import TYPES
from backends.gpu._simt.padding import is_aligned
from backends.gpu._simt.program import Kernel, Place, Program, ceil_div
from backends.gpu._simt.scalars import Scalars
from backends.gpu._tensor.residue_product import MODULI, Residues, add_residue_products, columns_of, width_of
from harness.errors import PlanError
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu import residues as tuning
from harness.tuning.gpu.tensor_cores import PACKED_RUN

_THREADS, _RUN, _ROWS, _SIDE, _DEEP = 256, 4, 4, 32, 128  # residues.cu
_GATE_THREADS = 1024
_TRIAL_THREADS, _TRIAL_GROUPS, _TRIAL_PART = 512, 4, 256  # trial.cu
_TRIAL_BYTES, _TRIAL_SUMS = (32 + 4) * (_TRIAL_PART + 1) * 8, 4
_CRT_BLOCKS = 132 * 16
_WORD_BITS = 32
_BYTE, _UINT, _INT, _DOUBLE = (np.dtype(x) for x in (np.uint8, np.uint32, np.int32, np.float64))
_LOOK_WORDS = 4
_MODULI_WORDS = 4  # one, and what guards of SIMT kernels read beside it


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
    grades: Grades
    a: Place
    b: Place
    c: Place

    @classmethod
    def reserve(cls, program: Program, product: ResidueProduct, n: int, most: int, *, is_balanced: bool) -> Buffers:
        """Reserve them in `program`, for n columns of `product` at most."""
        m, k = product.m, product.k
        sizes = stack_bytes(product.problem, m, n, k, most)
        return cls(
            program.reserve("norms_a", m, _DOUBLE),
            program.reserve("norms_b", n, _DOUBLE),
            program.reserve("large_a", m, _UINT, is_zeroed=True),
            program.reserve("large_b", n, _UINT, is_zeroed=True),
            program.reserve("look", _LOOK_WORDS, _UINT, is_zeroed=True),
            program.reserve("moduli", _MODULI_WORDS, _INT),
            program.reserve("trial", ceil_div(k, _TRIAL_PART) * _TRIAL_THREADS * _TRIAL_SUMS, _DOUBLE),
            program.reserve("ticket", 1, _UINT, is_zeroed=True),
            Grades.reserve(program, k) if is_balanced else Grades.absent(),
            *(program.reserve(f"residues_{name}", size, _BYTE) for name, size in zip("abc", sizes, strict=True)),
        )


def stack_bytes(problem: Problem, m: int, n: int, k: int, most: int) -> tuple[int, int, int]:
    """Return the bytes of the residues of A and B, or of copies in their place, and of those of the product."""
    a, b, c = Residues(*[Place("")] * 4, most, m, n, k).sizes
    copy_a, copy_b = (rows * padded(x, problem.dtype) * problem.dtype.itemsize for rows, x in ((m, k), (k, n)))
    return max(a, copy_a), max(b, copy_b), c


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
    numbers = tuning.NUMBERS[plan.problem.dtype.name]
    gate, moduli = str(plan.choice("gate", tuning.GATES)), int(plan.choice("moduli", (0, *numbers.counts)))
    least, most = (moduli, moduli) if moduli else (numbers.fewest, numbers.most)
    panel = min(_panel(plan, product), product.n)
    look = look_defines(numbers, least, most, gate)
    buffers = Buffers.reserve(program, product, panel, most, is_balanced=bool(plan.options["balance"]))
    for first in range(0, product.n, panel):
        part = product.columns(first, min(panel, product.n - first))
        _add_emulated(program, plan, part, buffers, look, (least, most))
        add_native(program, plan, part, Copies(buffers.moduli, buffers.a, buffers.b))


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
    is_balanced = bool(plan.choice("balance", (0, 1)))
    kind = look + as_defines({"T": TYPES[product.problem.dtype.name]})
    if is_balanced:
        add_grades(program, kind, a, b, k, buffers.grades)
    defines = kind + as_defines({"BALANCED": is_balanced})
    add_norms(program, defines, a, b, k, buffers.look, buffers.grades)
    if plan.options["gate"] != "off":
        _add_trial(program, defines, product, buffers)
    is_narrow = table(most).half_bits < _WORD_BITS
    pass_defines = defines + as_defines({"MODULI": ", ".join(map(str, MODULI)), "NARROW": is_narrow})
    for x in (a, b):
        wide = as_defines({"WIDE": is_aligned(x.matrix, product.problem.dtype.itemsize)})
        _add_residues(program, pass_defines + wide, x, k, buffers, most, is_b=x is b)
    gate = Kernel("gate", look, (_GATE_THREADS,), function="gate")
    sides = a.norms, a.large, m, b.norms, b.large, n
    program.launch(gate, 1, buffers.look, *sides, k, buffers.moduli)
    add_residue_products(program, plan, Residues(buffers.a, buffers.b, buffers.c, buffers.moduli, most, m, n, k))
    _add_crt(program, kind + crt_defines(least, most), product, buffers)


def _add_trial(program: Program, defines: Defines, product: ResidueProduct, buffers: Buffers) -> None:
    a, b = ((x.place, *map(np.int64, x.steps)) for x in (product.a, product.b))
    norms = buffers.norms_a, buffers.norms_b
    kernel = Kernel("trial", defines, (_TRIAL_THREADS,), _TRIAL_BYTES, "trial")
    blocks = _TRIAL_GROUPS * ceil_div(product.k, _TRIAL_PART)
    sizes = product.n, product.k
    program.launch(
        kernel,
        blocks,
        *a,
        product.m,
        *b,
        *sizes,
        *norms,
        buffers.trial,
        buffers.ticket,
        buffers.look,
        buffers.grades.of_k,
    )


def _add_residues(
    program: Program, defines: Defines, x: Operand, k: int, buffers: Buffers, most: int, *, is_b: bool
) -> None:
    """Add the pass over `x`, through shared memory if its elements along k are no neighbours."""
    width = width_of(k)
    if x.is_along:
        function, shared = "residue_rows", 0
        blocks = ceil_div(width, _THREADS * _RUN) * ceil_div(x.vectors, _ROWS)
    else:
        function, shared = "residue_columns", most * _SIDE * (_SIDE + 1) * 4
        blocks = ceil_div(x.vectors, _SIDE) * (width // _DEEP)
    arguments = x.norms, buffers.look, x.residues, width, x.layer, int(is_b), x.large
    kernel = Kernel("residues", defines, (_THREADS,), shared, function)
    sign = -1 if is_b else 1
    program.launch(kernel, blocks, x.matrix.place, x.matrix.ld, x.vectors, k, *arguments, buffers.grades.of_k, sign)


def _add_crt(program: Program, defines: Defines, product: ResidueProduct, buffers: Buffers) -> None:
    m, n, out, scalars = product.m, product.n, product.out, Scalars.of(product.problem)
    width = columns_of(n)
    wide = is_aligned(out, product.problem.dtype.itemsize)
    kernel = Kernel("crt", defines + scalars.defines + as_defines({"WIDE": wide}), (_THREADS,), function="crt")
    blocks = min(ceil_div(m * width // _RUN, _THREADS), _CRT_BLOCKS)
    norms = buffers.norms_a, buffers.norms_b
    c = product.c.place, *map(np.int64, product.c.steps)
    factors = scalars.alpha, scalars.beta
    program.launch(kernel, blocks, buffers.moduli, buffers.c, width, m, n, *norms, *factors, *c, out.place, out.ld)
