"""What of a graph of the host fits on a GPU: how many bytes a closure takes there, and by which ranges rows pass."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from harness.dtypes import is_bool
from harness.errors import BackendUnavailable, ProblemError
from harness.scalars import as_count
from harness.surroundings import INSTALL_CUPY

# Of the cap, what arrays may take: kernels need scratch beside them.
SHARE = 0.9
# Ranges have so many rows, or a power of 2 times as many, as long as a panel has RANGES of them.
STEP, MOST_ROWS, RANGES = 64, 2048, 8
# Ranges on the GPU beside the panel, and those at its end that improve all others at once.
SLOTS, LAST = 3, 2
# A panel of all vertices, from so many on, is closed while its ranges come and go. They have at most so many rows.
_WHOLE_FROM, _MOST_OF_WHOLE = 4096, 1024
# Columns that a closure copies at a time, see `harness.elimination`.
COPIED = 1024


def gpus(devices: Any, memory_cap: Any) -> tuple[Any, list[int], int]:
    """Return CuPy, the numbers of one GPU or several, and how many bytes of the memory of each may be used."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        raise BackendUnavailable("closure: device: CuPy is not installed", fix=INSTALL_CUPY)
    module = importlib.import_module("cupy")
    count = int(module.cuda.runtime.getDeviceCount())
    given = devices if isinstance(devices, list | tuple) else [devices]
    numbers = [number for x in given if (number := as_count(x, least=0, most=count - 1)) is not None]
    if len(set(numbers)) < len(given) or not given:
        raise ProblemError(
            "closure: there is no such device",
            expected=f"0 to {count - 1}, or several of them, each once",
            got=repr(devices),
        )
    cap = None if memory_cap is None else as_count(memory_cap)
    if memory_cap is not None and cap is None:
        raise ProblemError(
            "closure: memory_cap is no number of bytes", expected="an integer >= 1", got=repr(memory_cap)
        )
    caps = [] if cap is None else [cap]
    for number in numbers:
        with module.cuda.Device(number):  # CuPy gives its reserve back where it is in the way
            reserve = int(module.get_default_memory_pool().free_bytes())
            caps.append(int(module.cuda.runtime.memGetInfo()[0]) + reserve)
    return module, numbers, min(caps)


class Panels(NamedTuple):
    """How a matrix passes: the rows of a range, and the pivots of a panel, which are some ranges."""

    rows: int
    pivots: int

    def bytes_of(self, n: int, itemsize: int) -> int:
        """Return the bytes on the GPU: panel, ranges, the columns of a product, and the scratch of a closure."""
        columns = self.rows * (self.pivots + min(COPIED, self.rows))
        return ((self.pivots + SLOTS * self.rows) * n + columns) * itemsize


def bytes_at_once(matrices: np.ndarray, *, keeps: bool, is_compared: bool, is_kept: bool) -> int:
    """Return the bytes on the GPU of a closure all at once.

    The matrices, predecessors, copies of columns, bits, what a comparison by elements says, and a copy of the edges.
    """
    n, itemsize = matrices.shape[-1], matrices.itemsize
    bits = n * n // 8 if is_bool(matrices.dtype) else 0
    each = itemsize * (1 + is_kept) + 4 * keeps + (is_compared or is_kept)
    return int(matrices.size * each + min(COPIED, n) * n * itemsize + bits)


def panels_of(matrices: np.ndarray, cap: int, *, is_plain: bool, **kinds: bool) -> Panels | None:
    """Return how the matrix passes through a GPU; None: it is closed when all of it is there.

    Parameters
    ----------
    matrices : array
    cap : int
        Bytes of memory on the GPU.
    is_plain : bool
        Whether all is wanted by passes that a closure all at once gives.
    **kinds
        As `bytes_at_once` takes them.

    Raises
    ------
    ProblemError
        If neither fits; it says how many bytes would.
    """
    at_once, room = bytes_at_once(matrices, **kinds), int(cap * SHARE)
    n, itemsize = matrices.shape[-1], matrices.itemsize
    if at_once <= room:
        rows = min(STEP << max(n // (RANGES * STEP), 1).bit_length() - 1, _MOST_OF_WHOLE)
        whole = Panels(rows, math.ceil(n / rows) * rows)
        is_closed = is_plain and n >= _WHOLE_FROM and whole.bytes_of(n, itemsize) <= room
        return whole if is_closed else None
    if kinds["keeps"] or matrices.ndim > 2:
        raise ProblemError(
            f"closure: {'predecessors' if kinds['keeps'] else 'a batch'} and more than the GPU holds",
            expected=f"memory_cap={math.ceil(at_once / SHARE) + 1} or more",
            got=f"{cap} bytes for {matrices.shape} of {matrices.dtype}",
            fix="lengths alone, of one graph",
        )
    found = None
    for rows in (STEP << doubled for doubled in range((MOST_ROWS // STEP).bit_length())):
        each = Panels(rows, rows).bytes_of(n, itemsize) - Panels(rows, 0).bytes_of(n, itemsize)
        ranges = (room - Panels(rows, 0).bytes_of(n, itemsize)) // each
        if ranges >= (RANGES if found else 1):
            of_all = math.ceil(n / rows)
            found = Panels(rows, math.ceil(of_all / math.ceil(of_all / ranges)) * rows)
    if found is None:
        least = Panels(STEP, STEP).bytes_of(n, itemsize)
        raise ProblemError(
            "closure: the GPU's memory does not hold a panel and three ranges of rows",
            expected=f"memory_cap={math.ceil(least / SHARE) + 1} or more, for {STEP} of {n} rows",
            got=f"{cap} bytes",
        )
    return found
