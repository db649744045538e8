"""Copy engines: each rank opens the memory of its peers once, and then pulls panels and partial sums out of it.

The engines that copy are units of their own, which take no multiprocessor from a product. No rank sends. Each takes
panels in an order of its own, and begins with one of which most sides are its own. So it has work at once, and ranks do
not all read from one.

Between processes memory is opened by handles of CUDA IPC, so all ranks must run on one host.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from harness.distributed.transport.base import Side
from harness.distributed.transport.device import DeviceTransport, panel_of
from harness.distributed.transport.mpi import Fibre


class CopyEngines(DeviceTransport):
    """One-sided copies between GPUs of one host."""

    name = "copy"

    def ordered(self, panels: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Begin with the panel of which most sides are this rank's own, and go on in the order of k, round."""

        def own_sides(at: int) -> int:
            return sum(side.fibre.size == 1 or side.owner(panels[at][0]) == side.fibre.rank for side in self.sides)

        start = max(range(len(panels)), key=own_sides, default=0)
        return panels[start:] + panels[:start]

    def offer(self, a: Any, b: Any, partial: Any) -> None:
        """Open what the others of each fibre hold."""
        self._opened: list[int] = []
        self._others = {side.name: self._open(side.fibre, x) for side, x in zip(self.sides, (a, b), strict=True)}
        self._partials = [] if partial is None else self._open(self.fibres.layer, partial)

    def begin(self) -> None:
        """Return when the pieces of all ranks that this one reads are there, and their last product is over."""
        for fibre in self.fibres:
            fibre.meet()

    def fetch(self, side: Side, owner: int, begin: int, end: int, own: Any, target: Any) -> None:
        """Pull a panel."""
        if own is None:
            with self.timed(side.fibre.stage, self.copies):
                self.pull(side.fibre, panel_of(side, self._others[side.name][owner], begin, end, owner), target)

    def pull(self, fibre: Fibre, source: Any, target: Any) -> None:
        """Enqueue a copy of rows, apart or not, to an array without gaps, in the stream of copies."""
        fibre.stages.received(fibre.stage, target.size)
        runtime = self.cupy.cuda.runtime
        rows, width = source.shape[0], source.shape[1] * source.itemsize
        if not source.size:
            return
        kind, stream = runtime.memcpyDeviceToDevice, self.copies.ptr
        apart = source.strides[0] if rows > 1 else width
        if apart == width:
            runtime.memcpyAsync(target.data.ptr, source.data.ptr, rows * width, kind, stream)
        else:
            runtime.memcpy2DAsync(target.data.ptr, width, source.data.ptr, apart, width, rows, kind, stream)

    def partials(self, partial: Any, shape: tuple[int, int]) -> Iterator[tuple[int, Any]]:
        """Pull this rank's rows of each partial sum when all are complete."""
        fibre = self.fibres.layer
        self.compute.synchronize()
        fibre.meet()
        row, arrived = self.d_cuts[fibre.rank], self.cupy.empty(shape, partial.dtype)
        for rank in range(fibre.size):
            if rank != fibre.rank:
                self.copies.wait_event(self.compute.record())  # `arrived` has been combined
                self.pull(fibre, self._partials[rank][row : row + shape[0]], arrived)
                self.compute.wait_event(self.copies.record())
            yield rank, arrived

    def close(self) -> None:
        """Close what has been opened; then its owners may free it."""
        for address in self._opened:
            self.cupy.cuda.runtime.ipcCloseMemHandle(address)
        self._opened, self._others, self._partials = [], {}, []
        self.begin()

    def _open(self, fibre: Fibre, x: Any) -> list[Any]:
        """Return the arrays that the ranks of a fibre have in the place of `x`; None in its own."""
        if fibre.size == 1:
            return [None]
        self.cupy.cuda.get_current_stream().synchronize()
        runtime = self.cupy.cuda.runtime
        handles = fibre.comm.allgather((runtime.ipcGetMemHandle(x.data.ptr), x.shape))
        arrays: list[Any] = [None] * fibre.size
        for rank, (handle, shape) in enumerate(handles):
            if rank != fibre.rank:
                address = runtime.ipcOpenMemHandle(handle)
                self._opened.append(address)
                memory = self.cupy.cuda.UnownedMemory(address, math.prod(shape) * x.itemsize, self)
                arrays[rank] = self.cupy.ndarray(shape, x.dtype, self.cupy.cuda.MemoryPointer(memory, 0))
        return arrays


def can_open(device_ids: list[str]) -> bool:
    """Return whether the current GPU can read the memory of the GPUs of these PCI bus numbers, on this host."""
    import cupy

    runtime = cupy.cuda.runtime
    here = runtime.getDevice()
    for device_id in device_ids:
        with contextlib.suppress(runtime.CUDARuntimeError):
            there = runtime.deviceGetByPCIBusId(device_id)
            if there == here or runtime.deviceCanAccessPeer(here, there):
                continue
        return False
    return True
