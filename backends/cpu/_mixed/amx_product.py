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
from numba import prange, types

from backends.cpu._compile.call_by_address import address_of, call
from backends.cpu._compile.scratch import scratch
from backends.cpu._ladder.jit import jit
from backends.cpu._mixed.amx_claims import claim
from backends.cpu._mixed.amx_code import ROW_BYTES, ROWS
from backends.cpu._mixed.amx_loops import ARGUMENTS, WORD_BYTES, build_amx_product, rotated
from backends.cpu._mixed.methods import MixedKey
from backends.cpu._mixed.packing import element_bytes
from backends.cpu._simd.argument_table import cut_evenly, entry_point
from backends.cpu._threads.atomics import WORD_BYTES as CLAIM_BYTES
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
        Whether strips of A are packed that could be read in place.
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

    def row(self, letter: str, memory: int, claims: int, position: tuple[int, int, int]) -> dict[str, int]:
        """Return the table's entries about the pieces of a part.

        Parameters
        ----------
        letter : str
            The operand, as in the names of arguments.
        memory, claims : int
            Addresses of all packed pieces, and of their claims.
        position : (int, int, int)
            The part: its number in the direction of the pieces, among those that share them, and among all.
        """
        along, across, part = position
        begin, end = self._begins[along : along + 2]
        row = dict.fromkeys((f"each_k_{letter}", f"claims_{letter}", f"first_{letter}"), 0)
        row[f"packed_{letter}"] = memory + (begin if self.claims else part * self._kept) * self._size_bytes
        if self.claims:
            row[f"each_k_{letter}"] = self._begins[-1]
            row[f"claims_{letter}"] = claims + begin * CLAIM_BYTES
            row[f"first_{letter}"] = across * (end - begin) // self._sharers
        return row


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
    key, blocking, element = loops.key, loops.blocking, element_bytes(loops.key)
    rows, columns, strips, panels = cut_product(loops, a.shape[0], b.shape[1], a.shape[1])
    width, tile_bytes = len(columns) - 1, blocking.mr * blocking.nr * WORD_BYTES
    parts = (len(rows) - 1) * width
    memory = scratch(strips.bytes + panels.bytes + parts * tile_bytes)
    claims = np.zeros(strips.claims + panels.claims + parts, np.int64)
    begin_b, tiles_of_c = memory.address + strips.bytes, memory.address + strips.bytes + panels.bytes
    fixed = {
        "product": address_of(build_amx_product(key)), "k": a.shape[1], "rs_a": a.strides[0], "rs_b": b.strides[0],
        "rs_c": out.strides[0], "accumulate": accumulate, "mc": blocking.mc, "nc": blocking.nc, "kc": blocking.kc,
        "packs_a": loops.packs_a, "lost": loops.lost,
    }  # fmt: skip
    table = np.empty((parts, len(ARGUMENTS)), np.int64)
    for part in range(parts):
        i, j = divmod(part, width)
        row = fixed | {
            "m": rows[i + 1] - rows[i],
            "n": columns[j + 1] - columns[j],
            "a": a.ctypes.data + rows[i] * a.strides[0],
            "b": b.ctypes.data + columns[j] * element,
            "c": out.ctypes.data + rows[i] * out.strides[0] + columns[j] * WORD_BYTES,
            "tile_of_c": tiles_of_c + part * tile_bytes,
            **strips.row("a", memory.address, claims.ctypes.data, (i, j, part)),
            **panels.row("b", begin_b, claims.ctypes.data + strips.claims * CLAIM_BYTES, (j, i, part)),
        }
        table[part] = [row[name] for name in ARGUMENTS]
    threads = min(loops.grid[0] * loops.grid[1], parts)
    if parts == 1:
        run = functools.partial(entry_point(build_run_part()), table)
    else:
        run = functools.partial(entry_point(build_run_parts()), table, claims, threads)
    run.refers_to = a, b, out, memory, claims  # type: ignore[attr-defined] # it knows them by address alone
    return run


_TABLE, _CLAIMS = types.Array(types.int64, 2, "C"), types.Array(types.int64, 1, "C")


@functools.cache
def build_run_part() -> Any:
    """Compile ``run_part(table)``: compute the only part. The same for every kernel."""

    def run_part(table: np.ndarray) -> None:
        call(table[0, 0], (table.ctypes.data,))

    return jit(None, _TABLE, parallel=False)(run_part)


@functools.cache
def build_run_parts() -> Any:
    """Compile ``run_parts(table, claims, threads)``: compute every part.

    The last claims are those of the parts. Each thread begins with its own parts and goes on with unclaimed ones, since
    other work slows some cores down.
    """

    def run_parts(table: np.ndarray, claims: np.ndarray, threads: int) -> None:
        parts = table.shape[0]
        for word in range(claims.size):  # as an expression of arrays it would be a parallel loop of its own
            claims[word] = 0
        for thread in prange(threads):
            first = np.intp(thread) * parts // threads
            for step in range(parts):
                part = rotated(step, first, parts)
                if claim(claims.ctypes.data + (claims.size - parts + part) * CLAIM_BYTES):
                    call(table[part, 0], (table[part].ctypes.data,))

    return jit(None, _TABLE, _CLAIMS, types.intp)(run_parts)
