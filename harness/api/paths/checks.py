"""What a graph must be: checked before its paths are computed, and what was found on the way after it."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.api.arrays import Arrays, as_array, is_masked
from harness.api.paths.bits import bytes_of
from harness.api.paths.predecessors import as_vertices
from harness.dtypes import is_bool
from harness.errors import ProblemError
from harness.interface import Findings
from harness.problem import Problem
from harness.scalars import as_count
from harness.semiring import HALF, Semiring

METHODS = ("blocked", "squaring")

# The side of a square that is compared with its mirror image: both stay in L2.
_SIDE = 128


def check_matrix(
    arrays: Arrays, matrix: Any, semiring: Semiring, *, is_packed: bool = False, is_copied: bool = True
) -> Any:
    """Return `matrix` as an array that the semiring takes.

    If it is to be copied, it is C-ordered, and new unless it is of bools or bits; else only if its dtype must change.
    """
    if hasattr(matrix, "toarray") or is_masked(matrix):
        raise ProblemError(
            "closure: the matrix is not a plain array",
            expected="a dense (n, n) array that holds the semiring's zero where there is no edge",
            got=type(matrix).__name__,
            fix="scipy.sparse.csgraph.csgraph_to_dense(graph, null_value=np.inf), or filled(np.inf)",
        )
    array = matrix if arrays.on_device else as_array("closure", "the matrix", matrix)
    if is_packed:
        _check_packed(array, semiring)
    elif array.ndim < 2 or array.shape[-2] != array.shape[-1]:
        got = f"shape {array.shape}" if array.ndim else type(matrix).__name__
        raise ProblemError("closure: the matrix is not square", expected="shape (n, n) or (..., n, n)", got=got)
    else:
        n = array.shape[-1]
        dtype = Problem(n, n, n, semiring, array.dtype).dtype
        if not is_copied:
            return array if is_bool(array.dtype) else array.astype(dtype, copy=False)
        if not is_bool(array.dtype):
            return arrays.module.array(array, order="C").astype(dtype, copy=False)
    return arrays.module.ascontiguousarray(array)


def _check_packed(octets: Any, semiring: Semiring) -> None:
    if octets.dtype != np.uint8 or octets.ndim < 2 or octets.shape[-1] != bytes_of(octets.shape[-2]):
        raise ProblemError(
            "closure: the matrix is not packed, though packed=True",
            expected="uint8 of shape (n, (n + 7) // 8)",
            got=f"{octets.dtype} of shape {octets.shape}",
            fix='np.packbits(edges, axis=-1, bitorder="little")',
        )
    if semiring.name != "lor_land":
        raise ProblemError("closure: packed edges have no values", expected="lor_land", got=semiring.name)


def check_keeps(arrays: Arrays, best: Any) -> None:
    """Raise if predecessors of float16 are asked for on a host, whose products do not say which k it was."""
    if best.dtype == HALF and not arrays.on_device:
        raise ProblemError(
            "closure: predecessors of float16 are not kept on a CPU",
            expected="another dtype, or an array on a GPU",
            got=str(best.dtype),
            fix='matrix.astype("float32")',
        )


@contextlib.contextmanager
def enough_memory(matrix: Any, *, keeps: bool) -> Iterator[None]:
    """Report how much memory a closure takes if it is not there; nothing of the caller's is written to before."""
    try:
        yield
    except MemoryError:
        size = math.prod(getattr(matrix, "shape", ()))
        each = getattr(getattr(matrix, "dtype", None), "itemsize", 8)
        of = f"{size * each / 2**30:.3g} GiB"
        raise ProblemError(
            "closure: there is not enough memory",
            expected=f"room for the result, {of}{', for predecessors' if keeps else ''}, and for a panel of it",
            got=f"{size * (each + 4 * keeps) / 2**30:.3g} GiB and a panel are needed, beside the matrix",
            fix="another machine, or harness.distributed.closure on several",
        ) from None


