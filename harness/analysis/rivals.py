"""The fastest of the others in a case: of all contenders, or of peers, the kernels of libraries and other projects."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from harness import registry
from harness.analysis import rates
from harness.stats.statistics import Interval
from harness.store.store import Cell

THE_FASTEST = "the fastest library"
# Whose contenders are that are no backends, in results that do not say so themselves: those before a task did.
_BEFORE = {
    "LAPACK": "LAPACK",
    "CUDA libraries": "CUDA libraries",
    "PyTorch, broadcast": "PyTorch",
    "torch-semiring-einsum": "torch-semiring-einsum",
    "torch.bmm": "PyTorch",
    "cupy.matmul": "CuPy",
    "numpy.matmul": "NumPy",
    "numpy.matmul(a, b, out=c)": "NumPy",
    "scipy CSR": "SciPy",
    "scipy DIA": "SciPy",
    "scipy dijkstra": "SciPy",
    "scipy floyd_warshall": "SciPy",
}


def project_of(cell: Cell) -> str:
    """Return whose kernel `cell` ran, as a reader knows it: ``"MKL"``; empty if it is one of this project.

    A backend declares it, and the tasks of experiments tell it in their facts.
    """
    told = cell.facts.get("project") or cell.arguments.get("package")
    return str(told or _projects().get(rates.axis(cell, "backend")) or _BEFORE.get(cell.contender, ""))


@functools.cache
def _projects() -> dict[str, str]:
    """Return whose kernel each backend runs; those that are not installed here are declared too."""
    return {entry.name: entry.backend.project for entry in registry.discover() if entry.backend}


def is_expression(cell: Cell) -> bool:
    """Return whether `cell` is an expression of a library's operations: the library itself has no such product."""
    return rates.axis(cell, "backend") in _writing_expressions() and rates.unit([cell]) != "GFLOP/s"


@functools.cache
def _writing_expressions() -> frozenset[str]:
    return frozenset(e.name for e in registry.discover() if e.backend and e.backend.writes_expressions)


def is_peer(cell: Cell) -> bool:
    """Return whether `cell` is a library, or another project's kernel."""
    return project_of(cell) != ""


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


def name_of_fastest(cells: Iterable[Cell]) -> str:
    """Return what to call the fastest peer of each case: its name if there is one alone."""
    names = {cell.contender for cell in cells if cell.is_ok and is_peer(cell)}
    return names.pop() if len(names) == 1 else THE_FASTEST


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
