"""The five loops around the generated micro-kernel, by addresses and strides in bytes, for one thread.

They are the same code for every semiring, dtype and register tile (`_simd.kernel_table`).

    loop 5  jc over n by nc   row-panel of B
    loop 4  pc over k by kc   the first block of k stores C, later ones combine with it
    loop 3  ic over m by mc   block of A, in place or gathered     in L2
    loop 2  jp over panels    micro-panel of B, packed just before its first use   in L1
    loop 1  ip over strips    micro-tile of C                      in registers

The few columns left after whole vectors of packed B are computed as dot products along k (`_simd.dot_products`), if the
cost model of `tuning.simd` says so. A tile of few lanes takes as long as a tile of whole vectors. The dot products
follow the panels of each block of A, which is in L2 then.
A triangle of C takes the same loops, without the tiles above its diagonal.
Rows are split evenly over the strips and vectors evenly over the panels, so that no tile is thin. 25 vectors are nine
panels, seven of three and two of two. The plan decides whether A and B are read in place.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
from numba import types

from backends.cpu._compile.call_by_address import call, call_function
from backends.cpu._ladder.jit import jit
from backends.cpu._simd.block_tracker import BLOCK_BYTES
from backends.cpu._simd.dot_products import multiply_columns
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import PACK, WORD, WORDS
from backends.cpu._vector.intrinsics import word_at
from harness.operands import CACHE_LINE
from harness.tuning import simd as tuning_simd

PACKED = 2  # a `packs_b`: the panels of all blocks of k lie at b, one block behind the other
DOT_VECTOR, DOT_END = tuning_simd.SIMD_DOT_VECTOR, tuning_simd.SIMD_DOT_END

# The arguments of the function that `build_product` compiles, in this order; all integers of the width of an address.
ARGUMENTS = """
    m n k a rs_a cs_a b rs_b cs_b c rs_c accumulate block rs_block mc nc kc packs_a packs_b packed_a packed_b
    diagonal kernel
