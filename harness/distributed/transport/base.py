"""Transport of panels of A and B, and of partial sums of D, from other ranks.

`RankProduct` knows the sum, a `Transport` knows the way. Host and GPUs differ in it, and so do the engines between
GPUs: a subclass says how one panel arrives and how partial sums are combined.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from harness.distributed.arrays import HOST, HostArrays
from harness.distributed.grid import Cuts, Decomposition
from harness.distributed.reduction import EXCHANGE
from harness.distributed.stages import Stages
from harness.distributed.transport.comms import Fibres
from harness.distributed.transport.mpi import LARGEST_MESSAGE, Fibre
from harness.problem import Problem
from harness.tuning.distributed import GPU_PANELS, HOST_PANELS

AUTO = "auto"


@dataclass(frozen=True)
class Schedule:
    """How panels are gathered, and how partial sums are reduced.

    Parameters
    ----------
    panel : int
        Elements of k gathered at a time; 0: all.
    in_flight : int
        1: gather, then compute. 2 or more: that many panels are gathered ahead, the one in use included.
    reduction : str
        One of `harness.distributed.reduction.METHODS`. GPUs exchange partial sums whatever it says.
    largest_message : int
        Bytes of a message over MPI.
    transport : str
        One of `harness.distributed.transport.choice.ENGINES`: how panels travel between GPUs. On processors
        `Decomposition.hosts` says which ranks share memory.
    share_gpu : bool
        Whether several ranks may compute on one GPU. Engines then do all that they do, and nothing is faster.
    steal : int or str
        1: ranks that are done compute parts of others, where `harness.distributed.transport.stealing` can; 0: never;
        ``"auto"``: if blocks are large.
    """

    panel: int = 0
    in_flight: int = 1
    reduction: str = EXCHANGE
    largest_message: int = LARGEST_MESSAGE
    transport: str = AUTO
    share_gpu: bool = False
    steal: int | str = AUTO

    @classmethod
    def of(
        cls, panel: int | str, in_flight: int | str, *arguments: Any, k: int, on_device: bool, **options: Any
    ) -> Schedule:
        """Return a schedule in which ``"auto"`` stands for the panels of `k` elements that measured fastest."""
        fastest = GPU_PANELS if on_device else HOST_PANELS
        return cls(
            fastest.panel(k) if panel == AUTO else int(panel),
            fastest.in_flight if in_flight == AUTO else int(in_flight),
            *arguments,
            **options,
        )


class Side(NamedTuple):
    """One of the two operands of a rank, as its panels are gathered.

    Parameters
    ----------
    name : str
        ``"a"`` or ``"b"``.
    fibre : Fibre
        The ranks that hold pieces of it.
    cuts : tuple of int
        Which part of k each of them holds.
    length : int
        Rows of A, or columns of B.
    """

    name: str
    fibre: Fibre
    cuts: Cuts
    length: int

    def owner(self, begin: int) -> int:
        """Return the rank of the fibre that holds position `begin` of k."""
        return next(rank for rank, end in enumerate(self.cuts[1:]) if begin < end)


class Transport(ABC):
    """The way of one rank in one product.

    Parameters
    ----------
    sizes : Decomposition
    problem : Problem
        The whole product.
    rank : int
        In the grid.
    fibres : Fibres
    stages : Stages
    schedule : Schedule

    Attributes
    ----------
    name : str
        What results call it: an engine between GPUs, ``"shared"`` memory, or ``"mpi"``.
    arrays : HostArrays
        Where its arrays lie.
    panels : list of (int, int)
        The part of k of each panel, in the order in which they arrive.
    sides : (Side, Side)
        A and B.
    d_cuts : tuple of int
        Which rows of the partial sum each rank along k ends with; this one with `d_rows`.
    """

    name: ClassVar[str]
    arrays: HostArrays = HOST

    def __init__(
        self, sizes: Decomposition, problem: Problem, rank: int, fibres: Fibres, stages: Stages, schedule: Schedule
    ) -> None:
        self.problem, self.fibres, self.stages, self.schedule = problem, fibres, stages, schedule
        (row, row_end), (column, column_end) = sizes.rows(rank), sizes.columns(rank)
        self.sides = (
            Side("a", fibres.row, sizes.a_cuts(rank), row_end - row),
            Side("b", fibres.column, sizes.b_cuts(rank), column_end - column),
        )
        self.d_cuts = sizes.d_cuts(rank)
        self.d_rows = sizes.d(rank).shape[0]
        self.panels = self.cut(sizes, rank)
        with stages.timed("allocate"):
            count = min(schedule.in_flight, len(self.panels))
            longest = max(end - begin for begin, end in self.panels)
            self.buffers = {
                side.name: [self.arrays.empty((longest * side.length,), problem.input_dtype) for _ in range(count)]
                for side in self.sides
                if self.arrives(side)
            }

    def arrives(self, side: Side) -> bool:
        """Return whether panels of a side are copied here from other ranks."""
        return side.fibre.size > 1

    def piece(self, side: Side) -> Any:
        """Return an uninitialised array for the piece of this rank: (m_block, k_piece) or (k_piece, n_block)."""
        own, dtype = side.cuts[side.fibre.rank + 1] - side.cuts[side.fibre.rank], self.problem.input_dtype
        if side.name == "a":
            return self.arrays.empty_a((side.length, own), dtype)
        return self.arrays.empty((own, side.length), dtype)

    def partial(self, shape: tuple[int, int]) -> Any:
        """Return an uninitialised array for this rank's partial sum of a block of D."""
        return self.arrays.empty(shape, self.problem.dtype)

    def cut(self, sizes: Decomposition, rank: int) -> list[tuple[int, int]]:
        """Return the panels of this rank's part of k."""
        return sizes.panels(rank, self.schedule.panel)

    def buffer(self, side: Side, step: int, shape: tuple[int, int]) -> Any:
        """Return the array of that shape in which the panel of `step` arrives."""
        buffers = self.buffers[side.name]
        return buffers[step % len(buffers)][: math.prod(shape)].reshape(shape)

    @property
    def bytes_used(self) -> int:
        """Bytes that it has allocated."""
        return sum(int(array.nbytes) for buffers in self.buffers.values() for array in buffers)

    def offer(self, a: Any, b: Any, partial: Any) -> None:  # noqa: B027 nothing to do where ranks send
        """Let other ranks read these arrays from now on: the pieces, and the partial sum if k is cut, else None."""

    @contextlib.contextmanager
    def running(self) -> Any:
        """Return the context of one product: what was given before is read, and what comes of it is complete after."""
        yield

    def timed(self, stage: str) -> contextlib.AbstractContextManager[None]:
        """Return the context that adds the time of what it contains to `stage`."""
        return self.stages.timed(stage)

    @abstractmethod
    def gathered(self, a: Any, b: Any) -> Iterable[tuple[Any, Any]]:
        """Return the panels of A (m_block, w) and of B (w, n_block), each valid until the next is asked for."""

    @abstractmethod
    def reduce(self, partial: Any, out: Any) -> None:
        """Write to `out` this rank's rows of ``partial_0 (+) partial_1 (+) ...``."""

    @abstractmethod
    def combine(self, x: Any, y: Any) -> None:
        """Compute ``x := x (+) y``, elementwise."""

    def close(self) -> None:  # noqa: B027 nothing to do where ranks send
        """Stop reading what others have offered; all ranks of the grid must call it."""
