"""The five loops around the micro-kernel over tiles, for one thread; k and kc count elements.

    loop 5  jc over n by nc   row-panel of B
    loop 4  pc over k by kc   a block that fills no whole tiles has zeros in its last ones
    loop 3  ic over m by mc   block of A                                              in L2
    loop 2  jp over panels    micro-panel of B, packed just before its first use      in L1
    loop 1  ip over strips    strip of A, where it lies or packed at its first use; tile of C

A multiplication of tiles is so fast that moving operands is what costs: a strip of A that is whole tiles is read where
it lies, unless the plan says otherwise. `packs_b` is not looked at as such: B is always packed, and the argument is the
address of a byte, or 0. The byte is set where the method would lose a subnormal number that A or B holds; the sums are
wrong then.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
from numba import types

from backends.cpu._amx_code import ROW_BYTES, ROWS, TILE_BYTES
from backends.cpu._amx_kernel import configure_intrinsic, merge_intrinsic, tile_kernel_intrinsic
from backends.cpu._generated_call import Loops
from backends.cpu._generated_loops import ARGUMENTS
from backends.cpu._jit import jit
from backends.cpu._mixed_methods import WORD_BITS, MixedKey
from backends.cpu._mixed_packing import clear_intrinsic, element_bytes, pack_a_intrinsic, pack_b_intrinsic
from backends.cpu._subnormals import look_intrinsic
from harness.operands import CACHE_LINE

WORD_BYTES = WORD_BITS // 8
MOST_PLACES_A_STEP = 8  # to be asked for: with more, the product waits for memory whatever it asks for


class AmxLoops(Loops):
    """How the loops go about one product over tiles; `key` is a `MixedKey`, `packs_b` the address of a byte or 0."""

    __slots__ = ()

    def compile(self) -> Any:
        """Return the compiled loops."""
        return build_amx_product(self.key)

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return the sizes of a packed block of A, and of a tile of C with the packed panels of B, in bytes."""
        key: Any = self.key
        blocking = self.blocking
        steps = -(-min(blocking.kc, k) * element_bytes(key) // ROW_BYTES)
        strips = -(-min(blocking.mc, m) // key.mr)
        panels = -(-min(blocking.nc, n) // blocking.nr) if m > blocking.mc else 1
        return strips * steps * key.mr * ROW_BYTES, (key.mr // ROWS + panels * steps) * key.nv * TILE_BYTES


def _pack_panel(key: MixedKey) -> Any:
    """Return ``pack_panel(vectors, k_cur, source, rs_b, panel, present, flag)``: whole tiles of B, looked at."""
    pack_b, clear, looks = pack_b_intrinsic(key), clear_intrinsic(), key.method.loses_subnormals
    look = look_intrinsic(key.method.operands) if looks else None
    group = key.method.group

    @numba.njit
    def pack_panel(vectors: int, k_cur: int, source: int, rs_b: int, panel: int, present: int, flag: int) -> None:
        pack_b((vectors, k_cur, source, rs_b, panel, present))
        words = (k_cur + group - 1) // group
        beyond = -words % ROWS
        clear((panel + words * vectors * ROW_BYTES, beyond * vectors))
        if looks and flag != 0:
            look((1, (words + beyond) * vectors, panel, 0, ROW_BYTES, flag))

    return pack_panel


def _place_strip(key: MixedKey) -> Any:
    """Return ``place_strip(rows, k_cur, a, rs_a, packs_a, packed, is_new, flag)``.

    It returns where a strip of A is, the distance of its rows, and that from one tile of k to the next. A strip that is
    new is packed, if it must be, and looked at.
    """
    pack_a, looks = pack_a_intrinsic(key), key.method.loses_subnormals
    look = look_intrinsic(key.method.operands) if looks else None
    element, mr = element_bytes(key), key.mr

    @numba.njit
    def place_strip(
        rows: int, k_cur: int, a: int, rs_a: int, packs_a: int, packed: int, is_new: bool, flag: int
    ) -> tuple[int, int, int]:
        strip, lda, a_step = a, rs_a, ROW_BYTES
        if packs_a != 0 or rows % ROWS != 0 or k_cur * element % ROW_BYTES != 0:
            strip, lda, a_step = packed, ROW_BYTES, mr * ROW_BYTES
            if is_new:
                pack_a((rows, k_cur, a, rs_a, strip, lda, a_step))
        if looks and is_new and flag != 0:
            look((rows, (k_cur * element + ROW_BYTES - 1) // ROW_BYTES, strip, lda, a_step, flag))
        return strip, lda, a_step

    return place_strip


@functools.cache
def build_amx_product(key: MixedKey) -> Any:
    """Compile ``product(*ARGUMENTS)``: ``c := a b``, or ``c := c + a b`` if `accumulate` is not 0.

    Rows of A and B are contiguous; `packs_a` says whether strips of A are packed that could be read where they lie.
    `block` and `rs_block` are not looked at.
    """
    configure, kernel, merge = configure_intrinsic(), tile_kernel_intrinsic(key), merge_intrinsic(key)
    pack_panel, place_strip = _pack_panel(key), _place_strip(key)
    element, mr, nr, nv = element_bytes(key), key.mr, key.nv * ROWS, key.nv

    def product(
        m: int, n: int, k: int, a: int, rs_a: int, cs_a: int, b: int, rs_b: int, cs_b: int, c: int, rs_c: int,
        accumulate: int, block: int, rs_block: int, mc: int, nc: int, kc: int, packs_a: int, flag: int,
        packed_a: int, packed_b: int,
    ) -> None:  # fmt: skip
        """Run the five loops."""
        configure((1,))
        tile_of_c, panels_of_b = packed_b, packed_b + mr // ROWS * nv * TILE_BYTES
        for jc in range(0, n, nc):
            n_cur = min(nc, n - jc)
            panels = (n_cur + nr - 1) // nr
            for pc in range(0, k, kc):
                k_cur = min(kc, k - pc)
                steps = (k_cur * element + ROW_BYTES - 1) // ROW_BYTES
                adds = 1 if accumulate != 0 or pc > 0 else 0
                for ic in range(0, m, mc):
                    m_cur = min(mc, m - ic)
                    strips = (m_cur + mr - 1) // mr
                    for jp in range(panels):
                        j = jp * nr
                        vectors = (min(nr, n_cur - j) + ROWS - 1) // ROWS
                        present = min(ROWS, n_cur - j - (vectors - 1) * ROWS)
                        source = b + pc * rs_b + (jc + j) * element
                        panel = panels_of_b + (jp * steps * nv * TILE_BYTES if m > mc else 0)
                        if ic == 0:
                            pack_panel(vectors, k_cur, source, rs_b, panel, present, flag)
                        ahead, ahead_stride, per_step = panel, 0, 0
                        if jp + 1 < panels:
                            # the next panel: lines of a packed one, or rows of its source
                            is_packed = ic > 0
                            ahead = panel + steps * nv * TILE_BYTES if is_packed else source + nr * element
                            ahead_stride = CACHE_LINE if is_packed else rs_b
                            places = steps * nv * ROWS if is_packed else k_cur
                            per_step = min((places + strips * steps - 1) // (strips * steps), MOST_PLACES_A_STEP)
                        top = c + ic * rs_c + (jc + j) * WORD_BYTES
                        for ip in range(strips):
                            i = ip * mr
                            rows = min(mr, m_cur - i)
                            strip, lda, a_step = place_strip(
                                rows, k_cur, a + (ic + i) * rs_a + pc * element, rs_a, packs_a,
                                packed_a + i * steps * ROW_BYTES, jp == 0, flag if jc == 0 else 0,
                            )  # fmt: skip
                            tile = top + i * rs_c
                            following = tile + mr * rs_c if ip + 1 < strips else top + nr * WORD_BYTES
                            is_whole = rows % ROWS == 0 and present == ROWS
                            kernel((
                                (rows + ROWS - 1) // ROWS, vectors, steps, strip, lda, a_step, panel,
                                tile if is_whole else tile_of_c, rs_c if is_whole else vectors * ROW_BYTES,
                                adds if is_whole else 0, following,
                                ahead + ip * steps * per_step * ahead_stride, ahead_stride, per_step,
                            ))  # fmt: skip
                            if not is_whole:
                                merge((vectors, rows, tile_of_c, tile, rs_c, adds, present))
        configure((0,))

    return jit(None, *[types.intp] * len(ARGUMENTS), parallel=False)(product)
