"""NVRTC, NVIDIA's run-time compiler, called directly: CUDA C in, machine code and ptxas's report out. Needs no GPU.

Not through CuPy, which adds ``-ftz=true`` to whatever it compiles: subnormal floats would become zero, and a product
over (min, +) would differ from its definition. Called directly, it also compiles where there is neither CuPy nor a GPU.
"""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

from harness.errors import BackendUnavailable, HarnessError


class CompileError(HarnessError):
    """CUDA C that NVRTC does not take; says in which file and line."""


class Compiled(NamedTuple):
    """What the compiler made.

    Attributes
    ----------
    cubin : bytes
        Machine code for one architecture.
    log : str
        What ptxas says of it: registers, spills.
    """

    cubin: bytes
    log: str


@functools.cache
def library() -> ctypes.CDLL:
    """Return the library that CuPy loads too.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        raise BackendUnavailable("cuda-pathfinder is not installed", fix="it comes with CuPy 14") from None
    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except DynamicLibNotFoundError:
        raise BackendUnavailable(
            "NVRTC is not installed", fix="pip install nvidia-cuda-nvrtc, or a CUDA toolkit"
        ) from None


@functools.cache
def version() -> tuple[int, int]:
    """Return NVRTC's version: ``(13, 0)``."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "version")
    return major.value, minor.value


def compile_source(source: str, name: str, arch: str, options: tuple[str, ...] = ()) -> Compiled:
    """Compile `source`.

    Parameters
    ----------
    source : str
        CUDA C++ without an #include that the compiler would have to find.
    name : str
        What messages call it: ``"tiled.cu"``.
    arch : str
        ``"sm_90"``, ``"sm_90a"``.
    options : tuple of str
        Further options of NVRTC.

    Raises
    ------
    CompileError
        If it is not correct.
    """
    nvrtc, program = library(), ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None), "createProgram"
    )
    try:
        wanted = [f"-arch={arch}", "-std=c++17", "--ptxas-options=-v", *options]
        given = (ctypes.c_char_p * len(wanted))(*(option.encode() for option in wanted))
        status = nvrtc.nvrtcCompileProgram(program, len(wanted), given)
        log = _text(program, "ProgramLog").decode(errors="replace").rstrip("\0\n")
        if status:
            raise CompileError(f"{name} does not compile for {arch}", got=log or f"NVRTC status {status}")
        return Compiled(_text(program, "CUBIN"), log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library(), f"nvrtcGet{what}")(program, buffer), what)
    return buffer.raw


def _check(status: int, what: str) -> None:
    if status:
        raise CompileError(f"NVRTC: {what} failed", got=f"status {status}")
