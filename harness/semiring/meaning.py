"""What an operation or a semiring computes, apart from the name that it was given: the key of its kernels.

Two are equal if their functions have the same code and the same captured values, even if they were made at different
times and are called differently. So kernels, which are kept by semiring, are compiled once for all of them.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import types
import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from harness.surroundings import hold_across_forks

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic)
_LIBRARIES = frozenset({"numba", "numpy"}) | sys.stdlib_module_names
_OF_LIBRARIES = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)


class Meaning:
    """What equal objects share; it has no parts."""

    __slots__ = ("__weakref__",)


# By content. One that no object has any more is forgotten.
_meanings: weakref.WeakValueDictionary[Hashable, Meaning] = weakref.WeakValueDictionary()
# Else two threads that look for the same content would each find its own.
_finding = threading.RLock()
hold_across_forks("directory", _finding)


class HasMeaning:
    """The base of frozen dataclasses that are equal if their fields mean the same."""

    __slots__ = ("_meaning",)  # found when it is first needed, as kernels are compiled: tables are complete by then
    _meaning: Meaning

    @property
    def counts_name(self) -> bool:
        """True if kernels may look at the name, so that another one is another meaning."""
        return True

    @property
    def meaning(self) -> Meaning:
        """The one object that all that mean the same have."""
        try:
            known = self._meaning
        except AttributeError:
            fields = dataclasses.fields(self)  # type: ignore[arg-type] # a subclass is a dataclass
            parts = (content(getattr(self, x.name)) for x in fields if x.name != "name" or self.counts_name)
            key, new = (type(self), *parts), Meaning()
            with _finding:
                known = _meanings.setdefault(key, new)
            object.__setattr__(self, "_meaning", known)
        return known

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, HasMeaning) and self.meaning is other.meaning)

    def __hash__(self) -> int:
        return hash(self.meaning)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)  # another process, or a copy, finds the meaning anew


def content(value: Any) -> Hashable:
    """Return a key that is equal for values that a compiled function cannot tell apart.

    Of an object whose parts may change, or are not known, it is the object itself.
    """
    try:
        return _key(value, ())
    except (_Unknown, ValueError):  # ValueError: of a captured variable that is not set yet
        return _Itself(value)


class _Unknown(Exception):
    """A value that is captured and may change."""


class _Itself:
    """An object, equal to itself alone, which it keeps alive."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def _key(value: Any, inside: tuple[types.FunctionType, ...]) -> Hashable:
    """Return the key of a value that the functions `inside`, each in the one before it, capture."""
    if isinstance(value, HasMeaning):
        return value.meaning
    if isinstance(value, _PLAIN):  # not by value: NaN is itself, 1.0 is not 1, -0.0 is not 0.0
        return (type(value), value.tobytes() if isinstance(value, np.generic) else repr(value))
    if type(value) is tuple:
        return tuple(_key(x, inside) for x in value)
    if _is_bound(value):
        return _Itself(value)
    if isinstance(value, types.FunctionType):
        return ("again", inside.index(value)) if value in inside else ("function", *_parts(value, (*inside, value)))
    raise _Unknown


def _is_bound(value: Any) -> bool:
    """Return whether an object never changes what it does: of a library, or compiled by Numba."""
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if not isinstance(value, _OF_LIBRARIES):
        module = type(value).__module__ if hasattr(value, "py_func") else None
    return str(module).partition(".")[0] in _LIBRARIES


def _parts(function: types.FunctionType, inside: tuple[types.FunctionType, ...]) -> Iterator[Hashable]:
    """Yield the code of a function, without its place in a file, and all values that it captures."""
    code, cells = function.__code__, function.__closure__ or ()
    yield code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_name="", co_qualname="")
    yield _key(function.__defaults__, inside)
    yield tuple((name, _key(value, inside)) for name, value in (function.__kwdefaults__ or {}).items())
    yield tuple(_key(cell.cell_contents, inside) for cell in cells)
    for name in sorted(_names(code)):
        if name in function.__globals__:
            yield (name, _key(function.__globals__[name], inside))


def _names(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))
