"""Subinterpreters of Python, in which compiled code cannot take Python's lock."""

from __future__ import annotations

import ctypes


def is_main_interpreter() -> bool:
    """Return whether this is the interpreter that the process began with.

    What Numba compiles asks for that one's lock (`PyGILState_Ensure`), and waits for ever in another.
    """
    here, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    here.restype = main.restype = ctypes.c_void_p
    return bool(here() == main())
