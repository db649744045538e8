"""The certificate: a product of bytes that bounds the error of each element (certify.cu)."""

from __future__ import annotations

import numpy as np

from backends.gpu._cuda.device import planned
from backends.gpu._cuda.kernel_files import Defines, as_defines
from backends.gpu._program.operators import Form
from backends.gpu._program.program import Kernel, Matrix, Product, Program
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._residues.norms import Operand
from backends.gpu._tensor.residue_product import BYTES, KERNEL, LONGEST, Residues, columns_of, width_of
from backends.gpu._tensor.tma import add_tma
from harness.plan import Plan
from harness.tuning.gpu.tensor_cores import TILE_ROWS

_THREADS, _BLOCKS = 256, 8  # certify.cu, and blocks of a multiprocessor
_VECTOR = 4  # sums that are stored at once


def add_certificate(
    program: Program, plan: Plan, defines: Defines, residues: Residues, operands: tuple[Operand, Operand]
) -> None:
    """Add the launches that make the number of moduli 0 unless all elements are certain.

    The sizes are the layer after the residues. Their product lies where the products of residues will. A k beyond
    `LONGEST` counts up to there.
    """
    m, n, k = residues.m, residues.n, min(residues.k, LONGEST)
    width, columns = width_of(residues.k), columns_of(n)
    rows_of_b = plan.launch.bn // int(plan.options["cluster"])
    maps = [
        TensorMap(
            place._replace(offset=place.offset + residues.most * rows * width), rows, k, width, box, KERNEL.bk, BYTES,
            layers=1, distance=rows * width,
        )
        for place, rows, box in ((residues.a, m, TILE_ROWS), (residues.b, columns, rows_of_b))
    ]  # fmt: skip
    out = Matrix(residues.c, columns)
    product = Product(
        Matrix(residues.a, width), Matrix(residues.b, width), out, m, columns, k, Form.ANY, False, residues.count
    )
    macros = as_defines({"C_TYPE": "int", "DIGITS": 1, "ACCUMULATE": 0, "IS_GUARDED": 1})
    add_tma(program, plan, KERNEL, macros, (maps[0], maps[1]), product, np.uint32(1), width=_VECTOR)
    vectors = [y for x in operands for y in (x.found.norms, x.found.extents)]
    kernel = Kernel("certify", defines, (_THREADS,), function="certify", is_chained=True)
    program.launch(
        kernel,
        min(m, _BLOCKS * planned().multiprocessors),
        residues.c,
        columns,
        m,
        n,
        residues.k,
        *vectors,
        residues.count,
    )