def check_sources(sources: Any, n: int) -> np.ndarray:
    """Return the vertices whose rows are wanted as an array."""
    vertices = as_vertices(sources, n)
    if vertices is None or vertices.ndim != 1:
        raise ProblemError(
            "closure: sources are no vertices", expected=f"a sequence of integers from 0 to {n - 1}", got=repr(sources)
        )
    return vertices


def check_method(method: str, block: int | None) -> int | None:
    """Return how many vertices are closed at once: 0 if all, by squaring; None: as many as is fast."""
    if not isinstance(method, str) or method not in METHODS:
        raise ProblemError("closure: unknown method", expected=" or ".join(METHODS), got=repr(method))
    vertices = None if block is None else as_count(block)
    if block is not None and vertices is None:
        raise ProblemError("closure: block is not a number of vertices", expected="an integer >= 1", got=repr(block))
    return 0 if method == "squaring" else vertices


def check_symmetry(arrays: Arrays, best: Any, semiring: Semiring) -> None:
    """Raise if an edge has another value than the one back; NaN, which has no value, is told of later."""
    n = best.shape[-1]
    side = max(n, 1) if arrays.on_device else _SIDE
    for first, left in itertools.product(range(0, n, side), repeat=2):
        there, back = slice(first, first + side), slice(left, left + side)
        if left > first or (best[..., there, back] == best[..., back, there].swapaxes(-1, -2)).all():
            continue
        x, y = best[..., there, back], best[..., back, there].swapaxes(-1, -2)
        *graph, i, j = ((x < y) | (x > y)).nonzero()
        if len(i):
            *graph, i, j = (*(int(at[0]) for at in graph), int(i[0]) + first, int(j[0]) + left)
            values = (best[(*graph, *at)].item() for at in ((i, j), (j, i)))
            better = f"np.{semiring.add.ufunc.__name__}"
            raise ProblemError(
                "closure: the matrix is not symmetric, though directed=False",
                expected="the same value for an edge and for the one back",
                got=f"{next(values)} at {[*graph, i, j]}, {next(values)} at {[*graph, j, i]}",
                fix=f"directed=True, or the better of both: {better}(matrix, matrix.swapaxes(-1, -2))",
            )


def check_found(best: Any, semiring: Semiring, findings: Findings, sources: np.ndarray | None = None) -> None:
    """Raise if an edge is NaN, or if a path from a vertex to itself betters the empty one, again and again.

    With `sources` only a cycle counts that one of them reaches.
    """
    n, zero, one = best.shape[-1], semiring.zero(best.dtype), semiring.one(best.dtype)
    if findings.nan >= 0:
        at = [int(i) for i in np.unravel_index(findings.nan, best.shape)]
        raise ProblemError(
            "closure: an edge is NaN",
            expected=f"a number, or {zero} where there is no edge",
            got=f"NaN at {at}",
            fix=f"matrix[np.isnan(matrix)] = {zero} if it means no edge",
        )
    cycle = findings.cycle
    if cycle >= 0 and sources is not None:
        is_better = best.diagonal(axis1=-2, axis2=-1) != one
        is_met = (is_better & (best[..., sources, :] != zero).any(axis=-2)).reshape(-1)
        cycle = int(is_met.argmax()) if is_met.any() else -1
    if cycle >= 0:
        graph, vertex = divmod(cycle, n)
        sign = {"min_plus": "negative", "max_plus": "positive"}[semiring.name]
        whose = f"vertex {vertex}" if best.ndim == 2 else f"vertex {vertex} of graph {graph}"
        raise ProblemError(
            f"closure: {whose} lies on a {sign} cycle, so that no path through it is best",
            expected=f"no cycle that betters {one}, the empty path",
            got=f"{best.reshape(-1, n, n)[graph, vertex, vertex]} or better from vertex {vertex} back to itself",
        )
