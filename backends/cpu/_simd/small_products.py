"""Plain products, and sums with them, without a plan and an execution: one compiled call checks three objects.

At n = 16 a product takes about 0.1 us, and the checks in Python before it a hundred times as long. Here compiled code
checks that A, B and out are matrices of the dtype, that sizes and strides fit, and that nothing overlaps. It computes a
small product at once. A larger one, or one with contiguous columns, is computed by the loops' table for its layout.
That is made once, and takes the addresses. What is no product of matrices goes to a function for the rest (batches,
`_batch.shortcut`). The ordinary call computes anything else.
"""

from __future__ import annotations

import enum
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._ir.call_by_address import address_of
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._simd.argument_table import Loops, Shape
from backends.cpu._simd.gil import call_without_gil_if_long
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.kernel_table import kernel_table
from backends.cpu._simd.loops import build_product
from backends.cpu._simd.numpy_object import data_of, dtype_code, fields_of, is_matrix, is_writeable
from backends.cpu._simd.part import NO_DIAGONAL, Part
from backends.cpu._simd.self_product import SelfProduct, is_self_product
from backends.cpu._threads.atomics import store
from backends.cpu._vector.intrinsics import word_at
from harness.interface import Shortcut
from harness.operands import data_address
from harness.tuning.simd import turns_product

NOT_SIMPLE, DONE, LARGE = 0, 1, 2  # results of `compute`
# Offsets of the words that it is told: the loops, the greatest size computed in place, the type of arrays, the number
# and the bytes of a dtype, the table of the kernel, and whether C is added to.
_LOOPS, _LARGEST, _ARRAY_TYPE, _DTYPE, _ITEMSIZE, _KERNEL, _ADDS = (8 * i for i in range(7))
# Tables that are kept, about 3 KiB each. An algorithm by panels has a few shapes for each panel, and computes with them
# in turn: fewer tables than that would all be made anew in every call. Those of so many pairs or more have up to 256
# parts, and slabs of shared panels: 0.15 to 2 MB, made in the time of such a product on sixteen processors.
MOST_SHAPES, MOST_LARGE_SHAPES, LARGE_PAIRS = 1024, 128, 1 << 27


class Way(enum.Enum):
    """Which product is computed: that which was asked for, or its transpose, in place or in an array of its own."""

    AS_IT_IS, SWAPPED, TURNED = range(3)


LoopsOf = Callable[[Shape, bool], Loops]
Strides = tuple[int, int]


