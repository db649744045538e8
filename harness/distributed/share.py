"""The share of one rank in a product: its pieces of A, B, C and D, taken from any layout and given to any.

The pieces are allocated once. A rank beyond the grid is idle: it has no pieces, but may hold operands otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.distributed.arrays import HOST, GpuArrays
from harness.distributed.grid import Decomposition, Rectangle
from harness.distributed.product import Local, RankProduct
from harness.distributed.redistribute import NOTHING, redistribute
from harness.distributed.stages import Stages
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.choice import choose_transport
from harness.distributed.transport.comms import Comms
from harness.distributed.transport.shared_memory import SharedMemory
from harness.distributed.transport.stealing import StealingProduct, steals
from harness.problem import Problem


class Share:
    """Pieces of one product on one rank.

    Parameters
    ----------
    comms : Comms
    sizes : Decomposition
    problem : Problem
        The whole product.
    local : Local
    schedule : Schedule
    on_device : bool
        Whether the pieces lie on GPUs, each rank's on its current one.
    wholes : mapping of str to array, optional
        Whole A, B, D, and C if there is one, in memory that all ranks share: pieces are parts of these. All ranks must
        run on one host, and none may be idle.
    stages : Stages, optional
        Where it counts on, after what its caller has counted.

    Attributes
    ----------
    transport : str
        The way between ranks: ``"mpi"``, or the engine between GPUs that was chosen.
    steals : bool
        Whether ranks that are done compute parts of others.

    Raises
    ------
    DistributedError
        On all ranks, see `harness.distributed.transport.choice.choose_transport`.
    """

    def __init__(
        self,
        comms: Comms,
        sizes: Decomposition,
        problem: Problem,
        local: Local,
        schedule: Schedule,
        *,
        on_device: bool = False,
        wholes: Mapping[str, np.ndarray] | None = None,
        stages: Stages | None = None,
    ) -> None:
        self.stages, self.sizes, self.problem = stages or Stages(), sizes, problem
        self.world = comms.everyone(self.stages, schedule.largest_message)
        self.rank, is_idle = self.world.rank, not comms.fibres
        transport = choose_transport(comms.world, sizes, schedule, on_device=on_device)
        self.transport = transport.name
        self.arrays = GpuArrays() if on_device else HOST
        d_shape = self.layout("d")[self.rank].shape
        with self.stages.timed("allocate"):
            self.pieces = {
                name: self.arrays.empty(d_shape, problem.dtype)
                if wholes is None
                else wholes[name][self.layout(name)[self.rank].slices]
                for name in "dc"[: 1 + problem.accumulate]
            }
        self._product, self._stealing = None, None
        self.steals = wholes is not None and steals(sizes, problem, schedule, self.world.size)
        if is_idle:
            self.pieces |= {name: self.arrays.empty((0, 0), problem.input_dtype) for name in "ab"}
            return
        fibres = comms.along(self.stages, schedule.largest_message)
        way = transport(sizes, problem, self.rank, fibres, self.stages, schedule)
        if wholes is not None:
            assert isinstance(way, SharedMemory)
            way.lend(wholes)
        with self.stages.timed("allocate"):
            self.pieces |= {side.name: way.piece(side) for side in way.sides}
        if self.steals:
            assert wholes is not None
            local = self._stealing = StealingProduct(comms.world, sizes, wholes, local, self.stages)
        self._product = RankProduct(sizes, problem, way, local, self.pieces["a"], self.pieces["b"])

    @property
    def bytes_used(self) -> int:
        """Bytes that it has allocated."""
        held = sum(int(array.nbytes) for array in self.pieces.values())
        return held + (self._product.bytes_used if self._product else 0)

    def layout(self, name: str) -> list[Rectangle]:
        """Return the rectangle of the matrix ``"a"``, ``"b"``, ``"c"`` or ``"d"`` that each rank has a piece of."""
        piece = {"a": self.sizes.a, "b": self.sizes.b}.get(name, self.sizes.d)
        used = self.sizes.grid.size
        return [piece(rank) if rank < used else NOTHING for rank in range(self.world.size)]

    def take(self, name: str, held: Any, source: Sequence[Rectangle]) -> None:
        """Fill the piece `name` from a matrix of which every rank holds its rectangle of `source`."""
        self._move("redistribute", held, source, self.pieces[name], self.layout(name))

    def multiply(self) -> None:
        """Compute the piece of D from those of A, B and C; all ranks must call it."""
        if self._product is not None:
            self._product.run(self.pieces.get("c"), self.pieces["d"])

    def give(self, out: Any, target: Sequence[Rectangle]) -> None:
        """Fill `out`, the rank's rectangle of `target`, from the pieces of D."""
        self._move("collect", self.pieces["d"], self.layout("d"), out, target)

    def close(self) -> None:
        """Let go of what other ranks hold, so that they may free it; all ranks must call it."""
        if self._product is not None:
            self._product.transport.close()
        if self._stealing is not None:
            self._stealing.close()

    def _move(self, stage: str, held: Any, source: Sequence[Rectangle], out: Any, target: Sequence[Rectangle]) -> None:
        """Fill `out` from what all ranks hold. Between GPUs, it goes through the memory of the hosts."""
        if source == target:
            with self.stages.timed(stage):
                self.arrays.fill(out, held)
            return
        host_held, host_out = held, out
        if not isinstance(held, np.ndarray):
            with self.stages.timed("device to host"):
                host_held = self.arrays.to_host(held)
        if not isinstance(out, np.ndarray):
            host_out = np.empty(out.shape, out.dtype)
        with self.stages.timed(stage):
            redistribute(self.world, host_held, source, target, host_out)
        if host_out is not out:
            with self.stages.timed("host to device"):
                self.arrays.fill(out, host_out)
