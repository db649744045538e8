"""NVRTC, NVIDIA's run-time compiler, called directly: CUDA C in, machine code and ptxas's report out. Needs no GPU.

It is not called through CuPy, which adds ``-ftz=true`` to every compilation. Subnormal floats would become zero, and a
product over (min, +) would differ from its definition. A direct call also compiles without CuPy and without a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import NamedTuple

from harness.errors import BackendUnavailable, HarnessError
from harness.surroundings.forks import hold_across_forks


class CompileError(HarnessError):
    """CUDA C that NVRTC rejects; the message names file and line."""


class Compiled(NamedTuple):
    """The output of the compiler.

    Attributes
    ----------
    cubin : bytes
        Machine code for one architecture.
    log : str
        The report of ptxas: registers, spills. It holds no zero byte.
    """

    cubin: bytes
    log: str


def library() -> ctypes.CDLL:
    """Return the library that CuPy loads too.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    with _beginning:
        return _load()


# Held while the library is loaded and called first: another thread would get it before its parts are there.
_beginning = threading.RLock()
hold_across_forks("compiler", _beginning)


@functools.cache
def _load() -> ctypes.CDLL:
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except ImportError:
        raise BackendUnavailable("cuda-pathfinder is not installed", fix="it comes with CuPy 14") from None
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


@functools.cache
def targets() -> tuple[str, ...]:
    """Return the architectures that NVRTC compiles for, as numbers: ``("75", "80", ...)``."""
    count = ctypes.c_int()
    _check(library().nvrtcGetNumSupportedArchs(ctypes.byref(count)), "GetNumSupportedArchs")
    found = (ctypes.c_int * count.value)()
    _check(library().nvrtcGetSupportedArchs(found), "GetSupportedArchs")
    return tuple(map(str, found))


def all_options(arch: str) -> tuple[str, ...]:
    """Return every option that `compile_source` hands to the compiler."""
    return (f"-arch={arch}", "-std=c++17", "--ptxas-options=-v")


def compile_source(source: str, name: str, arch: str) -> Compiled:
    """Compile `source`.

    Parameters
    ----------
    source : str
        CUDA C++ without an #include that the compiler would have to find.
    name : str
        The file name in messages: ``"tiled.cu"``.
    arch : str
        ``"sm_90"``, ``"sm_90a"``.

    Raises
    ------
    CompileError
        If it is not correct.
    """
    with _beginning:
        _open()
    return _compile(source, name, arch)


_ANY_ARCH = "sm_90"


@functools.cache
def _open() -> None:
    """Compile an empty program, for which NVRTC loads another library."""
    _compile("", "empty.cu", _ANY_ARCH)


def _compile(source: str, name: str, arch: str) -> Compiled:
    nvrtc, program = library(), ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None), "createProgram"
    )
    try:
        encoded = [option.encode() for option in all_options(arch)]
        status = nvrtc.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
        log = _text(program, "ProgramLog").partition(b"\0")[0].decode(errors="replace").rstrip("\n")
        if status and arch.removeprefix("sm_").rstrip("a") not in targets():
            raise CompileError(
                "NVRTC {}.{} has no target {}".format(*version(), arch),
                expected=", ".join(f"sm_{x}" for x in targets()),
                fix="CuPy for CUDA 12 for an older GPU, a newer CuPy for a newer one",
            )
        if status:
            raise CompileError(f"{name} does not compile for {arch}", got=log or f"NVRTC status {status}")
        return Compiled(_text(program, "CUBIN"), log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(program: ctypes.c_void_p, item: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library(), f"nvrtcGet{item}Size")(program, ctypes.byref(size)), item)
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library(), f"nvrtcGet{item}")(program, buffer), item)
    return buffer.raw


def _check(status: int, call: str) -> None:
    if status:
        raise CompileError(f"NVRTC: {call} failed", got=f"status {status}")
