"""The five loops around the generated micro-kernel, by addresses and strides in bytes, for one thread.

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
import numpy as np
from numba import types

from backends.cpu._ladder.jit import jit
from backends.cpu._simd.block_tracker import BLOCK_BYTES
from backends.cpu._simd.dot_products import build_dots
from backends.cpu._simd.kernel import KernelKey, micro_kernel_intrinsic
from backends.cpu._simd.packing import build_gather, pack_b_rows_intrinsic
from backends.cpu._simd.partial_sums import fold_intrinsic
from harness.operands import CACHE_LINE
from harness.tuning import simd as tuning_simd

DOT_VECTOR, DOT_END = tuning_simd.SIMD_DOT_VECTOR, tuning_simd.SIMD_DOT_END

# The arguments of the function that `build_product` compiles, in this order; all integers of the width of an address.
ARGUMENTS = """
    m n k a rs_a cs_a b rs_b cs_b c rs_c accumulate block rs_block mc nc kc packs_a packs_b packed_a packed_b
    diagonal
""".split()


@numba.njit
def even_split(extent: int, largest: int) -> tuple[int, int, int]:
    """Return parts, size and longer: `extent` in parts of `size`, the first `longer` of them one more."""
    parts = (extent + largest - 1) // largest
    size = extent // max(parts, 1)
    return parts, size, extent - parts * size


def row_bytes(k_cur: int, itemsize: int) -> int:
    """Return the distance of rows of a packed block of A: an odd number of cache lines, so that no two share a set."""
    return (k_cur * itemsize + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE | CACHE_LINE


packed_row_bytes = numba.njit(row_bytes)


def packed_a_bytes(m_cur: int, k_cur: int, itemsize: int) -> int:
    """Return the size of a packed block of A."""
    return m_cur * row_bytes(k_cur, itemsize)


def packed_b_bytes(n_cur: int, k_cur: int, key: KernelKey) -> int:
    """Return the size of the packed panels of B: whole vectors, each row of a panel after the other."""
    return -(-n_cur // key.lanes) * key.vector_unit.size_bytes * k_cur


def tile_bytes(key: KernelKey) -> int:
    """Return the size of a register tile in memory, where tiles that the diagonal cuts are computed."""
    return key.mr * key.nv * key.vector_unit.size_bytes


@numba.njit
def next_panel(ic: int, panel: int, size: int, source: int, rs_b: int, lines: int) -> tuple[int, int, int]:
    """Return the address of the next panel, the distance of its lines, and their number: packed, or rows of B."""
    if ic > 0:
        return panel + size, CACHE_LINE, size // CACHE_LINE
    return source, rs_b, lines


@numba.njit
def lines_ahead(ic: int, ip: int, ahead: int, per_strip: int, rs_b: int, k: int, lines: int) -> tuple[int, int]:
    """Return the address of the first prefetch of strip `ip`, and the number of iterations that prefetch.

    The next panel is prefetched line by line if it is packed; else rows of B, one of `lines` columns of lines a strip.
    """
    if ic > 0:
        return ahead + ip * per_strip * CACHE_LINE, per_strip
    group, column = ip // lines, ip % lines
    first = group * per_strip
    iterations = max(min(per_strip, k - first), 0) if per_strip else 0
    return ahead + first * rs_b + column * CACHE_LINE, iterations


def columns_left(n: int, k: int, lanes: int) -> int:
    """Return the number of columns after whole vectors, if dot products are cheaper than one more vector; else 0."""
    left = n % lanes
    return left if left * (DOT_VECTOR * ((k + lanes - 1) // lanes) + DOT_END) < k else 0


compiled_columns_left = numba.njit(columns_left)


def may_take_dots(key: KernelKey) -> bool:
    """Return whether columns left after whole vectors may be dot products.

    Only tiles note the numbers of blocks; a careful kernel rarely runs and need not be fast.
    """
    return not key.block_steps and not key.operations.is_careful


@numba.njit
def _nothing(*arguments: Any) -> None:
    """Replace functions that a kernel never calls: compiling dot products takes a tenth of a kernel's time."""


def _build_store_triangle(key: KernelKey) -> Any:
    """Compile ``store_triangle(rows, columns, right, source, target, rs_c, accumulate)``.

    A tile in scratch goes to C, without what is above the diagonal: the first element is `right` columns behind it.
    """
    store_row, stride = fold_intrinsic(key), key.nv * key.vector_unit.size_bytes

    def store_triangle(rows: int, columns: int, right: int, source: int, target: int, rs_c: int, adds: int) -> None:
        """Store row by row."""
        for r in range(max(right, 0), rows):
            store_row((1, min(r + 1 - right, columns), source + r * stride, 0, target + r * rs_c, adds))

    return jit(None, *[types.intp] * 7, parallel=False)(store_triangle)


@functools.cache
def build_product(key: KernelKey) -> Any:
    """Compile ``product(*ARGUMENTS)``: ``c := a (x) b``, or ``c := c (+) a (x) b`` if `accumulate` is not 0.

    A kernel that tracks writes the numbers of blocks (int8) to `block`, whose rows are `rs_block` bytes apart. Then kc
    must be a multiple of its `block_steps`. No other kernel touches it. `diagonal` is ignored.
    """
    return _build(key, may_take_dots(key), is_triangle=False)


