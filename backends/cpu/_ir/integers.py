"""Functions of integers, written in Python and compiled without Numba: what calls them, and the key that keeps them.

Loops around kernels compute with sizes and addresses alone: integers of 64 bits, and tuples of them. To infer that, and
to rewrite them in its passes, takes Numba a second. `translation` walks a function's syntax tree once instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from backends.cpu._ir.functions import compile_functions
from backends.cpu._ir.translation import body_of
from backends.cpu._vector import code as v


def compiled_for_c(*functions: Callable[..., Any]) -> tuple[int, ...]:
    """Return the addresses of functions of words, as C calls them: to a word, or to nothing if annotated so."""
    return compile_functions(*name_of(*functions), lambda module: [_for_c(module, x) for x in functions], unrolls=True)


class Translated(NamedTuple):
    """A compiled function of words, which `call_by_address.call` calls at its address."""

    address: int


def translated(
    function: Callable[..., None], kind: type[tuple[int, ...]] | None = None, given: Sequence[Any] = ()
) -> Translated:
    """Compile a function of words, or ``function(x)`` where `x` is a named tuple of `kind`; `given` as in `name_of`."""
    name = name_of(function, given=given)
    return Translated(*compile_functions(*name, lambda module: [_for_numba(module, function, kind)], unrolls=True))


def name_of(*functions: Callable[..., Any], given: Sequence[Any] = ()) -> tuple[str, tuple[Any, ...]]:
    """Return the name of functions and the key by which they are kept: where they are defined, and what they hold.

    What is no integer among that, as an intrinsic, is made of what is `given`: numbers and names.
    """
    key: list[Any] = [*given]
    for function in functions:
        key += [function.__module__, function.__qualname__]
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if isinstance(cell.cell_contents, int):
                key += [name, cell.cell_contents]
            elif not given:
                raise TypeError(f"{function.__qualname__}: nothing that is given tells what `{name}` is")
    return functions[0].__name__, tuple(key)


def _for_c(module: ir.Module, function: Callable[..., Any]) -> ir.Function:
    """Write a function of words."""
    signature = inspect.signature(function)
    result = v.VOID if signature.return_annotation in (None, "None") else v.SIZE
    written = ir.Function(module, ir.FunctionType(result, [v.SIZE] * len(signature.parameters)), function.__name__)
    b = ir.IRBuilder(written.append_basic_block("entry"))
    value = body_of(b, function, written.args)
    if result is v.VOID:
        b.ret_void()
    else:
        b.ret(value)
    return written


def _for_numba(module: ir.Module, function: Callable[..., Any], kind: type[tuple[int, ...]] | None) -> ir.Function:
    """Write a function as Numba's code calls it: with places for a result and an exception, and status 0."""
    words = [v.SIZE] * len(inspect.signature(kind or function).parameters)
    signature = ir.FunctionType(v.INDEX, [v.POINTER, v.POINTER, *words])
    written = ir.Function(module, signature, function.__name__)
    b = ir.IRBuilder(written.append_basic_block("entry"))
    body_of(b, function, [kind(*written.args[2:])] if kind else written.args[2:])
    b.ret(v.index(0))
    return written
