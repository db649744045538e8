"""Panels through the memory of the host: down from the GPU that holds them, over MPI, and up to each GPU.

It needs nothing of GPUs but copies to and from the host, so it works anywhere. What it costs is what the engines save.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.distributed.transport.base import Side
from harness.distributed.transport.device import DeviceTransport

DOWN, UP = "device to host", "host to device"


class Staged(DeviceTransport):
    """MPI between hosts. They take part in every copy; GPUs compute meanwhile if panels are in flight."""

    name = "staged"

    def fetch(self, side: Side, owner: int, begin: int, end: int, own: Any, target: Any) -> None:
        """Broadcast a panel over MPI."""
        host = pinned(target.shape, target.dtype)
        if own is not None:
            self._down(own, host)
        with self.stages.timed(side.fibre.stage):
            side.fibre.broadcast(host, owner)
        if own is None:
            self._up(host, target)

    def partials(self, partial: Any, shape: tuple[int, int]) -> Iterator[tuple[int, Any]]:
        """Exchange the rows of all partial sums over MPI."""
        fibre, host = self.fibres.layer, pinned(partial.shape, partial.dtype)
        self.compute.synchronize()  # the partial sum is complete
        self._down(partial, host)
        others = [rank for rank in range(fibre.size) if rank != fibre.rank]
        arrived = {rank: pinned(shape, partial.dtype) for rank in others}
        sent = [(rank, host[self.d_cuts[rank] : self.d_cuts[rank + 1]]) for rank in others]
        fibre.exchange(sent, list(arrived.items()))
        target = self.cupy.empty(shape, partial.dtype)
        for rank in range(fibre.size):
            if rank in arrived:
                self.compute.synchronize()  # `target` has been combined
                self._up(arrived[rank], target)
            yield rank, target

    def _down(self, source: Any, host: Any) -> None:
        """Copy to the host, and return when it is there."""
        with self.stages.timed(DOWN), self.copies:
            host[...] = source.get(stream=self.copies)

    def _up(self, host: Any, target: Any) -> None:
        """Copy to the GPU, and return when it is there: the host's buffer is free then."""
        with self.stages.timed(UP), self.copies:
            target.set(host, stream=self.copies)
            self.copies.synchronize()


def pinned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialised array on the host that copy engines read and write by themselves."""
    import cupyx

    made: np.ndarray = cupyx.empty_pinned(shape, dtype) if math.prod(shape) else np.empty(shape, dtype)
    return made
