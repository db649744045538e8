"""A product over tiles on several threads, ready to run: parts of C, and packed operands that parts share.

    part          one row of the table that `amx_loops` reads; parts form a grid. A thread begins with one or several
                  neighbouring parts, then takes parts that no other thread has begun
    strips of A   needed by all parts in a row of the grid; panels of B by all in a column. A large operand is packed
                  once (`tuning.amx.amx_shares`), any other by each part, into a block that is reused
    claims        a word for each piece that is shared, and for each part (`amx_claims`); cleared before parts begin

A part waits for another one only while that packs a shared piece.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backends.cpu._compile.pieces import build_run_piece, build_run_pieces
from backends.cpu._compile.scratch import Scratch, scratch
from backends.cpu._mixed.amx_code import ROW_BYTES, ROWS
from backends.cpu._mixed.amx_loops import ARGUMENTS, WORD_BYTES, compile_amx_product
from backends.cpu._mixed.methods import MixedKey
from backends.cpu._mixed.packing import element_bytes
from backends.cpu._simd.argument_table import Shape, cut_evenly
from backends.cpu._threads.atomics import WORD_BYTES as CLAIM_BYTES
from harness.operands import data_address
from harness.plan import Blocking
from harness.tuning import amx as tuning_amx


class TileLoops(NamedTuple):
    """Choices of the loops for one product.

    Attributes
    ----------
    key : MixedKey
    blocking : Blocking
        Around the register tile of the key.
    packs_a : bool
        Whether strips of A are packed that could be read in place, or that lie by columns.
    grid : (int, int)
        Shares of m and of n, one for each thread.
    lost : int
        Address of a byte that is set if the method loses a subnormal number; 0: no scan.
    """

    key: MixedKey
    blocking: Blocking
    packs_a: bool
    grid: tuple[int, int]
    lost: int


class Pieces:
    """The strips of A, or the panels of B: where those of a part are packed, and their claims.

    Parameters
    ----------
    extent, step : int
        Rows or columns of C, and of a piece.
    parts, sharers : int
        Parts in that direction, which have different pieces; parts in the other one, which have the same.
    is_shared : bool
        Whether the latter share packed pieces, or each part packs its own.
    kept : int
        Packed pieces that a part keeps if they are its own.
    blocks_of_k : int
        Each has pieces of its own.
    size_bytes : int
        Of a packed piece; 0 if none is packed.

    Attributes
    ----------
    bytes, claims : int
        Bytes of all packed pieces; number of pieces with a claim, which are those that are shared.
    """

    def __init__(
        self, extent: int, step: int, parts: int, sharers: int, is_shared: bool, kept: int, blocks_of_k: int,
        size_bytes: int,
    ) -> None:  # fmt: skip
        self._begins = [-(-cut // step) for cut in cut_evenly(extent, parts, step)]
        self._size_bytes, self._sharers, self._kept = size_bytes, sharers, kept
        every = self._begins[-1] * blocks_of_k
        self.claims = every if is_shared else 0
        self.bytes = (every if is_shared else parts * sharers * kept) * size_bytes

    def columns(self, letter: str, along: np.ndarray, across: np.ndarray, part: np.ndarray) -> dict[str, Any]:
        """Return the table's entries about the pieces of every part, with offsets for addresses.

        Parameters
        ----------
        letter : str
            The operand, as in the names of arguments.
        along, across, part : (parts,) array of int
            The parts: their numbers in the direction of the pieces, among those that share them, and among all.
        """
        begins = np.array(self._begins)
        begin, count = begins[along], begins[along + 1] - begins[along]
        entries: dict[str, Any] = dict.fromkeys((f"each_k_{letter}", f"claims_{letter}", f"first_{letter}"), 0)
        entries[f"packed_{letter}"] = (begin if self.claims else part * self._kept) * self._size_bytes
        if self.claims:
            entries[f"each_k_{letter}"] = self._begins[-1]
            entries[f"claims_{letter}"] = begin * CLAIM_BYTES
            entries[f"first_{letter}"] = across * count // self._sharers
        return entries


def cut_product(loops: TileLoops, m: int, n: int, k: int) -> tuple[list[int], list[int], Pieces, Pieces]:
    """Return the boundaries of rows and columns of the parts, and the strips and panels of a product."""
    blocking, element, (height, width) = loops.blocking, element_bytes(loops.key), loops.grid
    mr, nr, kc = blocking.mr, blocking.nr, min(blocking.kc, k)
    row_bytes, blocks_of_k = -(-kc * element // ROW_BYTES) * ROW_BYTES, -(-k // blocking.kc)
    has_edges = m % ROWS != 0 or (k | kc) * element % ROW_BYTES != 0  # in the last block, or in all
    strip_bytes = row_bytes * mr if loops.packs_a or has_edges else 0

    def share(extent: int, parts: int) -> bool:
        return tuning_amx.amx_shares(extent * k * element, parts)

    shares_a, shares_b = strip_bytes == 0 or share(m, height), share(n, width)
    finer = tuning_amx.amx_finer(n, width) if height * width > 1 and shares_a else 1
    rows, columns = cut_evenly(m, height, mr), cut_evenly(n, width * finer, nr)
    height, across = len(rows) - 1, len(columns) - 1
    kept_strips = -(-min(blocking.mc, m) // mr)
    kept_panels = -(-min(blocking.nc, n) // nr) if m > blocking.mc else 1
    strips = Pieces(m, mr, height, across, shares_a and across > 1, kept_strips, blocks_of_k, strip_bytes)
    panels = Pieces(n, nr, across, height, shares_b and height > 1, kept_panels, blocks_of_k, row_bytes * nr)
    return rows, columns, strips, panels


_OPERANDS = slice(ARGUMENTS.index("a"), ARGUMENTS.index("c") + 1, 2)  # the columns of a, b and c
_SCRATCH = [ARGUMENTS.index(name) for name in ("packed_a", "packed_b", "tile_of_c")]


class TileProduct:
    """``out := [out +] a b`` over tiles, for any three addresses: of A and B by rows or columns.

    Parameters
    ----------
    loops : TileLoops
    shape : Shape
    accumulate : bool

    Attributes
    ----------
    compute : callable
        ``compute()``, for the addresses that were bound last.
    table : (parts, ...) array of int64
        A row for each part.
    claims : array of int64
        Those of pieces, then those of parts.
    shared : array of int64
        What `amx_loops.SHARED` says.
    """

    def __init__(self, loops: TileLoops, shape: Shape, accumulate: bool) -> None:
        key, blocking = loops.key, loops.blocking
        rows, columns, strips, panels = cut_product(loops, shape.m, shape.n, shape.k)
        height, width, tile_bytes = len(rows) - 1, len(columns) - 1, blocking.mr * blocking.nr * WORD_BYTES
        parts = height * width
        self._scratch_bytes = strips.bytes + panels.bytes + parts * tile_bytes
        claims = np.zeros(strips.claims + panels.claims + parts, np.int64)
        number = np.arange(parts)
        i, j = np.divmod(number, width)
        begin_i, begin_j = np.array(rows), np.array(columns)
        entries = {
            "k": shape.k, "accumulate": accumulate,
            "rs_a": shape.strides_a[0], "cs_a": shape.strides_a[1],
            "rs_b": shape.strides_b[0], "cs_b": shape.strides_b[1], "rs_c": shape.row_stride_out,
            "mc": blocking.mc, "nc": blocking.nc, "kc": blocking.kc, "packs_a": loops.packs_a,
            "lost_a": loops.lost * ((strips.claims > 0) | (i % width == j)),
            "lost_b": loops.lost * ((panels.claims > 0) | (j % height == i)),
            "m": begin_i[i + 1] - begin_i[i],
            "n": begin_j[j + 1] - begin_j[j],
            "a": begin_i[i] * shape.strides_a[0],
            "b": begin_j[j] * shape.strides_b[1],
            "c": begin_i[i] * shape.row_stride_out + begin_j[j] * WORD_BYTES,
            "tile_of_c": strips.bytes + panels.bytes + number * tile_bytes,
            **strips.columns("a", i, j, number),
            **panels.columns("b", j, i, number),
        }  # fmt: skip
        entries["packed_b"] = entries["packed_b"] + strips.bytes
        for of_claims, pieces, before in (("claims_a", strips, 0), ("claims_b", panels, strips.claims)):
            if pieces.claims:
                entries[of_claims] = entries[of_claims] + data_address(claims) + before * CLAIM_BYTES
        self.table, self.claims = np.empty((parts, len(ARGUMENTS)), np.int64), claims
        for column, name in enumerate(ARGUMENTS):
            self.table[:, column] = entries[name]
        self._in_operands, self._in_scratch = self.table[:, _OPERANDS].copy(), self.table[:, _SCRATCH]
        self._place, self._bound = 0, (0, 0, 0)  # where the scratch and the operands were that the table has
        table, of_parts = data_address(self.table), data_address(claims) + (claims.size - parts) * CLAIM_BYTES
        threads = min(loops.grid[0] * loops.grid[1], parts)
        self.shared = np.array((table, of_parts, parts, threads))
        run_part, run_parts = compile_amx_product(key)
        if parts == 1:
            self.compute = functools.partial(build_run_piece(), run_part, table, 0)
        else:
            run = functools.partial(build_run_pieces(), run_parts, data_address(self.shared), threads)
            self.compute = functools.partial(_run_anew, claims, run)

    def bind(self, a: int, b: int, out: int) -> Scratch:
        """Set the addresses of the operands, and of the scratch, which is returned."""
        memory = scratch(self._scratch_bytes)
        if (a, b, out) != self._bound:
            self.table[:, _OPERANDS], self._bound = self._in_operands + np.array((a, b, out)), (a, b, out)
        if memory.address != self._place:
            self.table[:, _SCRATCH], self._place = self._in_scratch + memory.address, memory.address
        return memory

    def run(self, a: int, b: int, out: int) -> None:
        """Compute with the operands at these addresses."""
        memory = self.bind(a, b, out)
        self.compute()
        del memory  # until here it was in use


def _run_anew(claims: np.ndarray, run: Callable[[], Any]) -> None:
    """Call ``run()``, before which no piece and no part is claimed."""
    claims.fill(0)
    run()


def prepare_tiles(
    loops: TileLoops, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool
) -> Callable[[], Any]:
    """Return ``run()``, which computes ``out := [out +] a b``.

    Parameters
    ----------
    loops : TileLoops
    a, b : (m, k) and (k, n) array
        m, n, k >= 1, of the key's narrow dtype, rows contiguous.
    out : (m, n) array
        Of the key's dtype of sums, rows contiguous.
    accumulate : bool
    """
    product = TileProduct(loops, Shape.of(a, b, out), accumulate)
    memory = product.bind(data_address(a), data_address(b), data_address(out))
    run = functools.partial(product.compute)
    run.refers_to = a, b, out, product, memory  # type: ignore[attr-defined] # it knows them by address alone
    return run
