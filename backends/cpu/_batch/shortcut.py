"""Plain batches without a plan and an execution: the table of a layout is made once, and takes other addresses.

Called with any three objects, as `_simd.small_products` is, for what that does not take.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._batch.table import BatchTable, LoopsOf
from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._simd.argument_table import Shape
from backends.cpu._simd.numpy_object import data_of, is_writeable
from backends.cpu._threads.atomics import store
from backends.cpu._vector.intrinsics import word_at
from harness.interface import Shortcut
from harness.operands import broadcast, data_address, shares_with_itself, span

MOST_LAYOUTS = 256  # tables that are kept

# bind(a, b, out): sets the addresses, and returns whether nothing overlaps and elements are aligned
_Bind = Callable[[np.ndarray, np.ndarray, np.ndarray], bool]


def plain_batches(dtype: np.dtype[Any], loops_of: LoopsOf, threads: int, *, adds: bool = False) -> Shortcut:
    """Return ``compute(a, b, out)``: ``out := a (x) b`` for batches whose `out` has contiguous rows, and True.

    Else it returns False and has done nothing. Its ``fits(a, b, out)`` tells whether it takes them, and computes
    nothing. Of vectors it says no, since a plan may transpose these, and with that change bits.

    Parameters
    ----------
    dtype : numpy dtype
        Of all three.
    loops_of : callable
        As of `BatchTable`.
    threads : int
    adds : bool
        Whether it computes ``out := out (+) a (x) b`` instead.
    """
    array, thread = np.ndarray, threading.get_ident

    @functools.lru_cache(MOST_LAYOUTS)
    def ready(thread: int, *layout: Any) -> tuple[_Bind, Callable[[], Any], threading.Lock] | None:
        """Return the table of a layout: each Python thread has its own, as it sets the addresses."""
        made = _make(loops_of, threads, dtype.itemsize, adds, *layout)
        return None if made is None else (*made, threading.Lock())

    def compute(a: Any, b: Any, out: Any, is_asked: bool = False) -> bool:
        if a.__class__ is not array or b.__class__ is not array or out.__class__ is not array or out.ndim < 3:
            return False
        if a.dtype is not dtype or b.dtype is not dtype or out.dtype is not dtype:
            return False
        made = ready(thread(), a.shape, a.strides, b.shape, b.strides, out.shape, out.strides)
        if made is None:
            return False
        bind, run, lock = made
        if lock.locked():  # called by a signal handler or a finalizer, inside that product
            return plain_batches(dtype, loops_of, threads, adds=adds)(a, b, out, is_asked)
        with lock:
            if not bind(a, b, out):
                return False
            if not is_asked:
                run()
        return True

    def fits(a: Any, b: Any, out: Any) -> bool:
        return compute(a, b, out, is_asked=True) and min(out.shape[-2:]) > 1

    compute.fits = fits  # type: ignore[attr-defined]
    return compute


def _make(
    loops_of: LoopsOf, threads: int, itemsize: int, adds: bool, *layout: tuple[int, ...]
) -> tuple[_Bind, Callable[[], Any]] | None:
    """Return the product of one layout: shape and strides of a, b and out; None if it is not plain."""
    *inputs, shape_out, strides_out = layout
    batch, (m, n) = shape_out[:-2], shape_out[-2:]
    pairs = [(inputs[i], _spread(inputs[i], inputs[i + 1], batch)) for i in (0, 2)]
    (shape_a, strides_a), (shape_b, strides_b) = pairs
    if strides_a is None or strides_b is None or 0 in shape_out or shape_a[-1] == 0:
        return None
    if batch not in (shape_a[:-2], shape_b[:-2]) and broadcast(shape_a[:-2], shape_b[:-2]) != batch:
        return None
    fits = shape_a[-2] == m and shape_b[-1] == n and shape_a[-1] == shape_b[-2]
    all_strides = (*strides_a, *strides_b, *strides_out)
    has_memory = not shares_with_itself(shape_out, strides_out, itemsize)
    has_rows = n == 1 or strides_out[-1] == itemsize
    if not (fits and has_memory and has_rows and all(step % itemsize == 0 for step in all_strides)):
        return None
    shape = Shape(m, n, shape_a[-1], strides_a[-2:], strides_b[-2:], strides_out[-2])
    along = strides_a[:-2], strides_b[:-2], strides_out[:-2], (0,) * len(batch)
    table = BatchTable(loops_of, shape, batch, along, threads, accumulate=adds)
    (low_a, end_a), (low_b, end_b), (low, end) = (
        span(size, steps, itemsize)
        for size, steps in (((*batch, *shape_a[-2:]), strides_a), ((*batch, *shape_b[-2:]), strides_b), layout[4:])
    )
    facts = np.array([low_a, end_a, low_b, end_b, low, end, itemsize - 1, data_address(table.addresses)], np.int64)
    bind = functools.partial(_build_bind(), data_address(facts))
    table.run.belongs_to = table, facts  # type: ignore[attr-defined] # which compiled code knows by address alone
    return bind, table.run


@functools.cache
def _build_bind() -> Any:
    """Compile ``bind(facts, a, b, out)``: set the addresses of three arrays, unless one of them does not suit.

    `facts` is an address: of the bytes that each spans, first and end, of the bits that no address may have, and of the
    address of the addresses to set.
    """

    def bind(facts: int, a: Any, b: Any, out: Any) -> bool:
        """Set them, and return whether they suit."""
        if not is_writeable(out):
            return False
        x, y, z = data_of(a), data_of(b), data_of(out)
        begin, end = z + word_at(facts + 32), z + word_at(facts + 40)
        if (x | y | z) & word_at(facts + 48):
            return False
        if x + word_at(facts) < end and begin < x + word_at(facts + 8):
            return False
        if y + word_at(facts + 16) < end and begin < y + word_at(facts + 24):
            return False
        addresses = word_at(facts + 56)
        store(addresses, x)
        store(addresses + 8, y)
        store(addresses + 16, z)
        return True

    return compiled_for_python(bind)


def _spread(shape: tuple[int, ...], strides: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides of an operand that is broadcast to the batch; None if it cannot be, or is no matrix."""
    absent = len(batch) - len(shape) + 2
    if absent < 0 or len(shape) < 2:
        return None
    steps = [0] * absent
    for size, step, wanted in zip(shape[:-2], strides, batch[absent:], strict=False):
        if size not in (1, wanted):
            return None
        steps.append(step if size == wanted else 0)
    return (*steps, *strides[-2:])
