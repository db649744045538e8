"""The last stage of a product whose parts have sums of their own: ranges of elements, each combined over the parts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np

from backends.cpu._cache.key import kernel_builder
from backends.cpu._ir.call_by_address import call_function
from backends.cpu._ir.integers import Translated, translated
from backends.cpu._simd.argument_table import Stage
from backends.cpu._simd.kernel import KernelKey
from backends.cpu._simd.part import Part
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
    itemsize = key.itemsize
    stride, rows = length_of_sums(elements, itemsize), []
    for begin, end in _ranges(elements, parts, itemsize):
        first, last = rows_of(begin)
        sums, y = first * stride + begin * itemsize, begin * itemsize
        rows.append(Part(last - first, end - begin, 1, rs_a=stride, packed_a=sums, c=y, accumulate=accumulate))
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


@kernel_builder
def build_fold() -> Translated:
    """Compile ``combine(part)``: m rows of n sums at `packed_a`, `rs_a` bytes apart, are combined into c."""

    def combine(part: Part) -> None:
        """Combine the rows."""
        call_function(word_at(part.kernel), (part.m, part.n, part.packed_a, part.rs_a, part.c, part.accumulate))

    return translated(combine, Part)
