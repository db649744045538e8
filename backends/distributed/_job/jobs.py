"""The jobs of this process, one for each shape that is in use, and the products that their ranks hold."""

from __future__ import annotations

import atexit
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from backends.distributed._job.job import Job, Shape
from backends.distributed._job.rank import Assignment
from harness import memory
from harness.distributed.transport.shared_arrays import SharedArray
from harness.surroundings import at_fork

_jobs: dict[Shape, Job] = {}
_lock = threading.Lock()
_numbers = itertools.count(1)


class Loaded:
    """A product that the ranks of a job hold, and the arrays that they share with this process.

    Parameters
    ----------
    job : Job
    assignment : Assignment
    shared : dict
        Arrays "a", "b", "d", and "c" if there is one.
    """

    def __init__(self, job: Job, assignment: Assignment, shared: dict[str, SharedArray]) -> None:
        from numba import cloudpickle  # a user's semiring may be defined in the program itself

        self.job, self.assignment, self.shared, self.number = job, assignment, shared, next(_numbers)
        job.products.add(self.number)
        try:
            forms = {name: array.form for name, array in shared.items()}
            self.call_all("load", assignment=cloudpickle.dumps(assignment), shared=forms)
        except BaseException:
            job.products.discard(self.number)
            raise
        finally:
            for array in shared.values():
                array.close()

    def call_all(self, command: str, **arguments: Any) -> list[Any]:
        """Have the ranks execute `command` on it; raises as `Job.call_all`."""
        return self.job.call_all(command, number=self.number, **arguments)


def start(shape: Shape) -> None:
    """Start a job of that shape unless one runs."""
    with _lock:
        _running(shape)


def _running(shape: Shape) -> Job:
    """Return the job of that shape, started if there is none alive; whoever calls this holds the lock."""
    if shape not in _jobs or not _jobs[shape].is_alive:
        for other in [job for job in _jobs.values() if not job.products or not job.is_alive]:
            other.close()
            del _jobs[other.shape]
        _jobs[shape] = Job(shape)
    return _jobs[shape]


def take(shape: Shape, assignment: Assignment, user: object, share: Callable[[], dict[str, SharedArray]]) -> Loaded:
    """Return the product of `assignment` on a job of that shape, in use until `user` is freed.

    A job that is alive is taken, else one is started; jobs of other shapes that hold no product in use are ended. The
    product that was used last stays allocated: another of the same form takes its place, and nothing is allocated.

    Parameters
    ----------
    shape : Shape
    assignment : Assignment
    user : object
    share : callable
        ``share()`` makes the shared arrays of a product that is not allocated yet.
    """
    with _lock:
        job = _running(shape)
        idle = _idle.pop(job, None)
        if idle is not None and idle.assignment == assignment:
            loaded = idle
            job.products.add(loaded.number)
        else:
            if idle is not None:
                job.free(idle.number)
            loaded = Loaded(job, assignment, share())
    weakref.finalize(user, _give_back, loaded).atexit = False
    return loaded


_idle: weakref.WeakKeyDictionary[Job, Loaded] = weakref.WeakKeyDictionary()


def _give_back(loaded: Loaded) -> None:
    """Keep a product for the next call, instead of the one kept before. Runs where Python frees objects: no waiting."""
    loaded.job.products.discard(loaded.number)
    before = _idle.pop(loaded.job, None)
    _idle[loaded.job] = loaded
    if before is not None:
        loaded.job.free(before.number)


@memory.on_free
def _free_idle() -> None:
    """Have the ranks forget the products that are kept for the next call."""
    for job in list(_idle):
        if (loaded := _idle.pop(job, None)) is not None:
            job.free(loaded.number)


def close_all() -> None:
    """End the ranks that this process has started."""
    with _lock:
        for job in _jobs.values():
            job.close()
        _jobs.clear()


def _start_anew() -> None:
    """Forget, in a forked child, the jobs of its parent: it holds copies of their sockets, and maybe a locked lock."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for job in _jobs.values():
        job.abandon()
    _jobs.clear()
    _idle.clear()


atexit.register(close_all)
at_fork(after_in_child=_start_anew)
