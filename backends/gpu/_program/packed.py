"""A program with its arguments packed once: to compute with other arrays, a few addresses are written anew.

A kernel takes an array of pointers to its arguments. Arguments that are the same place in a buffer share one slot of 8
bytes, so a whole program has only as many addresses to write as it has such places. Programs that differ in sizes alone
share their `Packing`. Nothing here allocates memory of the GPU, waits, or depends on values.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import operator
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from backends.gpu._cuda import device
from backends.gpu._cuda.kernel_files import compile_together, load_kernel
from backends.gpu._cuda.launches import Launch, Launches, Routine
from backends.gpu._program.program import Kernel, Place, Program, Step
from backends.gpu._program.symbols import Symbol
from backends.gpu._program.tensor_map import MAP_ALIGNMENT, MAP_BYTES, TensorMap

_SLOT = 8  # bytes of every argument but a tensor map
_SCRATCH_ALIGNMENT = 256  # bytes, as of cudaMalloc
_DIMENSIONS = 3

# Kernels that are loaded, by the number of their GPU: an object for a kernel is found faster than all of its macros.
_functions: dict[tuple[int, Kernel], Any] = {}


class _Slots:
    """Positions of arguments in a block of memory, counted in slots; equal arguments share one."""

    def __init__(self) -> None:
        self.count = 0
        self.of: dict[Place | bytes, int] = {}  # places in buffers, and bytes of values or of names of symbols
        self.symbols: dict[bytes, Symbol] = {}
        self.maps: list[tuple[int, TensorMap, int]] = []  # position, map, and slot of the address that it describes

    def add(self, x: Any) -> int:
        """Return the slot of an argument."""
        if isinstance(x, TensorMap):
            aligned = MAP_ALIGNMENT // _SLOT
            address, self.count = self.add(x.place), -(-self.count // aligned) * aligned
            self.maps.append((self.count, x, address))
            self.count += MAP_BYTES // _SLOT
            return self.maps[-1][0]
        if isinstance(x, Symbol):
            key = f"symbol {x.name}".encode()
            self.symbols[key] = x
        else:
            key = x if isinstance(x, Place) else x.tobytes()
        slot = self.of.get(key)
        if slot is None:
            slot = self.of[key] = self.count
            self.count += 1
        return slot


class Numbers(NamedTuple):
    """All of a packed program that depends on sizes.

    Attributes
    ----------
    scratch_bytes, zeroed_bytes : int
        Size of the block that holds all scratch of the program, and of the part at its beginning that holds zeros
        before a launch on a block that the program has not used yet.
    slots : tuple of int
        What is in every slot, 0 for addresses and tensor maps.
    addresses : tuple of (int, int, int)
        Slot, number of the buffer, and offset in bytes.
    grids : tuple of (int, int, int)
    maps : tuple of (int, TensorMap, int)
        Position, map, and slot of the address that it describes.
    """

    scratch_bytes: int
    zeroed_bytes: int
    slots: tuple[int, ...]
    addresses: tuple[tuple[int, int, int], ...]
    grids: tuple[tuple[int, ...], ...]
    maps: tuple[tuple[int, TensorMap, int], ...]


class Packing:
    """How a program is packed on the current GPU, where its kernels are loaded: for any `Numbers`.

    Parameters
    ----------
    program : Program
    itemsizes : mapping
        Bytes of an element of each buffer that is not scratch, in the order in which `launch` takes their addresses.

    Attributes
    ----------
    numbers : Numbers
        Those of `program`: of symbols if its sizes are.
    """

    def __init__(self, program: Program, itemsizes: Mapping[str, int]) -> None:
        self._index = device.current_index()
        if new := [k for k in program.kernels() if (self._index, k) not in _functions]:
            kernels = {(k.stem, k.defines, k.suffix) for k in new}
            compile_together(kernels, lambda: program.alike(kernels))
            for k in new:
                function = load_kernel(k.stem, k.defines, k.function, k.shared_bytes, k.suffix)
                _functions[self._index, k] = function
        slots = _Slots()
        arguments = [tuple([slots.add(x) for x in step.arguments]) for step in program.steps]
        values: list[Any] = [0] * slots.count
        addresses = []
        scratch_bytes, zeroed_bytes, buffers = _lay_out(program, itemsizes)
        for x, slot in slots.of.items():
            if isinstance(x, Place):
                number, begin, itemsize = buffers[x.buffer]
                addresses.append((slot, number, begin + x.offset * itemsize))
            else:
                values[slot] = slots.symbols[x] if x in slots.symbols else int.from_bytes(x, sys.byteorder)
        grids = tuple([_three(getattr(step, "grid", ())) for step in program.steps])
        self.numbers = Numbers(scratch_bytes, zeroed_bytes, tuple(values), tuple(addresses), grids, tuple(slots.maps))
        self._steps = [x.kernel if isinstance(x, Step) else x.load for x in program.steps], arguments
        self._idle: list[_Frame] = []  # those that no thread uses now

    def launch(self, numbers: Numbers, addresses: Sequence[int], stream: int) -> None:
        """Launch every step, as `PackedProgram.launch`."""
        try:
            frame = self._idle.pop()
        except IndexError:  # several threads launch it at once, or none has yet
            frame = _Frame(self._index, *self._steps, len(numbers.slots))
        try:
            if frame.only is not None and frame.numbers is numbers and not numbers.maps:
                frame.only.launch(addresses, stream)
            else:
                frame.launch(numbers, addresses, stream)
        finally:
            self._idle.append(frame)


class _Frame:
    """Memory for the arguments of all launches, and what launches them. Not for two threads at once.

    Attributes
    ----------
    numbers : Numbers or None
        Those that were launched last.
    only : Launches or None
        What launches all of it, if no library is called by Python.
    """

    def __init__(self, index: int, steps: list[Any], arguments: list[tuple[int, ...]], count: int) -> None:
        self._raw = ctypes.create_string_buffer(_SLOT * count + MAP_ALIGNMENT)
        self._begin = -(-ctypes.addressof(self._raw) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        self._memory = (ctypes.c_uint64 * count).from_address(self._begin)
        self.numbers: Numbers | None = None
        self._encoded: dict[int, int] = {}
        self._keep: list[Any] = []  # modules of kernels
        chains, parts = device.chains_launches(), list[Any]()
        for number, (step, slots) in enumerate(zip(steps, arguments, strict=True)):
            if isinstance(step, Kernel):
                function = _functions[index, step]
                self._keep.append(function)
                block = *_three(step.block), step.shared_bytes
                part: Any = Launch(function.ptr, block, slots, step.is_chained and number > 0 and chains)
            else:
                part = step()
                part = part._replace(slots=slots) if isinstance(part, Routine) else functools.partial(part, slots)
            parts.append(part)
        # a library that is called by Python has a place of its own between lists of launches
        self._parts, self._ends = list[Any](), list[int]()
        for is_called, group in itertools.groupby(parts, lambda part: isinstance(part, functools.partial)):
            for part in group if is_called else (Launches(list(group), self._begin),):
                self._parts.append(part)
        self.only = self._parts[0] if len(self._parts) == 1 and isinstance(self._parts[0], Launches) else None

    def launch(self, numbers: Numbers, addresses: Sequence[int], stream: int) -> None:
        """Launch every step."""
        if self.numbers is not numbers:
            self._set(numbers)
        if numbers.maps:
            self._encode(numbers, addresses)
        for part in self._parts:
            if isinstance(part, Launches):
                part.launch(addresses, stream)
            else:
                (slots,) = part.args
                part.func(stream, *[addresses[self._at[slot][0]] + self._at[slot][1] for slot in slots])

    def _set(self, numbers: Numbers) -> None:
        self._memory[:], self.numbers = numbers.slots, numbers
        self._at = {slot: (number, offset) for slot, number, offset in numbers.addresses}
        self._encoded.clear()
        grids = iter(numbers.grids)
        for part in self._parts:
            own = list(itertools.islice(grids, len(part) if isinstance(part, Launches) else 1))
            if isinstance(part, Launches):
                part.set(numbers.addresses, own)

    def _encode(self, numbers: Numbers, addresses: Sequence[int]) -> None:
        """Encode the tensor maps of matrices whose address has changed."""
        for position, tensor_map, slot in numbers.maps:
            number, offset = self._at[slot]
            address = addresses[number] + offset
            if self._encoded.get(position) != address:
                tensor_map.encode(address, self._begin + _SLOT * position)
                self._encoded[position] = address


class PackedProgram(NamedTuple):
    """A program on the current GPU, whose kernels are loaded: how it is packed, and what depends on sizes."""

    packing: Packing
    numbers: Numbers

    @classmethod
    def of(cls, program: Program, itemsizes: Mapping[str, int]) -> PackedProgram:
        """Return `program`, packed as by `Packing`."""
        packing = Packing(program, itemsizes)
        return cls(packing, packing.numbers)

    def launch(self, addresses: Sequence[int], stream: int) -> None:
        """Launch every step, by any thread.

        Parameters
        ----------
        addresses : sequence of int
            Of the buffers in the order of `itemsizes`; last that of the scratch, unless `scratch_bytes` is 0.
        stream : int
            Handle of a CUDA stream of the GPU on which this object was made.
        """
        self.packing.launch(self.numbers, addresses, stream)


def launch_all(packed: PackedProgram, addresses: list[int], stream: int, shifts: list[tuple[int, ...]] | None) -> None:
    """Launch a program, or for each of `shifts` with buffers that begin further on; scratch, the last, stays."""
    if shifts is None:
        packed.launch(addresses, stream)
        return
    for shift in shifts:
        packed.launch([*map(operator.add, addresses, shift), *addresses[len(shift) :]], stream)


def _lay_out(program: Program, itemsizes: Mapping[str, int]) -> tuple[int, int, dict[str, tuple[int, int, int]]]:
    """Return the bytes of all scratch, those of its zeros, and for each buffer its number, offset and itemsize."""
    total, zeroed = 0, 0
    buffers = {name: (number, 0, size) for number, (name, size) in enumerate(itemsizes.items())}
    for name in sorted(program.scratch, key=lambda name: name not in program.zeroed):
        elements, dtype = program.scratch[name]
        buffers[name] = len(itemsizes), total, dtype.itemsize
        total += -(-elements * dtype.itemsize // _SCRATCH_ALIGNMENT) * _SCRATCH_ALIGNMENT
        zeroed = total if name in program.zeroed else zeroed
    return total, zeroed, buffers


def _three(extents: tuple[int, ...]) -> tuple[int, ...]:
    return (*extents, *(1,) * (_DIMENSIONS - len(extents)))
