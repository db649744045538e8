"""Call a compiled product from code that holds the GIL, without the GIL if the product is long."""

from __future__ import annotations

from backends.cpu._ir.call_by_address import call
from backends.cpu._simd.part import Part
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers
from harness.tuning import simd as tuning_simd

_MOST = tuning_simd.SIMD_MOST_PAIRS_WITH_GIL


@OfIntegers
def _release_gil(b: Builder) -> Value:
    """Let other Python threads run, and return the argument of `_take_gil`; until then use no Python object."""
    return b.ptrtoint(b.call(v.declare(b, "PyEval_SaveThread", v.POINTER, []), []), v.SIZE)


@OfIntegers
def _take_gil(b: Builder, thread: Value) -> None:
    """Take the GIL back."""
    b.call(v.declare(b, "PyEval_RestoreThread", v.VOID, [v.POINTER]), [b.inttoptr(thread, v.POINTER)])


def call_without_gil_if_long(pairs: int, address: int, part: Part) -> None:
    """Call a function that computes a part of `pairs` pairs by its address."""
    if pairs <= _MOST:
        call(address, (part,))
        return
    thread = _release_gil()
    call(address, (part,))
    _take_gil(thread)
