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

All of it is LLVM IR, without LLVM's passes, which gain nothing here: loops of Numba took ten times as long to
compile.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from llvmlite import ir

from backends.cpu._ir.functions import compile_functions
from backends.cpu._mixed import amx_claims
from backends.cpu._mixed.amx_code import ROW_BYTES, ROWS, TILE_BYTES
from backends.cpu._mixed.amx_kernel import configure, emit_merge, multiply_tiles, release
from backends.cpu._mixed.amx_pieces import emit_obtain_panel, emit_obtain_strip
from backends.cpu._mixed.methods import WORD_BITS, MixedKey
from backends.cpu._mixed.packing import element_bytes
from backends.cpu._threads.atomics import WORD_BYTES as CLAIM_BYTES
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.scalar import WORD, ScalarCode
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
    m n k a rs_a b rs_b c rs_c cs_a cs_b accumulate mc nc kc packs_a lost_a lost_b tile_of_c
    packed_a each_k_a claims_a first_a packed_b each_k_b claims_b first_b
""".split()

# What threads that share parts are given: addresses of the table and of the claims of parts, and how many there are.
SHARED = "table claims parts threads".split()


@functools.cache
def compile_amx_product(key: MixedKey) -> tuple[int, int]:
    """Compile ``c := a b``, or ``c := c + a b`` if `accumulate` is not 0; return the addresses of two functions.

    ``run_part(table, part)`` computes a part, ``run_parts(shared, thread)`` those that no other thread has claimed,
    beginning with its own. A and B lie by rows, `cs_a` and `cs_b` being the size of an element, or by columns;
    `packs_a`: whether to pack strips of A that could be read in place, or that lie by columns.
    """

    def emit(module: ir.Module) -> list[ir.Function]:
        emitters = {"run_part": _emit_run_part, "run_parts": _emit_run_parts}
        return [v.own_function(module, name, [v.SIZE] * 2, functools.partial(x, key)) for name, x in emitters.items()]

    run_part, run_parts = compile_functions("amx_product", key, emit)
    return run_part, run_parts


def _emit_run_part(key: MixedKey, b: Builder, table: Value, part: Value) -> None:
    compute = v.calls("product", lambda inside, row: _Part(inside, key, row).compute())
    compute(b, ScalarCode(b).at(table, (part, WORD * len(ARGUMENTS))))


def _emit_run_parts(key: MixedKey, b: Builder, shared: Value, thread: Value) -> None:
    code = ScalarCode(b)
    w = code.words(shared, SHARED)
    first = b.sdiv(b.mul(thread, w.parts), w.threads)

    def one(step: Value) -> None:
        part = _rotated(b, step, first, w.parts)
        with b.if_then(amx_claims.claim(b, code.at(w.claims, (part, CLAIM_BYTES)))):
            _emit_run_part(key, b, w.table, part)

    code.for_each(w.parts, (), one)


class _Block(NamedTuple):
    """Sizes, places and addresses of a block of A by a row-panel of B."""

    jc: Value
    n_cur: Value
    pc: Value
    k_cur: Value
    ic: Value
    m_cur: Value
    steps: Value  # tiles of k
    adds: Value
    panels: Value
    panel_0: Value  # number of the first panel, and of the first strip
    strips: Value
    strip_0: Value
    b: Value
    c: Value


class _Panel(NamedTuple):
    """A micro-panel of B, and what its tiles prefetch of the next: so many lines in a step, `stride` bytes apart."""

    address: Value
    is_first: Value  # of those that the strips are multiplied by
    j: Value
    vectors: Value
    present: Value  # columns of the last vector
    following_j: Value
    ahead: Value
    stride: Value
    per_step: Value


class _Part(ScalarCode):
    """Emitter of the loops of one part, by its row of the table."""

    def __init__(self, b: Builder, key: MixedKey, row: Value) -> None:
        super().__init__(b)
        self._key, self._words = key, self.words(row, ARGUMENTS)
        self._element, self._mr, self._nr = element_bytes(key), key.mr, key.nv * ROWS
        most_steps = self._steps(v.smaller(b, self._words.kc, self._words.k))
        self._strip_bytes = b.mul(most_steps, v.size(key.mr * ROW_BYTES))
        self._panel_bytes = b.mul(most_steps, v.size(key.nv * TILE_BYTES))
        self._shares_a, self._shares_b = (self.is_not(x, 0) for x in (self._words.claims_a, self._words.claims_b))

    def compute(self) -> None:
        """Emit loops 5, 4 and 3."""
        w = self._words

        def blocks_of_rows(*columns_and_terms: Value) -> None:
            self.for_blocks(w.m, w.mc, functools.partial(self._multiply_block, *columns_and_terms))

        def blocks_of_k(*columns: Value) -> None:
            self.for_blocks(w.k, w.kc, functools.partial(blocks_of_rows, *columns))

        configure(self.b)
        self.for_blocks(w.n, w.nc, blocks_of_k)
        release(self.b)

    def _steps(self, k_cur: Value) -> Value:
        """Return the number of tiles of k."""
        return self.parts(self.b.mul(k_cur, v.size(self._element)), ROW_BYTES)

    def _multiply_block(self, jc: Value, n_cur: Value, pc: Value, k_cur: Value, ic: Value, m_cur: Value) -> None:
        """Emit loop 2."""
        b, w, zero = self.b, self._words, v.size(0)
        block_of_k = b.sdiv(pc, w.kc)
        adds = b.or_(self.is_not(w.accumulate, 0), self.is_not(pc, 0))
        panel_0, strip_0 = (
            self.at(b.select(shares, b.sdiv(first, v.size(step)), zero), (block_of_k, each_k))
            for shares, first, step, each_k in (
                (self._shares_b, jc, self._nr, w.each_k_b), (self._shares_a, ic, self._mr, w.each_k_a),
            )
        )  # fmt: skip
        x = _Block(
            jc, n_cur, pc, k_cur, ic, m_cur, self._steps(k_cur), b.zext(adds, v.SIZE),
            self.parts(n_cur, self._nr), panel_0, self.parts(m_cur, self._mr), strip_0,
            self.at(w.b, (pc, w.rs_b), (jc, w.cs_b)), self.at(w.c, (ic, w.rs_c), (jc, WORD_BYTES)),
        )  # fmt: skip
        self.for_each(x.panels, (), lambda step: self._multiply_strips(x, self._obtain_panel(x, step)))

    def _multiply_strips(self, x: _Block, panel: _Panel) -> None:
        """Emit loop 1."""
        self.for_each(x.strips, (), lambda step: self._multiply_tile(x, panel, step))

    def _obtain_panel(self, x: _Block, step: Value) -> _Panel:
        """Return the panel at a step of the walk, packed before the first block of A."""
        b, w = self.b, self._words
        begin, next_step = b.srem(w.first_b, x.panels), b.add(step, v.size(1))
        number, following = (_rotated(b, at, begin, x.panels) for at in (step, next_step))
        j, following_j = (b.mul(n, v.size(self._nr)) for n in (number, following))
        left = b.sub(x.n_cur, j)
        vectors = self.parts(v.smaller(b, v.size(self._nr), left), ROWS)
        present = v.smaller(b, v.size(ROWS), b.sub(left, b.mul(b.sub(vectors, v.size(1)), v.size(ROWS))))
        number, following = b.add(x.panel_0, number), b.add(x.panel_0, following)
        keeps_panels = b.or_(self._shares_b, b.icmp_signed(">", w.m, w.mc))
        address = self.at(w.packed_b, (b.select(keeps_panels, number, v.size(0)), self._panel_bytes))
        is_new = b.icmp_signed("==", x.ic, v.size(0))
        with b.if_then(is_new):
            v.calls("obtain_panel", functools.partial(emit_obtain_panel, self._key))(
                b, vectors, x.k_cur, self.at(x.b, (j, w.cs_b)), w.rs_b, w.cs_b, address, present,
                self._claim(self._shares_b, w.claims_b, number), w.lost_b,
            )  # fmt: skip
        has_next = b.icmp_signed("<", next_step, x.panels)
        is_packed = self.where(
            b.and_(b.and_(has_next, is_new), self._shares_b),
            lambda: amx_claims.is_done(b, self.at(w.claims_b, (following, CLAIM_BYTES))),
            b.not_(is_new),
        )
        # the cache lines of the next panel if it is packed, else the rows of its source
        ahead = b.select(
            is_packed, self.at(w.packed_b, (following, self._panel_bytes)), self.at(x.b, (following_j, w.cs_b))
        )
        lines_of_source = b.select(self.is_not(w.cs_b, self._element), v.size(0), x.k_cur)
        lines = b.select(is_packed, b.mul(x.steps, v.size(self._nr)), lines_of_source)
        each = v.smaller(b, self.parts(lines, b.mul(x.strips, x.steps)), v.size(MOST_PREFETCHES))
        stride, per_step = b.select(is_packed, v.size(CACHE_LINE), w.rs_b), b.select(has_next, each, v.size(0))
        is_first = b.icmp_signed("==", step, v.size(0))
        return _Panel(address, is_first, j, vectors, present, following_j, ahead, stride, per_step)

    def _multiply_tile(self, x: _Block, panel: _Panel, step: Value) -> None:
        """Emit one tile of C: in place if it is whole, else in scratch, whose part in C is merged."""
        b, w = self.b, self._words
        begin, next_step = b.srem(w.first_a, x.strips), b.add(step, v.size(1))
        number = _rotated(b, step, begin, x.strips)
        i = b.mul(number, v.size(self._mr))
        rows = v.smaller(b, v.size(self._mr), b.sub(x.m_cur, i))
        strip, lda, a_step = self._obtain_strip(x, panel, i, rows, b.add(x.strip_0, number))
        tile = self.at(x.c, (i, w.rs_c), (panel.j, WORD_BYTES))
        following_i = b.mul(_rotated(b, next_step, begin, x.strips), v.size(self._mr))
        following_j = b.select(b.icmp_signed("<", next_step, x.strips), panel.j, panel.following_j)
        is_whole = b.and_(
            b.icmp_signed("==", b.srem(rows, v.size(ROWS)), v.size(0)),
            b.icmp_signed("==", panel.present, v.size(ROWS)),
        )
        multiply_tiles(
            b, self._key, self.parts(rows, ROWS), panel.vectors, x.steps, strip, lda, a_step, panel.address,
            b.select(is_whole, tile, w.tile_of_c), b.select(is_whole, w.rs_c, b.mul(panel.vectors, v.size(ROW_BYTES))),
            b.select(is_whole, x.adds, v.size(0)), self.at(x.c, (following_i, w.rs_c), (following_j, WORD_BYTES)),
            self.at(panel.ahead, (b.mul(b.mul(step, x.steps), panel.per_step), panel.stride)), panel.stride,
            panel.per_step,
        )  # fmt: skip
        with b.if_then(b.not_(is_whole)):
            v.calls_numbered("merge", self._key.nv, functools.partial(emit_merge, self._key))(
                b, panel.vectors, rows, w.tile_of_c, tile, w.rs_c, x.adds, panel.present
            )

    def _obtain_strip(
        self, x: _Block, panel: _Panel, i: Value, rows: Value, number: Value
    ) -> tuple[Value, Value, Value]:
        """Return the address of a strip of A, the distance of its rows, and that from one tile of k to the next.

        A new strip, of the first panel, is packed, if it must be, and scanned.
        """
        b, w = self.b, self._words
        partial = (b.srem(rows, v.size(ROWS)), b.srem(b.mul(x.k_cur, v.size(self._element)), v.size(ROW_BYTES)))
        is_packed = functools.reduce(b.or_, (self.is_not(y, 0) for y in (w.packs_a, *partial)))
        source = self.at(w.a, (b.add(x.ic, i), w.rs_a), (x.pc, w.cs_a))
        in_place = self.at(w.packed_a, (number, self._strip_bytes)), v.size(ROW_BYTES), v.size(self._mr * ROW_BYTES)
        strip, lda, a_step = (
            b.select(is_packed, y, z) for y, z in zip(in_place, (source, w.rs_a, v.size(ROW_BYTES)), strict=True)
        )
        is_first = b.icmp_signed("==", x.jc, v.size(0))
        lost, is_new = b.select(is_first, w.lost_a, v.size(0)), b.or_(is_first, b.not_(self._shares_a))
        is_due = b.or_(is_packed, self.is_not(lost, 0)) if self._key.method.loses_subnormals else is_packed
        with b.if_then(b.and_(panel.is_first, b.and_(is_new, is_due))):
            v.calls("obtain_strip", functools.partial(emit_obtain_strip, self._key))(
                b, rows, x.k_cur, source, w.rs_a, w.cs_a, strip, lda, a_step, b.zext(is_packed, v.SIZE),
                self._claim(self._shares_a, w.claims_a, number), lost,
            )  # fmt: skip
        return strip, lda, a_step

    def _claim(self, is_shared: Value, claims: Value, number: Value) -> Value:
        """Return the address of the claim of a piece; 0 if it is the part's own."""
        return self.b.select(is_shared, self.at(claims, (number, CLAIM_BYTES)), v.size(0))


def _rotated(b: Builder, step: Value, first: Value, count: Value) -> Value:
    """Return the number of the piece at `step` of a walk that begins with `first` < `count` and wraps around."""
    number = b.add(step, first)
    return b.select(b.icmp_signed(">=", number, count), b.sub(number, count), number)
