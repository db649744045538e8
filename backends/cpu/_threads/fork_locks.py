"""Hold the compiler's locks across a fork: else a child could inherit one that stays locked for ever.

A fork therefore waits until a kernel is compiled, a few seconds at most.
"""

from __future__ import annotations

import logging
from typing import Any

from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock
from numba.np.ufunc import parallel

from harness import threads
from harness.surroundings import at_fork, hold_across_forks

_log = logging.getLogger("gemm_harness")

# In the order in which Numba takes them: for compiling, for starting or counting threads, for calling LLVM.
_LOCKS: tuple[Any, ...] = (global_compiler_lock, parallel._backend_init_thread_lock, ffi.lib._lock)  # noqa: SLF001


def _begin_child() -> None:
    _log.info("forked: this process starts threads of its own at its first product on several threads")


hold_across_forks("compiler", *_LOCKS)
threads.drop_lock_of_processes()  # before a kernel is compiled, which starts them
at_fork(after_in_child=_begin_child)
