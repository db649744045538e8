"""The last stage of a product whose parts have sums of their own: ranges of elements, each combined over the parts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from backends.cpu._compile.call_by_address import call_function
from backends.cpu._compile.jit import jit
from backends.cpu._simd.argument_table import Stage
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.loops import ARGUMENTS
from backends.cpu._simd.partial_sums import compile_fold, length_of_sums
from backends.cpu._vector.intrinsics import word_at
from harness.operands import CACHE_LINE


def fold_stage(
    key: KernelKey, elements: int, parts: int, rows_of: Callable[[int], tuple[int, int]], accumulate: bool
) -> Stage:
    """Return the stage that combines rows of sums in scratch, and stores y or adds to it.

    Parameters
    ----------
    key : KernelKey
    elements : int
        Of y, which is contiguous, and of a row of sums.
    parts : int
        Ranges of y that are computed independently.
    rows_of : callable
        ``rows_of(j)``: first row of sums that counts for the range that begins with element j, and the end of rows.
    accumulate : bool
    """
    itemsize = np.dtype(key.dtype).itemsize
    stride, rows = length_of_sums(elements, itemsize), []
    for begin, end in _ranges(elements, parts, itemsize):
        first, last = rows_of(begin)
        rows.append((
            last - first, end - begin, 1, 0, stride, 0, 0, 0, 0, begin * itemsize, 0,
            accumulate, 0, 0, 0, 0, 0, 0, 0, first * stride + begin * itemsize, 0, 0,
        ))  # fmt: skip
    return Stage(build_fold(), rows, _kernel_table(key))


def _ranges(elements: int, parts: int, itemsize: int) -> list[tuple[int, int]]:
    """Return at most `parts` ranges of whole cache lines."""
    line = CACHE_LINE // itemsize
    bounds = [elements * i // parts // line * line for i in range(parts)] + [elements]
    return [(i, j) for i, j in itertools.pairwise(bounds) if i < j]


@functools.cache
def _kernel_table(key: KernelKey) -> np.ndarray:
    """Compile the function that combines rows, and return its address in a table."""
    return np.array([compile_fold(key)], np.int64)


@functools.cache
def build_fold() -> Any:
    """Compile ``combine(*ARGUMENTS)``: m rows of n sums at `packed_a`, `rs_a` bytes apart, are combined into c."""

    def combine(
        m: int, n: int, k: int, a: int, rs_a: int, cs_a: int, b: int, rs_b: int, cs_b: int, c: int, rs_c: int,
        accumulate: int, block: int, rs_block: int, mc: int, nc: int, kc: int, packs_a: int, packs_b: int,
        packed_a: int, packed_b: int, diagonal: int, kernel: int,
    ) -> None:  # fmt: skip
        """Combine the rows."""
        call_function(word_at(kernel), (m, n, packed_a, rs_a, c, accumulate))

    return jit(None, *[types.intp] * len(ARGUMENTS), parallel=False)(combine)
