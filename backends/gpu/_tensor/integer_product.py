"""Products of integers by tensor cores, exact modulo 2^32 or 2^64: bytes as they are, wider elements as signed digits.

    int8 to int32        A and B as they lie along k; what lies otherwise is turned by a pass, as part of the product
    D bytes an element   A = sum of 256^i A_i: C = sum of 256^(i + j) A_i B_j over i + j < D, D (D + 1) / 2 products

Rows along k begin at multiples of 16 bytes, as the copy engine expects, or are copied.
"""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import WIDE
from backends.gpu._program.operators import TYPES, triangle_defines
from backends.gpu._program.program import Kernel, Matrix, Product, Program, ceil_div
from backends.gpu._tensor.digits import Stack, add_digits, byte_maps, without_edges
from backends.gpu._tensor.residue_product import KERNEL
from backends.gpu._tensor.tma import add_tma
from harness.plan import Plan
from harness.tuning.gpu import tensor_cores as tuning

_WORD = np.dtype(np.int32)
_VECTOR = 4  # elements of C that are stored at once
_LONG = 8  # digits of elements whose sums are layers
# Layers of their sums, and most steps of k for which none of them overflows: 4 2^14 k < 2^31. Whole lines of digits.
_LAYERS, _LONGEST = 5, 255 * 128


def add_integer_product(program: Program, plan: Plan, product: Product) -> None:
    """Add ``out := [out +] alpha a b`` over integers.

    Parameters
    ----------
    program : Program
    plan : Plan
        With the options ``cluster``, ``group`` and ``blocks``.
    product : Product
        Its a and b may be by columns.
    """
    problem = plan.problem
    digits = 1 if problem.is_mixed else problem.dtype.itemsize
    stacks = add_digits(program, product, digits)
    alpha = 1 if problem.alpha is None else int(problem.alpha)
    if digits == _LONG:
        _add_long(program, plan, product, stacks, alpha)
    else:
        _add_terms(program, plan, product, stacks, digits, np.uint32(alpha % 2**32))


def _add_terms(
    program: Program,
    plan: Plan,
    product: Product,
    stacks: tuple[Stack, Stack],
    digits: int,
    alpha: np.uint32,
    layers: int = 1,
) -> None:
    """Add the kernel that multiplies digits; of elements of 8 bytes it leaves layers of sums."""
    problem, k = plan.problem, product.k
    maps = byte_maps(stacks, k, plan, digits)
    c_type = "int" if layers > 1 else TYPES[problem.dtype.name]
    itemsize = _WORD.itemsize if layers > 1 else problem.dtype.itemsize
    macros = {"C_TYPE": c_type, "DIGITS": digits, "ACCUMULATE": product.accumulate}
    if problem.is_mixed and problem.input_dtype.kind == "u":
        macros["KIND"] = '"u8"'
    part, more, beside = without_edges(product, stacks, plan)
    add_tma(
        program, plan, KERNEL, as_defines(macros | more), maps, part, alpha,
        width=_width(product.out, itemsize), itemsize=itemsize, layers=layers, beside=beside,
    )  # fmt: skip


def _width(out: Matrix, itemsize: int) -> int:
    """Return how many neighbours of a row of C are stored at once: `_VECTOR` where its rows are aligned."""
    is_wide = out.ld % _VECTOR == 0 and out.alignment % min(_VECTOR * itemsize, WIDE) == 0
    return _VECTOR if is_wide else 1


def _add_long(program: Program, plan: Plan, product: Product, stacks: tuple[Stack, Stack], alpha: int) -> None:
    """Add the products of elements of 8 bytes: sums by layers, which a pass joins, a panel of k after the other."""
    m, n = product.m, product.n
    ld = ceil_div(n, _VECTOR) * _VECTOR
    sums = Matrix(program.reserve("sums", _LAYERS * m * ld, _WORD), ld)
    for first in range(0, product.k, _LONGEST):
        panels = tuple(x._replace(place=x.place._replace(offset=x.place.offset + first)) for x in stacks)
        steps = min(product.k - first, _LONGEST)
        part = product._replace(out=sums, k=steps, accumulate=False)
        _add_terms(program, plan, part, (panels[0], panels[1]), _LONG, np.uint32(1), _LAYERS)
        macros = {"WIDTH": _width(product.out, _LONG), "ACCUMULATE": product.accumulate or first > 0}
        kernel = Kernel(
            "join", as_defines(macros) + triangle_defines(plan.problem), (tuning.PASS_THREADS,), function="join"
        )
        sizes = sums.place, ld, product.out.place, product.out.ld, m, n, np.uint64(alpha % 2**64)
        program.launch(kernel, min(m, tuning.PASS_BLOCKS), *sizes)
