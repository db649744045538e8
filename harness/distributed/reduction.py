"""Partial sums of the ranks along k, combined by the semiring's (+).

Every rank ends with its piece of rows. By `exchange` each partial piece goes to the rank that ends with it, which
combines them in the order of ranks. So the result is the same on every run, for any (+), a user's too. `by_mpi` leaves
it to MPI where MPI has the operation; over floats its order of sums is its own.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.distributed.grid import Cuts
from harness.distributed.transport.mpi import Fibre
from harness.semiring import Monoid

METHODS = EXCHANGE, MPI_OPERATION = "exchange", "mpi"
# The operation of MPI for each (+) that has one. float16 has no type in MPI.
_OPERATIONS = {"plus": "SUM", "min": "MIN", "max": "MAX", "times": "PROD", "lor": "LOR", "land": "LAND", "lxor": "LXOR"}
_CACHED_BYTES = 1 << 18  # of a sum: with as much of what is added to it, no more than a core's own cache

Combine = Callable[[np.ndarray, np.ndarray], None]


def reduce_pieces(
    partial: np.ndarray,
    cuts: Cuts,
    fibre: Fibre,
    add: Monoid,
    out: np.ndarray,
    arrived: Sequence[np.ndarray],
    method: str = EXCHANGE,
) -> None:
    """Write to `out` this rank's rows of ``partial_0 (+) partial_1 (+) ...``.

    Parameters
    ----------
    partial : (cuts[-1], n) array
        C-ordered.
    cuts : tuple of int
        Which rows each rank ends with.
    fibre : Fibre
        The ranks that hold the partial sums, in the order of k.
    add : Monoid
    out : (cuts[rank + 1] - cuts[rank], n) array
        C-ordered.
    arrived : sequence of arrays
        If `pieces_arrive`, one like `out` for each other rank.
    method : str
        ``"exchange"`` or ``"mpi"``; the latter falls back where MPI has no such operation.
    """
    if pieces_arrive(add, partial.dtype, method):
        _by_exchange(partial, cuts, fibre, combiner(add, partial.dtype), out, arrived)
    else:
        _by_mpi(partial, cuts, fibre, str(mpi_operation(add, partial.dtype)), out)


def pieces_arrive(add: Monoid, dtype: np.dtype[Any], method: str) -> bool:
    """Return whether pieces of other ranks arrive here to be combined; else MPI combines them."""
    return method != MPI_OPERATION or mpi_operation(add, dtype) is None


def mpi_operation(add: Monoid, dtype: np.dtype[Any]) -> str | None:
    """Return the name of MPI's operation for `add`, or None."""
    return None if dtype == np.float16 or add.ufunc is None else _OPERATIONS.get(add.name)


@functools.cache
def combiner(add: Monoid, dtype: np.dtype[Any]) -> Combine:
    """Return ``combine(x, y)``, which computes ``x := x (+) y`` over arrays of `dtype`.

    NumPy's function of the same meaning serves where there is one; another (+) is compiled by Numba.
    """
    if add.ufunc is not None:
        ufunc = add.ufunc
        return lambda x, y: ufunc(x, y, out=x)
    import numba

    function: Any = numba.njit(add.function)

    @numba.njit
    def combine(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                x[i, j] = function(x[i, j], y[i, j])

    return combine  # type: ignore[no-any-return]


def combine_in_order(pieces: Sequence[np.ndarray] | np.ndarray, combine: Combine, out: np.ndarray) -> None:
    """Compute ``out := pieces[0] (+) pieces[1] (+) ...``, elementwise.

    Some rows of all pieces come before the next rows, so that sums stay in the cache till they are complete.
    """
    step = max(1, _CACHED_BYTES // max(1, out[:1].nbytes))
    for at in range(0, out.shape[0], step):
        rows = slice(at, at + step)
        out[rows] = pieces[0][rows]
        for piece in pieces[1:]:
            combine(out[rows], piece[rows])


def _by_exchange(
    partial: np.ndarray, cuts: Cuts, fibre: Fibre, combine: Combine, out: np.ndarray, arrived: Sequence[np.ndarray]
) -> None:
    rows = [partial[begin:end] for begin, end in itertools.pairwise(cuts)]
    others = [rank for rank in range(fibre.size) if rank != fibre.rank]
    pieces = dict(zip(others, arrived, strict=True))
    fibre.exchange([(rank, rows[rank]) for rank in others], list(pieces.items()))
    pieces[fibre.rank] = rows[fibre.rank]
    combine_in_order([pieces[rank] for rank in range(fibre.size)], combine, out)


def _by_mpi(partial: np.ndarray, cuts: Cuts, fibre: Fibre, operation: str, out: np.ndarray) -> None:
    from mpi4py import MPI

    width = partial.shape[1]
    step = max(1, fibre.largest_message // max(1, width * partial.itemsize))
    for owner, (begin, end) in enumerate(itertools.pairwise(cuts)):
        for at in range(begin, end, step):
            part = slice(at, min(end, at + step))
            received = out[part.start - begin : part.stop - begin] if owner == fibre.rank else None
            fibre.comm.Reduce(partial[part], received, op=getattr(MPI, operation), root=owner)
        if owner == fibre.rank and out.size:
            fibre.stages.received(fibre.stage, (fibre.size - 1) * out.size)