""".split()

NO_DIAGONAL = -(1 << 62)  # the diagonal, if all of C counts


@numba.njit(inline="always")
def even_split(extent: int, largest: int) -> tuple[int, int, int]:
    """Return parts, size and longer: `extent` in parts of `size`, the first `longer` of them one more."""
    if extent <= largest:  # without a division, which would be a tenth of the time of the smallest products
        return min(extent, 1), extent, 0
    parts = (extent + largest - 1) // largest
    size = extent // parts
    return parts, size, extent - parts * size


def row_bytes(k_cur: int, itemsize: int) -> int:
    """Return the distance of rows of a packed block of A: an odd number of cache lines, so that no two share a set."""
    return (k_cur * itemsize + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE | CACHE_LINE


packed_row_bytes = numba.njit(inline="always")(row_bytes)


def packed_a_bytes(m_cur: int, k_cur: int, itemsize: int) -> int:
    """Return the size of a packed block of A."""
    return m_cur * row_bytes(k_cur, itemsize)


def packed_b_bytes(n_cur: int, k_cur: int, key: KernelKey) -> int:
    """Return the size of the packed panels of B: whole vectors, each row of a panel after the other."""
    return -(-n_cur // key.lanes) * key.vector_unit.size_bytes * k_cur


def tile_bytes(key: KernelKey) -> int:
    """Return the size of a register tile in memory, where tiles that the diagonal cuts are computed."""
    return key.mr * key.nv * key.vector_unit.size_bytes


@numba.njit(inline="always")
def next_panel(ready: bool, panel: int, size: int, source: int, rs_b: int, lines: int) -> tuple[int, int, int]:
    """Return the address of the next panel, the distance of its lines, and their number: packed, or rows of B."""
    if ready:
        return panel + size, CACHE_LINE, size // CACHE_LINE
    return source, rs_b, lines


@numba.njit(inline="always")
def lines_ahead(
    ready: bool, ip: int, group: int, column: int, ahead: int, per_strip: int, rs_b: int, k: int
) -> tuple[int, int]:
    """Return the address of the first prefetch of strip `ip`, and the number of iterations that prefetch.

    The next panel is prefetched line by line if it is packed; else rows of B, one of several columns of lines a strip.
    """
    if ready:
        return ahead + ip * per_strip * CACHE_LINE, per_strip
    first = group * per_strip
    return ahead + first * rs_b + column * CACHE_LINE, max(min(per_strip, k - first), 0)


def columns_left(n: int, k: int, lanes: int) -> int:
    """Return the number of columns after whole vectors, if dot products are cheaper than one more vector; else 0."""
    left = n % lanes
    return left if left * (DOT_VECTOR * ((k + lanes - 1) // lanes) + DOT_END) < k else 0


columns_left_over = numba.njit(inline="always")(columns_left)


@functools.cache
def build_product() -> Any:
    """Compile ``product(*ARGUMENTS)``: ``c := a (x) b``, or ``c := c (+) a (x) b`` if `accumulate` is not 0.

    `kernel` is the address of a `kernel_table`. A kernel that tracks writes the numbers of blocks (int8) to `block`,
    whose rows are `rs_block` bytes apart. Then kc must be a multiple of its `block_steps`. No other kernel touches it.

    With a `diagonal`, only the elements of C on and below it are computed: c[i, j] with ``j + diagonal <= i``. Tiles
    above it are left out. A tile that it cuts is computed in scratch, the last `tile_bytes` before `packed_b`, and the
    elements that count are then stored. Nothing of C above the diagonal is read or written.
    """
    at = {name: WORD * number for number, name in enumerate(WORDS)}
    at_itemsize, at_lanes, at_lane_bits = (at[x] for x in "itemsize lanes lane_bits".split())
    at_mr, at_nv, at_steps = (at[x] for x in "mr nv block_steps".split())
    at_takes_dots, at_has_whole, at_tiles = (at[x] for x in "takes_dots has_whole tiles".split())
    at_gather, at_fold, at_dots = (at[x] for x in "gather fold dots_1".split())

    def product(
        m: int, n: int, k: int, a: int, rs_a: int, cs_a: int, b: int, rs_b: int, cs_b: int, c: int, rs_c: int,
        accumulate: int, block: int, rs_block: int, mc: int, nc: int, kc: int, packs_a: int, packs_b: int,
        packed_a: int, packed_b: int, diagonal: int, kernel: int,
    ) -> None:  # fmt: skip
        """Run the five loops."""
        itemsize, lanes, lane_bits = (
            word_at(kernel + at_itemsize), word_at(kernel + at_lanes), word_at(kernel + at_lane_bits),
        )  # fmt: skip
        mr, nv, block_steps = word_at(kernel + at_mr), word_at(kernel + at_nv), word_at(kernel + at_steps)
        gather, tiles = word_at(kernel + at_gather), kernel + WORD * word_at(kernel + at_tiles)
        whole, is_triangle = mr + word_at(kernel + at_has_whole), diagonal != NO_DIAGONAL
        is_packed, keeps_panels = packs_b == PACKED, packs_b == PACKED or m > mc
        takes_dots = packs_b != 0 and not is_packed and word_at(kernel + at_takes_dots) != 0 and not is_triangle
        for jc in range(0, n, nc):
            n_cur = min(nc, n - jc)
            left = columns_left_over(n_cur, k, lanes) if takes_dots else 0
            n_cur -= left
            panels, width, wider = even_split((n_cur + lanes - 1) >> lane_bits, nv)
            for pc in range(0, k, kc):
                k_cur = min(kc, k - pc)
                adds, first_block = 1 if accumulate != 0 or pc > 0 else 0, pc // block_steps if pc > 0 else 0
                lda = packed_row_bytes(k_cur, itemsize) if packs_a else rs_a
                of_block = b + pc * ((n_cur + lanes - 1) >> lane_bits) * lanes * itemsize if is_packed else packed_b
                for ic in range(0, m, mc):
                    m_cur, ready = min(mc, m - ic), is_packed or ic > 0  # ready: panels are packed already
                    strips, height, higher = even_split(m_cur, mr)
                    rows_of_a = a + ic * rs_a + pc * cs_a
                    if packs_a:
                        call(gather, (m_cur, k_cur, rows_of_a, rs_a, cs_a, packed_a, lda))
                        rows_of_a = packed_a
                    for jp in range(panels):
                        j, vectors = (jp * width + min(jp, wider)) * lanes, width + 1 if jp < wider else width
                        step = vectors * lanes
                        present = min(lanes, n_cur - j - step + lanes)
                        source = b + pc * rs_b + (jc + j) * cs_b
                        panel, ldb, ahead, ahead_stride, per_strip = source, rs_b, 0, CACHE_LINE, 0
                        if packs_b:
                            ldb = vectors * lanes * itemsize
                            panel = of_block + (j * itemsize * k_cur if keeps_panels else 0)
                            if not ready and cs_b == itemsize:
                                pack = word_at(kernel + WORD * (PACK + vectors))
                                call_function(pack, (k_cur, source, rs_b, panel, present))
                            elif not ready:
                                call(gather, (k_cur, min(step, n_cur - j), source, rs_b, cs_b, panel, ldb))
                            if jp + 1 < panels and (ready or cs_b == itemsize):
                                ahead, ahead_stride, lines = next_panel(
                                    ready, panel, ldb * k_cur, source + step * itemsize, rs_b, k_cur * (nv + 1)
                                )
                                per_strip = (lines + strips - 1) // strips  # prefetches: as many for each strip
                        group, column = 0, 0
                        for ip in range(strips):
                            i, rows = ip * height + min(ip, higher), height + 1 if ip < higher else height
                            line, iterations = ahead, 0
                            if per_strip > 0:
                                line, iterations = lines_ahead(ready, ip, group, column, ahead, per_strip, rs_b, k_cur)
                                column = column + 1 if column < nv else 0
                                group += column == 0
                            target, right = c + (ic + i) * rs_c + (jc + j) * itemsize, jc + j + diagonal - ic - i
                            if is_triangle and right >= rows:
                                continue
                            number = (whole if rows == mr and present == lanes else rows) * (nv + 1) + vectors
                            is_cut = is_triangle and right + step > 1
                            rs_tile = nv * lanes * itemsize
                            cut_tile = packed_b - mr * rs_tile
                            call_function(word_at(tiles + WORD * number), (
                                k_cur, rows_of_a + i * lda, lda, panel, ldb,
                                cut_tile if is_cut else target, rs_tile if is_cut else rs_c, 0 if is_cut else adds,
                                present, line, ahead_stride, iterations,
                                block + (ic + i) * rs_block + (jc + j) * BLOCK_BYTES, rs_block, first_block,
                            ))  # fmt: skip
                            if is_cut:
                                fold = word_at(kernel + at_fold)
                                for r in range(max(right, 0), rows):
                                    count = min(r + 1 - right, step, n_cur - j)
                                    call_function(fold, (1, count, cut_tile + r * rs_tile, 0, target + r * rs_c, adds))
                    if left:
                        columns, source = packed_b + n_cur * itemsize * k_cur, b + pc * rs_b + (jc + n_cur) * cs_b
                        if ic == 0:
                            call(gather, (left, k_cur, source, cs_b, rs_b, columns, k_cur * itemsize))
                        multiply_columns(
                            kernel + at_dots, m_cur, left, k_cur, rows_of_a, lda, columns, k_cur * itemsize,
                            c + ic * rs_c + (jc + n_cur) * itemsize, rs_c, itemsize, adds,
                        )  # fmt: skip

    return jit(None, *[types.intp] * len(ARGUMENTS), parallel=False)(product)
