"""Tasks that time products of matrices stored by rows, by columns or tile by tile, and changes of layout.

The rungs read rows, and first copy a matrix in any other layout. The textbook kernels of `layout.cu` read every layout
in place, which shows the effect of coalesced access.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import Defines, as_defines, load_kernel
from backends.gpu._tasks.device_task import DeviceTask, require_gpu
from harness.errors import VerificationError
from harness.operands import Operands
from harness.problem import Problem
from harness.semiring import SEMIRINGS
from harness.tuning.gpu.rungs import LARGEST_BLOCK_SIDE

LAYOUTS = ("rows", "columns", "tiles")
TILE = LARGEST_BLOCK_SIDE
_ELEMENT = np.dtype(np.float32)


def layout_defines(a: str = "rows", b: str = "rows", *, along_memory: bool = False) -> Defines:
    """Return the macros of `layout.cu`."""
    layouts = {"LAYOUT_A": LAYOUTS.index(a), "LAYOUT_B": LAYOUTS.index(b), "ALONG_MEMORY": along_memory}
    return as_defines({"T": "float", "TILE": TILE, **layouts})


def stored(x: np.ndarray, layout: str) -> np.ndarray:
    """Return the elements of `x`, whose sizes are multiples of TILE, in the order of `layout`."""
    if layout == "columns":
        return np.ascontiguousarray(x.T).reshape(-1)
    if layout == "tiles":
        rows, columns = (size // TILE for size in x.shape)
        return np.ascontiguousarray(x.reshape(rows, TILE, columns, TILE).swapaxes(1, 2)).reshape(-1)
    return np.ascontiguousarray(x).reshape(-1)


class LayoutProduct(DeviceTask):
    """One product of matrices in given layouts.

    Parameters
    ----------
    kernel : str
        ``"naive"`` or ``"tiled"``.
    n : int
        A multiple of TILE.
    a, b : str
        One of LAYOUTS.
    turned : bool
        Whether tiles are loaded in the order of memory.
    seed : int
    """

    def __init__(self, kernel: str, n: int, a: str, b: str, *, turned: bool, seed: int) -> None:
        self._problem, self._seed = Problem(n, n, n, SEMIRINGS["plus_times"], _ELEMENT), seed
        self._host = Operands.generate(self._problem, seed)
        self._facts = {"layout_a": a, "layout_b": b, "turned": turned, "kernel": kernel}
        self._a, self._b = device.upload(stored(self._host.a, a)), device.upload(stored(self._host.b, b))
        self._out = device.empty((n, n), _ELEMENT)
        self._kernel = load_kernel("layout", layout_defines(a, b, along_memory=turned), kernel)
        addresses = (np.uint64(x.data.ptr) for x in (self._a, self._b, self._out))
        self._arguments = *addresses, *(np.int32(n),) * 3

    def run(self) -> None:
        """Launch it."""
        tiles = self._problem.n // TILE
        self._kernel((tiles, tiles), (TILE * TILE,), self._arguments)

    def spoil(self) -> None:
        """Overwrite the last result."""
        self._out.fill(np.nan)

    def verify(self) -> str:
        """Compare the last result with the definition."""
        from harness.proof.verify import verify

        return verify(self._problem, self._host, self._out.get(), seed=self._seed)

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        return {**self._problem.work, "plan": {**self._facts, "tile": TILE}}


class LayoutChange(DeviceTask):
    """A matrix from rows to another layout, or copied as it is.

    Parameters
    ----------
    n : int
        A multiple of TILE.
    to : str
        One of LAYOUTS.
    turned : bool
        Whether reads and writes are both contiguous, through shared memory; to columns only.
    seed : int
    """

    def __init__(self, n: int, to: str, *, turned: bool, seed: int) -> None:
        self._host = np.random.default_rng(seed).standard_normal((n, n)).astype(_ELEMENT)
        self._to, self._from, self._n = to, device.upload(self._host), n
        self._out = device.empty((n * n,), _ELEMENT)
        self._kernel = load_kernel("layout", layout_defines(to), "transpose" if turned else "change")
        self._arguments = *(np.uint64(x.data.ptr) for x in (self._from, self._out)), *(np.int32(n),) * 2

    def run(self) -> None:
        """Launch it."""
        self._kernel((self._n // TILE, self._n // TILE), (TILE * TILE,), self._arguments)

    def spoil(self) -> None:
        """Overwrite the last result."""
        self._out.fill(np.nan)

    def verify(self) -> str:
        """Compare every element."""
        if not np.array_equal(self._out.get(), stored(self._host, self._to)):
            raise VerificationError("layout: an element is not where it belongs", expected=self._to)
        return f"all {self._n**2} elements, exactly"

    def facts(self) -> Mapping[str, Any]:
        """Return the bytes that are read and written."""
        return {"bytes_moved": 2 * self._host.nbytes}


def product(
    *, kernel: str, n: int, a: str, b: str, turned: bool = False, seed: int = 1, threads: int = 1
) -> LayoutProduct:
    """Prepare one product; raise Declined without a GPU."""
    require_gpu()
    return LayoutProduct(kernel, n, a, b, turned=turned, seed=seed)


def change(*, n: int, to: str, turned: bool = False, seed: int = 1, threads: int = 1) -> LayoutChange:
    """Prepare one change of layout; raise Declined without a GPU."""
    require_gpu()
    return LayoutChange(n, to, turned=turned, seed=seed)
