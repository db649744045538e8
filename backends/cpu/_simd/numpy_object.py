"""Access of functions of integers to NumPy arrays: the address of the object, whose fields are read in place.

Numba passes an array as a record with a reference of its own, which takes 55 ns to make. For three arrays that exceeds
a product at n = 16. A product needs a dozen numbers of two structures that NumPy declares for extensions in C:
PyArrayObject_fields and PyArray_Descr (numpy/ndarraytypes.h). `has_known_layout` checks that arrays are laid out as
declared. A field is only read after a check of the object's type.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from llvmlite import ir

from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers, word_at

_WRITEABLE = 0x0400  # NPY_ARRAY_WRITEABLE
_HEAD = ("head", ctypes.c_byte * (object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)))


class ArrayFields(ctypes.Structure):
    """The fields of PyArrayObject_fields read here. `head` is all of PyObject before the object's type."""

    _fields_ = (
        _HEAD,
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


class DtypeFields(ctypes.Structure):
    """The fields of PyArray_Descr that are the same in every version of NumPy."""

    _fields_ = (
        _HEAD,
        ("type", ctypes.c_void_p),
        ("scalar_type", ctypes.c_void_p),
        ("kind", ctypes.c_char),
        ("letter", ctypes.c_char),
        ("byteorder", ctypes.c_char),
        ("unused", ctypes.c_char),
        ("number", ctypes.c_int),
    )


@functools.cache
def has_known_layout() -> bool:
    """Return whether arrays and dtypes of this NumPy are as declared."""
    plain = np.zeros((5, 7), np.float32)
    fixed = plain[1::2, ::-1]
    fixed.flags.writeable = False
    return all(_is_as_declared(x) for x in (plain, fixed, np.zeros((2, 3, 1), ">i2").T, np.zeros(9, bool)))


def _is_as_declared(x: np.ndarray) -> bool:
    array, dtype = ArrayFields.from_address(id(x)), DtypeFields.from_address(id(x.dtype))
    expected = id(np.ndarray), x.__array_interface__["data"][0], x.ndim, id(x.dtype), x.flags.writeable
    if (array.type, array.data, array.ndim, array.dtype, bool(array.flags & _WRITEABLE)) != expected:
        return False
    if (tuple(array.shape[: x.ndim]), tuple(array.strides[: x.ndim])) != (x.shape, x.strides):
        return False
    return (dtype.kind + dtype.byteorder, dtype.number) == (f"{x.dtype.kind}{x.dtype.byteorder}".encode(), x.dtype.num)


def _reader(bits: int) -> Any:
    """Return the intrinsic ``read(address)`` of an integer of `bits` bits."""

    @OfIntegers
    def read(builder: Builder, address: Value) -> Value:
        return builder.zext(builder.load(builder.inttoptr(address, v.POINTER), typ=ir.IntType(bits)), v.SIZE)

    return read


_int_at, _byte_at = _reader(32), _reader(8)
_TYPE, _DATA, _NDIM, _FLAGS = (getattr(ArrayFields, name).offset for name in ("type", "data", "ndim", "flags"))
_SHAPE, _STRIDES, _DTYPE = (getattr(ArrayFields, name).offset for name in ("shape", "strides", "dtype"))
_BYTEORDER, _NUMBER = (getattr(DtypeFields, name).offset for name in ("byteorder", "number"))


def dtype_code(dtype: np.dtype[Any]) -> int:
    """Return the number that identifies a dtype for `is_matrix`; another byte order has another number."""
    return dtype.num << 8 | ord(dtype.byteorder)


def is_matrix(x: int, array_type: int, code: int) -> bool:
    """Return whether an object is a matrix of the dtype of `code`; `array_type` is the address of its type."""
    if word_at(x + _TYPE) != array_type or _int_at(x + _NDIM) != 2:
        return False
    dtype = word_at(x + _DTYPE)
    return _int_at(dtype + _NUMBER) << 8 | _byte_at(dtype + _BYTEORDER) == code


def is_writeable(array: int) -> bool:
    """Return whether an array may be written to."""
    return _int_at(array + _FLAGS) & _WRITEABLE != 0


def data_of(array: int) -> int:
    """Return the address of an array's first element."""
    return word_at(array + _DATA)


def fields_of(matrix: int) -> tuple[int, int, int, int, int]:
    """Return the address of the first element of a matrix, its rows and columns, and its strides in bytes."""
    shape, strides = word_at(matrix + _SHAPE), word_at(matrix + _STRIDES)
    return word_at(matrix + _DATA), word_at(shape), word_at(shape + 8), word_at(strides), word_at(strides + 8)
