"""What a kernel is called in every process: its builder, and what the builder is given.

A builder makes the same kernel of the same arguments, from the sources that `_cache.sources` digests. An argument that
has no such name, as a function of the user's, raises `Uncertain`. The kernel is then compiled anew: a wrong match would
give wrong results.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba.core.dispatcher import Dispatcher

from backends.cpu._cache import sources
from harness.semiring.meaning import HasMeaning

P, R = ParamSpec("P"), TypeVar("R")
Description = Any  # nested tuples of texts, whose repr is the same in every process

# The builder that runs in this thread with what it is given, and the names of the functions that it has compiled.
_running: ContextVar[tuple[tuple[Any, ...], set[str]] | None] = ContextVar("running", default=None)
_built: dict[int, tuple[Any, tuple[Any, ...]]] = {}  # by id: a kernel, and its builder with what that was given


class Uncertain(Exception):
    """A kernel or an argument without a name; the message says which."""


def kernel_builder(build: Callable[P, R]) -> Callable[P, R]:
    """Return `build`, which compiles a kernel by its arguments and the sources alone, so that it runs once for each."""
    signature = inspect.signature(build)

    @functools.wraps(build)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = (build, *bound.arguments.values())
        before = _running.set((given, set()))
        try:
            kernel = build(*args, **kwargs)
        finally:
            _running.reset(before)
        _built[id(kernel)] = kernel, given
        return kernel

    return functools.lru_cache(maxsize=None, typed=True)(run)  # type: ignore[return-value] # it takes what `run` takes


def name_of(function: Callable[..., Any]) -> Description:
    """Return the name of what is to be compiled: a function of a module, or one inside the builder that runs.

    Raises
    ------
    Uncertain
        If no builder runs, if it is not of the sources, or if it is given what has no name.
    """
    running = _running.get()
    if running is None or not _is_inner(function):
        return _described(function)
    given, compiled = running
    name = function.__qualname__
    if name in compiled:
        raise Uncertain(f"{name}, which {given[0].__qualname__} compiles twice")
    compiled.add(name)
    return (*map(_described, given), name)


def _is_inner(function: Callable[..., Any]) -> bool:
    return bool(getattr(function, "__closure__", None)) or "<" in function.__qualname__


def _described(value: Any) -> Description:
    """Return the description of an argument: equal ones are of arguments that no builder can tell apart."""
    parts: tuple[Any, ...]
    if value is None or isinstance(value, bool | int | float | str):
        parts = (repr(value),)
    elif isinstance(value, np.dtype) and value.kind in "biufcV" and value.names is None:
        parts = (value.str, value.name)
    elif isinstance(value, np.generic):
        parts = (_described(value.dtype), value.tobytes())
    elif isinstance(value, tuple):
        parts = tuple(map(_described, value))
    elif isinstance(value, HasMeaning):  # ufunc: for products by NumPy
        fields = (field.name for field in dataclasses.fields(value) if field.name != "ufunc")
        parts = tuple(_described(getattr(value, name)) for name in fields)
    elif id(value) in _built:
        parts = tuple(map(_described, _built[id(value)][1]))
    else:
        parts = _described_function(inspect.unwrap(value.py_func if isinstance(value, Dispatcher) else value))
    return (type(value).__qualname__, *parts)


def _described_function(function: Any) -> tuple[str, str]:
    if not inspect.isfunction(function):
        raise Uncertain(f"an object of {type(function).__module__}.{type(function).__qualname__}")
    if _is_inner(function) or not sources.holds(function):
        raise Uncertain(f"function {function.__module__}.{function.__qualname__}, which is not ours")
    return (function.__module__, function.__qualname__)
