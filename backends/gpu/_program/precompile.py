"""Compile many kernels at once, by NVRTC in worker processes without a GPU, into the files that loading reads."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from backends import _kernel_files
from backends.gpu._cuda.kernel_files import Job, compile_kernel, is_kept
from backends.gpu._cuda.nvrtc import CompileError
from backends.gpu._program.program import Kernel

# Starting workers takes as long as compiling this many kernels.
WORTH_WORKERS = 4


def precompile(kernels: Iterable[Kernel], arch: str) -> int:
    """Compile `kernels` for `arch`, each once, if not done yet; return the number of those.

    Nothing is done if stored kernels are turned off: workers could not hand over their results. Errors of compilation
    are left to whoever loads the kernel.
    """
    if _kernel_files.cache_folder() is None:
        return 0
    jobs = {(k.stem, k.defines, arch + k.suffix) for k in kernels}
    missing = sorted(job for job in jobs if not is_kept(*job))
    if len(missing) < WORTH_WORKERS:
        for job in missing:
            _compile(job)
        return len(missing)
    workers = min(os.cpu_count() or 1, len(missing))
    # spawned, not forked: this process may use CUDA
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_compile, missing))
    return len(missing)


def _compile(job: Job) -> None:
    with contextlib.suppress(CompileError):
        compile_kernel(*job)
