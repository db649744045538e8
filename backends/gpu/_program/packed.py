"""A program with its arguments packed once: to compute with other arrays, a few addresses are written anew.

A kernel takes an array of pointers to its arguments. Arguments that are the same place in a buffer share one slot of 8
bytes, so a whole program has only as many addresses to write as it has such places. Nothing here allocates memory of
the GPU, waits, or depends on values.
"""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backends.gpu._cuda import device
from backends.gpu._cuda.chain import chained_launch
from backends.gpu._cuda.kernel_files import compile_together, load_kernel
from backends.gpu._program.program import Call, Kernel, Place, Program, Step
from backends.gpu._program.tensor_map import MAP_ALIGNMENT, MAP_BYTES, TensorMap

_SLOT = 8  # bytes of every argument but a tensor map
_SCRATCH_ALIGNMENT = 256  # bytes, as of cudaMalloc
_DIMENSIONS = 3

# Launches a step on a stream, given by its handle.
_Launch = Callable[[int], object]


# Kernels that are loaded, by the number of their GPU: an object for a kernel is found faster than all of its macros.
_functions: dict[tuple[int, Kernel], Any] = {}


class _Slots:
    """Positions of arguments in a block of memory, counted in slots; equal arguments share one."""

    def __init__(self) -> None:
        self.count = 0
        self.of: dict[Place | bytes, int] = {}  # places in buffers, and bytes of values
        self.maps: list[tuple[int, TensorMap, int]] = []  # position, map, and slot of the address that it describes

    def add(self, x: Any) -> int:
        """Return the slot of an argument."""
        if isinstance(x, TensorMap):
            aligned = MAP_ALIGNMENT // _SLOT
            address, self.count = self.add(x.place), -(-self.count // aligned) * aligned
            self.maps.append((self.count, x, address))
            self.count += MAP_BYTES // _SLOT
            return self.maps[-1][0]
        key = x if isinstance(x, Place) else x.tobytes()
        slot = self.of.get(key)
        if slot is None:
            slot = self.of[key] = self.count
            self.count += 1
        return slot


class PackedProgram:
    """A program on the current GPU, whose kernels are loaded. Not for two threads at once.

    Parameters
    ----------
    program : Program
    itemsizes : mapping
        Bytes of an element of each buffer that is not scratch, in the order in which `launch` takes their addresses.

    Attributes
    ----------
    program, itemsizes
        The parameters.
    scratch_bytes, zeroed_bytes : int
        Size of the block that holds all scratch of the program, and of the part at its beginning that holds zeros
        before a launch on a block that the program has not used yet.
    """

    def __init__(self, program: Program, itemsizes: Mapping[str, int]) -> None:
        self.program, self.itemsizes = program, itemsizes
        self._index = device.current_index()
        if new := [k for k in program.kernels() if (self._index, k) not in _functions]:
            kernels = {(k.stem, k.defines, k.suffix) for k in new}
            compile_together(kernels, lambda: program.alike(kernels))
            for k in new:
                function = load_kernel(k.stem, k.defines, k.function, k.shared_bytes, k.suffix)
                _functions[self._index, k] = function
        slots = _Slots()
        arguments = [[slots.add(x) for x in step.arguments] for step in program.steps]
        self._raw = ctypes.create_string_buffer(_SLOT * slots.count + MAP_ALIGNMENT)
        self._begin = -(-ctypes.addressof(self._raw) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        self._memory = (ctypes.c_uint64 * slots.count).from_address(self._begin)
        self._maps, self._encoded = slots.maps, {position: -1 for position, *_ in slots.maps}
        self.scratch_bytes, self.zeroed_bytes, buffers = _lay_out(program, itemsizes)
        self._addresses: list[tuple[int, int, int]] = []  # slot, number of the buffer, offset in bytes
        for x, slot in slots.of.items():
            if isinstance(x, Place):
                number, begin, itemsize = buffers[x.buffer]
                self._addresses.append((slot, number, begin + x.offset * itemsize))
            else:
                self._memory[slot] = int.from_bytes(x, sys.byteorder)
        self._keep: list[Any] = []
        self._launches = [self._bind(*pair) for pair in zip(program.steps, arguments, strict=True)]

    def launch(self, addresses: Sequence[int], stream: int) -> None:
        """Launch every step.

        Parameters
        ----------
        addresses : sequence of int
            Of the buffers in the order of `itemsizes`; last that of the scratch, unless `scratch_bytes` is 0.
        stream : int
            Handle of a CUDA stream of the GPU on which this object was made.
        """
        memory = self._memory
        for slot, number, offset in self._addresses:
            memory[slot] = addresses[number] + offset
        if self._maps:
            self._encode_maps()
        for launch in self._launches:
            launch(stream)

    def _encode_maps(self) -> None:
        """Encode the tensor maps of matrices whose address has changed."""
        for position, tensor_map, slot in self._maps:
            address = self._memory[slot]
            if self._encoded[position] != address:
                tensor_map.encode(address, self._begin + _SLOT * position)
                self._encoded[position] = address

    def _bind(self, step: Step | Call, slots: list[int]) -> _Launch:
        """Return a function that launches `step` with the arguments in `slots`."""
        if isinstance(step, Call):
            memory, call = self._memory, step.load()
            return lambda stream: call(stream, *[memory[slot] for slot in slots])
        kernel = step.kernel
        function = _functions[self._index, kernel]
        pointers = (ctypes.c_void_p * len(slots))(*(self._begin + _SLOT * slot for slot in slots))
        sizes = *_three(step.grid), *_three(kernel.block), kernel.shared_bytes
        self._keep += function, pointers  # the module, and what `parameters` points to
        launch_kernel, handle = device.cupy().cuda.driver.launchKernel, function.ptr
        parameters = ctypes.addressof(pointers)
        if kernel.is_chained and step is not self.program.steps[0] and device.chains_launches():
            return chained_launch(handle, sizes, parameters)
        return lambda stream: launch_kernel(handle, *sizes, stream, parameters, 0)


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
