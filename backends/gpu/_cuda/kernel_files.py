"""Compile a ``.cu`` file with its defines, load the kernel, and read the compiler's report on it.

A kernel file holds one idea. Its parameters come in as defines: tile sizes, the strategy at edges, the operators of the
semiring. A file that it includes by name (``#include "edges.cuh"``) is found in any folder below `backends/gpu/`, and
its text replaces that line. So the text is complete: it is the key of the stored machine code, and any C++ compiler can
read it too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backends import _kernel_files, gpu
from backends.gpu._cuda import device, nvrtc
from backends.gpu._cuda.nvrtc import Compiled
from harness.surroundings import processors

FOLDER = Path(str(gpu.__file__)).parent
_FAMILY, _PAYLOAD = "gpu", "log, zero byte, cubin"  # the folder of stored kernels, and the content of an entry
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)
_FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


Defines = tuple[tuple[str, str], ...]
Job = tuple[str, Defines, str]  # stem, defines and architecture


class Resources(NamedTuple):
    """Resources that one kernel takes, as ptxas reports them.

    Attributes
    ----------
    registers : int
        Of one thread.
    shared_bytes : int
        Of one block, static only.
    stack_bytes, spill_bytes : int
        Local memory of one thread; bytes stored and loaded there because registers ran out.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def as_defines(values: Mapping[str, Any]) -> Defines:
    """Return `values` in a form that can be a key, numbers and bools as C writes them."""
    return tuple((name, str(int(x) if isinstance(x, (bool, np.integer)) else x)) for name, x in values.items())


@functools.cache
def _sources(folder: Path) -> dict[str, Path]:
    """Return the CUDA files of a folder and its subfolders by their names, each of which is unique."""
    return {path.name: path for path in folder.rglob("*.cu*") if path.suffix in (".cu", ".cuh")}


def find_source(name: str, folders: tuple[Path, ...] = (FOLDER,)) -> Path:
    """Return the CUDA file called `name`, from the first of `folders` that has it."""
    return next(sources[name] for sources in map(_sources, folders) if name in sources)


def assemble(stem: str, defines: Defines, folders: tuple[Path, ...] = (FOLDER,)) -> str:
    """Return the text of ``stem.cu``: its defines first, and each #include replaced, once, by its file.

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
        source, pieces, position = find_source(name, folders).read_text(), [f'#line 1 "{name}"\n'], 0
        for include in _INCLUDE.finditer(source):
            line = source.count("\n", 0, include.start()) + 2
            pieces += [source[position : include.start()], text_of(include[1]), f'#line {line} "{name}"']
            position = include.end()
        return "".join([*pieces, source[position:]])

    return "".join(f"#define {name} {value}\n" for name, value in defines) + text_of(f"{stem}.cu")


@functools.lru_cache(maxsize=1024)
def compile_kernel(stem: str, defines: Defines, arch: str) -> Compiled:
    """Return the machine code of ``stem.cu`` for `arch`, from the cache if it is there.

    Raises
    ------
    CompileError
        If it is not correct.
    """
    source = assemble(stem, defines)
    folder, name = _kernel_files.cache_folder(_FAMILY), _entry_name(source, arch)
    payload = _kernel_files.read(folder, name)
    if payload is not None:
        log, _, cubin = payload.partition(b"\0")
        return Compiled(cubin, log.decode())
    compiled = nvrtc.compile_source(source, f"{stem}.cu", arch)
    _kernel_files.write(folder, name, compiled.log.encode() + b"\0" + compiled.cubin)
    return compiled


def compile_together(
    kernels: Iterable[Job],
    alike: Callable[[], Iterable[Job]] = tuple,
) -> None:
    """Compile kernels for the current GPU at once, a thread each: a new kind of product waits for the slowest alone.

    Parameters
    ----------
    kernels : iterable of (stem, defines, suffix)
        As in `load_kernel`, which then finds them compiled.
    alike : callable
        Returns kernels that later products may need and that take about as long to compile. If one of `kernels` is not
        in the cache, they are compiled beside it, as many as there are processors for.

    Raises
    ------
    CompileError
        If one of `kernels` is not correct.
    """
    arch = device.device().arch
    jobs = [(stem, defines, arch + suffix) for stem, defines, suffix in kernels]
    missing = [job for job in jobs if job not in _compiled]
    if not missing:
        return
    threads = len(processors())
    beside: list[Job] = []
    if len(missing) < threads and not all(is_kept(*job) for job in missing):
        beside = [(stem, defines, arch + suffix) for stem, defines, suffix in alike()]
        beside = [job for job in beside if job not in _compiled][: threads - len(missing)]
    if len(missing) + len(beside) > 1:
        with ThreadPoolExecutor(min(threads, len(missing) + len(beside))) as pool:
            needed = pool.map(compile_kernel, *zip(*missing, strict=True))
            for job in beside:
                pool.submit(compile_kernel, *job)  # an error is left to whoever loads it
            list(needed)
    _compiled.update(missing)


# What `compile_together` has compiled in this process.
_compiled: set[Job] = set()


def is_kept(stem: str, defines: Defines, arch: str) -> bool:
    """Return whether the machine code of ``stem.cu`` for `arch` has been kept."""
    name = _entry_name(assemble(stem, defines), arch)
    return _kernel_files.read(_kernel_files.cache_folder(_FAMILY), name) is not None


def _entry_name(source: str, arch: str) -> str:
    """Return the name in the cache of the compiler and all of its input; the source text includes its headers."""
    return _kernel_files.entry_name(_PAYLOAD, nvrtc.version(), nvrtc.all_options(arch), source)


def resources(compiled: Compiled) -> dict[str, Resources]:
    """Return the resources of each kernel of a compiled file, by name."""
    parts = _FUNCTION.split(compiled.log)
    by_kernel = {}
    for name, report in zip(parts[1::2], parts[2::2], strict=True):
        spills, used = _SPILLS.search(report), _USED.search(report)
        assert spills is not None, compiled.log
        assert used is not None, compiled.log
        stack, stores, loads = (int(x) for x in spills.groups())
        by_kernel[name] = Resources(int(used[1]), int(used[2] or 0), stack, stores + loads)
    return by_kernel


def load_kernel(stem: str, defines: Defines, function: str, shared_bytes: int = 0, suffix: str = "") -> Any:
    """Return `function` of ``stem.cu``, ready to launch on the current GPU: ``kernel(grid, block, args, shared_mem=)``.

    Parameters
    ----------
    stem, function : str
    defines : Defines
    shared_bytes : int
        Dynamic shared memory that launches will request; raises the kernel's limit if needed.
    suffix : str
        Appended to the architecture: ``"a"`` for features of one architecture alone, such as wgmma of sm_90a.

    Raises
    ------
    CompileError
        If it is not correct.
    BackendUnavailable
        If there is no GPU.
    """
    return _load(device.current_index(), stem, defines, function, shared_bytes, suffix)


@functools.lru_cache(maxsize=1024)
def _load(index: int, stem: str, defines: Defines, function: str, shared_bytes: int, suffix: str) -> Any:
    """Load for the GPU `index`, which is the current one: machine code is loaded into one GPU."""
    cupy = device.cupy()
    compiled = compile_kernel(stem, defines, device.device(index).arch + suffix)
    module = cupy.cuda.function.Module()
    module.load(compiled.cubin)
    kernel = module.get_function(function)
    if shared_bytes:  # unasked a block has 48 KiB, less what the kernel itself declares
        driver = cupy.cuda.driver
        driver.funcSetAttribute(kernel.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
    return kernel
