"""Functions of integers that Python calls, as it calls those of an extension written in C.

A call takes some 40 ns, arguments included. Those annotated ``int`` arrive as their values, all others as the addresses
of their objects, which the caller holds. Such a function may run without the GIL, if it reads no object.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from backends.cpu._ir.functions import compile_functions
from backends.cpu._ir.integers import name_of
from backends.cpu._ir.translation import body_of
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value

_FASTCALL = 0x0080  # METH_FASTCALL: the arguments are an array of C


class _Method(ctypes.Structure):
    """PyMethodDef of Python's C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_methods: list[_Method] = []  # Python refers to each for as long as its function lives
_make = ctypes.pythonapi.PyCFunction_NewEx
_make.restype, _make.argtypes = ctypes.py_object, (ctypes.POINTER(_Method), ctypes.c_void_p, ctypes.c_void_p)


def compiled_for_python(function: Callable[..., Any], *, releases_gil: bool = False) -> Callable[..., Any]:
    """Compile a function that returns an integer, or None if annotated so."""
    name, key = name_of(function)

    def emit(module: ir.Module) -> list[ir.Function]:
        return [_function(module, function, releases_gil=releases_gil)]

    (address,) = compile_functions(f"{name}_for_python", (*key, releases_gil), emit, unrolls=True)
    _methods.append(_Method(function.__name__.encode(), address, _FASTCALL, (inspect.getdoc(function) or "").encode()))
    return _make(ctypes.byref(_methods[-1]), None, None)


def _function(module: ir.Module, function: Callable[..., Any], *, releases_gil: bool) -> ir.Function:
    """Write a function of Python's convention: no object, the arguments, and their number."""
    signature = inspect.signature(function)
    kind = ir.FunctionType(v.POINTER, [v.POINTER, v.POINTER, v.SIZE])
    written = ir.Function(module, kind, function.__name__)
    b = ir.IRBuilder(written.append_basic_block("entry"))
    _, arguments, count = written.args
    in_c = functools.partial(_in_c, b)
    with b.if_then(b.icmp_signed("!=", count, v.size(len(signature.parameters))), likely=False):
        in_c("PyErr_BadInternalCall", v.VOID)
        b.ret(ir.Constant(v.POINTER, None))
    values = []
    for number, parameter in enumerate(signature.parameters.values()):
        given = b.load(v.advance(b, arguments, 8 * number), typ=v.POINTER)
        is_integer = parameter.annotation in (int, "int")
        values.append(_integer(b, given) if is_integer else b.ptrtoint(given, v.SIZE))
    thread = in_c("PyEval_SaveThread", v.POINTER) if releases_gil else None
    result = body_of(b, function, values)
    if thread is not None:
        in_c("PyEval_RestoreThread", v.VOID, thread)
    if result is None:
        none = ir.GlobalVariable(module, v.BYTE, "_Py_NoneStruct")
        in_c("Py_IncRef", v.VOID, none)
        b.ret(none)
    else:
        b.ret(in_c("PyLong_FromLongLong", v.POINTER, result))
    return written


def _integer(b: Builder, given: Value) -> Value:
    """Write what reads an integer; what is none is an exception of Python."""
    value = _in_c(b, "PyLong_AsLongLong", v.SIZE, given)
    with b.if_then(b.icmp_signed("==", value, v.size(-1)), likely=False):
        raised = b.ptrtoint(_in_c(b, "PyErr_Occurred", v.POINTER), v.SIZE)
        with b.if_then(b.icmp_signed("!=", raised, v.size(0)), likely=False):
            b.ret(ir.Constant(v.POINTER, None))
    return value


def _in_c(b: Builder, name: str, result: Any, *arguments: Value) -> Value:
    return b.call(v.declare(b, name, result, [x.type for x in arguments]), arguments)
