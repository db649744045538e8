"""Launches of kernels and calls of libraries as a list that one compiled function works off (`_ir.call_list`).

A kernel that may begin while the one before it ends is launched by the driver's cuLaunchKernelEx, which CuPy does not
offer.

Source: CUDA driver API, cuLaunchKernel, CUlaunchConfig, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.errors import BackendUnavailable, HarnessError

# CUlaunchAttribute: its number, and a value of 64 bytes, here the int 1.
_SERIALIZATION = (ctypes.c_uint64 * 9)(6, 1)
_MOST_ADDRESSES = 24
_STREAM, _CONTEXT, _FIRST = range(3)  # numbers of values: a stream, a context, and addresses
_writers = [struct.Struct(f"{_FIRST + count}Q").pack_into for count in range(_MOST_ADDRESSES)]

Grid = tuple[int, ...]


class Launch(NamedTuple):
    """A launch of a kernel.

    Attributes
    ----------
    function : int
        Handle.
    block : tuple of int
        Its three extents, and the dynamic shared memory of a block in bytes.
    slots : tuple of int
        Where its arguments lie, in words.
    is_chained : bool
        Whether it may begin while the launch before it ends, for which it waits itself (chain.cuh).
    """

    function: int
    block: tuple[int, ...]
    slots: tuple[int, ...]
    is_chained: bool


class Given(NamedTuple):
    """An argument of a routine that differs from call to call: an address, by its number, or one of those below."""

    number: int


STREAM, CONTEXT = Given(-1), Given(-2)


class Contexts(NamedTuple):
    """Contexts of a library, of which one thread uses each at a time.

    Attributes
    ----------
    spare : list of int
        Those that no thread uses now.
    create : callable
        Returns a new one.
    set_stream : int
        Address of what sets a context's stream.
    """

    spare: list[int]
    create: Callable[[], int]
    set_stream: int


class Routine(NamedTuple):
    """A routine of a library in C.

    Attributes
    ----------
    address : int
    arguments : tuple of int or Given
    check : callable
        Raises if a status is not that of success.
    keep : object
        What arguments point to.
    contexts : Contexts or None
        If it takes one, whose stream is set before.
    slots : tuple of int
        Where the addresses lie that it takes, in words.
    """

    address: int
    arguments: tuple[int | Given, ...]
    check: Callable[[int], None]
    keep: Any
    contexts: Contexts | None = None
    slots: tuple[int, ...] = ()


class Launches:
    """Launches and calls, one after the other, by one compiled function. Not for two threads at once.

    Parameters
    ----------
    steps : sequence of Launch or Routine
    begin : int
        Address of the words that `slots` count.
    """

    def __init__(self, steps: Sequence[Launch | Routine], begin: int) -> None:
        from backends.cpu._ir import call_list  # compiled code, which nobody needs to list backends

        self._steps, self._begin, self._call = steps, begin, call_list.caller()
        words = ctypes.c_uint64
        count = sum(2 if isinstance(step, Routine) and step.contexts else 1 for step in steps)
        self._calls = (words * (call_list.CALL_WORDS * count))()
        self._configs = (words * 7 * len(steps))()
        self._values = (words * (_FIRST + _MOST_ADDRESSES))()
        self._list, self._keep = (words * call_list.LIST_WORDS)(), list[Any]()
        self._address = ctypes.addressof(self._list)
        self._fixed: list[int] = []  # settings of streams and contexts
        self._grids: list[Callable[[Grid], None] | None] = []
        self._checks: list[Callable[[int], None]] = []
        self._contexts: Contexts | None = None
        copies: list[int] = []
        for number, step in enumerate(steps):
            call = ctypes.addressof(self._calls) + 8 * call_list.CALL_WORDS * len(self._checks)
            if isinstance(step, Launch):
                self._add_launch(step, call, number)
            else:
                copies += self._add_routine(step, call, 8 * call_list.CALL_WORDS)
        self._copies = (words * len(copies))(*copies)
        self._list[2:7] = (
            len(copies) // call_list.COPY_WORDS, ctypes.addressof(self._copies), count,
            ctypes.addressof(self._calls), ctypes.addressof(self._values),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._steps)

    def _add_launch(self, step: Launch, call: int, number: int) -> None:
        pointers = (ctypes.c_void_p * len(step.slots))(*(self._begin + 8 * slot for slot in step.slots))
        self._keep.append(pointers)
        parameters, (x, y, z, shared) = ctypes.addressof(pointers), step.block
        self._checks.append(_check_launch)
        if not step.is_chained:
            words = _words_at(call, 12)
            words[:] = function_of_driver("cuLaunchKernel"), step.function, 1, 1, 1, x, y, z, shared, 0, parameters, 0
            self._fixed += call + 8 * 9, _STREAM, 0

            def set_grid(grid: Grid) -> None:
                words[2:5] = grid

        else:
            config = self._configs[number]
            begin = ctypes.addressof(config)
            _words_at(call, 5)[:] = function_of_driver("cuLaunchKernelEx"), begin, step.function, parameters, 0
            sizes = (ctypes.c_uint32 * 7).from_address(begin)
            sizes[3:7] = x, y, z, shared
            config[5], config[6] = ctypes.addressof(_SERIALIZATION), 1
            self._fixed += begin + 8 * 4, _STREAM, 0

            def set_grid(grid: Grid) -> None:
                sizes[:3] = grid

        self._grids.append(set_grid)

    def _add_routine(self, step: Routine, call: int, size: int) -> list[int]:
        """Add the call, behind the setting of the stream if a context has one; return its copies."""
        self._grids.append(None)
        self._keep.append(step.keep)
        if step.contexts is not None:
            self._contexts = step.contexts
            _words_at(call, 1)[:] = (step.contexts.set_stream,)
            self._fixed += call + 8, _CONTEXT, 0, call + 16, _STREAM, 0
            self._checks.append(step.check)
            call += size
        self._checks.append(step.check)
        words, copies = _words_at(call, 1 + len(step.arguments)), list[int]()
        words[0] = step.address
        for number, x in enumerate(step.arguments, 1):
            place = call + 8 * number
            if not isinstance(x, Given):
                words[number] = x
            elif x in (STREAM, CONTEXT):
                self._fixed += place, _STREAM if x == STREAM else _CONTEXT, 0
            else:
                copies += self._begin + 8 * step.slots[x.number], place
        return copies

    def set(self, addresses: Sequence[tuple[int, int, int]], grids: Sequence[Grid]) -> None:
        """Set what depends on sizes.

        Parameters
        ----------
        addresses : sequence of (int, int, int)
            Word, number of an address of `launch`, and offset in bytes.
        grids : sequence of tuple of int
            Three extents for each step.
        """
        settings = [*self._fixed]
        for slot, number, offset in addresses:
            settings += self._begin + 8 * slot, _FIRST + number, offset
        self._settings = (ctypes.c_uint64 * len(settings))(*settings)
        self._list[0], self._list[1] = len(settings) // 3, ctypes.addressof(self._settings)
        for set_grid, grid in zip(self._grids, grids, strict=True):
            if set_grid is not None:
                set_grid(grid)

    def launch(self, addresses: Sequence[int], stream: int) -> None:
        """Set the addresses, and launch.

        Raises
        ------
        HarnessError
            If the driver, or a library, refuses it.
        """
        contexts = self._contexts
        if contexts is None:
            _writers[len(addresses)](self._values, 0, stream, 0, *addresses)
            status = self._call(self._address)
        else:
            try:
                context = contexts.spare.pop()
            except IndexError:  # other threads have them all
                context = contexts.create()
            _writers[len(addresses)](self._values, 0, stream, context, *addresses)
            status = self._call(self._address)
            contexts.spare.append(context)
        if status:
            self._checks[(status >> 32) - 1](status & 0xFFFFFFFF)


def _words_at(address: int, count: int) -> Any:
    return (ctypes.c_uint64 * count).from_address(address)


def _check_launch(status: int) -> None:
    raise HarnessError("a kernel cannot be launched", got=f"CUDA error {status} (cuda.h, CUresult)")


@functools.cache
def function_of_driver(name: str) -> int:
    """Return the address of a function of the driver.

    Raises
    ------
    BackendUnavailable
        If its library cannot be loaded.
    """
    try:
        return address_of(ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1"), name)
    except OSError as error:
        raise BackendUnavailable("the NVIDIA driver's library cannot be loaded", got=str(error)) from None


def address_of(library: Any, name: str) -> int:
    """Return the address of a function of a library that `ctypes` has loaded."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
