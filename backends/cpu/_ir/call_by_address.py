"""A compiled function, called from another by its address.

Numba takes 2 to 3 s to compile the parallel loops around a kernel, and less than 1 s for the kernel itself. A kernel
called by its address is no part of the loops, so they are compiled once for a dtype, not once for each semiring.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from backends.cpu._ir.integers import Translated
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers


@functools.cache
def address_of(compiled: Any) -> Any:
    """Return the address of a function that `jit` compiled, and keep the function alive.

    In the Python form of kernels it is the function itself.
    """
    if numba.config.DISABLE_JIT:
        return compiled
    if isinstance(compiled, Translated):
        return compiled.address
    (result,) = compiled.overloads.values()
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


@intrinsic
def _call(typing_context: Any, address: Any, arguments: Any) -> Any:
    def emit(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> Any:
        argument_types = signature.args[1].types
        function_type = context.call_conv.get_function_type(types.none, argument_types)
        function = builder.inttoptr(values[0], function_type.as_pointer())
        status, _ = context.call_conv.call_function(
            builder, function, types.none, argument_types, cgutils.unpack_tuple(builder, values[1])
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(types.intp, arguments), emit


@OfIntegers
def call_function(b: Builder, address: Value, arguments: tuple[Value, ...]) -> None:
    """Call a function of `_ir.functions` by its address; `arguments` is a tuple of sizes and addresses."""
    kind = ir.FunctionType(v.VOID, [v.SIZE] * len(arguments))
    b.call(b.inttoptr(address, kind.as_pointer()), arguments)


def _emit_call(b: Builder, address: Value, arguments: tuple[Any, ...]) -> None:
    """Call a function of Numba's convention, which raises nothing: with places for its result and an exception."""
    words = [word for x in arguments for word in (x if isinstance(x, tuple) else (x,))]
    kind = ir.FunctionType(v.INDEX, [v.POINTER, v.POINTER, *[v.SIZE] * len(words)])
    with b.goto_entry_block():
        places = b.alloca(v.POINTER), b.alloca(v.POINTER)
    b.call(b.inttoptr(address, kind.as_pointer()), [*places, *words])


_call.emit = _emit_call  # for functions of integers


def _call_in_python(function: Any, arguments: Any) -> None:
    function(*arguments)


# call(address, arguments): arguments is a tuple whose types must be those that the function was compiled for.
call = _call_in_python if numba.config.DISABLE_JIT else _call
