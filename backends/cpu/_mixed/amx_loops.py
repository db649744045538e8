"""The five loops around the micro-kernel over tiles, for one part of C on one thread; k and kc count elements.

    loop 5  jc over n by nc   row-panel of B
    loop 4  pc over k by kc   the last tiles of a block are filled up with zeros
    loop 3  ic over m by mc   block of A                                              in L2
    loop 2  jp over panels    micro-panel of B, packed just before its first use      in L1
    loop 1  ip over strips    strip of A, in place or packed at its first use; tile of C

Multiplication of tiles is so fast that moving operands dominates. A strip of A of whole tiles is read in place, unless
the plan says otherwise.

Parts beside each other need the same strips, and parts above each other the same panels. Where they share them, the
first part that needs one packs it (`amx_claims`). Each part begins with another panel and strip, so that the others
have packed theirs by the time it needs them. No part waits for all others.

If A or B holds a subnormal number that the method would lose, a byte is set, and the sums are wrong.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
from numba import types
from numba.core import cgutils

from backends.cpu._ladder.jit import jit
from backends.cpu._mixed.amx_claims import await_done, claim, is_done, publish
from backends.cpu._mixed.amx_code import ROW_BYTES, ROWS, TILE_BYTES
from backends.cpu._mixed.amx_kernel import configure_intrinsic, merge_intrinsic, tile_kernel_intrinsic
from backends.cpu._mixed.methods import WORD_BITS, MixedKey
from backends.cpu._mixed.packing import clear_intrinsic, element_bytes, pack_a_intrinsic, pack_b_intrinsic
from backends.cpu._mixed.subnormals import look_intrinsic
from backends.cpu._threads.atomics import WORD_BYTES as CLAIM_BYTES
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import emits
from harness.operands import CACHE_LINE

WORD_BYTES = WORD_BITS // 8
MOST_PREFETCHES = 8  # in a step; with more, the product waits for memory, whichever lines they fetch

# A row of the table, which describes a part; all integers of 64 bits, addresses and strides in bytes.
#   lost_a, lost_b             address of the byte that is set, or 0: this part scans no strips, or no panels
#   packed_a, claims_a         addresses of packed strips, and of their claims; without claims they are this part's
#                              own, and overwrite those of the block before
#   each_k_a                   strips from one block of k to the next
#   first_a                    the strip of a block to begin with
#   packed_b ... first_b       likewise for panels of B
ARGUMENTS = """
    product m n k a rs_a b rs_b c rs_c accumulate mc nc kc packs_a lost_a lost_b tile_of_c
    packed_a each_k_a claims_a first_a packed_b each_k_b claims_b first_b
