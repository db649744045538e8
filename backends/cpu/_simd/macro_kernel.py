"""Loops 2 and 1 around the generated micro-kernel: a block of A by a row-panel of B, by addresses and strides in bytes.

    loop 2  jp over panels    micro-panel of B, packed just before its first use   in L1
    loop 1  ip over strips    micro-tile of C                                      in registers

Rows are split evenly over the strips and vectors evenly over the panels, so that no tile is thin. 25 vectors are nine
panels, seven of three and two of two. While the strips of one panel are computed, they prefetch the next.

All of this becomes part of the loops that call it, so the tuples here are registers: loops by LLVM's inliner, which
compiles faster than Numba's where a function is long, the rest by Numba's.
"""

from __future__ import annotations

from typing import NamedTuple

from backends.cpu._ir.call_by_address import call, call_function
from backends.cpu._simd.block_tracker import BLOCK_BYTES
from backends.cpu._simd.kernel_table import PACK, WORD, WORDS
from backends.cpu._vector.intrinsics import word_at
from harness.operands import CACHE_LINE

Split = tuple[int, int, int]  # parts, the size of each, and the number of those that are one larger, which come first


class Kernel(NamedTuple):
    """Words of a kernel's table, and addresses: of the table, and of its tiles."""

    table: int
    tiles: int
    gather: int
    itemsize: int
    lanes: int
    lane_bits: int
    mr: int
    nv: int
    whole: int  # stands for mr rows in the number of a tile that no edge cuts


class BlockOfA(NamedTuple):
    """A block of A, read in place or packed: its rows are `lda` apart and are split into strips."""

    address: int
    lda: int
    k_cur: int
    strips: Split


class RowPanelOfB(NamedTuple):
    """A row-panel of B: where it is, and where and whether its micro-panels are packed."""

    source: int
    rs_b: int
    cs_b: int
    n_cur: int
    panels: Split  # of vectors
    packs: bool
    is_packed: bool  # by the block of A before this one, or by the caller
    packed: int
    keeps_panels: bool  # each has a place of its own; else the next one is packed over it


class MicroPanel(NamedTuple):
    """A micro-panel of B: its rows of whole vectors are `ldb` apart, and the last vector has `present` elements."""

    address: int
    ldb: int
    vectors: int
    present: int


class Ahead(NamedTuple):
    """What the strips of one micro-panel prefetch of the next: as many cache lines each, none if `per_strip` is 0.

    A packed panel is prefetched line by line. Of rows of B, `stride` apart, a strip takes one of several columns of
    lines.
    """

    address: int
    stride: int
    per_strip: int
    is_packed: bool


class Target(NamedTuple):
    """The part of C that is computed, and where its blocks of k are noted.

    `diagonal` is the number of columns from the first one to the diagonal, in the first row; `cut_tile` a place for
    tiles that the diagonal cuts.
    """

    c: int
    rs_c: int
    adds: int
    block: int
    rs_block: int
    first_block: int
    is_triangle: bool
    diagonal: int
    cut_tile: int


_AT = {name: WORD * number for number, name in enumerate(WORDS)}
_TABLE_OF = _AT["tiles"], _AT["gather"], _AT["has_whole"], _AT["mr"], _AT["nv"]
_SIZES = _AT["itemsize"], _AT["lanes"], _AT["lane_bits"]
_FOLD = _AT["fold"]


def read_kernel(table: int) -> Kernel:
    """Return what the loops need of the `kernel_table` at an address."""
    at_tiles, at_gather, at_whole, at_mr, at_nv = _TABLE_OF
    at_itemsize, at_lanes, at_lane_bits = _SIZES
    mr = word_at(table + at_mr)
    return Kernel(
        table, table + WORD * word_at(table + at_tiles), word_at(table + at_gather), word_at(table + at_itemsize),
        word_at(table + at_lanes), word_at(table + at_lane_bits), mr, word_at(table + at_nv),
        mr + word_at(table + at_whole),
    )  # fmt: skip


def even_split(extent: int, largest: int) -> Split:
    """Return `extent` in parts of almost equal size, none larger than `largest`."""
    if extent <= largest:  # without a division, which would be a tenth of the time of the smallest products
        return min(extent, 1), extent, 0
    parts = (extent + largest - 1) // largest
    size = extent // parts
    return parts, size, extent - parts * size


def part_of(split: Split, number: int) -> tuple[int, int]:
    """Return where a part begins, and its size."""
    _, size, larger = split
    return number * size + min(number, larger), size + 1 if number < larger else size


