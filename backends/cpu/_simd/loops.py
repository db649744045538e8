"""The five loops around the generated micro-kernel, by addresses and strides in bytes, for one thread.

They are the same code for every semiring, dtype and register tile (`_simd.kernel_table`).

    loop 5  jc over n by nc   row-panel of B
    loop 4  pc over k by kc   the first block of k stores C, later ones combine with it
    loop 3  ic over m by mc   block of A, in place or gathered     in L2
    loop 2  jp over panels    micro-panel of B, packed just before its first use   in L1: `_simd.macro_kernel`
    loop 1  ip over strips    micro-tile of C                      in registers

The few columns left after whole vectors of packed B are computed as dot products along k (`_simd.dot_products`), if the
cost model of `tuning.simd` says so. A tile of few lanes takes as long as a tile of whole vectors. The dot products
follow the panels of each block of A, which is in L2 then.
A triangle of C takes the same loops, without the tiles above its diagonal. The plan decides whether A and B are read in
place.
"""

from __future__ import annotations

from backends.cpu._cache.key import kernel_builder
from backends.cpu._ir.call_by_address import call
from backends.cpu._ir.integers import Translated, translated
from backends.cpu._simd.block_tracker import BLOCK_BYTES
from backends.cpu._simd.dot_products import multiply_columns
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import WORD, WORDS
from backends.cpu._simd.macro_kernel import (
    BlockOfA,
    RowPanelOfB,
    Target,
    even_split,
    multiply_block,
    read_kernel,
)
from backends.cpu._simd.part import NO_DIAGONAL, PANELS_AT_B, Part
from backends.cpu._vector.intrinsics import word_at
from harness.operands import CACHE_LINE
from harness.tuning import simd as tuning_simd

DOT_VECTOR, DOT_END = tuning_simd.SIMD_DOT_VECTOR, tuning_simd.SIMD_DOT_END


def row_bytes(k_cur: int, itemsize: int) -> int:
    """Return the distance of rows of a packed block of A: an odd number of cache lines, so that no two share a set."""
    return (k_cur * itemsize + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE | CACHE_LINE


def packed_a_bytes(m_cur: int, k_cur: int, itemsize: int) -> int:
    """Return the size of a packed block of A."""
    return m_cur * row_bytes(k_cur, itemsize)


def packed_b_bytes(n_cur: int, k_cur: int, key: KernelKey) -> int:
    """Return the size of the packed panels of B: whole vectors, each row of a panel after the other."""
    return -(-n_cur // key.lanes) * key.vector_unit.size_bytes * k_cur


def tile_bytes(key: KernelKey) -> int:
    """Return the size of a register tile in memory, where tiles that the diagonal cuts are computed."""
    return key.mr * key.nv * key.vector_unit.size_bytes


def columns_left(n: int, k: int, lanes: int) -> int:
    """Return the number of columns after whole vectors, if dot products are cheaper than one more vector; else 0."""
    left = n % lanes
    return left if left * (DOT_VECTOR * ((k + lanes - 1) // lanes) + DOT_END) < k else 0


def columns_beside(key: KernelKey, n: int, k: int) -> int:
    """Return the number of columns after whole vectors that are dot products by this kernel."""
    return columns_left(n, k, key.lanes) if key.may_take_dots else 0


@kernel_builder
def build_product() -> Translated:
    """Compile ``product(part)``: ``c := a (x) b``, or ``c := c (+) a (x) b`` if `accumulate` is not 0.

    `kernel` is the address of a `kernel_table`. A kernel that tracks writes the numbers of blocks (int8) to `block`,
    whose rows are `rs_block` bytes apart. Then kc must be a multiple of its `block_steps`. No other kernel touches it.

    With a `diagonal`, only the elements of C on and below it are computed: c[i, j] with ``j + diagonal <= i``. Tiles
    above it are left out. A tile that it cuts is computed in scratch, the last `tile_bytes` before `packed_b`, and the
    elements that count are then stored. Nothing of C above the diagonal is read or written.
    """
    at_takes_dots, at_steps, at_dots = (WORD * WORDS.index(name) for name in ("takes_dots", "block_steps", "dots_1"))

    def product(part: Part) -> None:
        """Run loops 5, 4 and 3."""
        m, n, k, mc, nc, kc = part.m, part.n, part.k, part.mc, part.nc, part.kc
        a, rs_a, cs_a, packed_a = part.a, part.rs_a, part.cs_a, part.packed_a
        b, rs_b, cs_b, packs_b, packed_b = part.b, part.rs_b, part.cs_b, part.packs_b, part.packed_b
        c, rs_c, block, rs_block, kernel = part.c, part.rs_c, part.block, part.rs_block, part.kernel
        x, block_steps, is_triangle = read_kernel(kernel), word_at(kernel + at_steps), part.diagonal != NO_DIAGONAL
        cut_tile = packed_b - x.mr * x.nv * x.lanes * x.itemsize
        is_packed, keeps_panels = packs_b == PANELS_AT_B, packs_b == PANELS_AT_B or m > mc
        takes_dots = packs_b != 0 and not is_packed and word_at(kernel + at_takes_dots) != 0 and not is_triangle
        for jc in range(0, n, nc):  # loop 5: row-panels of B
            n_cur = min(nc, n - jc)
            left = columns_left(n_cur, k, x.lanes) if takes_dots else 0
            n_cur -= left
            vectors = (n_cur + x.lanes - 1) >> x.lane_bits
            panels = even_split(vectors, x.nv)
            for pc in range(0, k, kc):  # loop 4: blocks of k
                k_cur, source = min(kc, k - pc), b + pc * rs_b + jc * cs_b
                adds, first_block = 1 if part.accumulate != 0 or pc > 0 else 0, pc // block_steps if pc > 0 else 0
                lda = row_bytes(k_cur, x.itemsize) if part.packs_a else rs_a
                packed = b + pc * vectors * x.lanes * x.itemsize if is_packed else packed_b
                for ic in range(0, m, mc):  # loop 3: blocks of A
                    m_cur, address = min(mc, m - ic), a + ic * rs_a + pc * cs_a
                    if part.packs_a:
                        call(x.gather, (m_cur, k_cur, address, rs_a, cs_a, packed_a, lda))
                        address = packed_a
                    rows = BlockOfA(address, lda, k_cur, even_split(m_cur, x.mr))
                    columns = RowPanelOfB(
                        source, rs_b, cs_b, n_cur, panels, packs_b != 0, is_packed or ic > 0, packed, keeps_panels
                    )
                    target = Target(
                        c + ic * rs_c + jc * x.itemsize, rs_c, adds, block + ic * rs_block + jc * BLOCK_BYTES,
                        rs_block, first_block, is_triangle, jc + part.diagonal - ic, cut_tile,
                    )  # fmt: skip
                    multiply_block(x, rows, columns, target)
                    if left:
                        # the last columns of the row-panel, gathered behind its micro-panels
                        gathered, ldx = packed_b + n_cur * x.itemsize * k_cur, k_cur * x.itemsize
                        if ic == 0:
                            call(x.gather, (left, k_cur, source + n_cur * cs_b, cs_b, rs_b, gathered, ldx))
                        multiply_columns(
                            kernel + at_dots, m_cur, left, k_cur, address, lda, gathered, ldx,
                            target.c + n_cur * x.itemsize, rs_c, x.itemsize, adds,
                        )  # fmt: skip

    return translated(product, Part)
