"""One thread that fetches panels ahead of the product, and hands over its exception.

The thread is a daemon: a product that fails never waits for it. Whatever it raises is raised again where the next panel
is asked for. An exception that stays in a thread would end the job with status 0, or leave other ranks waiting.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Calls ``fetch(0)``, ``fetch(1)``, ... in a thread, at most `in_flight` ahead of whoever iterates.

    Parameters
    ----------
    fetch : callable
        ``fetch(step)`` returns what belongs to that step. Step `s` reuses the memory of step ``s - in_flight``, so what
        was yielded is valid until the next is asked for.
    steps : int
    in_flight : int
        2 or more: one is used while the next arrives.
    """

    def __init__(self, fetch: Callable[[int], T], steps: int, in_flight: int) -> None:
        self._fetch, self._steps = fetch, steps
        self._room = threading.Semaphore(in_flight)
        self._ready: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[T]:
        thread = threading.Thread(target=self._run, name="panels of a distributed product", daemon=True)
        thread.start()
        for _ in range(self._steps):
            item = self._ready.get()
            if isinstance(item, BaseException):
                raise item
            yield item
            self._room.release()
        thread.join()

    def _run(self) -> None:
        try:
            for step in range(self._steps):
                self._room.acquire()
                self._ready.put(self._fetch(step))
        except BaseException as error:  # noqa: BLE001 raised again by the thread that iterates
            self._ready.put(error)
