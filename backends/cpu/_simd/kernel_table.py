"""A generated kernel as a table of words: its numbers, then the addresses of its functions.

The loops are given the address of such a table. So they are compiled once, for every semiring, dtype and register tile.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._ir.call_by_address import address_of
from backends.cpu._ir.functions import assembly_of_functions, compile_functions
from backends.cpu._simd.dot_products import ROWS, compile_dots
from backends.cpu._simd.kernel import KernelKey, tile_functions, tiles_of
from backends.cpu._simd.packing import build_gather, compile_packs
from backends.cpu._simd.partial_sums import compile_fold

# The words of a table; after them come the functions that pack panels of 1..nv vectors, and the tiles.
#   lane_bits    lanes are 2 to this power
#   takes_dots   whether columns left after whole vectors may be dot products
#   has_whole    whether there are tiles for where no edge is
#   tiles        where the tiles begin, in words: their `tile_number` is added
#   gather       compiled by Numba, unlike all other functions
WORDS = """
    itemsize lanes lane_bits mr nv block_steps takes_dots has_whole tiles gather fold dots_1 dots_2 dots_3 dots_4
""".split()
WORD = 8  # bytes
PACK = len(WORDS) - 1  # the vectors of a panel are added
assert sum(word.startswith("dots_") for word in WORDS) == ROWS


@functools.cache
def kernel_table(key: KernelKey) -> np.ndarray:
    """Compile the functions of a kernel, and return its table, of int64."""
    addresses = tile_addresses(key)
    tiles = np.zeros(max(addresses) + 1, np.int64)
    for number, address in addresses.items():
        tiles[number] = address
    numbers = (
        key.itemsize, key.lanes, key.lanes.bit_length() - 1, key.mr, key.nv, key.block_steps or 1,
        key.may_take_dots, not key.operations.is_careful, len(WORDS) + key.nv, address_of(build_gather(key)),
    )  # fmt: skip
    dots = compile_dots(key) if key.may_take_dots else (0,) * ROWS
    return np.array([*numbers, compile_fold(key), *dots, *compile_packs(key), *tiles], np.int64)


@functools.cache
def tile_addresses(key: KernelKey, fewest_vectors: int = 1) -> dict[int, int]:
    """Compile the tiles of a kernel that are at least so wide, and return their addresses by `tile_number`."""
    emit = functools.partial(emit_tiles, key, fewest_vectors=fewest_vectors)
    addresses = compile_functions("tiles", (key, fewest_vectors), emit)
    return dict(zip(tiles_of(key, fewest_vectors), addresses, strict=True))


def emit_tiles(key: KernelKey, module: ir.Module, fewest_vectors: int = 1) -> list[Any]:
    """Write the tiles of a kernel."""
    return list(tile_functions(module, key, fewest_vectors).values())


def assembly_of_tiles(key: KernelKey) -> str:
    """Return the assembly of the tiles of a kernel."""
    return assembly_of_functions(functools.partial(emit_tiles, key))
