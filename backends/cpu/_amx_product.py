"""A product over tiles on some threads, ready to run: a part of C for each, and packed operands that parts share.

    part          one row of the table that `_amx_loops` reads; parts make a grid, each runs on a thread of its own
    strips of A   needed by all parts of a row of the grid, panels of B by all of a column: packed once in a product
    claims        a word for each piece that is shared (`_amx_claims`); they are cleared before the parts begin

A piece that only one part needs, and any piece of operands so large that their packed form would take too much memory,
is that part's own: it is packed into a block that is used again and again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import prange, types

from backends.cpu._address import address_of, call
from backends.cpu._amx_claims import WORD_BYTES as CLAIM_BYTES
from backends.cpu._amx_code import ROW_BYTES, ROWS
from backends.cpu._amx_loops import ARGUMENTS, WORD_BYTES, build_amx_product
from backends.cpu._generated_call import cut_evenly, entry_point
from backends.cpu._jit import jit
from backends.cpu._mixed_methods import MixedKey
from backends.cpu._mixed_packing import element_bytes
from backends.cpu._scratch import scratch
from harness import tuning
from harness.plan import Blocking


class TileLoops(NamedTuple):
    """How the loops go about one product.

    Attributes
    ----------
    key : MixedKey
    blocking : Blocking
        Around the register tile of the key.
    packs_a : bool
        Whether strips of A are packed that could be read where they lie.
    grid : (int, int)
        Parts of m and of n.
    lost : int
        Address of a byte that is set where a subnormal number is met that the method loses; 0: none is looked for.
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
        Parts in that direction, each of other pieces; and in the other direction, of the same pieces.
    kept : int
        Packed pieces that a part keeps if they are its own.
    blocks_of_k : int
        Each has pieces of its own.
    size_bytes : int
        Of a packed piece; 0 if none is packed.

    Attributes
    ----------
    bytes, claims : int
        The memory that they take packed, and how many have a claim: all that are shared.
    """

    def __init__(
        self, extent: int, step: int, parts: int, sharers: int, kept: int, blocks_of_k: int, size_bytes: int
    ) -> None:
        self._begins = [-(-cut // step) for cut in cut_evenly(extent, parts, step)]
        self._size_bytes, self._sharers, self._kept = size_bytes, sharers, kept
        every = self._begins[-1] * blocks_of_k
        is_shared = sharers > 1 and every * size_bytes <= tuning.AMX_MOST_SHARED
        self.claims = every if is_shared else 0
        self.bytes = (every if is_shared else parts * sharers * kept) * size_bytes

    def row(self, letter: str, memory: int, claims: int, place: tuple[int, int, int]) -> dict[str, int]:
        """Return what the table says of a part's pieces.

        Parameters
        ----------
        letter : str
            The operand, as in the names of arguments.
        memory, claims : int
            Addresses of all packed pieces, and of their claims.
        place : (int, int, int)
            The part: its number in the direction of the pieces, among those that share them, and among all.
        """
        along, across, part = place
        begin, end = self._begins[along : along + 2]
        row = dict.fromkeys((f"each_k_{letter}", f"claims_{letter}", f"first_{letter}"), 0)
        row[f"packed_{letter}"] = memory + (begin if self.claims else part * self._kept) * self._size_bytes
        if self.claims:
            row[f"each_k_{letter}"] = self._begins[-1]
            row[f"claims_{letter}"] = claims + begin * CLAIM_BYTES
            row[f"first_{letter}"] = across * (end - begin) // self._sharers
        return row


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
    (m, k), n, mr, nr = a.shape, b.shape[1], blocking.mr, blocking.nr
    rows, columns = cut_evenly(m, loops.grid[0], mr), cut_evenly(n, loops.grid[1], nr)
    height, width = len(rows) - 1, len(columns) - 1
    strips, panels = _pieces(loops, m, n, k, (height, width))
    memory = scratch(strips.bytes + panels.bytes + height * width * mr * nr * WORD_BYTES)
    claims = np.zeros(strips.claims + panels.claims, np.int64)
    begin_b, tiles_of_c = memory.address + strips.bytes, memory.address + strips.bytes + panels.bytes
    fixed = {
        "product": address_of(build_amx_product(key)), "k": k, "rs_a": a.strides[0], "rs_b": b.strides[0],
        "rs_c": out.strides[0], "accumulate": accumulate, "mc": blocking.mc, "nc": blocking.nc, "kc": blocking.kc,
        "packs_a": loops.packs_a, "lost": loops.lost,
    }  # fmt: skip
    table = np.empty((height * width, len(ARGUMENTS)), np.int64)
    for part in range(len(table)):
        i, j = divmod(part, width)
        row = fixed | {
            "m": rows[i + 1] - rows[i],
            "n": columns[j + 1] - columns[j],
            "a": a.ctypes.data + rows[i] * a.strides[0],
            "b": b.ctypes.data + columns[j] * element,
            "c": out.ctypes.data + rows[i] * out.strides[0] + columns[j] * WORD_BYTES,
            "tile_of_c": tiles_of_c + part * mr * nr * WORD_BYTES,
            **strips.row("a", memory.address, claims.ctypes.data, (i, j, part)),
            **panels.row("b", begin_b, claims.ctypes.data + strips.claims * CLAIM_BYTES, (j, i, part)),
        }
        table[part] = [row[name] for name in ARGUMENTS]
    run = functools.partial(entry_point(build_run_part() if len(table) == 1 else build_run_parts()), table, claims)
    run.refers_to = a, b, out, memory  # type: ignore[attr-defined] # it knows them by address alone
    return run


def _pieces(loops: TileLoops, m: int, n: int, k: int, grid: tuple[int, int]) -> tuple[Pieces, Pieces]:
    """Return the strips of A and the panels of B."""
    blocking, element = loops.blocking, element_bytes(loops.key)
    height, width = grid
    row_bytes = -(-min(blocking.kc, k) * element // ROW_BYTES) * ROW_BYTES
    has_edges = m % ROWS != 0 or (k | min(blocking.kc, k)) * element % ROW_BYTES != 0  # in the last block, or in all
    packs_a = loops.packs_a or has_edges
    kept_strips = -(-min(blocking.mc, m) // blocking.mr)
    kept_panels = -(-min(blocking.nc, n) // blocking.nr) if m > blocking.mc else 1
    blocks_of_k = -(-k // blocking.kc)
    return (
        Pieces(m, blocking.mr, height, width, kept_strips, blocks_of_k, row_bytes * blocking.mr if packs_a else 0),
        Pieces(n, blocking.nr, width, height, kept_panels, blocks_of_k, row_bytes * blocking.nr),
    )


_TABLE, _CLAIMS = types.Array(types.int64, 2, "C"), types.Array(types.int64, 1, "C")


@functools.cache
def build_run_part() -> Any:
    """Compile ``run_part(table, claims)``: compute the only part. The same for every kernel."""

    def run_part(table: np.ndarray, claims: np.ndarray) -> None:
        call(table[0, 0], (table.ctypes.data,))

    return jit(None, _TABLE, _CLAIMS, parallel=False)(run_part)


@functools.cache
def build_run_parts() -> Any:
    """Compile ``run_parts(table, claims)``: compute every part, each on a thread of its own."""

    def run_parts(table: np.ndarray, claims: np.ndarray) -> None:
        claims[:] = 0
        for part in prange(table.shape[0]):
            call(table[part, 0], (table[np.intp(part)].ctypes.data,))

    return jit(None, _TABLE, _CLAIMS)(run_parts)
