"""Functions of generated vector code, compiled alone and called from Python, so that a test can look at one idea."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import registry
from numba.core.compiler_lock import global_compiler_lock

from backends.cpu._ir import functions
from backends.cpu._vector import code as v


class Functions:
    """Collects functions of addresses and sizes, and compiles them all at once, by the passes that kernels go through.

    Compiling is what costs: hundreds of small functions in one module take as long as one kernel.
    """

    def __init__(self) -> None:
        codegen = registry.cpu_target.target_context.codegen()
        self._library = codegen.create_library("vector_functions")
        self._module = self._library.create_ir_module("vector_functions")
        self._counts: dict[str, int] = {}

    def add(self, name: str, count: int, emit: Callable[..., Any]) -> None:
        """Add ``name(*values)`` of `count` addresses or sizes: ``emit(builder, *values)``."""
        function = ir.Function(self._module, ir.FunctionType(v.VOID, [v.SIZE] * count), name)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        emit(builder, *function.args)
        builder.ret_void()
        self._counts[name] = count

    def compile(self) -> Callable[..., None]:
        """Return ``call(name, *values)``, where a value is an array, of which the address is passed, or a size."""
        with global_compiler_lock:
            self._library.add_ir_module(self._module)
            self._library.finalize()
        found = {
            name: ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(self._library.get_pointer_to_function(name))
            for name, count in self._counts.items()
        }

        def call(name: str, *values: Any) -> None:
            found[name](*(x.ctypes.data if isinstance(x, np.ndarray) else x for x in values))

        return call


def pointer(builder: ir.IRBuilder, address: Any) -> Any:
    """Return an address as a pointer."""
    return builder.inttoptr(address, v.POINTER)


_numbers = itertools.count()


def compile_anew(name: str, key: Any, emit: Any, *, unrolls: bool = False) -> tuple[int, ...]:
    """Do what `compile_functions` does, and keep nothing: what a test emits is not what the key says."""
    symbol = f"{name}_of_tests_{next(_numbers)}"
    with global_compiler_lock:
        return functions._load(symbol, functions._compile(symbol, emit, unrolls))
