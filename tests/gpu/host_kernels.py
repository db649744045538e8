"""Executes a program of the GPU rungs on the CPU, from the same ``.cu`` files, through the shim beside this file.

`HostExecution` takes the place of `GpuExecution`: the C++ compiler of the system makes a library of each kernel, kept
under the digest of its text, and every buffer ends, or begins, where memory begins that may not be touched.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import mmap
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from backends.gpu._cuda.kernel_files import FOLDER, Defines, assemble
from backends.gpu._program.program import Kernel, Matrix, Place, Program, Step
from backends.gpu._program.tensor_map import ITEMSIZES, TensorMap
from harness.operands import Operands

COMPILER = shutil.which("g++") or shutil.which("c++")
SHIM = Path(__file__).parent / "shim"
_HEADER, _RUNTIME = SHIM / "cuda_host.h", SHIM / "cuda_host.cpp"
KEPT = (Path(os.environ.get("GEMM_HARNESS_CACHE") or "build/kernels") / "host").resolve()

_KERNEL = re.compile(r'^extern "C" __global__ void\s+(?:__launch_bounds__\(.*\)\s+)?(\w+)\(', re.MULTILINE)
# Two thousand small libraries are made. Exceptions and the library of C++ would double the time of each. To look its
# functions up in the libraries of C would take a quarter of it: those come with the runtime, as it is loaded.
_LANGUAGE = "-std=c++17 -w -fPIC -shared -nostdlib -U_FORTIFY_SOURCE".split()
_LANGUAGE += [f"-fno-{x}" for x in ("exceptions", "rtti", "threadsafe-statics", "asynchronous-unwind-tables")]
_ALONE, _EMULATED = ("-O0", "-lgcc"), ("-O1", "-lgcc")
_WITH_LIBRARIES = ("-O2", "-Wl,--no-as-needed", "-lm", "-lc", "-lgcc")
# Of the shim, what emulates tensor cores: many operations for each of theirs, worth the time of an optimizing compiler.
_TENSOR_CORES = re.compile(r'^#line 1 "(mma_intrinsics|wgmma).cuh"$', re.MULTILINE)
_NO_ACCESS = 0
_LIBC = ctypes.CDLL(None, use_errno=True)
_Dimensions = ctypes.c_uint * 3


class KernelFault(Exception):
    """A kernel that touches what is not its own, or whose threads do not meet at a barrier."""


def load(kernel: Kernel, edits: tuple[tuple[str, str], ...] = ()) -> Any:
    """Return a kernel as a function of ctypes; `edits` are replacements in its text, that is, planted bugs."""
    function = getattr(_compile(kernel.stem, kernel.defines, edits), f"run_{kernel.function}")
    function.restype = ctypes.c_char_p
    return function


@functools.cache
def _compile(stem: str, defines: Defines, edits: tuple[tuple[str, str], ...]) -> ctypes.CDLL:
    """Return the library of all kernels of a file.

    What is static in an inline function, shared memory too, would be one for all libraries of a process where names are
    visible: that of the first, which may be shorter.
    """
    text = assemble(stem, defines, (SHIM, FOLDER))
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    has_barriers = str(any(f"{name}()" in text for name in ("__syncthreads", "meet_lanes", "meet_cluster"))).lower()
    exports = "".join(f"\nEXPORT({name}, {has_barriers})" for name in _KERNEL.findall(text))
    text = f"#pragma GCC visibility push(hidden)\n{text}\n#pragma GCC visibility pop{exports}\n"
    load_runtime()
    return ctypes.CDLL(str(_library(text, _EMULATED if _TENSOR_CORES.search(text) else _ALONE)))


@functools.cache
def load_runtime() -> ctypes.CDLL:
    """Load what runs the kernels, for all of them to find: it brings the libraries that they call."""
    return ctypes.CDLL(str(_library(_RUNTIME.read_text(), _WITH_LIBRARIES)), ctypes.RTLD_GLOBAL)


def _library(text: str, options: tuple[str, ...]) -> Path:
    """Return the library made of `text`, which is kept, so that it is made once for all processes."""
    header, version = _begins_with()
    library = KEPT / f"{_digest(text, header, version, *_LANGUAGE, *options)}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        unfinished = library.with_name(f"{library.name}.{os.getpid()}")  # several processes may be at it
        arguments = [*_LANGUAGE, "-include", str(_HEADER), "-x", "c++", "-", "-o", str(unfinished), *options]
        made = subprocess.run([str(COMPILER), *arguments], input=text, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        unfinished.replace(library)
    return library


@functools.cache
def _begins_with() -> tuple[str, str]:
    """Return what the text of every library begins with, and the version of the compiler."""
    version = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True, check=True).stdout
    return _HEADER.read_text(), version


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def fenced(elements: int, dtype: np.dtype[Any], *, at_end: bool) -> np.ndarray:
    """Return a poisoned buffer whose last, or first, byte has a page for its neighbour that may not be touched."""
    size, page = elements * dtype.itemsize, mmap.PAGESIZE
    room = -(-size // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    memory[page : page + room] = b"\xff" * room
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for place in (begin, begin + page + room):
        assert _LIBC.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(page), _NO_ACCESS) == 0
    return np.ndarray(elements, dtype, memory, page + (room - size if at_end else 0))


def describe(tensor_map: TensorMap, address: int) -> bytes:
    """Return what the shim's copy engine reads of a tensor map: its struct TensorMap."""
    _, rows, columns, ld, box_rows, box_columns, dtype, layers, distance = tensor_map
    sizes = rows, columns, box_rows, box_columns, ITEMSIZES[dtype], layers
    return struct.pack("=Qqq6I", address, ld, distance, *sizes)


