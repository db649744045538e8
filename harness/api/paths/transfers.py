"""Rows that pass between arrays of the host and of a GPU: several threads copy them through pinned memory.

The engines of a GPU copy pinned memory alone, and faster than one thread fills or empties it. So each thread takes some
of the rows. It has two pieces of pinned memory, and copies one while the engine copies the other. The pages of a new
array, which the system clears when they are first written to, are cleared by the same threads.

Arrays of the caller are not pinned: to pin an array takes as long as some ten copies of it, and has to be undone.
"""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np

# Bytes of a piece, and most threads each way. Each call of a thread may wait until another one has let go of the
# interpreter, some 50 us, so pieces are large; and few threads copy as fast as many.
PIECE, MOST_THREADS = 8 << 20, 4
_PAGE = 4096
# `cudaMemcpyKind`.
_UP, _DOWN = 1, 2


class Transfer:
    """Rows on their way, by several threads."""

    def __init__(self, parts: list[Future[Any]]) -> None:
        self._parts = parts

    def wait(self) -> None:
        """Return when all that threads do is done: rows that go down have arrived, others are handed to the GPU."""
        for part in self._parts:
            part.result()

    def before(self, stream: Any) -> None:
        """Have what is enqueued in a stream from now on see the rows that go up."""
        for part in self._parts:
            stream.wait_event(part.result())


class Transfers:
    """Threads that copy between the host and the current GPU; a context, at whose end no copy is under way.

    Parameters
    ----------
    module : module
        CuPy.
    threads : int
        Most threads each way.
    """

    def __init__(self, module: Any, threads: int) -> None:
        self._module, self._index = module, int(module.cuda.runtime.getDevice())
        self._threads = min(threads, MOST_THREADS)
        self._pools = [ThreadPoolExecutor(self._threads) for _ in range(2)]
        self._lanes: list[queue.SimpleQueue[_Lane]] = [queue.SimpleQueue() for _ in range(2)]
        self._made: list[_Lane] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools:  # all of them before any is waited for: one may wait for another
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in self._pools:
            pool.shutdown()
        for lane in self._made:
            lane.stream.synchronize()

    def up(self, target: Any, source: np.ndarray, *, event: Any, after: Iterable[Transfer] = ()) -> Transfer:
        """Begin to copy rows to the GPU.

        Parameters
        ----------
        target : C-ordered array on the GPU
        source : array of that shape and dtype
            With any strides.
        event : event
            After which `target` may be written to.
        after : iterable of Transfer
            After which `source` may be read and `target` written to.
        """
        after = [*after]

        def copy(lane: _Lane, rows: slice) -> Any:
            for other in after:
                other.wait()
            lane.stream.wait_event(event)
            for part in _pieces(rows, source):
                piece = lane.next_piece(source[part])
                piece.wait()
                np.copyto(piece.values, source[part])
                piece.copy(_address(target, part), piece.address, _UP)
            return lane.stream.record()

        return self._deal(0, source, copy)

    def down(self, target: np.ndarray, source: Any, *, event: Any) -> Transfer:
        """Begin to copy rows of a C-ordered array on the GPU to the host, as they are after an event."""

        def copy(lane: _Lane, rows: slice) -> None:
            lane.stream.wait_event(event)
            under_way: deque[tuple[slice, _Piece]] = deque()
            for part in (*_pieces(rows, target), None, None):
                if len(under_way) == 2 or (under_way and part is None):
                    arrived, piece = under_way.popleft()
                    piece.wait()
                    target[arrived] = piece.values
                if part is not None:
                    piece = lane.next_piece(target[part])
                    piece.copy(piece.address, _address(source, part), _DOWN)
                    under_way.append((part, piece))

        return self._deal(1, target, copy)

    def touch(self, x: np.ndarray) -> Transfer:
        """Begin to have the system clear the pages of a new C-ordered array, which nobody may write to until then."""
        octets = x.reshape(-1).view(np.uint8)
        step = max(-(-octets.size // self._threads), 1)
        parts = (octets[first : first + step : _PAGE] for first in range(0, octets.size, step))
        return Transfer([self._pools[1].submit(part.fill, 0) for part in parts])

    def _deal(self, way: int, x: np.ndarray, copy: Callable[[_Lane, slice], Any]) -> Transfer:
        """Have threads copy rows of `x`, the array of the host, some each."""
        count = min(self._threads, -(-x.nbytes // PIECE))
        step = max(-(-len(x) // max(count, 1)), 1)
        size = max(PIECE, x[:1].nbytes)
        parts = (slice(first, min(first + step, len(x))) for first in range(0, len(x), step))
        return Transfer([self._pools[way].submit(self._copied, way, size, copy, rows) for rows in parts])

    def _copied(self, way: int, size: int, copy: Callable[[_Lane, slice], Any], rows: slice) -> Any:
        with self._module.cuda.Device(self._index), self._lane(way, size) as lane:
            return copy(lane, rows)

    @contextlib.contextmanager
    def _lane(self, way: int, size: int) -> Iterator[_Lane]:
        """Lend a lane of pieces of at least `size` bytes."""
        try:
            lane = self._lanes[way].get_nowait()
        except queue.Empty:
            lane = _Lane(self._module)
            self._made.append(lane)
        lane.widen(size)
        try:
            yield lane
        finally:
            self._lanes[way].put(lane)


class _Lane:
    """What one thread copies by: a stream, and two pieces of pinned memory by turns, free after an event each."""

    def __init__(self, module: Any) -> None:
        self._module, self.stream = module, module.cuda.Stream(non_blocking=True)
        self._memory: list[Any] = []
        self._events = [module.cuda.Event(block=True, disable_timing=True) for _ in range(2)]
        self._turn = 0

    def widen(self, size: int) -> None:
        """Have pieces of at least so many bytes."""
        if not self._memory or self._memory[0].nbytes < size:
            self.stream.synchronize()
            pinned = (self._module.cuda.alloc_pinned_memory(size) for _ in range(2))
            self._memory = [np.frombuffer(memory, np.uint8, size) for memory in pinned]

    def next_piece(self, like: np.ndarray) -> _Piece:
        """Return the next piece, with the shape and dtype of `like`."""
        self._turn = 1 - self._turn
        values = self._memory[self._turn][: like.nbytes].view(like.dtype).reshape(like.shape)
        return _Piece(self._module, self.stream, self._events[self._turn], values, int(values.ctypes.data))


class _Piece(NamedTuple):
    """A piece of pinned memory, and the event after which its last copy is over."""

    module: Any
    stream: Any
    event: Any
    values: np.ndarray
    address: int

    def wait(self) -> None:
        """Return when its last copy is over."""
        if not self.event.done:
            self.event.synchronize()

    def copy(self, target: int, source: int, kind: int) -> None:
        """Enqueue a copy of it, between addresses."""
        self.module.cuda.runtime.memcpyAsync(target, source, self.values.nbytes, kind, self.stream.ptr)
        self.event.record(self.stream)


def _pieces(rows: slice, x: np.ndarray) -> Iterator[slice]:
    step = max(PIECE // max(x[:1].nbytes, 1), 1)
    return (slice(first, min(first + step, rows.stop)) for first in range(rows.start, rows.stop, step))


def _address(x: Any, rows: slice) -> int:
    return int(x.data.ptr + rows.start * x[:1].nbytes)
