"""Intrinsics, of Numba's functions or of functions of integers: their instructions are written as LLVM IR."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value

Emit = Callable[..., Value | None]


def emits(returns: Any = None, *arguments: Any) -> Callable[[Emit], Any]:
    """Return a decorator that makes an intrinsic of ``emit(builder, *values)``, which writes its instructions.

    Parameters
    ----------
    returns : Numba type, optional
        None: that of the first argument, which is the type of every argument.
    arguments : Numba types
    """

    def decorate(emit: Emit) -> Any:
        def define(typing_context: Any, *operands: Any) -> Any:
            def codegen(context: Any, builder: Builder, signature: Any, values: Any) -> Any:
                value = emit(builder, *values)
                return context.get_dummy_value() if value is None else value

            return (operands[0](*operands) if returns is None else returns(*arguments)), codegen

        functools.update_wrapper(define, emit)
        define.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined] # Numba matches arguments with it
        return intrinsic(define)

    return decorate


@emits(types.voidptr, types.intp)
def as_pointer(builder: Builder, address: Value) -> Value:
    """Return an address as the pointer that `numba.carray` takes.

    LLVM vectorises loops over such an array, since its elements are known to be contiguous.
    """
    return builder.inttoptr(address, ir.IntType(8).as_pointer())


class OfIntegers(NamedTuple):
    """What functions of integers alone call: it writes its instructions as ``emit(builder, *words)``."""

    emit: Callable[..., Any]


@OfIntegers
def word_at(builder: Builder, address: Value) -> Value:
    """Return the word of 8 bytes at an address."""
    return builder.load(builder.inttoptr(address, v.POINTER), typ=v.SIZE)


def words_at(count: int) -> Any:
    """Return the intrinsic ``read(address)`` of so many words of 8 bytes, one behind the other, as a tuple."""

    @OfIntegers
    def read(builder: Builder, address: Value) -> tuple[Value, ...]:
        start = builder.inttoptr(address, v.POINTER)
        return tuple(builder.load(v.advance(builder, start, 8 * i), typ=v.SIZE) for i in range(count))

    return read


@OfIntegers
def on_stack(builder: Builder, words: tuple[Value, ...]) -> Value:
    """Return the address of a tuple of words, one behind the other, on the stack of the function that calls."""
    places = builder.ptrtoint(builder.alloca(v.SIZE, size=v.size(len(words))), v.SIZE)
    for number, word in enumerate(words):
        builder.store(word, builder.inttoptr(builder.add(places, v.size(8 * number)), v.POINTER))
    return places
