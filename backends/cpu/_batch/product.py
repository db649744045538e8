"""A batch by the generated kernels, of operands of any strides: broadcast ones are read where they lie."""

from __future__ import annotations

import numpy as np

from backends.cpu._batch.table import BatchTable
from backends.cpu._simd.argument_table import Loops, Run, Shape
from backends.cpu._simd.settings import Settings
from backends.cpu._vector.operators import Operations
from harness.operands import data_address


def run_of_batch(
    settings: Settings, ops: Operations, a: np.ndarray, b: np.ndarray, out: np.ndarray, accumulate: bool,
    block: np.ndarray | None = None, triangle: str = "",
) -> Run:  # fmt: skip
    """Return the run of a batch, none of whose products is empty: a `core` of `_simd.product.prepare_generated`."""
    assert not triangle

    def loops_of(shape: Shape, threads: int) -> Loops:
        return settings.changed(threads=threads).loops(ops, out.dtype, shape)

    arrays = (a, b, out) if block is None else (a, b, out, block)
    strides = tuple(x.strides[:-2] for x in arrays)
    if block is None:
        strides = (*strides, (0,) * (out.ndim - 2))
    shape = Shape.of(*map(_first, arrays))
    table = BatchTable(loops_of, shape, out.shape[:-2], strides, settings.threads, accumulate)
    table.addresses[: len(arrays)] = [data_address(x) for x in arrays]
    run = table.run

    def compute() -> None:
        run()

    compute.operands = table, arrays  # type: ignore[attr-defined] # the table knows them by address alone
    return compute


def _first(x: np.ndarray) -> np.ndarray:
    """Return the first matrix of a batch."""
    return x[(0,) * (x.ndim - 2)]
