"""A module `cupy` without a GPU, as far as the engines between GPUs use it: streams, events, copies, handles of memory.

Work is only enqueued, as on a GPU. When the host waits, one stream runs as far ahead of the other as events allow, the
first or the last one made, by choice: an event that is missing lets a product read what has not arrived, or a copy
overwrite what is still in use. Memory is shared between processes by its handle, as by CUDA IPC.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from typing import Any, ClassVar, Self

import numpy as np

from tests._support.fake_arrays import Array

CLOSED = list[int]()  # addresses that were opened and closed again


class Stream:
    """A queue of work."""

    every: ClassVar[list[Stream]] = []
    newest_first = False

    def __init__(self, non_blocking: bool = False) -> None:
        self.ptr, self._work, self._done = len(Stream.every), list[Callable[[], object]](), 0
        Stream.every.append(self)

    def add(self, work: Callable[[], object]) -> None:
        self._work.append(work)

    def run_to(self, position: int) -> None:
        while self._done < position:
            self._done += 1
            self._work[self._done - 1]()

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.stream, event.position = self, len(self._work)
        return event

    def wait_event(self, event: Event) -> None:
        stream, position = event.stream, event.position
        assert stream is not None
        self.add(lambda: stream.run_to(position))

    def synchronize(self) -> None:
        for stream in reversed(Stream.every) if Stream.newest_first else list(Stream.every):
            stream.run_to(len(stream._work))

    def __enter__(self) -> Self:
        _current.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.pop()


class Event:
    stream: Stream | None = None
    position = 0

    def record(self, stream: Stream) -> None:
        stream.record(self)


_current = [Stream()]


class Memory:
    """Memory that another process can map."""

    every: ClassVar[dict[int, Memory]] = {}

    def __init__(self, size: int) -> None:
        self._file = os.memfd_create("fake-gpu")
        os.ftruncate(self._file, size)
        self.buffer = mmap.mmap(self._file, size)
        self.ptr = _address(self.buffer)
        self.handle = f"/proc/{os.getpid()}/fd/{self._file}".encode()
        Memory.every[self.ptr] = self


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object) -> None:
        self.ptr, self.buffer = ptr, (ctypes.c_char * size).from_address(ptr)


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset


class Queued(Array):
    """An array on the only GPU; what is assigned to it is assigned in the current stream."""

    def __init__(self, shape: Any, dtype: Any, memptr: MemoryPointer) -> None:
        super().__init__(np.ndarray(shape, dtype, buffer=memptr.mem.buffer))

    def _like(self, values: Any) -> Queued:
        return _queued(values)

    def __setitem__(self, at: Any, x: Any) -> None:
        target, source = self.values[at], values_of(x)
        _current[-1].add(lambda: np.copyto(target, source))

    def get(self, stream: Stream | None = None) -> np.ndarray:
        (stream or _current[-1]).synchronize()
        return self.values.copy()

    def set(self, x: np.ndarray, stream: Stream) -> None:
        stream.add(lambda: np.copyto(self.values, x))


Queued.__module__ = "cupy"


def _queued(values: Any) -> Queued:
    made = Queued.__new__(Queued)
    Array.__init__(made, values)
    return made


def values_of(x: Any) -> Any:
    """Return the values of an array, wherever it lies."""
    return x.values if isinstance(x, Array) else x


def _address(buffer: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _new(shape: Any, dtype: Any = float) -> Queued:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = types.SimpleNamespace(buffer=np.full(max(size, 1), 0xA5, np.uint8), ptr=0)
    return Queued(shape, np.dtype(dtype), MemoryPointer(memory, 0))


def _asarray(x: Any) -> Queued:
    return x if isinstance(x, Queued) else _queued(np.array(x))


def _copy(target: int, source: int, size: int, kind: int, stream: int) -> None:
    Stream.every[stream].add(lambda: ctypes.memmove(target, source, size))


def _copy_rows(target: int, pitch: int, source: int, apart: int, width: int, rows: int, kind: int, stream: int) -> None:
    for row in range(rows):
        _copy(target + row * pitch, source + row * apart, width, kind, stream)


def _open(handle: bytes) -> int:
    file = os.open(handle, os.O_RDWR)
    mapped = mmap.mmap(file, os.fstat(file).st_size)
    os.close(file)
    _mapped.append(mapped)
    return _address(mapped)


_mapped: list[mmap.mmap] = []


def _ufunc(name: str) -> Callable[[Any, Any, Any], None]:
    function = getattr(np, name)
    return lambda x, y, out: _current[-1].add(lambda: function(*map(values_of, (x, y)), out=out.values))


@contextlib.contextmanager
def _device(index: int = 0) -> Iterator[None]:
    yield


def install(*, newest_first: bool = False) -> types.ModuleType:
    """Have ``import cupy`` find this."""
    Stream.newest_first = newest_first
    runtime = types.SimpleNamespace(
        CUDARuntimeError=RuntimeError,
        memcpyDeviceToDevice=3,
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        deviceGetPCIBusId=str,
        deviceGetByPCIBusId=int,
        deviceCanAccessPeer=lambda here, there: True,
        memcpyAsync=_copy,
        memcpy2DAsync=_copy_rows,
        ipcGetMemHandle=lambda address: Memory.every[address].handle,
        ipcOpenMemHandle=_open,
        ipcCloseMemHandle=CLOSED.append,
    )
    cuda = types.ModuleType("cupy.cuda")
    cuda.__dict__.update(
        runtime=runtime, Stream=Stream, Event=Event, Memory=Memory, UnownedMemory=UnownedMemory, Device=_device,
        MemoryPointer=MemoryPointer, get_current_stream=lambda: _current[-1], get_elapsed_time=lambda x, y: 0.5,
        nccl=types.SimpleNamespace(available=False),
    )  # fmt: skip
    cupy, cupyx = types.ModuleType("cupy"), types.ModuleType("cupyx")
    cupy.__spec__ = ModuleSpec("cupy", None)
    names = "add", "multiply", "minimum", "maximum", "fmin", "fmax", "logaddexp", "logical_or", "logical_xor"
    cupy.__dict__.update({name: _ufunc(name) for name in names}, cuda=cuda, ndarray=Queued, empty=_new)
    cupy.__dict__.update(asarray=_asarray, arange=lambda *given, **how: _queued(np.arange(*given, **how)))
    cupy.__dict__["get_default_memory_pool"] = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    cupyx.__dict__["empty_pinned"] = np.empty
    sys.modules.update({"cupy": cupy, "cupy.cuda": cuda, "cupyx": cupyx})
    return cupy
