"""Executes a program of the GPU rungs on the CPU, from the same ``.cu`` files, through the shim beside this file.

`HostExecution` takes the place of `GpuExecution`: the C++ compiler of the system makes libraries of the kernels, kept
under the digest of the text of each, and every buffer ends, or begins, where memory begins that may not be touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import mmap
import os
import re
import shutil
import struct
import subprocess
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import FOLDER, Defines, assemble
from backends.gpu._program.program import Kernel, Matrix, Place, Program, Step
from backends.gpu._program.tensor_map import TensorMap
from harness.dtypes import TABLE
from harness.operands import Operands
from harness.proof import fences

COMPILER = shutil.which("g++") or shutil.which("c++")
SHIM = Path(__file__).parent / "shim"
# For `pytestmark` of tests whose kernels are executed by the shim.
BY_THE_SHIM = [pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here"), pytest.mark.no_cover]
MOST_TOGETHER = 16  # kernels in a library
_HEADER, _RUNTIME = SHIM / "cuda_host.h", SHIM / "cuda_host.cpp"
KEPT = (Path(os.environ.get("GEMM_HARNESS_CACHE") or "build/kernels") / "host").resolve()

_KERNEL = re.compile(r'^extern "C" __global__ void\s+(?:__launch_bounds__\(.*\)\s+)?(\w+)\(', re.MULTILINE)
_DEFINED = re.compile(r"^#\s*define\s+(\w+)", re.MULTILINE)
# What threads meet in, as it stands where it is called.
_MEETINGS = "__syncthreads()", "meet_lanes()", "meet_cluster()", "= shuffle_xor("
# Two thousand kernels are made. Exceptions and the library of C++ would double the time of each. To look its
# functions up in the libraries of C would take a quarter of it: those come with the runtime, as it is loaded.
_LANGUAGE = "-std=c++17 -w -fPIC -shared -nostdlib -U_FORTIFY_SOURCE".split()
_LANGUAGE += [f"-fno-{x}" for x in ("exceptions", "rtti", "threadsafe-statics", "asynchronous-unwind-tables")]
_ALONE, _EMULATED = ("-O0", "-lgcc"), ("-O1", "-lgcc")
_WITH_LIBRARIES = ("-O2", "-Wl,--no-as-needed", "-lm", "-lc", "-lgcc")
# Of the shim, what emulates tensor cores: many operations for each of theirs, worth the time of an optimizing compiler.
_TENSOR_CORES = re.compile(r'^#line 1 "(mma_intrinsics|wgmma).cuh"$', re.MULTILINE)
_Dimensions = ctypes.c_uint * 3
Edit = tuple[str, str]  # what is replaced, by what


class KernelFault(Exception):
    """A kernel that touches what is not its own, or whose threads do not meet at a barrier."""


def load(kernel: Kernel, edits: tuple[Edit, ...] = ()) -> Any:
    """Return a kernel as a function of ctypes; `edits` are replacements in its text, that is, planted bugs."""
    source = _source(kernel.stem, kernel.defines, edits)
    if source.digest not in _loaded:
        load_runtime()
        if not source.library.exists():
            _make_together(source)
        _loaded[source.digest] = ctypes.CDLL(str(source.library))
    function = getattr(_loaded[source.digest], f"run_{kernel.function}_{source.digest}")
    function.restype = ctypes.c_char_p
    return function


def expect(kernels: Iterable[tuple[str, Defines]], edits: tuple[Edit, ...] = ()) -> None:
    """Have kernels made with the next one that has to be: the compiler's start takes half of the time of one alone."""
    for stem, defines in kernels:
        source = _source(stem, defines, edits_in(stem, defines, edits))
        if source.digest not in _loaded and not source.library.exists():
            _expected[source.digest] = source


def expect_nothing() -> None:
    """Forget kernels that were expected, and not asked for."""
    _expected.clear()