def multiply_block(kernel: Kernel, rows: BlockOfA, columns: RowPanelOfB, target: Target) -> None:
    """Compute loop 2: each micro-panel of B, packed if it is not yet, by the block of A."""
    panels, _, _ = columns.panels
    for jp in range(panels):
        first, vectors = part_of(columns.panels, jp)
        j, step = first * kernel.lanes, vectors * kernel.lanes
        present = min(kernel.lanes, columns.n_cur - j - step + kernel.lanes)
        panel = MicroPanel(columns.source + j * columns.cs_b, columns.rs_b, vectors, present)
        ahead = Ahead(0, CACHE_LINE, 0, False)
        if columns.packs:
            to = columns.packed + (j * kernel.itemsize * rows.k_cur if columns.keeps_panels else 0)
            packed = MicroPanel(to, step * kernel.itemsize, vectors, present)
            if not columns.is_packed:
                pack_panel(kernel, rows.k_cur, panel, packed, columns.cs_b, min(step, columns.n_cur - j))
            if jp + 1 < panels and (columns.is_packed or columns.cs_b == kernel.itemsize):
                ahead = next_panel(kernel, rows, columns, panel, packed)
            panel = packed
        multiply_strips(kernel, rows, panel, ahead, columns.n_cur - j, Target(
            target.c + j * kernel.itemsize, target.rs_c, target.adds, target.block + j * BLOCK_BYTES, target.rs_block,
            target.first_block, target.is_triangle, target.diagonal + j, target.cut_tile,
        ))  # fmt: skip


def pack_panel(kernel: Kernel, k_cur: int, source: MicroPanel, packed: MicroPanel, cs_b: int, n_cur: int) -> None:
    """Pack `n_cur` columns of B as a micro-panel: by vectors, or gathered if its rows are not contiguous."""
    if cs_b == kernel.itemsize:
        pack = word_at(kernel.table + WORD * (PACK + source.vectors))
        call_function(pack, (k_cur, source.address, source.ldb, packed.address, source.present))
    else:
        call(kernel.gather, (k_cur, n_cur, source.address, source.ldb, cs_b, packed.address, packed.ldb))


def next_panel(kernel: Kernel, rows: BlockOfA, columns: RowPanelOfB, source: MicroPanel, packed: MicroPanel) -> Ahead:
    """Return what is prefetched of the micro-panel after this one: if they are packed of that, else of rows of B."""
    if columns.is_packed:
        size = packed.ldb * rows.k_cur
        address, stride, lines = packed.address + size, CACHE_LINE, size // CACHE_LINE
    else:
        address, stride, lines = source.address + packed.ldb, columns.rs_b, rows.k_cur * (kernel.nv + 1)
    strips, _, _ = rows.strips
    return Ahead(address, stride, (lines + strips - 1) // strips, columns.is_packed)


def multiply_strips(
    kernel: Kernel, rows: BlockOfA, panel: MicroPanel, ahead: Ahead, n_cur: int, target: Target
) -> None:
    """Compute loop 1: each strip of A by one micro-panel of B, a tile of C each but those above the diagonal."""
    step, rs_tile = panel.vectors * kernel.lanes, kernel.nv * kernel.lanes * kernel.itemsize
    strips, _, _ = rows.strips
    group, column = 0, 0  # of lines that are prefetched from rows of B
    for ip in range(strips):
        i, height = part_of(rows.strips, ip)
        line, lines = ahead.address, 0
        if ahead.per_strip > 0:
            line, lines = lines_ahead(ahead, ip, group, column, rows.k_cur)
            column = column + 1 if column < kernel.nv else 0
            group += column == 0
        c, right = target.c + i * target.rs_c, target.diagonal - i
        if target.is_triangle and right >= height:
            continue
        number = (kernel.whole if height == kernel.mr and panel.present == kernel.lanes else height) * (kernel.nv + 1)
        is_cut = target.is_triangle and right + step > 1
        call_function(word_at(kernel.tiles + WORD * (number + panel.vectors)), (
            rows.k_cur, rows.address + i * rows.lda, rows.lda, panel.address, panel.ldb,
            target.cut_tile if is_cut else c, rs_tile if is_cut else target.rs_c, 0 if is_cut else target.adds,
            panel.present, line, ahead.stride, lines,
            target.block + i * target.rs_block, target.rs_block, target.first_block,
        ))  # fmt: skip
        if is_cut:
            store_cut_tile(kernel, height, min(step, n_cur), right, rs_tile, c, target)


def lines_ahead(ahead: Ahead, ip: int, group: int, column: int, k_cur: int) -> tuple[int, int]:
    """Return the address of the first line that strip `ip` prefetches, and how many lines it does."""
    if ahead.is_packed:
        return ahead.address + ip * ahead.per_strip * CACHE_LINE, ahead.per_strip
    first = group * ahead.per_strip
    return ahead.address + first * ahead.stride + column * CACHE_LINE, max(min(ahead.per_strip, k_cur - first), 0)


def store_cut_tile(kernel: Kernel, rows: int, columns: int, right: int, rs_tile: int, c: int, target: Target) -> None:
    """Combine with C what lies on and below the diagonal of a tile in scratch, which begins `right` of the diagonal."""
    fold = word_at(kernel.table + _FOLD)
    for r in range(max(right, 0), rows):
        count = min(r + 1 - right, columns)
        call_function(fold, (1, count, target.cut_tile + r * rs_tile, 0, c + r * target.rs_c, target.adds))
