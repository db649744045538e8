"""Calls of a function of `_compile.functions` for pieces of a product: of one, or of all on several threads.

Each is compiled once, for every function: ``function(table, piece)`` finds all it needs in the table at an address.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange, types

from backends.cpu._cache.key import kernel_builder
from backends.cpu._compile.call_by_address import call_function
from backends.cpu._compile.jit import jit
from backends.cpu._threads.limits import limit_threads, restore_threads


@kernel_builder
def build_run_piece() -> Any:
    """Compile ``run_piece(function, table, piece)``: call ``function(table, piece)``."""

    def run_piece(function: int, table: int, piece: int) -> None:
        call_function(function, (table, piece))

    return jit(None, *[types.intp] * 3, parallel=False)(run_piece)


@kernel_builder
def build_run_pieces() -> Any:
    """Compile ``run_pieces(function, table, pieces)``: call ``function(table, piece)`` for each, on several threads."""

    def run_pieces(function: int, table: int, pieces: int) -> None:
        before = limit_threads(pieces)
        for piece in prange(pieces):
            call_function(function, (table, np.intp(piece)))
        restore_threads(before)

    return jit(None, *[types.intp] * 3)(run_pieces)
