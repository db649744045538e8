"""Call a compiled product from code that holds the GIL, without the GIL if the product is long."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from backends.cpu._ir.call_by_address import call
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.inlined import inlined
from harness.tuning import simd as tuning_simd

_MOST = tuning_simd.SIMD_MOST_PAIRS_WITH_GIL


@intrinsic
def _release_gil(typing_context: Any) -> Any:
    """Let other Python threads run, and return the argument of `_take_gil`; until then use no Python object."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(context.get_python_api(builder).save_thread(), v.SIZE)

    return types.intp(), emit


@intrinsic
def _take_gil(typing_context: Any, thread: Any) -> Any:
    """Take the GIL back."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        context.get_python_api(builder).restore_thread(builder.inttoptr(arguments[0], v.POINTER))
        return context.get_dummy_value()

    return types.void(types.intp), emit


def _emit_release(b: Builder) -> Value:
    return b.ptrtoint(b.call(v.declare(b, "PyEval_SaveThread", v.POINTER, []), []), v.SIZE)


def _emit_take(b: Builder, thread: Value) -> None:
    b.call(v.declare(b, "PyEval_RestoreThread", v.VOID, [v.POINTER]), [b.inttoptr(thread, v.POINTER)])


_release_gil.emit, _take_gil.emit = _emit_release, _emit_take  # for functions of integers


@inlined
def call_without_gil_if_long(pairs: int, address: int, arguments: Any) -> None:
    """Call a function that computes `pairs` pairs by its address (`_ir.call_by_address`)."""
    if pairs <= _MOST:
        call(address, arguments)
        return
    thread = _release_gil()
    call(address, arguments)
    _take_gil(thread)
