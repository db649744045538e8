"""A list of calls of C functions in memory, which Python has made by one call.

Between two calls of Python's lie 100 ns or more, and those of `ctypes` take 1 to 3 us. A list is made once. Before it
is called, values are written to it, and its words that depend on them are set.

    list     number and address of settings, of copies and of calls; address of values
    setting  address of a word, number of a value, and what is added to the value
    copy     address of a word, and of the one that is set to it
    call     address of a function to an int, and `MOST` words; it takes as many as it has arguments

A function is called with more words than it has arguments. That is nothing to it: on 64-bit systems integers and
pointers have a register or 8 bytes of the stack each, and the caller takes the stack back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from backends.cpu._ir.python_calls import compiled_for_python
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers, word_at

MOST = 23  # arguments of a call
LIST_WORDS, SETTING_WORDS, COPY_WORDS, CALL_WORDS = 7, 3, 2, 1 + MOST
_WORD = 8  # bytes


@OfIntegers
def _set_word(b: Builder, address: Value, value: Value) -> None:
    b.store(value, b.inttoptr(address, v.POINTER))


@OfIntegers
def _called(b: Builder, call: Value) -> Value:
    """Call what lies there, and return its int."""
    start, kind = b.inttoptr(call, v.POINTER), ir.FunctionType(ir.IntType(32), [v.SIZE] * MOST)
    address, *words = [b.load(v.advance(b, start, _WORD * i), typ=v.SIZE) for i in range(CALL_WORDS)]
    return b.zext(b.call(b.inttoptr(address, kind.as_pointer()), words), v.SIZE)


def call_all(calls: int) -> int:
    """Make the calls of the list at an address, in their order, until one returns something.

    Returns
    -------
    int
        0; or its 32 bits, and above them how many calls were made.
    """
    settings, values = word_at(calls + 8), word_at(calls + 48)
    for number in range(word_at(calls)):
        setting = settings + number * 24
        _set_word(word_at(setting), word_at(values + 8 * word_at(setting + 8)) + word_at(setting + 16))
    copies = word_at(calls + 24)
    for number in range(word_at(calls + 16)):
        copy = copies + number * 16
        _set_word(word_at(copy + 8), word_at(word_at(copy)))
    first = word_at(calls + 40)
    for number in range(word_at(calls + 32)):
        status = _called(first + number * (8 * CALL_WORDS))
        if status:
            return status | (number + 1) << 32
    return 0


@functools.cache
def caller() -> Callable[[int], Any]:
    """Return `call_all`, compiled; other Python threads run meanwhile."""
    return compiled_for_python(call_all, releases_gil=True)
