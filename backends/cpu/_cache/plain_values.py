"""The parts of a kernel that hold no other object: numbers, strings, dtypes and bytecode, described by their content.

`_cache.fingerprint` walks from a kernel down to these.
"""

from __future__ import annotations

import enum
import struct
import types as python
from typing import Any

import numpy as np

Description = Any  # nested tuples of strings, bytes and integers, whose repr is unambiguous

VALUES = (bool, int, float, complex, str, bytes, np.generic, np.dtype, type(None), type(Ellipsis))
# An integer in this range may be an address, which the next process must not find in a kernel. Processes get 48 bits
# unless they ask for more; compiled code and large arrays lie above the first 32.
_LEAST_ADDRESS, _GREATEST_ADDRESS = 1 << 32, 1 << 48


class Uncertain(Exception):
    """A value that cannot be described; the message names it."""


class Role(enum.Enum):
    """How a value gets into a kernel, which decides how much must be known about it."""

    FROZEN = "Numba compiles it in: the closure or a global of a compiled function"
    GIVEN = "an emitter closes over it"
    SOURCE = "a global that an emitter may look at: what cannot be described is as the source text says"


def describe_value(value: Any, role: Role) -> Description:
    """Return the description of an enumerator, or of an instance of `VALUES`.

    Raises
    ------
    Uncertain
        If it is a dtype with fields, objects, strings or times, or an integer that may be an address.
    """
    type_name = type(value).__qualname__
    if isinstance(value, enum.Enum):  # also one that is an int or a str
        return ("enum", type(value).__module__, type_name, value.name, repr(value.value))
    if isinstance(value, np.dtype):
        if value.kind not in "biuf":
            raise Uncertain(f"dtype {value}")
        return (type_name, value.str)
    if isinstance(value, np.generic):
        describe_value(value.dtype, role)
        if value.dtype.kind in "iu":
            _check_no_address(int(value), role)
        return (type_name, value.dtype.str, value.tobytes())
    if isinstance(value, int):
        _check_no_address(value, role)
    if isinstance(value, float):
        return (type_name, struct.pack("<d", value))
    return (type_name, repr(value))


def _check_no_address(value: int, role: Role) -> None:
    if role is not Role.SOURCE and _LEAST_ADDRESS <= abs(value) < _GREATEST_ADDRESS:
        raise Uncertain(f"{value}, which may be an address")


def describe_code(code: python.CodeType) -> Description:
    """Return the description of bytecode: instructions, constants, names and arguments, but no file and no line."""
    constants = tuple(_describe_constant(constant) for constant in code.co_consts)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return (code.co_code, code.co_exceptiontable, constants, names, counts)


def _describe_constant(constant: Any) -> Description:
    if isinstance(constant, python.CodeType):
        return describe_code(constant)
    if isinstance(constant, tuple):
        return ("tuple", *map(_describe_constant, constant))
    if isinstance(constant, frozenset):
        return ("frozenset", *sorted(repr(_describe_constant(item)) for item in constant))
    return describe_value(constant, Role.SOURCE)


def names_in(code: python.CodeType) -> set[str]:
    """Return the names of globals and attributes that bytecode reads, that of inner functions included."""
    inner = (constant for constant in code.co_consts if isinstance(constant, python.CodeType))
    return set(code.co_names).union(*map(names_in, inner))
