"""Compiled kernels, kept from one process to the next.

A kernel is stored under the digest of everything that its machine code depends on (`_key`). Any change makes another
key, so nothing has to be invalidated. Numba's own ``cache=True`` keys by one source file and cannot tell kernels apart
that close over operations.

Numba tells functions of equal name apart by a counter that begins at 1 in every process, and the linker takes equal
symbols for equal code. Two kernels from different processes would call each other's parts. So the counter begins at a
random number here, and code compiled before that is not kept.
"""

# ruff: noqa: SLF001 (Numba's own cache is the only user of the interface that this one implements)

from __future__ import annotations

import collections
import functools
import itertools
import os
import pickle
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding as llvm
from numba.core import registry
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from backends import _kernel_files
from backends.cpu._cache import key as kernel_key
from backends.cpu._cache import sources
from backends.cpu._cache.collector import collector_paused
from harness.errors import check_imports
from harness.surroundings import at_fork, interrupts_held, working_directory

# Number of kernels of this process that were "loaded", "compiled" or "kept"; and the reasons of those that could not be
# kept, by name.
counts: collections.Counter[str] = collections.Counter()
not_kept: dict[str, str] = {}

_compiled: dict[str, Any] = {}  # by key: code is loaded once, since its symbols must not be defined twice

# Where Numba writes a function's number in the names of its symbols.
_NUMBER_IN_SYMBOL = re.compile(r"B\d+v(\d+)(?!\d)")
_LEAST_NUMBER = 1 << 55

# A constant in this range may be an address, which the next process must not find in a kernel. Processes get 48 bits
# unless they ask for more; compiled code and large arrays lie above the first 32.
_CONSTANT = re.compile(r"\bi64 (\d{10,15})\b")
_LEAST_ADDRESS, _GREATEST_ADDRESS = 1 << 32, 1 << 48
# A small number of 32 bits above a zero, which LLVM joins: nothing lies at so round an address so low.
_JOINED, _GREATEST_JOINED = 1 << 32, 1 << 40


def _number_functions_at_random() -> None:
    start = _LEAST_NUMBER + int.from_bytes(os.urandom(6)) * 1024
    FunctionIdentity._unique_ids = itertools.count(start)


_number_functions_at_random()
at_fork(after_in_child=_number_functions_at_random)


