"""A ``.cu`` file and its defines to a kernel that can be launched, and what the compiler says of it.

A kernel file holds one idea. What it is made for comes in as defines: the tile sizes, the strategy at edges, and the
operators of the semiring. Files that it includes by name (``#include "edges.cuh"``) are put in their place here, so
that the text is complete: it is the key under which machine code is kept, and any C++ compiler can read it too.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda import cubin_files, device, nvrtc
from backends.gpu._cuda.nvrtc import Compiled

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT, *(ROOT / name for name in ("_cuda", "_simt", "_tensor", "_tasks")))
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)
_FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")

# What a block has without asking for more, in bytes.
SHARED_WITHOUT_ASKING = 48 << 10

Defines = tuple[tuple[str, str], ...]


class Resources(NamedTuple):
    """What one kernel takes, as ptxas reports it.

    Attributes
    ----------
    registers : int
        Of one thread.
    shared_bytes : int
        Of one block, static only.
    stack_bytes, spill_bytes : int
        Local memory of one thread; and what is stored to and loaded from it because registers ran out.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def as_defines(values: Mapping[str, Any]) -> Defines:
    """Return `values` in a form that can be a key, numbers and bools as C writes them."""
    return tuple((name, str(int(x) if isinstance(x, (bool, np.integer)) else x)) for name, x in values.items())


def assemble(stem: str, defines: Defines, folders: tuple[Path, ...] = FOLDERS) -> str:
    """Return the text of ``stem.cu``: its defines first, and in the place of each #include, once, the file.

    Parameters
    ----------
    stem : str
    defines : Defines
    folders : tuple of Path
        Where files are looked for, in this order.
    """
    seen: set[str] = set()

    def text_of(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        path = next(folder / name for folder in folders if (folder / name).exists())
        source, pieces, position = path.read_text(), [f'#line 1 "{name}"\n'], 0
        for found in _INCLUDE.finditer(source):
            line = source.count("\n", 0, found.start()) + 2
            pieces += [source[position : found.start()], text_of(found[1]), f'#line {line} "{name}"']
            position = found.end()
        return "".join([*pieces, source[position:]])

    return "".join(f"#define {name} {value}\n" for name, value in defines) + text_of(f"{stem}.cu")


@functools.lru_cache(maxsize=1024)
def compile_kernel(stem: str, defines: Defines, arch: str, options: tuple[str, ...] = ()) -> Compiled:
    """Compile ``stem.cu`` for `arch`, or take what was kept of it.

    Raises
    ------
    CompileError
        If it is not correct.
    """
    source = assemble(stem, defines)
    digest = _digest(source, arch, options)
    kept = cubin_files.read(digest)
    if kept is None:
        kept = nvrtc.compile_source(source, f"{stem}.cu", arch, options)
        cubin_files.write(digest, kept)
    return kept


def is_kept(stem: str, defines: Defines, arch: str, options: tuple[str, ...] = ()) -> bool:
    """Whether the machine code of ``stem.cu`` for `arch` has been kept."""
    return cubin_files.read(_digest(assemble(stem, defines), arch, options)) is not None


def _digest(source: str, arch: str, options: tuple[str, ...]) -> str:
    key = "\n".join([str(nvrtc.version()), arch, *options, source])
    return hashlib.sha256(key.encode()).hexdigest()


def resources(compiled: Compiled) -> dict[str, Resources]:
    """Return what each kernel of a compiled file takes, by name."""
    parts = _FUNCTION.split(compiled.log)
    found = {}
    for name, report in zip(parts[1::2], parts[2::2], strict=True):
        spills, used = _SPILLS.search(report), _USED.search(report)
        assert spills is not None, compiled.log
        assert used is not None, compiled.log
        stack, stores, loads = (int(x) for x in spills.groups())
        found[name] = Resources(int(used[1]), int(used[2] or 0), stack, stores + loads)
    return found


def load_kernel(
    stem: str, defines: Defines, function: str, shared_bytes: int = 0, options: tuple[str, ...] = (), suffix: str = ""
) -> Any:
    """Return `function` of ``stem.cu``, ready to launch on the current GPU: ``kernel(grid, block, args, shared_mem=)``.

    Parameters
    ----------
    stem, function : str
    defines : Defines
    shared_bytes : int
        Dynamic shared memory that launches will ask for; raises the limit of the kernel where that is needed.
    options : tuple of str
        Further options of NVRTC.
    suffix : str
        Appended to the architecture: ``"a"`` for what is peculiar to one, as wgmma is to sm_90a.

    Raises
    ------
    CompileError
        If it is not correct.
    BackendUnavailable
        If there is no GPU.
    """
    index = device.current_index()
    return _load(index, stem, defines, function, shared_bytes, options, suffix)


@functools.lru_cache(maxsize=1024)
def _load(
    index: int, stem: str, defines: Defines, function: str, shared_bytes: int, options: tuple[str, ...], suffix: str
) -> Any:
    """Load for the GPU `index`, which is the current one: machine code is loaded into one GPU."""
    cupy = device.cupy()
    compiled = compile_kernel(stem, defines, device.device(index).arch + suffix, options)
    module = cupy.cuda.function.Module()
    module.load(compiled.cubin)
    kernel = module.get_function(function)
    if shared_bytes > SHARED_WITHOUT_ASKING:
        driver = cupy.cuda.driver
        driver.funcSetAttribute(kernel.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
    return kernel