@functools.cache
def edits_in(stem: str, defines: Defines, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return those of `edits` that the text of a kernel file has a place for."""
    return tuple(edit for edit in edits if edit[0] in assemble(stem, defines, (SHIM, FOLDER)))


class _Source(NamedTuple):
    """A kernel file with its defines, as C++ that may stand beside others."""

    digest: str
    text: str
    options: tuple[str, ...]

    @property
    def library(self) -> Path:
        return KEPT / f"{self.digest}.so"


_loaded: dict[str, ctypes.CDLL] = {}
_expected: dict[str, _Source] = {}


@functools.cache
def _source(stem: str, defines: Defines, edits: tuple[Edit, ...]) -> _Source:
    """Return the C++ of a kernel file: a namespace and functions whose names end with a digest.

    What is static in an inline function, shared memory too, would be one for all libraries of a process where names are
    visible: that of the first, which may be shorter.
    """
    text = assemble(stem, defines, (SHIM, FOLDER))
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    has_barriers = str(any(x in text for x in _MEETINGS)).lower()
    kernels = _KERNEL.findall(text)
    undefined = "".join(f"\n#undef {name}" for name in dict.fromkeys([*_DEFINED.findall(text), *kernels]))

    def in_a_namespace(digest: str) -> str:
        own = "".join(f"#define {name} {name}_{digest}\n" for name in kernels)
        inside = f"namespace shim {{ using namespace ::shim; }}\n{own}#pragma GCC visibility push(hidden)\n{text}"
        exports = "".join(f"\nEXPORT({name}_{digest}, {has_barriers})" for name in kernels)
        return f"namespace of_{digest} {{\n{inside}\n#pragma GCC visibility pop{exports}\n}}{undefined}\n"

    options = _EMULATED if _TENSOR_CORES.search(text) else _ALONE
    digest = _digest(in_a_namespace(""), *_begins_with(), *_LANGUAGE, *options)
    return _Source(digest, in_a_namespace(digest), options)


def _make_together(source: _Source) -> None:
    """Make the library of `source` and of others that are expected, and keep it under the name of each."""
    others = [x for x in _expected.values() if x.options == source.options and x.digest != source.digest]
    sources = [source, *others[: MOST_TOGETHER - 1]]
    with _made("".join(x.text for x in sources), source.options) as library:
        for each in sources:
            _expected.pop(each.digest, None)
            with contextlib.suppress(FileExistsError):  # another process was at it
                os.link(library, each.library)


@functools.cache
def load_runtime() -> ctypes.CDLL:
    """Load what runs the kernels, for all of them to find: it brings the libraries that they call."""
    text = _RUNTIME.read_text()
    library = KEPT / f"{_digest(text, *_begins_with(), *_LANGUAGE, *_WITH_LIBRARIES)}.so"
    if not library.exists():
        with _made(text, _WITH_LIBRARIES) as made:
            made.replace(library)
    return ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


@contextlib.contextmanager
def _made(text: str, options: tuple[str, ...]) -> Iterator[Path]:
    """Make a library of `text`, which is there for the block; it is kept under other names, for all processes."""
    KEPT.mkdir(parents=True, exist_ok=True)
    library = KEPT / f"unfinished.{os.getpid()}"
    arguments = [*_LANGUAGE, "-include", str(_HEADER), "-x", "c++", "-", "-o", str(library), *options]
    made = subprocess.run([str(COMPILER), *arguments], input=text, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    yield library
    library.unlink(missing_ok=True)


@functools.cache
def _begins_with() -> tuple[str, str]:
    """Return what the text of every library begins with, and the version of the compiler."""
    version = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True, check=True).stdout
    return _HEADER.read_text(), version


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def fenced(elements: int, dtype: np.dtype[Any], *, at_end: bool) -> np.ndarray:
    """Return a poisoned buffer whose last, or first, byte has a page for its neighbour that may not be touched.

    No vector that a kernel loads or stores may go beyond its end, where that is within a page.
    """
    poisoned = np.full(elements * dtype.itemsize, 0xFF, np.uint8).view(dtype)
    buffer = fences.fenced(poisoned, "after" if at_end else "before")
    runtime, begin, page = load_runtime(), buffer.ctypes.data, mmap.PAGESIZE
    end, pages = begin + buffer.nbytes, begin // page * page
    runtime.add_buffer(*map(ctypes.c_size_t, (pages, end, -(-end // page) * page)))
    weakref.finalize(buffer, runtime.remove_buffer, ctypes.c_size_t(pages)).atexit = False
    return buffer


def describe(tensor_map: TensorMap, address: int) -> bytes:
    """Return what the shim's copy engine reads of a tensor map: its struct TensorMap."""
    _, rows, columns, ld, box_rows, box_columns, dtype, layers, distance = tensor_map
    sizes = rows, columns, box_rows, box_columns, TABLE[dtype].itemsize, layers
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

    edits: tuple[Edit, ...] = ()
    mutants: tuple[Edit, ...] = ()  # the first one is planted as well, and the others' kernels are made with its own

    def __init__(self, program: Program, operands: HostOperands, *, of_self: Program | None = None) -> None:
        self.program, self._operands = program, operands  # A and B have memory of their own
        scratch = {name: fenced(size, dtype, at_end=True) for name, (size, dtype) in program.scratch.items()}
        for name in program.zeroed:
            scratch[name][...] = 0
        self._buffers = operands.buffers | scratch
        kernels = [(step.kernel.stem, step.kernel.defines) for step in program.steps if self.is_compiled(step)]
        for mutant in self.mutants or (None,):
            expect(kernels, self._with(mutant))

    def run(self) -> None:
        self._buffers["out"].view(np.uint8)[...] = 0xFF
        for step in self.program.steps:
            self.launch(step)

    def is_compiled(self, step: Step) -> bool:
        """Return whether `launch` executes the step by its own code."""
        return True

    def launch(self, step: Step) -> None:
        """Execute one step; stands for the GPU."""
        kernel = step.kernel
        arguments = [self._argument(x) for x in step.arguments]
        pointers = (ctypes.c_void_p * len(arguments))(*(x.ctypes.data for x in arguments))
        edits = self._with(*self.mutants[:1])
        said = load(kernel, edits_in(kernel.stem, kernel.defines, edits))(
            _Dimensions(*(*step.grid, 1, 1)[:3]),
            _Dimensions(*(*kernel.block, 1, 1)[:3]),
            ctypes.c_size_t(kernel.shared_bytes),
            pointers,
        )
        if said:
            raise KernelFault(f"{kernel.stem}.{kernel.function}: {said.decode()}")

    def _with(self, mutant: Edit | None = None) -> tuple[Edit, ...]:
        return self.edits if mutant is None else (*self.edits, mutant)

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