""".split()


@emits(types.UniTuple(types.intp, len(ARGUMENTS)), types.intp)
def _row_at(builder: Builder, address: Value) -> Value:
    """Return the integers of a row of the table as a tuple."""
    row = builder.inttoptr(address, v.POINTER)
    loaded = [builder.load(v.advance(builder, row, 8 * i), typ=v.SIZE) for i in range(len(ARGUMENTS))]
    return cgutils.pack_array(builder, loaded)


@numba.njit
def rotated(step: int, first: int, count: int) -> int:
    """Return the number of the piece at `step` of a walk that begins with `first` < `count` and wraps around."""
    number = step + first
    return number - count if number >= count else number


@numba.njit
def _ahead(
    is_packed: bool, iterations: int, packed: int, lines: int, source: int, rows: int, stride: int
) -> tuple[int, int, int]:
    """Return the address of the next panel, the distance of its lines, and how many to prefetch in each iteration.

    They are the cache lines of a packed panel, or the rows of its source.
    """
    address, count, distance = (packed, lines, CACHE_LINE) if is_packed else (source, rows, stride)
    return address, distance, min((count + iterations - 1) // iterations, MOST_PREFETCHES)


def _obtain_panel(key: MixedKey) -> Any:
    """Return ``obtain_panel(vectors, k_cur, source, rs_b, panel, present, word, lost)``.

    It returns when whole tiles of B are there, packed and scanned.
    """
    pack_b, clear, looks = pack_b_intrinsic(key), clear_intrinsic(), key.method.loses_subnormals
    look = look_intrinsic(key.method.operands) if looks else None
    group = key.method.group

    @numba.njit
    def obtain_panel(
        vectors: int, k_cur: int, source: int, rs_b: int, panel: int, present: int, word: int, lost: int
    ) -> None:
        if word != 0 and not claim(word):
            await_done(word)
            return
        pack_b((vectors, k_cur, source, rs_b, panel, present))
        words = (k_cur + group - 1) // group
        beyond = -words % ROWS
        clear((panel + words * vectors * ROW_BYTES, beyond * vectors))
        if looks and lost != 0:
            look((1, (words + beyond) * vectors, panel, 0, ROW_BYTES, lost))
        if word != 0:
            publish(word)

    return obtain_panel


def _obtain_strip(key: MixedKey) -> Any:
    """Return ``obtain_strip(rows, k_cur, a, rs_a, packs_a, packed, is_new, word, lost)``.

    It returns the address of a strip of A, the distance of its rows, and that from one tile of k to the next. A new
    strip is packed, if it must be, and scanned.
    """
    pack_a, looks = pack_a_intrinsic(key), key.method.loses_subnormals
    look = look_intrinsic(key.method.operands) if looks else None
    element, mr = element_bytes(key), key.mr

    @numba.njit
    def obtain_strip(
        rows: int, k_cur: int, a: int, rs_a: int, packs_a: int, packed: int, is_new: bool, word: int, lost: int
    ) -> tuple[int, int, int]:
        is_packed = packs_a != 0 or rows % ROWS != 0 or k_cur * element % ROW_BYTES != 0
        strip, lda, a_step = (packed, ROW_BYTES, mr * ROW_BYTES) if is_packed else (a, rs_a, ROW_BYTES)
        if is_new and (is_packed or (looks and lost != 0)):
            if word == 0 or claim(word):
                if is_packed:
                    pack_a((rows, k_cur, a, rs_a, strip, lda, a_step))
                if looks and lost != 0:
                    look((rows, (k_cur * element + ROW_BYTES - 1) // ROW_BYTES, strip, lda, a_step, lost))
                if word != 0:
                    publish(word)
            elif is_packed:
                await_done(word)
        return strip, lda, a_step

    return obtain_strip


@functools.cache
def build_amx_product(key: MixedKey) -> Any:
    """Compile ``product(row)``: ``c := a b``, or ``c := c + a b`` if `accumulate` is not 0, by the row at `row`.

    Rows of A and B are contiguous; `packs_a`: whether to pack strips of A that could be read in place.
    """
    configure, kernel, merge = configure_intrinsic(), tile_kernel_intrinsic(key), merge_intrinsic(key)
    obtain_panel, obtain_strip = _obtain_panel(key), _obtain_strip(key)
    element, mr, nr, nv = element_bytes(key), key.mr, key.nv * ROWS, key.nv

    def product(row: int) -> None:
        """Run the five loops."""
        (
            _, m, n, k, a, rs_a, b, rs_b, c, rs_c, accumulate, mc, nc, kc, packs_a, lost_a, lost_b, tile_of_c,
            packed_a, each_k_a, claims_a, first_a, packed_b, each_k_b, claims_b, first_b,
        ) = _row_at(row)  # fmt: skip
        configure((1,))
        most_steps = (min(kc, k) * element + ROW_BYTES - 1) // ROW_BYTES
        strip_bytes, panel_bytes = most_steps * mr * ROW_BYTES, most_steps * nv * TILE_BYTES
        keeps_panels = claims_b != 0 or m > mc
        for jc in range(0, n, nc):
            n_cur = min(nc, n - jc)
            panels = (n_cur + nr - 1) // nr
            for pc in range(0, k, kc):
                k_cur = min(kc, k - pc)
                steps = (k_cur * element + ROW_BYTES - 1) // ROW_BYTES
                adds = 1 if accumulate != 0 or pc > 0 else 0
                panel_0 = pc // kc * each_k_b + (jc // nr if claims_b != 0 else 0)
                for ic in range(0, m, mc):
                    m_cur = min(mc, m - ic)
                    strips = (m_cur + mr - 1) // mr
                    strip_0 = pc // kc * each_k_a + (ic // mr if claims_a != 0 else 0)
                    begin_b, begin_a = first_b % panels, first_a % strips
                    for panel_step in range(panels):
                        jp = rotated(panel_step, begin_b, panels)
                        following_jp = rotated(panel_step + 1, begin_b, panels)
                        j = jp * nr
                        vectors = (min(nr, n_cur - j) + ROWS - 1) // ROWS
                        present = min(ROWS, n_cur - j - (vectors - 1) * ROWS)
                        source = b + pc * rs_b + jc * element
                        panel = packed_b + (panel_0 + jp if keeps_panels else 0) * panel_bytes
                        if ic == 0:
                            word = claims_b + (panel_0 + jp) * CLAIM_BYTES if claims_b != 0 else 0
                            obtain_panel(vectors, k_cur, source + j * element, rs_b, panel, present, word, lost_b)
                        ahead, ahead_stride, per_step = panel, 0, 0
                        if panel_step + 1 < panels:
                            word = claims_b + (panel_0 + following_jp) * CLAIM_BYTES
                            ahead, ahead_stride, per_step = _ahead(
                                ic > 0 or (claims_b != 0 and is_done(word)), strips * steps,
                                packed_b + (panel_0 + following_jp) * panel_bytes, steps * nv * ROWS,
                                source + following_jp * nr * element, k_cur, rs_b,
                            )  # fmt: skip
                        top = c + ic * rs_c + jc * WORD_BYTES
                        for strip_step in range(strips):
                            ip = rotated(strip_step, begin_a, strips)
                            i = ip * mr
                            rows = min(mr, m_cur - i)
                            number = strip_0 + ip
                            strip, lda, a_step = obtain_strip(
                                rows, k_cur, a + (ic + i) * rs_a + pc * element, rs_a, packs_a,
                                packed_a + number * strip_bytes, panel_step == 0 and (claims_a == 0 or jc == 0),
                                claims_a + number * CLAIM_BYTES if claims_a != 0 else 0, lost_a if jc == 0 else 0,
                            )  # fmt: skip
                            tile = top + i * rs_c + j * WORD_BYTES
                            following_i = rotated(strip_step + 1, begin_a, strips) * mr
                            following_j = j if strip_step + 1 < strips else following_jp * nr
                            is_whole = rows % ROWS == 0 and present == ROWS
                            kernel((
                                (rows + ROWS - 1) // ROWS, vectors, steps, strip, lda, a_step, panel,
                                tile if is_whole else tile_of_c, rs_c if is_whole else vectors * ROW_BYTES,
                                adds if is_whole else 0, top + following_i * rs_c + following_j * WORD_BYTES,
                                ahead + strip_step * steps * per_step * ahead_stride, ahead_stride, per_step,
                            ))  # fmt: skip
                            if not is_whole:
                                merge((vectors, rows, tile_of_c, tile, rs_c, adds, present))
        configure((0,))

    return jit(None, types.intp, parallel=False)(product)