def plain_products(
    key: KernelKey, largest: int, loops_of: LoopsOf, otherwise: Shortcut, *, adds: bool = False
) -> Shortcut:
    """Return ``compute(a, b, out)``, which for matrices of one dtype computes ``out := a (x) b``.

    It takes any three objects and returns True, or False without doing anything. True requires such matrices,
    contiguous rows or columns, fitting sizes, nothing empty, aligned elements, and a writable `out` that overlaps no
    operand. A result of one row or column is contiguous, unless all rows are. Its ``fits(a, b, out)`` tells whether
    they are so, and computes nothing.

    Parameters
    ----------
    key : KernelKey
    largest : int
        Greatest m, n and k that are computed in place.
    loops_of : callable
        ``loops_of(shape, is_swapped)`` returns the choices of the loops for any other one. `is_swapped`: the shape is
        that of the transposed product.
    otherwise : callable
        ``otherwise(a, b, out)`` is asked about what is not simple, and returns as this function does; its `fits` too.
    adds : bool
        Whether it computes ``out := out (+) a (x) b`` instead.
    """
    dtype = np.dtype(key.dtype)
    kernel = kernel_table(key)
    words = address_of(build_product()), largest, id(np.ndarray), dtype_code(dtype), dtype.itemsize
    facts = np.array([*words, data_address(kernel), adds])
    of_none = facts.copy()
    of_none[_LARGEST // 8] = 0  # no product is computed in place, and so none is
    small, address, asking = _build_compute(), data_address(facts), data_address(of_none)
    large = LargeProducts(loops_of, adds=adds)

    def compute(a: Any, b: Any, out: Any) -> bool:
        outcome = small(address, a, b, out)
        if outcome == DONE:
            return True
        if outcome == NOT_SIMPLE:
            return otherwise(a, b, out)
        large.compute(a, b, out)
        return True

    def fits(a: Any, b: Any, out: Any) -> bool:
        return small(asking, a, b, out) == LARGE or otherwise.fits(a, b, out)  # type: ignore[attr-defined]

    compute.fits = fits  # type: ignore[attr-defined]
    compute.refers_to = facts, of_none, kernel, large  # type: ignore[attr-defined] # compiled code knows addresses alone
    return compute


class LargeProducts(threading.local):
    """Products of matrices that `plain_products` found simple.

    Each Python thread has its own tables, since another thread may run between setting the addresses and the product.
    So may a signal handler or a finalizer of the same thread: what it computes has tables of its own.

    Parameters
    ----------
    loops_of : callable
    adds : bool
        As in `plain_products`.
    """

    def __init__(self, loops_of: LoopsOf, *, adds: bool = False) -> None:
        self._loops_of, self._adds, self._lock = loops_of, adds, threading.Lock()
        prepare = functools.partial(_ready_product, loops_of, adds)
        self._ready, self._ready_large = (functools.lru_cache(n)(prepare) for n in (MOST_SHAPES, MOST_LARGE_SHAPES))

    def compute(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        """Compute ``out := [out (+)] a (x) b``."""
        if self._lock.locked():
            LargeProducts(self._loops_of, adds=self._adds).compute(a, b, out)
            return
        with self._lock:
            self._compute(a, b, out)

    def _compute(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        (m, k), n = a.shape, b.shape[1]
        ready = self._ready if m * n * k < LARGE_PAIRS else self._ready_large
        way, bind, run = ready(m, n, k, a.strides, b.strides, out.strides)
        if way is Way.TURNED:
            target = np.empty((n, m), out.dtype)
            if self._adds:
                target[...] = out.T
            bind(b, a, target)
            run()
            out[...] = target.T
            return
        if way is Way.SWAPPED:
            bind(b, a, out)
        else:
            bind(a, b, out)
        run()


def _ready_product(
    loops_of: LoopsOf, adds: bool, m: int, n: int, k: int, strides_a: Strides, strides_b: Strides, strides_out: Strides
) -> tuple[Way, Callable[..., None], Callable[[], Any]]:
    """Return a product of that layout: which one is computed, and how to bind arrays, and to compute it."""
    if min(m, n) > 1:
        is_swapped = strides_out[1] > strides_out[0]  # columns of the result are contiguous
    else:  # columns of the matrix are
        columns, strides = (k, strides_a) if n == 1 else (n, strides_b)
        is_swapped = columns > 1 and strides[1] > strides[0]
    way = Way.SWAPPED if is_swapped else Way.AS_IT_IS
    if not is_swapped and strides_a[1] < strides_a[0] and strides_b[0] < strides_b[1] and turns_product(m, n, k):
        way, is_swapped, strides_out = Way.TURNED, True, (strides_out[1], m * strides_out[1])
    if is_swapped:
        shape = Shape(n, m, k, strides_b[::-1], strides_a[::-1], strides_out[1])
    else:
        shape = Shape(m, n, k, strides_a, strides_b, strides_out[0])
    loops = loops_of(shape, is_swapped)
    table = loops.table(shape, accumulate=adds)
    bind = functools.partial(_build_locate(), data_address(table.addresses))
    if adds or not is_self_product(shape, loops.key.operations):
        return way, bind, table.run
    half, addresses = SelfProduct(loops, shape), table.addresses

    def run() -> None:
        a, b, out, *_ = addresses.tolist()
        if a == b:
            half.run(a, out)
        else:
            table.run()

    return way, bind, run


def _by_rows(fields: tuple[int, int, int, int, int], itemsize: int) -> bool:
    """Return whether rows are contiguous, ascending and disjoint, and elements aligned."""
    address, rows, columns, row_stride, stride = fields
    # strides of dimensions of one element are arbitrary; an itemsize is a power of two
    is_contiguous = stride == itemsize or columns == 1
    is_in_order = rows == 1 or (row_stride >= columns * itemsize and row_stride & (itemsize - 1) == 0)
    return is_contiguous and is_in_order and address & (itemsize - 1) == 0


def _is_simple(fields: tuple[int, int, int, int, int], itemsize: int) -> bool:
    """Return whether rows or columns are so."""
    address, rows, columns, row_stride, stride = fields
    return _by_rows(fields, itemsize) or _by_rows((address, columns, rows, stride, row_stride), itemsize)


def _end(fields: tuple[int, int, int, int, int], itemsize: int) -> int:
    """Return the address after the last element of a simple matrix."""
    address, rows, columns, row_stride, stride = fields
    along = (columns - 1) * stride if columns > 1 else 0
    return address + ((rows - 1) * row_stride if rows > 1 else 0) + along + itemsize


@functools.cache
def _build_compute() -> Any:
    """Compile ``compute(facts, a, b, out)``, the same for every kernel; `facts` is the address of those words."""

    def compute(facts: int, a: Any, b: Any, out: Any) -> int:
        """Check the arguments, and compute what is small."""
        array_type, code, itemsize = word_at(facts + _ARRAY_TYPE), word_at(facts + _DTYPE), word_at(facts + _ITEMSIZE)
        if not (is_matrix(a, array_type, code) and is_matrix(b, array_type, code) and is_matrix(out, array_type, code)):
            return NOT_SIMPLE
        of_a, of_b, of_out = fields_of(a), fields_of(b), fields_of(out)
        (a_begin, m, k, lda, _), (b_begin, k_of_b, n, ldb, _), (begin, m_of_out, n_of_out, ldc, _) = of_a, of_b, of_out
        if not is_writeable(out) or k_of_b != k or m_of_out != m or n_of_out != n or min(m, n, k) < 1:
            return NOT_SIMPLE
        by_rows = _by_rows(of_a, itemsize) and _by_rows(of_b, itemsize) and _by_rows(of_out, itemsize)
        if not by_rows:
            is_scattered = (n == 1 and m > 1 and ldc != itemsize) or (m == 1 and n > 1 and of_out[4] != itemsize)
            are_simple = _is_simple(of_a, itemsize) and _is_simple(of_b, itemsize) and _is_simple(of_out, itemsize)
            if is_scattered or not are_simple:
                return NOT_SIMPLE
        end = _end(of_out, itemsize)
        if (a_begin < end and begin < _end(of_a, itemsize)) or (b_begin < end and begin < _end(of_b, itemsize)):
            return NOT_SIMPLE
        if not by_rows or max(m, n, k) > word_at(facts + _LARGEST) or min(m, n) == 1:  # vectors have loops of their own
            return LARGE
        whole = Part(
            m=m, n=n, k=k,
            a=a_begin, rs_a=lda, cs_a=itemsize, b=b_begin, rs_b=ldb, cs_b=itemsize, c=begin, rs_c=ldc,
            accumulate=word_at(facts + _ADDS), block=0, rs_block=0, mc=m, nc=n, kc=k,
            packs_a=0, packs_b=0, packed_a=0, packed_b=0, diagonal=NO_DIAGONAL, kernel=word_at(facts + _KERNEL),
        )  # fmt: skip
        call_without_gil_if_long(m * n * k, word_at(facts + _LOOPS), whole)
        return DONE

    return compiled_for_python(compute)


@functools.cache
def _build_locate() -> Any:
    """Compile ``locate(target, a, b, out)``, which writes the addresses of three arrays to the address `target`."""

    def locate(target: int, a: Any, b: Any, out: Any) -> None:
        """Write them."""
        store(target, data_of(a))
        store(target + 8, data_of(b))
        store(target + 16, data_of(out))

    return compiled_for_python(locate)
