"""Products on a device that are remembered, so that a further call binds addresses and launches.

A product is remembered by the call's options and by the layout of each array: dtype, shape, strides, device, and
whether it begins at a multiple of 16 bytes. Neither values nor addresses are part of that. So such a call skips every
check that it has passed before, the choice of a backend, its plan and its preparation. What is kept holds no memory of
the device or array, and only products that were used lately are kept.

A product that a CUDA graph is to capture must be remembered already: preparing it may compile, load and wait.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from harness import arithmetic
from harness.api.arrays import Arrays
from harness.api.remembered.recent import Recent
from harness.dtypes import KINDS
from harness.interface import ALIGNMENT, Prepared, Repeat
from harness.operands import span
from harness.semiring import Scalar

# Most products that are remembered: a few KiB of host memory each.
MOST = 1024


class Entry(NamedTuple):
    """A remembered product.

    Attributes
    ----------
    repeat : callable or None
        None: `out` shared memory with an operand, and only the product into a new array is remembered.
    used : int
        Number of operands that it takes: a C that beta makes absent is left out.
    arrays : Arrays
        The kind of its arrays.
    shape : tuple of int
    dtypes : tuple of dtype
        Of each result.
    ranges : tuple of (int, int)
        For each operand, and for `out` last, the bytes that it spans, relative to its first element; empty without out.
    fill : scalar or None
        What a new array holds where the product writes nothing, if there is such a part of it.
    is_by_address : bool
        Whether `repeat` takes addresses (`Execution.repeat`).
    """

    repeat: Repeat | None
    used: int
    arrays: Arrays
    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    ranges: tuple[tuple[int, int], ...]
    fill: Any
    is_by_address: bool = False


_entries = Recent[Entry](lambda: MOST)

# Kinds of products, of any sizes: `harness.api.remembered.kinds`.
kinds = Recent[Any](lambda: MOST)

# Products that are computed by addresses, by layouts of other libraries (`harness.api.libraries.view_products`).
elsewhere = Recent[Any](lambda: MOST)

# Classes of arrays of which products are remembered.
classes: set[type] = set()


def options_of_gemm(
    semiring: Any,
    alpha: Scalar,
    beta: Scalar,
    backend: str,
    threads: Any,
    dtype: Any,
    triangle: str,
    conjugate: str = "",
) -> Hashable:
    """Return the options of a call of `gemm` as a part of a key; None if a scalar is no number, which checks report."""
    try:
        scalars = (None, None) if alpha is beta is None else (_exactly(alpha), _exactly(beta))
    except Exception:  # noqa: BLE001 whatever an object of another library raises
        return None
    return "gemm", semiring, scalars, backend, threads, threads.__class__, dtype, triangle, conjugate, _is_native()


def options_of_argk(*, semiring: Any, backend: str, threads: Any) -> Hashable:
    """Return the options of a call of `gemm_argk` as a part of a key."""
    return "gemm_argk", semiring, backend, threads, threads.__class__, _is_native()


def recall(
    options: Hashable,
    operands: Sequence[Any],
    out: Any = None,
    prepared: Callable[[Hashable, Sequence[Any], Any], Entry | None] | None = None,
) -> tuple[Any, ...] | None:
    """Compute a remembered product, and return its results; None: it is not remembered, and nothing was done.

    Parameters
    ----------
    options : hashable
        That of `options_of_gemm` or `options_of_argk`.
    operands : sequence of array
        a, b, and c if there is one.
    out : array, optional
        Where the only result goes; None: results are new arrays.
    prepared : callable, optional
        Called with the same, it may prepare and remember a product that is not remembered.

    Raises
    ------
    ProblemError
        If the call is captured, and takes copies that the graph would not keep.
    """
    arrays = operands if out is None else (*operands, out)
    try:
        key, pointers = _key(options, arrays, out is None)
        entry = _entries.get(key)
    except (TypeError, AttributeError):  # no key at all, which the checks report
        return None
    if entry is None:
        entry = prepared and prepared(options, operands, out)
        if entry is None:
            return None
    if entry.arrays.is_in_force():
        return _compute(entry, options, operands, out, pointers)
    with entry.arrays.in_force():
        return _compute(entry, options, operands, out, pointers)


def find_at(options: Hashable, operands: Sequence[Any], out: Any, cls: type) -> Entry | None:
    """Return a remembered product that is computed by addresses on the current GPU; None: it is not known, or is not.

    Parameters
    ----------
    options : hashable
        That of `options_of_gemm` or `options_of_argk`.
    operands : sequence of Address
        Of a, b, and c if there is one.
    out : Address or None
        None: new arrays.
    cls : type
        Of the arrays that it is remembered for.
    """
    arrays = operands if out is None else (*operands, out)
    entry = _entries.get(_key(options, arrays, out is None, cls)[0])
    return entry if entry is not None and entry.is_by_address and entry.repeat is not None else None


def remember(
    options: Hashable, prepared: Prepared, arrays: Arrays, operands: Sequence[Any], results: Sequence[Any], out: Any
) -> Entry | None:
    """Remember a product that has been computed, or prepared, and return it; None: it cannot be repeated.

    Parameters
    ----------
    options : hashable
    prepared : Prepared
        Of `operands` and `results` as they are, neither converted nor copied.
    arrays : Arrays
    operands, results : sequence of array
    out : array or None
        That of the call. If it is not the only result, it shares memory with an operand, and was copied to.
    """
    plain, problem = arrays.module.ndarray, prepared.plan.problem
    if options is None or {x.__class__ for x in (*operands, *results)} != {plain} or not problem.pairs:
        return None
    repeat, has_triangle = prepared.repeat(), problem.triangle == "d"
    is_aside = out is not None and out is not results[0]
    if repeat is None or (is_aside and has_triangle):  # a copy of all of it would write above the diagonal of `out`
        return None
    spanned = () if out is None else (*operands, out)
    ranges = tuple([span(x.shape, x.strides, x.itemsize) for x in spanned])
    fill = problem.semiring.zero(problem.dtype) if has_triangle else None
    dtypes = tuple([x.dtype for x in results])
    is_by_address, used = getattr(repeat, "takes_addresses", False), 3 if problem.accumulate else 2
    entry = Entry(repeat, used, arrays, results[0].shape, dtypes, ranges, fill, is_by_address)
    in_place = operands if is_aside or out is None else (*operands, out)
    try:
        _entries.put(_key(options, in_place, in_place is operands)[0], entry)
        if is_aside and _entries.get(key := _key(options, (*operands, out), False)[0]) is None:
            _entries.put(key, entry._replace(repeat=None))
    except TypeError:  # an option is not hashable
        return None
    classes.add(type(operands[0]))
    return entry


def forget() -> None:
    """Forget every product, and every kind of them."""
    _entries.clear()
    kinds.clear()
    elsewhere.clear()


def _compute(
    entry: Entry, options: Hashable, operands: Sequence[Any], out: Any, pointers: list[int]
) -> tuple[Any, ...] | None:
    """Compute on the current device; return None if only products with another `out` are remembered."""
    if out is None:
        results = tuple([entry.arrays.empty(entry.shape, dtype) for dtype in entry.dtypes])
        pointers += [x.data.ptr for x in results]
        if entry.fill is not None:
            results[0].fill(entry.fill)
    elif overlaps(entry, pointers, pointers[-1]):
        entry.arrays.refuse_capture("out shares memory with an operand", "give an out with memory of its own")
        aside = recall(options, operands)
        if aside is not None:
            out[...] = aside[0]
        return aside and (out,)
    else:
        results = (out,)
    repeat, used = entry.repeat, entry.used
    if repeat is None:
        return None
    if entry.is_by_address:
        if used < len(operands):
            del pointers[used : len(operands)]
        repeat.at(pointers)  # type: ignore[attr-defined]
    else:
        repeat(*operands[:used], *results)
    return results


def overlaps(entry: Entry, operands: Sequence[int], out: int) -> bool:
    """Return whether arrays that begin at `operands` share memory with an `out` that begins there."""
    low, high = entry.ranges[-1]
    begin, end = out + low, out + high
    for address, (low, high) in zip(operands, entry.ranges[:-1]):  # noqa: B905 - strict takes longer
        if address + low < end and begin < address + high:
            return True
    return False


def _key(options: Hashable, arrays: Sequence[Any], is_new: bool, cls: type | None = None) -> tuple[Hashable, list[int]]:
    """Return what a product is remembered by, and where its arrays begin: the operands, and `out` unless it is new.

    With `cls` they are addresses, in place of arrays of that class.
    """
    key, pointers = [options, is_new], []
    for x in arrays:
        data = x.data
        pointer = data.ptr
        key += cls or x.__class__, x.dtype, x.shape, x.strides, data.device_id, pointer % ALIGNMENT == 0
        pointers.append(pointer)
    return tuple(key), pointers


def _exactly(x: Scalar) -> Hashable:
    """Return a scalar as a part of a key: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if x is None:
        return None
    if x.__class__ is float:
        return _of_float(x)
    if x.__class__ is int:
        return x
    scalar = np.asarray(x)
    if scalar.ndim or scalar.dtype.kind not in KINDS:
        raise TypeError
    return scalar.dtype.str, scalar.tobytes()


_is_native = arithmetic.is_native
_of_float = struct.Struct("d").pack


def layout(x: Any) -> Hashable:
    """Return all of an array that a remembered product depends on."""
    data = x.data
    return x.__class__, x.dtype, x.shape, x.strides, data.device_id, data.ptr % ALIGNMENT == 0
