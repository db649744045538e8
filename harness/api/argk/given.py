"""The two arrays that a caller of `gemm_argk` gives for its results: checks, and whether they can be computed into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from harness.api.arguments import check_out
from harness.api.arrays import Arrays
from harness.api.libraries.view_products import NAMES
from harness.errors import ProblemError

Pair = tuple[Any, Any]
_MOST_STEPS = 10_000  # of NumPy's exact answer to whether two arrays share memory


def pair_of(out: Any) -> Pair | None:
    """Return `out` as a pair, or None.

    Raises
    ------
    ProblemError
        If it is neither.
    """
    if out is None:
        return None
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        got = f"{len(out)} of them" if isinstance(out, (tuple, list)) else type(out).__name__
        raise ProblemError(
            "gemm_argk: out is not a pair of arrays",
            expected="out=(product, argk)",
            got=got,
            fix="product, argk = numpy.empty(shape, dtype), numpy.empty(shape, 'int32')",
        )
    return out[0], out[1]


def check_pair(arrays: Arrays, out: Pair, shape: tuple[int, ...], dtypes: Iterable[np.dtype[Any]]) -> Pair:
    """Return `out` as plain arrays; raise unless it takes results of that shape and dtypes, and shares no memory."""
    for name, x, dtype in zip(NAMES, out, dtypes, strict=True):
        if x is None:
            raise ProblemError(f"gemm_argk: {name} is None", expected="two arrays, or out=None", got="one array")
        check_out("gemm_argk", arrays, x, shape, dtype, name)
    plain = arrays.plain(out[0]), arrays.plain(out[1])
    if arrays.overlaps(*plain) and _share(arrays, *plain):
        raise ProblemError(
            "gemm_argk: out[0] and out[1] share memory",
            expected="two arrays",
            got="one would overwrite the other",
            fix=f"out[1]={arrays.module.__name__}.empty({shape}, 'int32')",
        )
    return plain


def is_computed_into(arrays: Arrays, out: Pair, operands: Iterable[Any]) -> bool:
    """Return whether the product may write to `out` itself: C-ordered, aligned, and apart from the operands."""
    if not all(_is_c_ordered(x) and (arrays.on_device or x.flags.aligned) for x in out):
        return False
    return not any(arrays.overlaps(x, y) for x in out for y in operands)


def _is_c_ordered(x: Any) -> bool:
    step = x.itemsize
    for size, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _share(arrays: Arrays, x: Any, y: Any) -> bool:
    if arrays.on_device:
        return True
    try:
        return np.shares_memory(x, y, max_work=_MOST_STEPS)  # type: ignore[arg-type] # any number is taken
    except np.exceptions.TooHardError:
        return True
