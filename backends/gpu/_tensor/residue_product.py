"""Products of bytes modulo several numbers in one launch, as many as an integer in the memory of the GPU says.

    C_t = A_t B_t modulo p_t        t = 0 .. N - 1; bytes in, bytes out

From residues modulo enough numbers, an exact product of integers follows by the Chinese remainder theorem.

Source: Ozaki, Uchino and Imamura, arXiv 2504.08009.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._program.operators import Form
from backends.gpu._program.program import Matrix, Place, Product, Program, ceil_div
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._tensor.tma import ROW_BYTES, TmaKernel, add_tma
from harness.plan import Plan
from harness.tuning.gpu.tensor_cores import PACKED_RUN, STAGE_STEPS, TILE_COLUMNS, TILE_ROWS

# Each is coprime to those before. A residue modulo at most 256 is a byte.
MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179, 173)
KERNEL = TmaKernel("tensor_core_s8", STAGE_STEPS["int8"], TILE_COLUMNS["int8"], has_stores=True)
BYTES = np.dtype(np.uint8).name

# The same of complex numbers: -1 is a square modulo each, since all of its prime factors are 1 modulo 4.
SPLIT_MODULI = (241, 233, 229, 221, 205, 197, 193, 181, 173, 157, 149, 137, 113, 109, 101, 97, 89)

# Most steps of k of a launch: greater sums have no exact quotient (bits_of in tensor_core_s8.cu). A multiple of a row.
LONGEST = 1 << 16


class Residues(NamedTuple):
    """Stacks of matrices of bytes, one or two layers for each modulus, in the memory of the GPU.

    Attributes
    ----------
    a : Place
        ``int8 (most, m, width_of(k))``: residues in -128..127. What lies beyond k is not read.
    b : Place
        ``int8 (most, columns_of(n), width_of(k))``: row `neighbour(j)` holds column j of B. Rows of columns beyond n
        may hold anything.
    c : Place
        ``uint8 (most, m, columns_of(n))``: the results, in 0..p, where p stands for 0.
    count : Place
        An int32: how many moduli are computed, at most `most`. Read when the kernel runs; 0: nothing is computed.
    most : int
        Layers of each stack, at most as many as `moduli` are for.
    m, n, k : int
    moduli : tuple of int
    each : int
        Layers of one modulus, which follow each other.
    """

    a: Place
    b: Place
    c: Place
    count: Place
    most: int
    m: int
    n: int
    k: int
    moduli: tuple[int, ...] = MODULI
    each: int = 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The bytes of a, b and c."""
        width, columns = width_of(self.k), columns_of(self.n)
        return self.most * self.m * width, self.most * columns * width, self.most * self.m * columns


def width_of(k: int) -> int:
    """Return the bytes of a row along k: whole lines."""
    return ceil_div(k, ROW_BYTES) * ROW_BYTES


def columns_of(n: int) -> int:
    """Return the rows of a layer of B, and the bytes of a row of C: whole runs of neighbours."""
    return ceil_div(n, PACKED_RUN) * PACKED_RUN


def neighbour(j: int) -> int:
    """Return the row of B's layers that holds column `j`, as in neighbours.cuh."""
    return j // 64 * 64 + j % 16 // 2 * 8 + j % 64 // 16 * 2 + j % 2


def add_residue_products(program: Program, plan: Plan, residues: Residues) -> None:
    """Add the products of all layers, with tiles and options of `plan`; if k is long, panel by panel.

    Parameters
    ----------
    program : Program
    plan : Plan
        With the options ``cluster``, ``group`` and ``blocks``.
    residues : Residues
    """
    a, b, c, count, most, m, n, k, *_ = residues
    width, columns, rows_of_b = width_of(k), columns_of(n), plan.launch.bn // int(plan.options["cluster"])
    out = Matrix(c, columns)
    moduli = ", ".join(str(p) for p in residues.moduli for _ in range(residues.each))
    kind = {"C_TYPE": "unsigned char", "DIGITS": 1, "MODULI": moduli, "LAYERS_EACH": residues.each}
    for first in range(0, k, LONGEST):
        steps = min(k - first, LONGEST)
        map_a, map_b = (
            TensorMap(
                place._replace(offset=place.offset + first), rows, steps, width, box, KERNEL.bk, BYTES,
                layers=most, distance=rows * width,
            )
            for place, rows, box in ((a, m, TILE_ROWS), (b, columns, rows_of_b))
        )  # fmt: skip
        macros = as_defines({**kind, "ACCUMULATE": first > 0})
        product = Product(Matrix(a, width), Matrix(b, width), out, m, columns, steps, Form.ANY, False, count)
        add_tma(program, plan, KERNEL, macros, (map_a, map_b), product, np.uint32(1), width=16, layers=most)
