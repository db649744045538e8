"""A graph of the host that is closed on a GPU: all at once where it fits, else panel by panel.

    for each panel K of pivots       P := D[K, :] on the GPU
                                     close(P[:, K])    P := P (+) P[:, K] (x) P    D[K, :] := P
        for each other panel R       T := D[R, :] on the GPU
                                     T := T (+) T[:, K] (x) P                      D[R, :] := T

The GPU holds three panels of b rows and a square of b: P, T and one that is computed. So a panel has as many rows as
the cap on memory allows. For each of n / b panels the whole matrix passes to the GPU and back, 2 n^2 values, beside
b n^2 pairs: the larger the panels, the less the copies matter. Copies wait for products, and products for copies.

Source: Sao, Kannan, Gera and Vuduc, "A supernodal all-pairs shortest path algorithm" (2020), section 5, of panels.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.api import gemm
from harness.api.paths.checks import check_found
from harness.dtypes import is_bool
from harness.elimination import find_cycle, find_nan, put_one
from harness.errors import BackendUnavailable, ProblemError
from harness.interface import Findings
from harness.scalars import as_count
from harness.semiring import Semiring
from harness.surroundings import INSTALL_CUPY

# Of the cap, what arrays may take: kernels need scratch beside them. Rows of a panel are a multiple of STEP.
_SHARE, STEP = 0.9, 64
# Columns that a closure copies at a time, see `harness.elimination`.
_COPIED = 1024


def gpu(device: Any, memory_cap: Any) -> tuple[Any, int]:
    """Return CuPy, for a GPU of that number, and how many bytes of its memory may be used."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        raise BackendUnavailable("closure: device: CuPy is not installed", fix=INSTALL_CUPY)
    module = importlib.import_module("cupy")
    count = int(module.cuda.runtime.getDeviceCount())
    if as_count(device, least=0, most=count - 1) is None:
        raise ProblemError("closure: there is no such device", expected=f"0 to {count - 1}", got=repr(device))
    cap = None if memory_cap is None else as_count(memory_cap)
    if memory_cap is not None and cap is None:
        raise ProblemError(
            "closure: memory_cap is no number of bytes", expected="an integer >= 1", got=repr(memory_cap)
        )
    with module.cuda.Device(device):
        free = int(module.cuda.runtime.memGetInfo()[0])
    return module, free if cap is None else min(cap, free)


def bytes_at_once(matrices: np.ndarray, *, keeps: bool) -> int:
    """Return the bytes on the GPU of a closure all at once: matrices, predecessors, copies of columns, and bits."""
    n, itemsize = matrices.shape[-1], matrices.itemsize
    bits = n * n // 8 if is_bool(matrices.dtype) else 0
    return int(matrices.size * (itemsize + 4 * keeps) + min(_COPIED, n) * n * itemsize + bits)


def fits(matrices: np.ndarray, cap: int, *, keeps: bool) -> bool:
    """Return whether matrices can be closed all at once; raise ProblemError if not by panels either."""
    if bytes_at_once(matrices, keeps=keeps) <= cap * _SHARE:
        return True
    n, least = matrices.shape[-1], _bytes_of(STEP, matrices.shape[-1], matrices.itemsize)
    if keeps or matrices.ndim > 2:
        raise ProblemError(
            f"closure: {'predecessors' if keeps else 'a batch'} and more than the GPU holds",
            expected=f"memory_cap={int(bytes_at_once(matrices, keeps=keeps) / _SHARE) + 1} or more",
            got=f"{cap} bytes for {matrices.shape} of {matrices.dtype}",
            fix="lengths alone, of one graph",
        )
    if least > cap * _SHARE:
        raise ProblemError(
            "closure: the GPU's memory does not hold three panels",
            expected=f"memory_cap={int(least / _SHARE) + 1} or more, for {STEP} of {n} rows",
            got=f"{cap} bytes",
        )
    return False


def _bytes_of(rows: int, n: int, itemsize: int) -> int:
    return (3 * rows * n + rows * rows) * itemsize


def close_by_panels(
    module: Any, best: np.ndarray, cap: int, semiring: Semiring, close: Callable[[Any], Findings], how: dict[str, Any]
) -> None:
    """Close a C-ordered matrix of the host in place, on the current GPU.

    Parameters
    ----------
    module : module
        CuPy.
    best : (n, n) array
    cap : int
        Bytes.
    semiring : Semiring
    close : callable
        Closes a square on the GPU in place.
    how : dict
        Options of the products.
    """
    n, itemsize = best.shape[0], best.itemsize
    check_found(best, semiring, Findings(find_nan(best), False, -1))
    put_one(best[None], semiring)
    rows = STEP
    while rows < n and _bytes_of(rows + STEP, n, itemsize) <= cap * _SHARE:
        rows += STEP
    panels = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
    for pivots in panels:
        panel = module.asarray(best[pivots])
        square = module.ascontiguousarray(panel[:, pivots])
        close(square)
        panel[:, pivots] = square
        closed = gemm.gemm(square, panel, panel, semiring=semiring, **how)
        best[pivots] = closed.get()
        del panel, square
        for others in panels:
            if others != pivots:
                target = module.asarray(best[others])
                columns = module.ascontiguousarray(target[:, pivots])
                gemm.gemm(columns, closed, target, out=target, semiring=semiring, **how)
                best[others] = target.get()
    check_found(best, semiring, Findings(-1, False, find_cycle(best[None], semiring)))
