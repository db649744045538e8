"""GPUs whose streams run as late as the host lets them, or as early as events do, for threads that copy and multiply.

What is enqueued runs when somebody waits for it, or at once, with all that it waits for before it. So what lacks an
event reads what has not arrived, or overwrites what is still to be read.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests._support.fake_arrays import Array

_lock = threading.RLock()  # one thing is done at a time


class Event:
    def __init__(self, **_: Any) -> None:
        self.stream, self.position = None, 0

    def record(self, stream: Stream) -> None:
        with _lock:
            self.stream, self.position = stream, len(stream.work)

    @property
    def done(self) -> bool:
        return self.stream is None or self.stream.done >= self.position

    def synchronize(self) -> None:
        with _lock:
            if self.stream is not None:
                self.stream.run_to(self.position)


class Stream:
    """A queue of work, and of events to wait for."""

    def __init__(self, *, is_eager: bool) -> None:
        self.work, self.done, self._is_eager = list[Callable[[], object] | Event](), 0, is_eager
        self.ptr = self

    def add(self, work: Callable[[], object] | Event) -> None:
        with _lock:
            self.work.append(work)
            while self._is_eager and self.done < len(self.work) and self._may_go_on():
                self.run_to(self.done + 1)

    def _may_go_on(self) -> bool:
        work = self.work[self.done]
        return not isinstance(work, Event) or work.done

    def run_to(self, position: int) -> None:
        while self.done < position:
            work = self.work[self.done]
            work.synchronize() if isinstance(work, Event) else work()
            self.done += 1

    def record(self) -> Event:
        event = Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        as_now = Event()  # the event may be recorded anew
        as_now.stream, as_now.position = event.stream, event.position
        self.add(as_now)

    def synchronize(self) -> None:
        self.record().synchronize()


class Queued(Array):
    """An array on a GPU; what is done with it is done in the current stream."""

    gpus: Gpus

    def _like(self, values: Any) -> Queued:
        return self.gpus.array(values)

    def __setitem__(self, at: Any, x: Any) -> None:
        target, source = self.values[at], x.values
        self.gpus.stream().add(lambda: np.copyto(target, source))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        given = [getattr(x, "values", x) for x in inputs]
        (target,) = out or [self._like(np.empty_like(self.values))]
        self.gpus.stream().add(lambda: getattr(ufunc, method)(*given, out=target.values, **options))
        return target

    def min(self) -> Queued:
        least, source = self._like(np.zeros((), self.values.dtype)), self.values
        self.gpus.stream().add(lambda: np.copyto(least.values, source.min()))
        return least

    def __ne__(self, other: object) -> Any:
        self.gpus.stream().synchronize()
        return self.values != other.values  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


class Gpus:
    """The module `cupy`.

    Parameters
    ----------
    eager_copies, eager_products : bool
        Whether streams that are made, and those there are, run as early as events let them.
    slow : int
        Kind of copies whose thread sleeps before some of them.
    """

    def __init__(self, *, eager_copies: bool, eager_products: bool, slow: int = 0) -> None:
        self._here, self._eager_products, self._slow = threading.local(), eager_products, slow
        self._streams: dict[int, Stream] = {}
        self._copies = itertools.count()
        self.ndarray = type("ndarray", (Queued,), {"gpus": self})
        self.not_equal = np.not_equal
        self.cuda = types.SimpleNamespace(
            Device=self._device,
            Stream=lambda non_blocking: Stream(is_eager=eager_copies),
            Event=Event,
            get_current_stream=self.stream,
            alloc_pinned_memory=bytearray,
            runtime=types.SimpleNamespace(
                CUDARuntimeError=RuntimeError,
                getDevice=lambda: getattr(self._here, "index", 0),
                memcpyAsync=self._copy,
                memcpyPeerAsync=lambda to, there, source, here, size, stream: self._copy(to, source, size, 3, stream),
                deviceCanAccessPeer=lambda here, there: True,
                deviceEnablePeerAccess=lambda there: None,
            ),
        )

    def stream(self) -> Stream:
        """Return the current stream of the current GPU."""
        with _lock:
            return self._streams.setdefault(self.cuda.runtime.getDevice(), Stream(is_eager=self._eager_products))

    def array(self, values: Any) -> Queued:
        """Return an array of these values."""
        return self.ndarray(values, self.cuda.runtime.getDevice())

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Queued:
        """Return an array of any values."""
        return self.array(
            np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, 0x11, np.uint8).view(dtype).reshape(shape)
        )

    def ascontiguousarray(self, x: Queued) -> Queued:
        """Return a copy, made in the current stream."""
        copy = self.empty(x.shape, x.dtype)
        copy[...] = x
        return copy

    def _copy(self, to: int, source: int, size: int, kind: int, stream: Stream) -> None:
        if kind == self._slow and next(self._copies) % 9 == 0:
            time.sleep(0.02)
        stream.add(lambda: ctypes.memmove(to, source, size))

    @contextlib.contextmanager
    def _device(self, index: int) -> Iterator[None]:
        before, self._here.index = self.cuda.runtime.getDevice(), index
        yield
        self._here.index = before


class Rows:
    """Stands for `harness.api.paths.in_place.Rows`, of min_plus, in the current stream."""

    def __init__(self, columns: Queued) -> None:
        self._gpus = columns.gpus

    def close(self, x: Queued, pivots: slice, out: Queued) -> None:
        def compute() -> None:
            rows = x.values.copy()
            for k in range(pivots.start, pivots.stop):
                np.minimum(rows, rows[:, k, None] + rows[k - pivots.start], out=rows)
            out.values[...] = rows

        self._gpus.stream().synchronize()  # as whoever closes a square waits for what it found
        self._gpus.stream().add(compute)

    def improve(self, x: Queued, pivots: slice, panel: Queued) -> None:
        def compute() -> None:
            for k, row in zip(range(pivots.start, pivots.stop), panel.values, strict=True):
                np.minimum(x.values, x.values[:, k, None] + row, out=x.values)

        self._gpus.stream().add(compute)
