"""A product by residues as launches: norms and trial, residues and gate, products of bytes, what puts them together.

Which kernels compute is known only on the GPU. All are launched, and those that the gate did not choose return at once:
the passes of residues, or the native kernel with the copies that it needs. Nobody waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.device import planned
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._passes.padding import is_aligned
from backends.gpu._passes.scalars import Scalars
from backends.gpu._program.operators import TYPES
from backends.gpu._program.program import Kernel, Place, Program, ceil_div
from backends.gpu._residues.certificate import add_certificate
from backends.gpu._residues.moduli import SYSTEMS, crt_defines, look_defines, residue_macros
from backends.gpu._residues.native import Copies, add_native, add_native_complex
from backends.gpu._residues.norms import Found, Grades, Operand, Trial, add_grades, add_norms
from backends.gpu._residues.shape import ResidueProduct, padded
from backends.gpu._tensor.residue_product import Residues, add_residue_products, columns_of, width_of
from harness.dtypes import count_parts, dtype_name, parts_dtype
from harness.errors import PlanError
from harness.plan import Plan
from harness.problem import Problem
from harness.tuning.gpu import residues as tuning
from harness.tuning.gpu.tensor_cores import PACKED_RUN

_THREADS, _RUN, _ROWS, _SIDE, _DEEP = 256, 4, 4, 32, 128  # residues.cu
_CRT_BLOCKS = 16  # of a multiprocessor
_BYTE, _UINT, _INT, _DOUBLE = (np.dtype(x) for x in (np.uint8, np.uint32, np.int32, np.float64))
_LOOK_WORDS = 4
_MODULI_WORDS = 4  # one, and what guards of SIMT kernels read beside it


class Buffers(NamedTuple):
    """Scratch of a product, all of it that of the widest panel of columns."""

    a: Found
    b: Found
    look: Place
    moduli: Place
    trial: Trial
    grades: Grades
    c: Place

    @classmethod
    def reserve(
        cls, program: Program, product: ResidueProduct, n: int, most: int, *, is_balanced: bool, is_certified: bool
    ) -> Buffers:
        """Reserve them in `program`, for n columns of `product` at most."""
        m, k = product.m, product.k
        of_a, of_b, of_c = stack_bytes(product.problem, m, n, k, product.parts * most + is_certified)
        return cls(
            Found.reserve(program, "a", m, of_a, is_certified=is_certified),
            Found.reserve(program, "b", n, of_b, is_certified=is_certified),
            program.reserve("look", _LOOK_WORDS, _UINT, is_zeroed=True),
            program.reserve("moduli", _MODULI_WORDS, _INT),
            Trial(
                program.reserve("trial", Trial.size(product.parts * product.line), _DOUBLE),
                program.reserve("ticket", 1, _UINT, is_zeroed=True),
            ),
            Grades.reserve(program, k) if is_balanced else Grades.absent(),
            program.reserve("residues_c", of_c, _BYTE),
        )


def stack_bytes(problem: Problem, m: int, n: int, k: int, layers: int) -> tuple[int, int, int]:
    """Return the bytes of the residues of A and B, or of copies in their place, and of those of the product.

    Where those of complex numbers are, the native kernel leaves the product of their planes.
    """
    a, b, c = Residues(*[Place("")] * 4, layers, m, n, k).sizes
    part, parts = parts_dtype(problem.dtype), count_parts(problem.dtype)
    copy_a, copy_b = (rows * padded(x, part) * part.itemsize for rows, x in ((parts * m, k), (k, parts * n)))
    products = parts * m * n * problem.dtype.itemsize if problem.is_complex else 0
    return max(a, copy_a), max(b, copy_b), max(c, products)


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
    numbers = tuning.NUMBERS[dtype_name(plan.problem.dtype)]
    gate, moduli = str(plan.choice("gate", tuning.GATES)), int(plan.choice("moduli", (0, *numbers.counts)))
    least, most = (moduli, moduli) if moduli else (numbers.fewest, numbers.most)
    panel = min(_panel(plan, product), product.n)
    look = look_defines(numbers, least, most, gate, parts=product.parts)
    conditions = {"is_balanced": bool(plan.options["balance"]), "is_certified": gate == "certified"}
    if product.problem.is_complex and any(conditions.values()):
        got = f"gate={gate}, balance={plan.options['balance']}"
        raise PlanError(
            "complex numbers are neither certified nor balanced", expected="another gate, balance=0", got=got
        )
    buffers = Buffers.reserve(program, product, panel, most, **conditions)
    for first in range(0, product.n, panel):
        part = product.columns(first, min(panel, product.n - first))
        _add_emulated(program, plan, part, buffers, look, (least, most))
        copies = Copies(buffers.moduli, buffers.a.residues, buffers.b.residues)
        if product.problem.is_complex:
            add_native_complex(program, plan, part, copies, buffers.c)
        else:
            add_native(program, plan, part, copies)


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
    m, n, k, (least, most), parts = product.m, product.n, product.k, counts, product.parts
    is_balanced = bool(plan.choice("balance", (0, 1)))
    a = Operand(product.a, m, not product.a.by_columns, buffers.a, m)
    b = Operand(product.b, n, product.b.by_columns, buffers.b, columns_of(n))
    kind = look + as_defines({"T": TYPES[dtype_name(parts_dtype(product.problem.dtype))]})
    if is_balanced:
        add_grades(program, kind, (a, b), k, buffers.grades)
    defines = kind + as_defines({"BALANCED": is_balanced})
    trial = None if plan.options["gate"] == "off" else buffers.trial
    add_norms(program, defines, (a, b), parts * product.line, buffers.look, buffers.grades, trial)
    is_certified = plan.options["gate"] == "certified"
    _add_residues(program, defines, product, (a, b), buffers, most + is_certified)
    places = a.found.residues, b.found.residues, buffers.c, buffers.moduli
    residues = Residues(*places, parts * most, m, n, k, SYSTEMS[parts][:most], parts)
    if is_certified:
        add_certificate(program, plan, kind, residues, (a, b))
    add_residue_products(program, plan, residues)
    _add_crt(program, kind + crt_defines(least, most, parts=parts), product, buffers)


def _add_residues(
    program: Program,
    defines: Defines,
    product: ResidueProduct,
    operands: tuple[Operand, Operand],
    buffers: Buffers,
    layers: int,
) -> None:
    """Add the pass over A and B, through shared memory where elements along k are no neighbours, and the gate."""
    width, (a, b) = width_of(product.k), operands
    blocks = [
        ceil_div(width, _THREADS * _RUN) * ceil_div(x.vectors, _ROWS // product.parts)
        if x.is_along
        else ceil_div(x.vectors, _SIDE) * (width // _DEEP)
        for x in operands
    ]
    macros: dict[str, object] = residue_macros(product.parts)
    itemsize = parts_dtype(product.problem.dtype).itemsize
    for name, x in zip("AB", operands, strict=True):
        macros |= {f"{name}_ALONG": x.is_along, f"{name}_WIDE": is_aligned(x.matrix, itemsize)}
    shared = 0 if a.is_along and b.is_along else layers * _SIDE * (_SIDE + 1) * 4
    kernel = Kernel("residues", defines + as_defines(macros), (_THREADS,), shared, "residues", is_chained=True)
    sides = [y for x in operands for y in (x.matrix.place, x.matrix.ld, x.vectors, *x.found)]
    ends = buffers.look, buffers.grades.of_k, blocks[0], buffers.trial.ticket, buffers.moduli
    program.launch(kernel, sum(blocks), *sides, b.layer, product.line, width, *ends)


def _add_crt(program: Program, defines: Defines, product: ResidueProduct, buffers: Buffers) -> None:
    m, n, out, scalars = product.m, product.n, product.out, Scalars.of(product.problem)
    width = columns_of(n)
    wide = is_aligned(out, product.problem.dtype.itemsize)
    kernel = Kernel(
        "crt", defines + scalars.defines + as_defines({"WIDE": wide}), (_THREADS,), function="crt", is_chained=True
    )
    blocks = min(ceil_div(m * width // _RUN, _THREADS), _CRT_BLOCKS * planned().multiprocessors)
    norms = buffers.a.norms, buffers.b.norms
    c = product.c.place, *map(np.int64, product.c.steps)
    factors = scalars.alpha.real, scalars.beta.real, scalars.beta.imag  # alpha is in the planes of complex numbers
    program.launch(kernel, blocks, buffers.moduli, buffers.c, width, m, n, *norms, *factors, *c, out.place, out.ld)
