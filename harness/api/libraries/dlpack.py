"""Arrays of bfloat16 by DLPack, which neither NumPy nor CuPy reads: a capsule that says uint16 instead."""

from __future__ import annotations

import ctypes
from typing import Any

_UINT, _BFLOAT = 1, 4  # dlpack.h, DLDataTypeCode

# Bytes to DLDataType.code in a DLTensor (dlpack.h), and to the DLTensor in a capsule with a version.
_CODE, _AFTER_VERSION = 20, 32


class AsUint16:
    """An array of bfloat16 whose DLPack says uint16, since neither NumPy's nor CuPy's knows bfloat16."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._x.__dlpack__(**options)
        name = _capsule_name(capsule)
        offset = _CODE + (_AFTER_VERSION if name.endswith(b"_versioned") else 0)
        code = ctypes.c_uint8.from_address(_capsule_pointer(capsule, name) + offset)
        if code.value == _BFLOAT:
            code.value = _UINT
        return capsule


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
