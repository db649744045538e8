"""Numba intrinsics of sizes and addresses, whose code is generated: how compiled loops call generated functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value


def size_intrinsic(count: int, emit: Callable[[Builder, list[Value]], None]) -> Any:
    """Return a Numba intrinsic of `count` sizes or addresses that returns nothing: ``emit(builder, values)``."""

    @intrinsic
    def generated(typing_context: Any, values: Any) -> Any:
        def codegen(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
            (packed,) = arguments
            emit(builder, [builder.extract_value(packed, i) for i in range(count)])
            return context.get_dummy_value()

        return types.void(types.UniTuple(types.intp, count)), codegen

    return generated


def switch_intrinsic(count: int, functions: Callable[[ir.Module], dict[int, Any]]) -> Any:
    """Return the same of a number and what is called with the other sizes: what `functions` has for that number."""

    def emit(builder: Builder, values: list[Value]) -> None:
        which, *arguments = values
        v.switch(builder, which, functions(builder.module), arguments)

    return size_intrinsic(count, emit)
