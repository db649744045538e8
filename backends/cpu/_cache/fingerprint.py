"""The digest of all parts of a kernel: equal digests mean equal code.

A kernel is a function with a closure: numbers, dtypes, compiled functions, intrinsics and their emitters, which have
closures too. `_Walk` visits all of them. It describes each object by content, by name only if it belongs to a library
whose version is in the key. An object that cannot be described with certainty raises `Uncertain`. The kernel is then
compiled anew: a wrong match would give wrong results.
"""

# ruff: noqa: SLF001 (what Numba's objects are made of, they keep to themselves)

from __future__ import annotations

import enum
import functools
import hashlib
import sys
import types as python
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from backends.cpu._cache.plain_values import (
    VALUES,
    Description,
    Role,
    Uncertain,
    describe_code,
    describe_value,
    names_in,
)
from backends.cpu._cache.sources import is_ours

_LIBRARIES = frozenset({"llvmlite", "numba", "numpy"}) | sys.stdlib_module_names
# Numba's types whose name describes them fully: no addresses, no Python objects.
_PLAIN_TYPES = (types.Number, types.Boolean, types.NoneType, types.RawPointer)


def digest(*values: Any) -> str:
    """Return the digest of values that Numba compiles in.

    Raises
    ------
    Uncertain
        If one of them cannot be described.
    """
    walk = _Walk()
    description = tuple(walk(value, Role.FROZEN) for value in values)
    return hashlib.sha256(repr(description).encode("utf-8", "surrogatepass")).hexdigest()


class _Walk:
    """One traversal; an object met again is represented by a number, so that cycles end."""

    def __init__(self) -> None:
        self._met: dict[tuple[int, Role], tuple[int, Any]] = {}

    def __call__(self, value: Any, role: Role) -> Description:
        """Return the description of `value`."""
        if isinstance(value, VALUES):
            return describe_value(value, role)
        visit = (id(value), role)
        if visit in self._met:
            return ("again", self._met[visit][0])
        self._met[visit] = (len(self._met), value)  # keeps the value, and so its id
        return (type(value).__module__, type(value).__qualname__, *_of(value, self, role))


@functools.singledispatch
def _of(value: Any, walk: _Walk, role: Role) -> Description:
    """Return the description of `value` after its type: for an object of this project its attributes."""
    if is_ours(type(value)) and hasattr(value, "__dict__"):
        return (walk(type(value), Role.SOURCE), walk(vars(value), role))
    if role is Role.SOURCE:
        return ("as the source says",)
    raise Uncertain(f"an object of {type(value).__module__}.{type(value).__qualname__}")


@_of.register(tuple)
@_of.register(list)
def _of_sequence(value: Any, walk: _Walk, role: Role) -> Description:
    of_type = walk(type(value), Role.SOURCE) if hasattr(value, "_fields") else None
    return (of_type, tuple(walk(item, role) for item in value))


@_of.register(set)
@_of.register(frozenset)
def _of_set(value: Any, walk: _Walk, role: Role) -> Description:
    if not all(isinstance(item, VALUES) for item in value):  # others are numbered in visiting order, which sets lack
        raise Uncertain("a set of objects")
    return tuple(sorted(repr(describe_value(item, role)) for item in value))


@_of.register(dict)
@_of.register(python.MappingProxyType)
def _of_mapping(value: Any, walk: _Walk, role: Role) -> Description:
    return tuple((walk(key, role), walk(item, role)) for key, item in value.items())


@_of.register
def _of_dispatcher(value: Dispatcher, walk: _Walk, role: Role) -> Description:
    # only a finished dispatcher depends on its signatures; those of others depend on earlier calls
    bound = [] if value._can_compile else [result.signature for result in value.overloads.values()]
    signatures = tuple((signature.return_type, *signature.args) for signature in bound)
    return tuple(walk(x, Role.FROZEN) for x in (value.targetoptions, value.locals, signatures, value.py_func))


@_of.register
def _of_intrinsic(value: _Intrinsic, walk: _Walk, role: Role) -> Description:
    emitter = Role.SOURCE if role is Role.SOURCE else Role.GIVEN
    return (value._name, value._prefer_literal, walk(value._ctor_kwargs, emitter), walk(value._defn, emitter))


def _of_parts(*names: str) -> Callable[[Any, _Walk, Role], Description]:
    """Return the description of objects that consist of the attributes of these names."""
    return lambda value, walk, role: tuple(walk(getattr(value, name), role) for name in names)


