"""The jobs of this process: one for each shape that is in use, started when it is first needed."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from typing import Any

from backends.distributed._job.job import Job, Shape

_jobs: dict[Shape, Job] = {}
_lock = threading.Lock()
_numbers = itertools.count(1)


class Loaded:
    """Arrays that a job holds for one product, freed with this object.

    Parameters
    ----------
    shape : Shape
        Of the job. One that is alive is taken, else one is started. Jobs of other shapes are ended unless products lie
        there: idle ranks hold memory, libraries and compiled kernels.
    """

    def __init__(self, shape: Shape) -> None:
        self.number = next(_numbers)
        with _lock:
            if shape not in _jobs or not _jobs[shape].is_alive:
                for other in [job for job in _jobs.values() if not job.products or not job.is_alive]:
                    other.close()
                    del _jobs[other.shape]
                _jobs[shape] = Job(shape)
            self.job = _jobs[shape]
            self.job.products.add(self.number)
        weakref.finalize(self, self.job.free, self.number).atexit = False

    def call_all(self, command: str, **arguments: Any) -> list[Any]:
        """Have the ranks execute `command` on these arrays; raises as `Job.call_all`."""
        return self.job.call_all(command, number=self.number, **arguments)


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


atexit.register(close_all)
os.register_at_fork(after_in_child=_start_anew)