class HostOperands:
    """Stands for `GpuOperands`: copies of the operands between fences, row by row, or by columns as they lie."""

    at_end = True

    def __init__(
        self, operands: Operands, *, takes_columns: frozenset[str] = frozenset(), is_triangle: bool = False
    ) -> None:
        self.buffers, self._shapes, self._by_columns = {}, {}, set()
        for name in ("a", "b", "c", "out"):
            x = getattr(operands, name)
            if x is not None:
                self.buffers[name] = fenced(x.size, x.dtype, at_end=self.at_end)
                self._shapes[name] = x.shape
                if name in takes_columns and name != "out" and x.flags.f_contiguous and not x.flags.c_contiguous:
                    self._by_columns.add(name)

        self._inputs = {name: x for name in "abc" if (x := getattr(operands, name)) is not None}
        self.upload()

    def upload(self) -> None:
        for name, x in self._inputs.items():
            self.buffers[name][...] = (x.T if name in self._by_columns else x).reshape(-1)

    def matrix(self, name: str) -> Matrix:
        address, by_columns = self.buffers[name].ctypes.data, name in self._by_columns
        ld = max(self._shapes[name][0 if by_columns else 1], 1)
        return Matrix(Place(name), ld, 16 if address % 16 == 0 else 1, by_columns)

    def result(self) -> np.ndarray:
        return self.buffers["out"].reshape(self._shapes["out"]).copy()


class HostExecution:
    """Stands for `GpuExecution`."""

    edits: tuple[tuple[str, str], ...] = ()

    def __init__(self, program: Program, operands: HostOperands, *, of_self: Program | None = None) -> None:
        self.program, self._operands = program, operands  # A and B have memory of their own
        scratch = {name: fenced(size, dtype, at_end=True) for name, (size, dtype) in program.scratch.items()}
        for name in program.zeroed:
            scratch[name][...] = 0
        self._buffers = operands.buffers | scratch

    def run(self) -> None:
        self._buffers["out"].view(np.uint8)[...] = 0xFF
        for step in self.program.steps:
            self.launch(step)

    def launch(self, step: Step) -> None:
        """Execute one step; stands for the GPU."""
        kernel = step.kernel
        arguments = [self._argument(x) for x in step.arguments]
        pointers = (ctypes.c_void_p * len(arguments))(*(x.ctypes.data for x in arguments))
        edits = tuple(edit for edit in self.edits if edit[0] in assemble(kernel.stem, kernel.defines, (SHIM, FOLDER)))
        said = load(kernel, edits)(
            _Dimensions(*(*step.grid, 1, 1)[:3]),
            _Dimensions(*(*kernel.block, 1, 1)[:3]),
            ctypes.c_size_t(kernel.shared_bytes),
            pointers,
        )
        if said:
            raise KernelFault(f"{kernel.stem}.{kernel.function}: {said.decode()}")

    def wait(self) -> None:
        pass

    def upload(self) -> None:
        self._operands.upload()

    def result(self) -> np.ndarray:
        return self._operands.result()

    def _argument(self, x: Any) -> np.ndarray:
        if isinstance(x, TensorMap):
            address = int(self._argument(x.place)[0])
            return np.frombuffer(describe(x, address).ljust(128, b"\0"), np.uint8)
        if isinstance(x, Place):
            buffer = self._buffers[x.buffer]
            return np.array([buffer.ctypes.data + x.offset * buffer.itemsize], np.uint64)
        return np.array([x])