_of.register(enum.Enum, lambda value, walk, role: describe_value(value, role))
_of.register(ir.Type, lambda value, walk, role: (str(value),))
_of.register(functools.partial, _of_parts("func", "args", "keywords"))
_of.register(python.MethodType, _of_parts("__self__", "__func__"))
_of.register(property, _of_parts("fget", "fset", "fdel"))
for _wrapper in (classmethod, staticmethod, type(functools.cache(digest))):
    _of.register(_wrapper, _of_parts("__wrapped__"))


@_of.register
def _of_numba_type(value: types.Type, walk: _Walk, role: Role) -> Description:
    if isinstance(value, types.Array):
        parts: tuple[Any, ...] = (value.dtype,)
    elif isinstance(value, types.BaseTuple):
        parts = tuple(value)
    elif isinstance(value, types.ExternalFunction):  # known to the linker by its name
        parts = (value.sig.return_type, *value.sig.args)
    elif isinstance(value, _PLAIN_TYPES):
        parts = ()
    elif is_ours(type(value)):
        parts = (type(value),)
    else:
        raise Uncertain(f"Numba's type {value}")
    return (str(value), tuple(walk(part, role) for part in parts))


@_of.register(np.ufunc)
@_of.register(python.BuiltinFunctionType)
def _of_builtin(value: Any, walk: _Walk, role: Role) -> Description:
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, python.ModuleType):
        raise Uncertain(f"a method of an object: {value}")
    return (getattr(owner, "__name__", "numpy"), value.__name__)


@_of.register
def _of_module(value: python.ModuleType, walk: _Walk, role: Role) -> Description:
    if is_ours(value) or _is_library(value.__name__):
        return (value.__name__,)
    raise Uncertain(f"module {value.__name__}")


@_of.register
def _of_class(value: type, walk: _Walk, role: Role) -> Description:
    if _is_library(value.__module__) or issubclass(value, BaseException):
        return (value.__module__, value.__qualname__)
    if not is_ours(value):
        raise Uncertain(f"class {value.__module__}.{value.__qualname__}")
    bases = tuple(walk(base, Role.SOURCE) for base in value.__bases__)
    members = {name: member for name, member in vars(value).items() if not _is_generated(name, member)}
    return (value.__module__, value.__qualname__, bases, walk(members, Role.SOURCE))


def _is_generated(name: str, member: Any) -> bool:
    """Return whether Python generated a member of a class, rather than our source."""
    function = member.__func__ if isinstance(member, staticmethod) else member
    is_function = isinstance(function, python.FunctionType)
    return name in _OF_EVERY_CLASS or (is_function and function.__code__.co_filename.startswith("<"))


# `__slotnames__` is there as soon as an object of the class has been pickled.
_OF_EVERY_CLASS = frozenset(
    "__module__ __doc__ __dict__ __weakref__ __repr__ __abstractmethods__ _abc_impl __slotnames__".split()
)


@_of.register
def _of_function(value: python.FunctionType, walk: _Walk, role: Role) -> Description:
    if not is_ours(value):
        if _is_library(value.__module__) and ("<locals>" not in value.__qualname__ or role is Role.SOURCE):
            return (value.__module__, value.__qualname__)
        raise Uncertain(f"function {value.__module__}.{value.__qualname__}, which is not ours")
    try:
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
    except ValueError:
        raise Uncertain(f"{value.__qualname__}, whose closure is not complete") from None
    return (
        value.__module__,
        value.__qualname__,
        describe_code(value.__code__),
        walk(value.__defaults__, role),
        walk(value.__kwdefaults__, role),
        tuple(walk(cell, role) for cell in cells),
        tuple(_of_globals(value, walk, Role.FROZEN if role is Role.FROZEN else Role.SOURCE)),
    )


def _of_globals(function: python.FunctionType, walk: _Walk, role: Role) -> Any:
    """Describe every global that a function may read, and the attributes it may read of our modules among them."""
    names = sorted(names_in(function.__code__))
    modules = [
        (name, module)
        for name in names
        if isinstance(module := function.__globals__.get(name), python.ModuleType) and is_ours(module)
    ]
    for owner, namespace in [("", function.__globals__), *((name, vars(module)) for name, module in modules)]:
        yield from ((owner, name, walk(namespace[name], role)) for name in names if name in namespace)


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES
