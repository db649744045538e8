"""Functions written as LLVM IR, compiled by themselves: without Numba's types, and mostly without its passes.

A register tile is written instruction by instruction and gains nothing from those passes, which take two thirds of the
time. Short loops that stream memory do: they are unrolled. Instructions are selected and scheduled as for Numba's code.

Compiled loops call such functions by their addresses. So loops are compiled once, not once for each semiring and dtype.

The machine code of a key is kept between processes like a kernel (`_cache.cache`), but as it is, not as a pickle.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import config, registry
from numba.core.compiler_lock import global_compiler_lock

from backends import _kernel_files
from backends.cpu._cache import cache, sources
from backends.cpu._cache.collector import collector_paused
from harness.errors import check_imports
from harness.surroundings import interrupts_held

# emit(module) writes functions of sizes and addresses that return nothing, and returns those that others call.
Emit = Callable[[ir.Module], Sequence[ir.Function]]


class Target(NamedTuple):
    """A processor to compile for, as LLVM names it: system, model and features."""

    triple: str
    processor: str
    features: str


_addresses: dict[tuple[str, Any], tuple[int, ...]] = {}
_numbers = itertools.count()
_engines: list[Any] = []  # one, made at the first use


def compile_functions(name: str, key: Any, emit: Emit, *, unrolls: bool = False) -> tuple[int, ...]:
    """Return the addresses of the functions that ``emit(module)`` writes, in its order.

    Parameters
    ----------
    name : str
    key : tuple
        Names and numbers on which, with `name`, the functions depend, besides the sources of the kernels.
    emit : callable
        Not called if the functions are kept.
    unrolls : bool
        Whether LLVM's passes run.
    """
    with global_compiler_lock, interrupts_held():
        if (name, key) not in _addresses:
            check_imports("kernels")
            with collector_paused():
                _addresses[name, key] = _compiled(name, key, emit, unrolls)
        return _addresses[name, key]


def assembly_of_functions(emit: Emit, target: Target | None = None) -> str:
    """Return the assembly of the functions that ``emit(module)`` writes, for this processor or another one."""
    target = target or this_target()
    machine = _target_machine(target)
    assembly: str = machine.emit_assembly(_module("listing", emit, target, machine))
    return assembly


def this_target() -> Target:
    """Return the processor that Numba compiles for."""
    return Target(*registry.cpu_target.target_context.codegen().magic_tuple())


def _compiled(name: str, key: Any, emit: Emit, unrolls: bool) -> tuple[int, ...]:
    folder = _kernel_files.cache_folder()
    entry = None if folder is None or sources.may_have_changed() else cache.entry("functions", name, key)
    if entry is None:
        cache.counts["compiled"] += 1
        symbol = f"{name}_{next(_numbers)}"
        return _load(symbol, _compile(symbol, emit, unrolls))
    symbol = f"{name}_{entry}"
    with _kernel_files.turn(folder, entry):
        code = _kernel_files.read(folder, entry)
        cache.counts["compiled" if code is None else "loaded"] += 1
        if code is None:
            code = _compile(symbol, emit, unrolls)
            if _kernel_files.write(folder, entry, code):
                cache.counts["kept"] += 1
    return _load(symbol, code)


def _compile(symbol: str, emit: Emit, unrolls: bool) -> bytes:
    """Return the machine code of the functions and their table, whose symbol is its own in a process."""
    machine = _target_machine(this_target())
    module = _module(symbol, emit, this_target(), machine)
    if unrolls:
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=int(config.OPT)))
        passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


def _module(symbol: str, emit: Emit, target: Target, machine: Any) -> Any:
    """Return LLVM's module of the functions, and of their table: their number, and their addresses."""
    module = ir.Module("functions")
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    functions = emit(module)
    words = [ir.Constant(ir.IntType(64), len(functions)), *(x.ptrtoint(ir.IntType(64)) for x in functions)]
    kind = ir.ArrayType(ir.IntType(64), len(words))
    table = ir.GlobalVariable(module, kind, f"table_of_{symbol}")
    table.initializer, table.global_constant = ir.Constant(kind, words), True
    return llvm.parse_assembly(str(module))


def _target_machine(target: Target) -> Any:
    """Return LLVM's description of a processor, for code in memory."""
    found = llvm.Target.from_triple(target.triple)
    # llvmlite's name of the model is that of code in memory; static addresses are what LLVM's loader relocates on x86
    relocation = "static" if found.name.startswith("x86") else "default"
    return found.create_target_machine(
        cpu=target.processor,
        features=target.features,
        opt=int(config.OPT),
        reloc=relocation,
        codemodel="jitdefault",
        jit=True,
    )


def _load(symbol: str, code: bytes) -> tuple[int, ...]:
    """Load machine code for as long as the process runs, and return the addresses in its table."""
    if not _engines:
        _engines.append(llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(this_target())))
    engine = _engines[0]
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    table = engine.get_global_value_address(f"table_of_{symbol}")
    count = ctypes.c_int64.from_address(table).value
    return tuple((ctypes.c_int64 * count).from_address(table + 8))
