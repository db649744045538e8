"""Calls of a function of `_ir.functions` for pieces of a product: of one, or of all on several threads.

Each is compiled once, for every function: ``function(table, piece)`` finds all it needs in the table at an address.
What has more to do than calls is compiled with the function that its threads run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from backends.cpu._ir.call_by_address import call_function
from backends.cpu._ir.integers import compiled_for_c
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._threads import pool_symbols
from backends.cpu._threads.pool import for_each


@functools.cache
def build_run_piece() -> Callable[[int, int, int], None]:
    """Compile ``run_piece(function, table, piece)``: call ``function(table, piece)``."""

    def run_piece(function: int, table: int, piece: int) -> None:
        """Compute a piece."""
        call_function(function, (table, piece))

    return compiled_for_python(run_piece, releases_gil=True)


def compiled_for_threads(each: Callable[[int, int], None], whole: Callable[..., None]) -> Callable[..., None]:
    """Compile `whole`, which has `each` run on threads by its first argument, the address of it; return it without."""
    pool_symbols.start()
    (address,) = compiled_for_c(each)
    return functools.partial(compiled_for_python(whole, releases_gil=True), address)


@functools.cache
def build_run_pieces() -> Callable[[int, int, int], None]:
    """Compile ``run_pieces(function, table, pieces)``: call ``function(table, piece)`` for each, on several threads."""

    def run_pieces(function: int, table: int, pieces: int) -> None:
        """Compute all pieces."""
        for_each(function, table, pieces)

    pool_symbols.start()
    return compiled_for_python(run_pieces, releases_gil=True)
