"""Arrays of bfloat16 and float8 by DLPack, which neither NumPy nor CuPy reads: a capsule that says integers instead."""

from __future__ import annotations

import ctypes
from typing import Any

_UINT, _KNOWN = 1, frozenset({0, 1, 2, 5, 6})  # dlpack.h, DLDataTypeCode: integers, floats, complex numbers, bools

# Bytes to DLDataType.code in a DLTensor (dlpack.h), and to the DLTensor in a capsule with a version.
_CODE, _AFTER_VERSION = 20, 32


class AsUnsigned:
    """An array of bfloat16 or float8 whose DLPack says uint16 or uint8: neither NumPy's nor CuPy's knows it."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._x.__dlpack__(**options)
        name = _capsule_name(capsule)
        offset = _CODE + (_AFTER_VERSION if name.endswith(b"_versioned") else 0)
        code = ctypes.c_uint8.from_address(_capsule_pointer(capsule, name) + offset)
        if code.value not in _KNOWN:
            code.value = _UINT
        return capsule


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
