"""The fastest of the others in a case: of all contenders, or of peers, the kernels of libraries and other projects."""

from __future__ import annotations

from collections.abc import Iterable

from harness.analysis import rates
from harness.stats.statistics import Interval
from harness.store.store import Cell

# What the name of a backend or of a call has in it if it is another project's. All others are kernels of this one.
OTHER_PROJECTS = (
    *("numpy", "scipy", "mkl", "openblas", "blis", "numkong", "torch", "tropical-gemm", "jax", "dask"),
    *("cublas", "cupy", "triton", "lapack", "cuda libraries"),
)


def is_peer(cell: Cell) -> bool:
    """Return whether `cell` is a library, or another project's kernel."""
    name = str(rates.axis(cell, "backend")).lower()
    return "package" in cell.arguments or any(project in name for project in OTHER_PROJECTS)


def fastest_other(cell: Cell, cells: Iterable[Cell]) -> Cell | None:
    """Return the other contender with the highest median rate in the case and run of `cell`, or None."""
    others = [
        other
        for other in cells
        if other.is_ok and rates.in_turns(other, cell) and other.contender != cell.contender
        if not rates.is_roof(other)
    ]
    return max(others, key=lambda other: other.rate, default=None)


def fastest_peer(cell: Cell, cells: Iterable[Cell]) -> Cell | None:
    """Return the peer with the highest median rate in the case and run of `cell`, or None."""
    return fastest_other(cell, filter(is_peer, cells))


def over_fastest(cell: Cell, cells: Iterable[Cell]) -> Interval | None:
    """Return the rate of `cell` over that of its fastest peer, or None if one of the two has no time.

    The same samples decide which peer is the fastest, so chance in that choice counts against `cell`.
    """
    return _over(cell, fastest_peer(cell, cells))


def over_other(cell: Cell, cells: Iterable[Cell]) -> Interval | None:
    """Return the rate of `cell` over that of the fastest other contender, one of our own kernels or not."""
    return _over(cell, fastest_other(cell, cells))


def _over(cell: Cell, other: Cell | None) -> Interval | None:
    return rates.speed_up(cell, other) if other is not None and cell.is_ok else None
