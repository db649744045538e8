"""Set how many threads BLAS and Numba use together, and read back what is in force."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController

from harness.errors import BackendUnavailable, ProblemError
from harness.machine import detect
from harness.scalars import as_count
from harness.surroundings import at_fork

# Libraries that bring a thread pool of their own when they are imported.
_POOL_OWNERS = ("numpy", "scipy", "numba", "mkl", "blis", "torch", "scipy_openblas32")


# A library such as OpenBLAS has one setting for the process. Calls that change it exclude each other: of two that
# overlap, the last would restore the other's setting. A forked child makes a new lock: another thread may have held it.
_libraries = threading.RLock()


def _unlock_in_child() -> None:
    global _libraries  # noqa: PLW0603
    _libraries = threading.RLock()


at_fork(after_in_child=_unlock_in_child)


@contextlib.contextmanager
def limit(threads: int, *, libraries: bool = True) -> Iterator[None]:
    """Let Numba, and libraries such as BLAS, use `threads` threads inside the block.

    Numba has a setting for each Python thread. A library has one for the process, so calls that set it wait for others.

    Parameters
    ----------
    threads : int
    libraries : bool
        False: Numba alone.

    Raises
    ------
    ProblemError
        If `threads` is not between 1 and the processors that this process may use.
    BackendUnavailable
        As `available` says.
    """
    threads = check(threads)
    numba = _numba()
    before = _of_numba(numba) if numba else None
    nothing = contextlib.nullcontext()
    with _libraries if libraries else nothing, _controller().limit(limits=threads) if libraries else nothing:
        if numba:
            numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        try:
            yield
        finally:
            if numba:
                numba.set_num_threads(before)


def check(threads: int) -> int:
    """Return `threads` as an int, or raise ProblemError if it is not from 1 to the processors of this process."""
    cores = detect().cores
    count = as_count(threads, most=cores)
    if count is None:
        raise ProblemError(
            "threads is no number of threads of this machine",
            expected=f"1 to {cores}",
            got=repr(threads),
            fix=f"threads={cores} for all, or fewer",
        )
    return count


def available() -> int:
    """Return how many threads Numba may use now, after starting them; 1 where it is not loaded.

    Raises
    ------
    BackendUnavailable
        If Numba cannot load the threading layer that the environment names. No other one takes its place: loops of
        other programs in this process may need what that layer promises.
    """
    numba = _numba()
    return _of_numba(numba) if numba else 1


def _numba() -> Any:
    """Return Numba if it is loaded, or None; if another thread is importing it, wait until that is done.

    To look into it before that may break the import for good: its modules import each other in a circle.
    """
    numba = sys.modules.get("numba")
    is_partial = numba is not None and getattr(numba.__spec__, "_initializing", False)
    return importlib.import_module("numba") if is_partial else numba


def _of_numba(numba: Any) -> int:
    """Return how many threads Numba's loops have in this thread of Python."""
    # once threads run, without the lock that Numba's own function takes: a product of 8 x 8 is shorter
    quick = getattr(sys.modules.get("numba.np.ufunc.parallel"), "_get_num_threads", None)
    if quick is not None and (number := quick()) > 0:
        return int(number)
    drop_lock_of_processes()
    try:
        with warnings.catch_warnings():  # of an old TBB, on which our loops do not run
            warnings.simplefilter("ignore", numba.NumbaWarning)
            return int(numba.get_num_threads())
    except RuntimeError:  # Numba's workqueue loses the number in a forked child
        return int(numba.config.NUMBA_NUM_THREADS)
    except ValueError as error:
        raise BackendUnavailable(
            "kernels for CPUs: Numba cannot load the threading layer that it is told to",
            expected="NUMBA_THREADING_LAYER=default, omp or workqueue; or tbb, where TBB is installed",
            got=f"{numba.config.THREADING_LAYER}: {str(error).splitlines()[0]}",
            fix="unset NUMBA_THREADING_LAYER and NUMBA_THREADING_LAYER_PRIORITY",
        ) from None


def drop_lock_of_processes() -> None:
    """Have Numba start and count its threads without the lock that it shares with forked processes.

    To make that lock, Numba chooses the start method of `multiprocessing`, which the program could then choose no more.
    The lock of threads, which Numba takes too, is held across forks (`backends.cpu._threads.fork_locks`). That of
    processes is not: a child whose parent held it at the fork would count one thread, and neither would go on.
    """
    parallel: Any = importlib.import_module("numba.np.ufunc.parallel")
    parallel._backend_init_process_lock = contextlib.nullcontext()  # noqa: SLF001


_own_loops = False


def use_own_loops() -> None:
    """Record that the kernels' parallel loops run on the project's pool, not on a threading layer of Numba."""
    global _own_loops  # noqa: PLW0603
    _own_loops = True


def read_back() -> dict[str, Any]:
    """Return the threads in force by library: ``{"numba": 1, "openblas": 1, "openblas kernels": "0.3.31 Haswell"}``.

    Numbers are threads. A BLAS names the processor whose kernels it chose, which decides its speed. Numba names its
    threading layer, once it runs; ``"own"`` is the kernels' own pool. Of two copies of a library the second is named
    with its version.
    """
    numba = _numba()
    in_force: dict[str, Any] = {}
    for pool in _controller().info():
        name, version = str(pool["internal_api"]), pool.get("version")
        name = f"{name} {version}" if name in in_force else name
        in_force[name] = pool["num_threads"]
        if pool.get("architecture"):
            in_force[f"{name} kernels"] = f"{version} {pool['architecture']}"
    if numba:
        in_force["numba"] = _of_numba(numba)
        with contextlib.suppress(ValueError):  # the layer is chosen at the first parallel call
            in_force["numba_layer"] = "own" if _own_loops else numba.threading_layer()
    return in_force


def disagreement(in_force: dict[str, Any], threads: int) -> str | None:
    """Return which library does not use `threads` threads although it was told to, or None."""
    for library, number in in_force.items():
        if isinstance(number, int) and number != threads:
            return f"{library} uses {number} threads, not {threads}"
    return None


def _controller() -> ThreadpoolController:
    """Return the controller of the libraries that are loaded: making one costs a hundred times a use."""
    global _known  # noqa: PLW0603
    loaded, known = tuple(name for name in _POOL_OWNERS if name in sys.modules), _known
    if known is None or (loaded and loaded != known[0]):  # none are, where Python ends
        if sys.meta_path is None:
            raise ImportError("libraries cannot be found while Python ends")
        _known = known = loaded, ThreadpoolController()
    return known[1]


# The libraries that were loaded, and their controller: one object, so that threads never see one without the other.
_known: tuple[tuple[str, ...], ThreadpoolController] | None = None
