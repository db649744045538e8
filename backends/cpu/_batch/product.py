"""A batch by the generated kernels, of operands of any strides: broadcast ones are read where they lie.

As for one product (`_simd.product`): an output with contiguous columns becomes that of the transposed products, any
other one without contiguous rows is computed in an array of its own, and the values decide between fast and careful
form.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.cpu._batch.table import BatchTable
from backends.cpu._log_sum.product import LogSumExp
from backends.cpu._simd.argument_table import Loops, Run, Shape
from backends.cpu._simd.product import (
    as_suits_layout,
    guarded,
    has_contiguous_rows,
    through,
)
from backends.cpu._simd.settings import Settings
from backends.cpu._simd.value_scan import Look
from backends.cpu._vector.operators import Guard, Operations, guard, operations
from harness.operands import collapsed, data_address
from harness.semiring import Semiring


def loops_of(settings: Settings, ops: Operations, dtype: np.dtype[Any]) -> Callable[[Shape, int], Loops]:
    """Return the choices of the loops for one product that so many threads share."""
    return lambda shape, threads: dataclasses.replace(settings, threads=threads).loops(ops, dtype, shape)


def prepare_batch(
    semiring: Semiring,
    settings: Settings,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    accumulate: bool,
    block: np.ndarray | None = None,
) -> Run:
    """Return ``run()``, which computes ``out := [out (+)] a (x) b`` for every product, none of them empty.

    Parameters
    ----------
    semiring : Semiring
        One that `operations` knows over the dtype.
    settings : Settings
    a, b, out : (..., m, k), (..., k, n) and (..., m, n) array
        Of one dtype, any strides, with the same leading dimensions.
    accumulate : bool
    block : (..., m, n) array of int8, optional
        As in `prepare_generated`.
    """
    dtype = out.dtype
    semiring, settings, a, b, out, block = as_suits_layout(semiring, settings, a, b, out, block)
    target = out if has_contiguous_rows(out) else np.empty(out.shape, dtype)
    ops, condition = operations(semiring, dtype), guard(semiring, dtype)
    assert ops is not None

    def prepare(ops: Operations) -> Run:
        return _run_of(loops_of(settings, ops, dtype), settings.threads, a, b, target, accumulate, block)

    stacks = stacked(a), stacked(b)
    if condition is Guard.NONE:
        run = prepare(ops)
    elif stacks[0] is None or stacks[1] is None:  # values that are not in one piece are not looked at
        run = prepare(ops._replace(is_careful=True))
    else:
        holds = Look(condition, semiring, dtype).on(stacks[0], stacks[1])
        run = guarded(holds, prepare(ops), functools.partial(prepare, ops._replace(is_careful=True)))
    return through(target, out, accumulate, run)


def prepare_log_sum(
    semiring: Semiring,
    real: Semiring,
    settings: Settings,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    accumulate: bool,
) -> Run:
    """Return `prepare_batch` for logaddexp_plus: one product after the other, all in the scratch of the first.

    `real` is plus_times, over which the exponentials are multiplied.
    """
    (*batch, m, n), k, dtype = out.shape, a.shape[-1], out.dtype
    made: list[Run] = []
    ops = operations(real, dtype)
    assert ops is not None

    def product(x: np.ndarray, y: np.ndarray, sums: np.ndarray, adds: bool) -> None:
        if not made:
            made.append(_run_of(loops_of(settings, ops, dtype), settings.threads, x, y, sums, adds, None))
        made[0]()

    log_sum = LogSumExp(semiring, dtype, (m, n, k), product)

    def run() -> None:
        for index in np.ndindex(*batch):
            log_sum(a[index], b[index], out[index], accumulate)

    return run


def stacked(x: np.ndarray) -> np.ndarray | None:
    """Return the different matrices of a batch below each other, as a view; None if they are not evenly apart."""
    *batch, rows, _ = x.shape
    strides = x.strides
    sizes = [1 if stride == 0 else size for size, stride in zip(batch, strides, strict=False)]
    if abs(strides[-2]) < abs(strides[-1]):
        x, rows, strides = x.swapaxes(-1, -2), x.shape[-1], (*strides[:-2], strides[-1], strides[-2])
    pieces = collapsed((*sizes, rows), strides[:-1])
    if len(pieces) > 1:
        return None
    size, stride = pieces[0] if pieces else (1, strides[-2])
    return np.lib.stride_tricks.as_strided(x, (size, x.shape[-1]), (stride, strides[-1]), writeable=False)


def _run_of(
    loops: Callable[[Shape, int], Loops],
    threads: int,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    accumulate: bool,
    block: np.ndarray | None,
) -> Run:
    arrays = (a, b, out) if block is None else (a, b, out, block)
    strides = tuple(x.strides[:-2] for x in arrays)
    if block is None:
        strides = (*strides, (0,) * (out.ndim - 2))
    shape = Shape.of(*map(_first, arrays))
    table = BatchTable(loops, shape, out.shape[:-2], strides, threads, accumulate)
    table.addresses[: len(arrays)] = [data_address(x) for x in arrays]
    run = table.run

    def compute() -> None:
        run()

    compute.operands = table, arrays  # type: ignore[attr-defined] # the table knows them by address alone
    return compute


def _first(x: np.ndarray) -> np.ndarray:
    """Return the first matrix of a batch."""
    return x[(0,) * (x.ndim - 2)]
