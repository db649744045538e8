"""The way between ranks on GPUs, one rank a GPU, as far as all engines share it: streams, events, panels, and (+).

    copies     wait until the buffer is free      panel s arrives      event
    compute    ...                                wait for the event   product s     event: the buffer is free

With one panel in flight both streams are one, so that copies and products alternate. A panel never spans pieces of two
ranks: each side of it has one owner. The host only enqueues; it waits when all is enqueued, so that a product is
complete on its GPU before its rank answers.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from harness.distributed.arrays import GpuArrays
from harness.distributed.grid import Decomposition
from harness.distributed.transport.base import Side, Transport
from harness.errors import ProblemError


class DeviceTransport(Transport):
    """Streams, events and buffers on the current GPU. A subclass is an engine."""

    def __init__(self, *arguments: Any) -> None:
        import cupy

        self.arrays, self.cupy = GpuArrays(), cupy
        super().__init__(*arguments)
        self.compute = cupy.cuda.Stream(non_blocking=True)
        overlaps = self.schedule.in_flight > 1
        self.copies = cupy.cuda.Stream(non_blocking=True) if overlaps else self.compute
        self._intervals: list[tuple[str, Any, Any]] = []
        self._add = elementwise(cupy, self.problem)

    def cut(self, sizes: Decomposition, rank: int) -> list[tuple[int, int]]:
        """Return panels that end where a piece does."""
        panels = sizes.panels(rank, self.schedule.panel, at_pieces=True)
        return self.ordered(panels) if len(panels) > 1 else panels

    def ordered(self, panels: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the panels in the order in which this rank takes them: where all must take part, that of k."""
        return panels

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Enqueue one product in the stream of products, and return when it is complete."""
        self.cupy.cuda.get_current_stream().synchronize()  # whoever wrote the pieces did it there
        self._intervals.clear()
        self.begin()
        with self.compute:
            yield
        self.copies.synchronize()
        self.compute.synchronize()
        for stage, start, stop in self._intervals:
            elapsed_s = 1e-3 * float(self.cupy.cuda.get_elapsed_time(start, stop))
            self.stages.seconds[stage] = self.stages.seconds.get(stage, 0.0) + elapsed_s

    def begin(self) -> None:
        """Return when what other ranks hold may be read."""

    @contextlib.contextmanager
    def timed(self, stage: str, stream: Any = None) -> Iterator[None]:
        """Have the GPU time what is enqueued in a stream, that of products if none is named."""
        stream = stream or self.compute
        start, stop = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        start.record(stream)
        yield
        stop.record(stream)
        self._intervals.append((stage, start, stop))

    def gathered(self, a: Any, b: Any) -> Iterable[tuple[Any, Any]]:
        """Return the panels; the stream of products waits for each by itself."""
        is_free: list[Any] = []
        for step, (begin, end) in enumerate(self.panels):
            if self.copies is not self.compute and step >= self.schedule.in_flight:
                self.copies.wait_event(is_free[step - self.schedule.in_flight])
            a_panel = self._panel(self.sides[0], a, begin, end, step)
            b_panel = self._panel(self.sides[1], b, begin, end, step)
            if self.copies is not self.compute:
                self.compute.wait_event(self.copies.record())
            yield a_panel, b_panel
            is_free.append(self.compute.record())

    def _panel(self, side: Side, piece: Any, begin: int, end: int, step: int) -> Any:
        """Return a panel of one side: part of this rank's own piece, or what arrives."""
        if side.fibre.size == 1 or begin == end:
            return panel_of(side, piece, begin, end)
        owner = side.owner(begin)
        own = panel_of(side, piece, begin, end, owner) if owner == side.fibre.rank else None
        shape = (side.length, end - begin) if side.name == "a" else (end - begin, side.length)
        target = self.buffer(side, step, shape)
        if target.size:
            self.fetch(side, owner, begin, end, own, target)
        return target if own is None else own

    @abstractmethod
    def fetch(self, side: Side, owner: int, begin: int, end: int, own: Any, target: Any) -> None:
        """Have a panel arrive in `target`, and count it, or send this rank's `own`, in the stream of copies."""

    def reduce(self, partial: Any, out: Any) -> None:
        """Combine the partial sums of this rank's rows in the order of ranks."""
        fibre, row = self.fibres.layer, self.d_cuts[self.fibres.layer.rank]
        own = partial[row : row + out.shape[0]]
        for rank, arrived in self.partials(partial, out.shape):
            rows = own if rank == fibre.rank else arrived
            if rank == 0:
                out[...] = rows
            else:
                self.combine(out, rows)

    @abstractmethod
    def partials(self, partial: Any, shape: tuple[int, int]) -> Iterable[tuple[int, Any]]:
        """Yield each rank along k, in order, with its part of this rank's rows; with this rank itself anything."""

    def combine(self, x: Any, y: Any) -> None:
        """Enqueue ``x := x (+) y`` in the stream of products."""
        self._add(x, y, x)


def panel_of(side: Side, piece: Any, begin: int, end: int, owner: int = 0) -> Any:
    """Return positions `begin` to `end` of k in the piece of the rank `owner` of a fibre."""
    first = side.cuts[owner]
    part = slice(begin - first, end - first)
    return piece[:, part] if side.name == "a" else piece[part]


def elementwise(cupy: Any, problem: Any) -> Any:
    """Return CuPy's function of the meaning of (+).

    Raises
    ------
    ProblemError
        If (+) is no function of NumPy, or CuPy has none of that name.
    """
    add = problem.semiring.add
    function = getattr(cupy, getattr(add.ufunc, "__name__", ""), None)
    if function is None:
        raise ProblemError(
            f"{add.name} cannot be computed elementwise on a GPU",
            expected="a (+) that CuPy has a function for",
            got=f"semiring {problem.semiring.name}",
            fix="ranks on processors",
        )
    return function