@functools.cache
def build_triangle_product(key: KernelKey) -> Any:
    """Compile the same loops for the elements of C on and below a diagonal: c[i, j] with ``j + diagonal <= i``.

    Tiles above it are left out. A tile that it cuts is computed in scratch, the first `tile_bytes` at `packed_b`, and
    the elements that count are then stored. Nothing of C above the diagonal is read or written.
    """
    return _build(key, False, is_triangle=True)


def _build(key: KernelKey, takes_dots: bool, is_triangle: bool) -> Any:
    """Compile the loops."""
    micro_kernel, pack_b_rows = micro_kernel_intrinsic(key), pack_b_rows_intrinsic(key)
    gather, dots, store_triangle = (
        build_gather(key),
        build_dots(key) if takes_dots else _nothing,
        _build_store_triangle(key) if is_triangle else _nothing,
    )
    itemsize, lanes, mr, nv = np.dtype(key.dtype).itemsize, key.lanes, key.mr, key.nv
    vector, block_steps, size_of_tile = lanes * itemsize, key.block_steps or 1, tile_bytes(key) if is_triangle else 0

    def product(
        m: int, n: int, k: int, a: int, rs_a: int, cs_a: int, b: int, rs_b: int, cs_b: int, c: int, rs_c: int,
        accumulate: int, block: int, rs_block: int, mc: int, nc: int, kc: int, packs_a: int, packs_b: int,
        packed_a: int, packed_b: int, diagonal: int,
    ) -> None:  # fmt: skip
        """Run the five loops."""
        cut_tile, packed_b = packed_b, packed_b + size_of_tile
        for jc in range(0, n, nc):
            n_cur = min(nc, n - jc)
            left = compiled_columns_left(n_cur, k, lanes) if packs_b and takes_dots else 0
            n_cur -= left
            panels, width, wider = even_split((n_cur + lanes - 1) // lanes, nv)
            for pc in range(0, k, kc):
                k_cur = min(kc, k - pc)
                adds = 1 if accumulate != 0 or pc > 0 else 0
                lda = packed_row_bytes(k_cur, itemsize) if packs_a else rs_a
                for ic in range(0, m, mc):
                    m_cur = min(mc, m - ic)
                    strips, height, higher = even_split(m_cur, mr)
                    rows_of_a = a + ic * rs_a + pc * cs_a
                    if packs_a:
                        gather(m_cur, k_cur, rows_of_a, rs_a, cs_a, packed_a, lda)
                        rows_of_a = packed_a
                    for jp in range(panels):
                        j, vectors = (jp * width + min(jp, wider)) * lanes, width + 1 if jp < wider else width
                        step = vectors * lanes
                        present = min(lanes, n_cur - j - step + lanes)
                        source = b + pc * rs_b + (jc + j) * cs_b
                        panel, ldb = source, rs_b
                        ahead, ahead_stride, per_strip = 0, CACHE_LINE, 0
                        if packs_b:
                            panel, ldb = packed_b + (j * itemsize * k_cur if m > mc else 0), vectors * vector
                            if ic == 0 and cs_b == itemsize:
                                pack_b_rows((vectors, k_cur, source, rs_b, panel, present))
                            elif ic == 0:
                                gather(k_cur, min(step, n_cur - j), source, rs_b, cs_b, panel, ldb)
                            if jp + 1 < panels and (ic > 0 or cs_b == itemsize):
                                ahead, ahead_stride, lines = next_panel(
                                    ic, panel, ldb * k_cur, source + step * itemsize, rs_b, k_cur * (nv + 1)
                                )
                                per_strip = (lines + strips - 1) // strips  # prefetches: as many for each strip
                        for ip in range(strips):
                            i, rows = ip * height + min(ip, higher), height + 1 if ip < higher else height
                            line, iterations = lines_ahead(ic, ip, ahead, per_strip, rs_b, k_cur, nv + 1)
                            tile, right = c + (ic + i) * rs_c + (jc + j) * itemsize, jc + j + diagonal - ic - i
                            if is_triangle and right >= rows:
                                continue
                            is_cut = is_triangle and right + step > 1
                            micro_kernel((
                                rows, vectors, k_cur, rows_of_a + i * lda, lda, panel, ldb,
                                cut_tile if is_cut else tile, nv * vector if is_cut else rs_c, 0 if is_cut else adds,
                                present, line, ahead_stride, iterations,
                                block + (ic + i) * rs_block + (jc + j) * BLOCK_BYTES, rs_block, pc // block_steps,
                            ))  # fmt: skip
                            if is_cut:
                                store_triangle(rows, min(step, n_cur - j), right, cut_tile, tile, rs_c, adds)
                    if left:
                        columns, source = packed_b + n_cur * itemsize * k_cur, b + pc * rs_b + (jc + n_cur) * cs_b
                        if ic == 0:
                            gather(left, k_cur, source, cs_b, rs_b, columns, k_cur * itemsize)
                        dots(
                            m_cur, left, k_cur, rows_of_a, lda, columns, k_cur * itemsize,
                            c + ic * rs_c + (jc + n_cur) * itemsize, rs_c, adds,
                        )  # fmt: skip

    return jit(None, *[types.intp] * len(ARGUMENTS), parallel=False)(product)
