"""A graph of the host that is closed on several GPUs, each of which holds some of the rows.

    for each range K of pivots           P = D[K, :]
        its GPU       close(P[:, K])     P := P (+) P[:, K] (x) P
        others        copy P
        all           D[rows, :] := D[rows, :] (+) D[rows, K] (x) P

Ranges are dealt to the GPUs by turns. The GPU of the next range improves its rows first and closes them. Then it
improves its others, while the next panel travels. So a GPU holds its rows and two panels.

Source: Venkataraman, Sahni and Mukhopadhyaya (2003), by rows; the look-ahead is that of distributed LU.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from harness.api.paths.checks import check_found
from harness.api.paths.in_place import Rows
from harness.api.paths.large import COPIED, SHARE, STEP, begin, is_nan, size_of
from harness.api.paths.transfers import Transfers
from harness.elimination import find_cycle, find_nan
from harness.errors import ProblemError
from harness.interface import Findings
from harness.semiring import Semiring

# Most rows of a range, and how many ranges a GPU has at least, as long as they are longer than STEP.
_MOST_ROWS, _RANGES = 512, 16


def range_of(matrix: np.ndarray, gpus: int, cap: int) -> int:
    """Return the rows of a range.

    Raises
    ------
    ProblemError
        If `cap` bytes on each GPU do not hold its rows.
    """
    n, itemsize = matrix.shape[-1], matrix.itemsize
    rows = STEP
    while rows < _MOST_ROWS and 2 * rows * gpus * _RANGES <= n:
        rows *= 2
    own = math.ceil(math.ceil(n / rows) / gpus) * rows
    taken = ((own + 2 * rows) * n + own * rows + min(COPIED, rows) * rows) * itemsize
    if taken > cap * SHARE:
        raise ProblemError(
            f"closure: {gpus} GPUs do not hold the rows of the matrix",
            expected=f"memory_cap={math.ceil(taken / SHARE) + 1} or more",
            got=f"{cap} bytes on each for {matrix.shape} of {matrix.dtype}",
            fix="more GPUs, or one, through which rows pass",
        )
    return rows


def close_on_several(
    module: Any,
    matrix: np.ndarray,
    devices: Sequence[int],
    rows: int,
    semiring: Semiring,
    rows_of: Callable[[Any], Rows],
    threads: int,
) -> np.ndarray:
    """Return the closure of a matrix of the host.

    Parameters
    ----------
    module : module
        CuPy.
    matrix : (n, n) array
    devices : sequence of int
        The numbers of the GPUs.
    rows : int
        Of a range.
    semiring : Semiring
    rows_of : callable
        Returns what is done with rows on the current GPU, by room for columns.
    threads : int
        Of the host.

    Raises
    ------
    ProblemError
        If an edge is NaN, or a cycle betters the empty path.
    """
    n = len(matrix)
    ranges = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
    best = np.empty((n, n), matrix.dtype)
    with contextlib.ExitStack() as stack:
        gpus = []
        for number, device in enumerate(devices):
            with module.cuda.Device(device):
                transfers = stack.enter_context(Transfers(module, threads))
                mine = ranges[number :: len(devices)]
                gpus.append(_Gpu(module, device, mine, matrix, rows, rows_of, transfers))
                stack.callback(gpus[-1].copies.synchronize)
        for gpu in gpus:
            gpu.meet(gpus)
        has_nan = [gpu.begin(semiring) for gpu in gpus]
        _close(gpus, ranges)
        for gpu in gpus:
            gpu.store(best)
        for gpu in gpus:
            gpu.wait()
        if any(isnan() for isnan in has_nan):
            check_found(matrix, semiring, Findings(find_nan(matrix), False, -1))
    check_found(best, semiring, Findings(-1, False, find_cycle(best[None], semiring)))
    return best


def _close(gpus: list[_Gpu], ranges: list[slice]) -> None:
    """Have all paths pass through all vertices."""
    gpus[0].close(0, ranges[0], gpus)
    for number, pivots in enumerate(ranges):
        following = ranges[number + 1 : number + 2]
        ahead = gpus[(number + 1) % len(gpus)] if following else None
        for gpu in sorted(gpus, key=lambda gpu: gpu is ahead):  # that one last: the host waits for it
            done = [pivots] if gpu is gpus[number % len(gpus)] else []
            if gpu is ahead:
                gpu.improve(number, pivots, gpu.local(following[0]))
                gpu.close(number + 1, following[0], gpus)
                done += following
            for part in gpu.all_but(done):
                gpu.improve(number, pivots, part)
            gpu.used(number)


class _Gpu:
    """The rows of a GPU, and two panels by turns: those of the pivots, and the next ones.

    Attributes
    ----------
    device : int
    arrived : list of event
        After which each panel is there.
    copies : stream
        Of panels that arrive.
    """

    def __init__(
        self,
        module: Any,
        device: int,
        ranges: list[slice],
        matrix: np.ndarray,
        rows: int,
        rows_of: Callable[[Any], Rows],
        transfers: Transfers,
    ) -> None:
        n, own = len(matrix), sum(map(size_of, ranges))
        self._module, self.device, self._ranges, self._transfers = module, device, ranges, transfers
        self._first = {x.start: first * rows for first, x in enumerate(ranges)}
        self._best = module.empty((own, n), matrix.dtype)
        self._panels = module.empty((2, rows, n), matrix.dtype)
        self._rows = rows_of(module.empty((max(own, rows) * rows,), matrix.dtype))
        self._stream, self.copies = module.cuda.get_current_stream(), module.cuda.Stream(non_blocking=True)
        event = self._stream.record()
        self._used, self.arrived = [event] * 2, [event] * 2
        self._under_way = [transfers.up(self._best[self.local(x)], matrix[x], event=event) for x in ranges]

    def meet(self, gpus: list[_Gpu]) -> None:
        """Let this GPU read the memory of others, where it can; else their copies pass through the host."""
        runtime = self._module.cuda.runtime
        with self._current():
            for gpu in gpus:
                if gpu is not self and runtime.deviceCanAccessPeer(self.device, gpu.device):
                    with contextlib.suppress(runtime.CUDARuntimeError):  # it was let before
                        runtime.deviceEnablePeerAccess(gpu.device)

    def begin(self, semiring: Semiring) -> Callable[[], bool]:
        """Make the rows those of edges and empty paths, when they have arrived; return what says if one is NaN."""
        least: list[Any] = []

        def has_nan() -> bool:
            with self._current():
                return is_nan(least)

        with self._current():
            for rows, transfer in zip(self._ranges, self._under_way, strict=True):
                transfer.before(self._stream)
                least += begin(self._module, self._best[self.local(rows)], rows.start, semiring)
        return has_nan

    def local(self, rows: slice) -> slice:
        """Return where rows lie here."""
        first = self._first[rows.start]
        return slice(first, first + size_of(rows))

    def all_but(self, done: list[slice]) -> Iterator[slice]:
        """Yield where all rows lie but some ranges."""
        ends = [0, *(end for x in sorted(map(self.local, done), key=lambda x: x.start) for end in (x.start, x.stop))]
        ends.append(len(self._best))
        return (slice(*pair) for pair in zip(ends[::2], ends[1::2], strict=True) if pair[0] < pair[1])

    def improve(self, number: int, pivots: slice, rows: slice) -> None:
        """Let paths from rows pass through pivots of range `number`."""
        with self._current():
            self._stream.wait_event(self.arrived[number % 2])
            self._rows.improve(self._best[rows], pivots, self._panels[number % 2][: size_of(pivots)])

    def used(self, number: int) -> None:
        """Tell that range `number` is not read any more."""
        with self._current():
            self._used[number % 2] = self._stream.record()

    def close(self, number: int, rows: slice, gpus: list[_Gpu]) -> None:
        """Close range `number`, which lies here, and have all others copy it."""
        with self._current():
            for gpu in gpus:  # they may still copy the last one of this place
                self._stream.wait_event(gpu.arrived[number % 2])
            x, panel = self._best[self.local(rows)], self._panels[number % 2][: size_of(rows)]
            self._rows.close(x, rows, panel)
            x[...] = panel
            closed = self.arrived[number % 2] = self._stream.record()
        for gpu in gpus:
            if gpu is not self:
                gpu.copy(number, panel, self.device, closed)

    def copy(self, number: int, panel: Any, device: int, closed: Any) -> None:
        """Begin to copy the panel of range `number` from another GPU, after an event."""
        target, copies = self._panels[number % 2], self.copies
        with self._current():
            copies.wait_event(closed)
            copies.wait_event(self._used[number % 2])
            self._module.cuda.runtime.memcpyPeerAsync(
                target.data.ptr, self.device, panel.data.ptr, device, panel.nbytes, copies.ptr
            )
            self.arrived[number % 2] = copies.record()

    def store(self, best: np.ndarray) -> None:
        """Begin to copy the rows to the host."""
        with self._current():
            event = self._stream.record()
            self._under_way = [
                self._transfers.down(best[rows], self._best[self.local(rows)], event=event) for rows in self._ranges
            ]

    def wait(self) -> None:
        """Return when they are there."""
        for transfer in self._under_way:
            transfer.wait()

    def _current(self) -> contextlib.AbstractContextManager[Any]:
        context: contextlib.AbstractContextManager[Any] = self._module.cuda.Device(self.device)
        return context
