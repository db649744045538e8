"""The five loops around a micro-kernel over words (`_mixed.methods`), for one thread; k and kc count elements.

    loop 5  jc over n by nc   row-panel of B
    loop 4  pc over k by kc   the last words of a block are filled up with zeros
    loop 3  ic over m by mc   block of A, packed into words        in L2
    loop 2  jp over panels    micro-panel of B, packed into words just before its first use   in L1
    loop 1  ip over strips    micro-tile of C, of sums             in registers

Otherwise as in `_simd.loops`, except that both operands are always packed, which widens them, by rows or by columns.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._cache.key import kernel_builder
from backends.cpu._ir.call_by_address import call_function
from backends.cpu._ir.functions import compile_functions
from backends.cpu._ir.integers import Translated, translated
from backends.cpu._mixed.methods import WORD_BITS, MixedKey
from backends.cpu._mixed.packing import element_bytes, emit_pack_a, emit_pack_b, emit_seed
from backends.cpu._mixed.packing_columns import emit_pack_a_columns, emit_pack_b_columns
from backends.cpu._simd.argument_table import Loops
from backends.cpu._simd.kernel import tiles_of
from backends.cpu._simd.kernel_table import WORD, emit_tiles
from backends.cpu._simd.loops import packed_a_bytes, row_bytes
from backends.cpu._simd.macro_kernel import even_split
from backends.cpu._simd.part import Part
from backends.cpu._vector import code as v
from backends.cpu._vector.intrinsics import word_at
from harness.operands import CACHE_LINE

WORD_BYTES = WORD_BITS // 8


class MixedLoops(Loops):
    """Choices of the loops for one mixed product; `key` is a `MixedKey`."""

    __slots__ = ()

    def compile(self) -> Any:
        """Return the compiled loops."""
        return build_mixed_product()

    def kernel(self) -> np.ndarray:
        """Return the table of the kernel: WORDS, functions that pack and seed for 1..nv vectors, and tiles."""
        return _kernel_table(self.key)

    def scratch_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Return the sizes of a packed block of A, and of packed panels of B, in bytes."""
        key: Any = self.key
        words = -(-min(self.blocking.kc, k) // key.method.group)
        vectors = -(-min(self.blocking.nc, n) // key.lanes)
        size_of_row = vectors * key.kernel.vector_unit.size_bytes
        return packed_a_bytes(min(self.blocking.mc, m), words, WORD_BYTES), size_of_row * (words + _rows_of_sums(key))


def _rows_of_sums(key: MixedKey) -> int:
    """Return the number of rows of sums before the words of a panel of B."""
    return 1 if key.method.is_shifted else 0


# The words of a kernel's table. `element`: bytes of an element. `lines`: cache lines that a row of a panel's source
# touches. `tiles`: where they begin; `tile_number` is added.
WORDS = "group lanes mr nv is_shifted element lines tiles pack_a_columns pack_b_columns pack_a".split()
PACK_B = len(WORDS) - 1  # the vectors of a panel are added; `seed` is nv words behind


@functools.cache
def _kernel_table(key: MixedKey) -> np.ndarray:
    """Compile the functions of a kernel, and return its table, of int64."""
    of_a_columns, of_b_columns, pack_a, *functions = compile_functions(
        "mixed", key, functools.partial(_emit_functions, key), unrolls=True
    )
    packs, seeds = functions[: key.nv], functions[key.nv :] or [0] * key.nv
    numbers_of_tiles = tiles_of(key.kernel)
    tiles = np.zeros(max(numbers_of_tiles) + 1, np.int64)
    tiles[list(numbers_of_tiles)] = compile_functions("mixed_tiles", key, functools.partial(emit_tiles, key.kernel))
    element = element_bytes(key)
    lines = (key.nv * key.lanes * element - 1) // CACHE_LINE + 2
    first_tile = len(WORDS) + 2 * key.nv
    numbers = key.method.group, key.lanes, key.mr, key.nv, key.method.is_shifted, element, lines, first_tile
    return np.array([*numbers, of_a_columns, of_b_columns, pack_a, *packs, *seeds, *tiles], np.int64)


def _emit_functions(key: MixedKey, module: ir.Module) -> list[Any]:
    """Write the functions that pack and seed, in the order of the table."""
    single = (
        v.own_function(module, name, [v.SIZE] * count, emit(key))
        for name, count, emit in (
            ("pack_a_columns", 7, emit_pack_a_columns), ("pack_b_columns", 6, emit_pack_b_columns),
            ("pack_a_words", 7, emit_pack_a),
        )
    )  # fmt: skip
    packs = v.numbered_functions(module, "pack_words", key.nv, 5, functools.partial(emit_pack_b, key))
    largest = key.nv if key.method.is_shifted else 0
    return [*single, *packs, *v.numbered_functions(module, "seed", largest, 6, functools.partial(emit_seed, key))]


@kernel_builder
def build_mixed_product() -> Translated:
    """Compile ``product(part)``: ``c := a b``, or ``c := c + a b`` if `accumulate` is not 0.

    A and B lie by rows or by columns; `packs_a`, `packs_b`, `block`, `rs_block` and `diagonal` are ignored.
    """
    at = {name: WORD * number for number, name in enumerate(WORDS)}
    at_group, at_lanes, at_mr, at_nv, at_shifted = (at[name] for name in "group lanes mr nv is_shifted".split())
    at_element, at_lines, at_tiles = (at[name] for name in "element lines tiles".split())
    at_pack_a, at_a_columns, at_b_columns = (at[name] for name in "pack_a pack_a_columns pack_b_columns".split())

    def product(part: Part) -> None:
        """Run the five loops."""
        m, n, k, mc, nc, kc = part.m, part.n, part.k, part.mc, part.nc, part.kc
        a, rs_a, cs_a, packed_a = part.a, part.rs_a, part.cs_a, part.packed_a
        b, rs_b, cs_b, packed_b = part.b, part.rs_b, part.cs_b, part.packed_b
        c, rs_c, kernel = part.c, part.rs_c, part.kernel
        group, lanes, element = word_at(kernel + at_group), word_at(kernel + at_lanes), word_at(kernel + at_element)
        mr, nv, lines = word_at(kernel + at_mr), word_at(kernel + at_nv), word_at(kernel + at_lines)
        is_shifted, by_columns = word_at(kernel + at_shifted) != 0, cs_b != element
        pack_a, lda_source = word_at(kernel + at_pack_a), rs_a
        if cs_a != element:
            pack_a, lda_source = word_at(kernel + at_a_columns), cs_a
        tiles, vector, rows_of_sums = kernel + WORD * word_at(kernel + at_tiles), lanes * WORD_BYTES, int(is_shifted)
        for jc in range(0, n, nc):
            n_cur = min(nc, n - jc)
            panels, width, wider = even_split((n_cur + lanes - 1) // lanes, nv)
            for pc in range(0, k, kc):
                k_cur = min(kc, k - pc)
                words = (k_cur + group - 1) // group
                adds = 1 if part.accumulate != 0 or pc > 0 else 0
                lda = row_bytes(words, WORD_BYTES)
                for ic in range(0, m, mc):
                    m_cur = min(mc, m - ic)
                    strips, height, higher = even_split(m_cur, mr)
                    source = a + ic * rs_a + pc * cs_a
                    call_function(pack_a, (m_cur, k_cur, source, lda_source, packed_a, lda, vector))
                    j = 0
                    for jp in range(panels):
                        vectors = width + 1 if jp < wider else width
                        step = vectors * lanes
                        present = min(lanes, n_cur - j - step + lanes)
                        source = b + pc * rs_b + (jc + j) * cs_b
                        ldb = vectors * vector
                        sums = packed_b + (j * WORD_BYTES * (words + rows_of_sums) if m > mc else 0)
                        panel = sums + rows_of_sums * ldb
                        ahead, ahead_stride, per_strip = 0, 0, 0
                        if ic == 0 and by_columns:
                            columns = step - lanes + present
                            call_function(word_at(kernel + at_b_columns), (k_cur, source, cs_b, sums, columns, ldb))
                        elif ic == 0:
                            pack_b = word_at(kernel + WORD * (PACK_B + vectors))
                            call_function(pack_b, (k_cur, source, rs_b, sums, present))
                        if jp + 1 < panels:
                            # prefetch the next panel, as many cache lines for each strip
                            if ic > 0:
                                ahead, ahead_stride = panel + ldb * words, CACHE_LINE
                                per_strip = (ldb * words // CACHE_LINE + strips - 1) // strips
                            elif not by_columns:
                                ahead, ahead_stride = source + step * element, rs_b
                                per_strip = (k_cur * lines + strips - 1) // strips
                        i = 0
                        for ip in range(strips):
                            rows = height + 1 if ip < higher else height
                            line, iterations = ahead, per_strip
                            if ic > 0:
                                line += ip * per_strip * CACHE_LINE
                            else:
                                # a column of lines at a time
                                column, band = ip % lines, ip // lines
                                line += band * per_strip * rs_b + column * CACHE_LINE
                                iterations = max(min(per_strip, k_cur - band * per_strip), 0)
                            tile = c + (ic + i) * rs_c + (jc + j) * WORD_BYTES
                            if is_shifted:
                                seed = word_at(kernel + WORD * (PACK_B + nv + vectors))
                                call_function(seed, (rows, sums, tile, rs_c, adds, present))
                            number = (mr + 1 if rows == mr and present == lanes else rows) * (nv + 1) + vectors
                            call_function(word_at(tiles + WORD * number), (
                                words, packed_a + i * lda, lda, panel, ldb, tile, rs_c,
                                1 if is_shifted else adds, present, line, ahead_stride, iterations, 0, 0, 0,
                            ))  # fmt: skip
                            i += rows
                        j += step

    return translated(product, Part)