def compile_kernel(function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> Any:
    """Return `function` compiled for one signature, from the cache if it is there.

    Parameters
    ----------
    function : function
    signature : Numba signature
    options : dict
        Of `numba.njit`.
    """
    dispatcher = numba.njit(**options)(function)
    if numba.config.DISABLE_JIT:
        return dispatcher
    check_imports("kernels")
    folder = _kernel_files.cache_folder()
    with global_compiler_lock, interrupts_held():
        key = None if folder is None else _key(function, signature, options)
        if key in _compiled:
            return _compiled[key]
        if key is not None:
            dispatcher._cache = _Entry(folder, key, function.__qualname__)
        its_turn = _kernel_files.turn(None if key is None else folder, str(key))
        with its_turn, collector_paused(), working_directory():
            dispatcher.compile(signature)
        dispatcher.disable_compile()
        counts["loaded" if dispatcher.stats.cache_hits else "compiled"] += 1
        if key is not None:
            _compiled[key] = dispatcher
    return dispatcher


class _Entry:
    """One kernel's entry in the cache, in the form that `Dispatcher.compile` expects."""

    cache_path = None

    def __init__(self, folder: Path, key: str, name: str) -> None:
        self._folder, self._key, self._name = folder, key, name

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled kernel, or None if it is missing, damaged or cannot be loaded."""
        payload = _kernel_files.read(self._folder, self._key)
        if payload is None:
            return None
        try:
            outside, starts, reduced = pickle.loads(payload)  # noqa: S301 (this user's own, see _kernel_files)
            _provide(target, outside, starts)
            return CompileResult._rebuild(target, *reduced)
        except Exception as error:  # noqa: BLE001 (compiling anew is right after any failure)
            counts["not loadable"] += 1
            not_kept[self._name] = repr(error)
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a kernel that has just been compiled."""
        reason = _why_bound_to_this_process(result)
        if reason is None:
            try:
                payload = dumps((_outside(result), tuple(result.reload_init), result._reduce()))
            except Exception as error:  # noqa: BLE001 (a cache must not be what a product fails by)
                reason = repr(error)
        if reason is not None:
            not_kept[self._name] = reason
        elif _kernel_files.write(self._folder, self._key, payload):
            counts["kept"] += 1


def _outside(result: Any) -> tuple[str, ...]:
    """Return the symbols that the machine code takes from the process."""
    module = result.library._final_module
    symbols = itertools.chain(module.functions, module.global_variables)
    return tuple(s.name for s in symbols if s.is_declaration and not s.name.startswith("llvm."))


def _provide(target: Any, outside: tuple[str, ...], starts: tuple[Callable[[], None], ...]) -> None:
    """Provide the parts of the process that loaded code needs: Numba's runtime, its threads, its libraries.

    ``target.refresh()`` provides all that a compiler may need, and takes longer than the rest of loading. Loaded code
    reaches anything else by symbols alone; LLVM would abort the process if one were missing.
    """
    rtsys.initialize(target)
    for start in starts:
        start()
    if not all(llvm.address_of_symbol(name) for name in outside):
        target.refresh()
        missing = [name for name in outside if not llvm.address_of_symbol(name)]
        if missing:
            raise LookupError(f"symbols that this process lacks: {missing}")


def _why_bound_to_this_process(result: Any) -> str | None:
    """Return the reason why another process could not use the compiled code, or None."""
    if result.lifted or result.library.has_dynamic_globals:
        return "it holds lifted code or addresses"
    module = result.library._final_module
    for symbol in itertools.chain(module.functions, module.global_variables):
        numbers = [int(number) for number in _NUMBER_IN_SYMBOL.findall(symbol.name)]
        if numbers and symbol.is_declaration:
            return f"it calls code outside: {symbol.name}"
        if any(number < _LEAST_NUMBER for number in numbers):
            return f"it holds code that was compiled before functions were numbered at random: {symbol.name}"
    if not _NUMBER_IN_SYMBOL.search(result.fndesc.llvm_func_name):
        return "its symbols are not numbered"
    for constant in sorted(set(map(int, _CONSTANT.findall(str(module))))):
        is_joined = constant < _GREATEST_JOINED and constant % _JOINED == 0
        if _LEAST_ADDRESS <= constant < _GREATEST_ADDRESS and not is_joined:
            return f"it holds {constant}, which may be an address"
    return None


# ------------------------------------------------------------------------------------------------------- the key


def _key(function: Callable[..., Any], signature: Any, options: dict[str, Any]) -> str | None:
    """Return the digest of all that the machine code depends on, or None if it cannot be determined."""
    name = function.__qualname__
    if sources.may_have_changed():
        not_kept[name] = "the source has changed since this process began, which may run the old or the new"
        return None
    try:
        chosen = sorted((option, sorted(x) if isinstance(x, set) else x) for option, x in options.items())
        return entry(kernel_key.name_of(function), str(signature), chosen)
    except (kernel_key.Uncertain, OSError) as error:
        not_kept[name] = str(error)
        return None


def entry(*parts: object) -> str:
    """Return the name of the entry of code that depends on `parts`, the sources, versions, processor and settings."""
    return _kernel_files.entry_name(sources.digest(), _versions(), _target(), _settings(), *parts)


@functools.cache
def _versions() -> tuple[str, ...]:
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    python = (platform.python_implementation(), platform.python_version())
    return (*python, numba.__version__, llvmlite.__version__, llvm_version, np.__version__)


def _target() -> tuple[str, ...]:
    """Return triple, processor and features that Numba compiles for; NUMBA_CPU_NAME and NUMBA_CPU_FEATURES count."""
    return tuple(map(str, registry.cpu_target.target_context.codegen().magic_tuple()))


# Settings of Numba for paths, printing and the number of threads, which do not change machine code.
_NO_MATTER = re.compile(
    r"CACHE_|COLOR_SCHEME|CUDA_|DEBUG_CACHE|DISABLE_PERFORMANCE_WARNINGS|FULL_TRACEBACKS|GDB_BINARY"
    r"|NUMBA_(DEFAULT_)?NUM_THREADS|SHOW_HELP|THREADING_LAYER"
)


def _settings() -> tuple[tuple[str, str], ...]:
    """Return every other setting of Numba: optimisation, vectorisers, bounds checks, debug information and so on."""
    settings = ((name, value) for name, value in vars(numba.config).items() if name.isupper())
    plain = (int, float, str, type(None))
    return tuple(sorted((n, str(v)) for n, v in settings if isinstance(v, plain) and not _NO_MATTER.match(n)))
