"""A mixed product of operands of any strides, prepared; by a slower method where a value is subnormal.

Packing reads operands by rows or by columns; one that lies in neither way is copied in every run. For an output by
columns the transposed product is computed, ``C^T = B^T A^T``, and for few rows of A by a very large B by columns. Any
other output without contiguous rows is copied from another array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from backends.cpu._mixed import subnormals
from backends.cpu._mixed.amx_product import TileLoops, TileProduct
from backends.cpu._mixed.loops import MixedLoops
from backends.cpu._mixed.methods import MixedKey
from backends.cpu._mixed.packing import element_bytes
from backends.cpu._simd.argument_table import LoopTable, Run, Shape
from backends.cpu._simd.product import has_contiguous_rows, through
from backends.cpu._simd.run_parts import SCRATCH
from harness.operands import CACHE_LINE, Operands, aligned_empty, data_address
from harness.plan import Blocking, Plan
from harness.tuning import amx as tuning_amx
from harness.tuning import simd_parts as tuning_parts


def prepare_mixed(key: MixedKey, careful: MixedKey | None, plan: Plan, operands: Operands) -> Run:
    """Return ``run()``, which computes ``out := [out +] a b``, for m, n, k >= 1 and any strides.

    Parameters
    ----------
    key : MixedKey
    careful : MixedKey or None
        Kernel for operands that hold a subnormal number which `key` would lose. None: `key` loses none.
    plan : Plan
        Its register tile is that of `key`.
    operands : Operands
    """
    a, b, out, blocking, accumulate = operands.a, operands.b, operands.out, plan.blocking, plan.problem.accumulate
    assert blocking is not None
    is_by_columns = has_contiguous_rows(out.T) and not has_contiguous_rows(out)
    if is_by_columns or (not has_contiguous_rows(b) and leaves_b(key, *a.shape, b.shape[1])):
        a, b, out, blocking = b.T, a.T, out.T, _transposed(blocking)
    target = out if has_contiguous_rows(out) else aligned_empty(out.shape, out.dtype)
    packable_a, packable_b = (x if _is_packable(x) else aligned_empty(x.shape, x.dtype) for x in (a, b))
    copies = [(packable, x) for packable, x in ((packable_a, a), (packable_b, b)) if packable is not x]
    arrays = packable_a, packable_b, target
    addresses = [data_address(x) for x in arrays]
    shape = Shape.of(*arrays)._replace(strides_a=_strides(packable_a), strides_b=_strides(packable_b))
    ready = PackedProduct(key, careful, blocking, plan.threads, shape, accumulate, place(addresses[0]))
    product = functools.partial(ready.run, *addresses)

    def compute() -> None:
        for packable, x in copies:
            np.copyto(packable, x)
        product()

    compute.refers_to = a, b, arrays  # type: ignore[attr-defined] # it knows them by address alone
    return through(target, out, accumulate, compute)


def leaves_b(key: MixedKey, m: int, k: int, n: int) -> bool:
    """Return whether a B by columns is to stay where it lies: the transposed product is computed."""
    return key.method.is_tiled and tuning_amx.amx_leaves_b(m, n, k, element_bytes(key))


def _is_packable(x: np.ndarray) -> bool:
    """Return whether rows or columns are contiguous."""
    return has_contiguous_rows(x) or has_contiguous_rows(x.T)


def _strides(x: np.ndarray) -> tuple[int, int]:
    """Return the strides of rows and columns, one of which is the size of an element; of one row or column as well."""
    rows, columns = x.strides
    return (rows, x.itemsize) if has_contiguous_rows(x) else (x.itemsize, columns)


class PackedProduct:
    """``out := [out +] a b`` of A and B that lie by rows or columns, and an `out` by rows, for any three addresses.

    Parameters
    ----------
    key, careful
        As in `prepare_mixed`.
    blocking : Blocking
    threads : int
    shape : Shape
        Of each operand one stride is the size of an element: that of columns, if the operand lies by rows.
    accumulate : bool
    a_begins : int
        `place` of A: decides whether it is read where it lies.

    Attributes
    ----------
    lost : (1,) array of uint8
        Set by loops over tiles if they met a subnormal number; the product was then computed again.
    """

    def __init__(
        self, key: MixedKey, careful: MixedKey | None, blocking: Blocking, threads: int, shape: Shape, accumulate: bool,
        a_begins: int,
    ) -> None:  # fmt: skip
        self._blocking, self._shape, self._accumulate, self._a_begins = blocking, shape, accumulate, a_begins
        self._threads, self._element = threads, element_bytes(key)
        self._grid = tuning_parts.thread_grid(shape.m, shape.n, threads, blocking.mr, blocking.nr)
        self.lost = np.zeros(1, np.uint8)
        looks_inside = key.method.is_tiled and not accumulate  # a second run would add to C once more
        self._fast, self._careful = self._prepare(key, looks_inside), None
        self._look: Callable[..., bool] | None = None
        if careful is not None:
            self._careful = self._prepare(careful, False)
            self._look = None if looks_inside else subnormals.build_has_subnormal(key.method.operands)

    def _prepare(self, kernel: MixedKey, looks_inside: bool) -> Callable[[int, int, int], None]:
        """Return ``product(a, b, out)`` by a kernel."""
        around, grid, shape = _around(self._blocking, kernel), self._grid, self._shape
        if not kernel.method.is_tiled:
            loops = MixedLoops(kernel, around, True, True, grid, self._threads)  # type: ignore[arg-type]
            return functools.partial(_by_table, LoopTable(loops, shape, self._accumulate))
        rows, columns = shape.strides_a
        is_by_rows = columns == element_bytes(kernel)
        packs_a = not (is_by_rows and tuning_amx.amx_reads_in_place(self._a_begins, rows, shape.m, shape.n))
        flag = data_address(self.lost) if looks_inside else 0
        return TileProduct(TileLoops(kernel, around, packs_a, grid, flag), shape, self._accumulate).run

    def run(self, a: int, b: int, out: int) -> None:
        """Compute with the matrices at these addresses."""
        shape = self._shape
        if self._look is not None:
            layouts = (a, shape.m, shape.k, *shape.strides_a), (b, shape.k, shape.n, *shape.strides_b)
            loses = any(self._has_subnormal(*layout) for layout in layouts)
            (self._careful if loses else self._fast)(a, b, out)  # type: ignore[misc] # there is one with a look
            return
        self.lost[0] = 0
        self._fast(a, b, out)
        if self._careful is not None and self.lost[0]:
            self._careful(a, b, out)

    def _has_subnormal(self, address: int, rows: int, columns: int, row_stride: int, column_stride: int) -> bool:
        """Return whether an operand holds a subnormal number."""
        assert self._look is not None
        if column_stride == self._element:
            return self._look(address, rows, columns, row_stride)
        return self._look(address, columns, rows, column_stride)


def place(address: int) -> int:
    """Return where an operand begins in a cache line, in bytes: all that a plan takes from an address."""
    return address % CACHE_LINE


def _by_table(table: LoopTable, a: int, b: int, out: int) -> None:
    table.addresses[:SCRATCH] = a, b, out, 0
    table.run()


def _transposed(x: Blocking) -> Blocking:
    """Return the blocking of the transposed product: the cache blocks of m and n are exchanged."""
    return Blocking(-(-x.nc // x.mr) * x.mr, -(-x.mc // x.nr) * x.nr, x.kc, x.mr, x.nr)


def _around(x: Blocking, key: MixedKey) -> Blocking:
    """Return the blocking around the register tile of `key`: the cache blocks grow to whole tiles."""
    mr, nr = key.mr, key.nv * key.lanes
    return Blocking(-(-x.mc // mr) * mr, -(-x.nc // nr) * nr, x.kc, mr, nr)
