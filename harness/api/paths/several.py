"""A graph of the host that is closed on several GPUs, each of which holds some of the rows.

    for each range K of pivots           P = D[K, :]
        its GPU       close(P[:, K])     P := P (+) P[:, K] (x) P
        others        copy P
        all           D[rows, :] := D[rows, :] (+) D[rows, K] (x) P

Ranges are dealt to the GPUs by turns. The GPU of the next range improves its rows first and closes them. Then it
improves its others, while the next panel travels. Copies between the GPUs and the host pass meanwhile, too: rows that
arrive later catch up with the first panels, and all rows but the last pivots take the last panels at the end, and leave
one after the other. So a GPU holds its rows and up to a quarter of all panels.

Source: Venkataraman, Sahni and Mukhopadhyaya (2003), by rows; the look-ahead is that of distributed LU.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.api.paths.checks import check_found
from harness.api.paths.in_place import Rows
from harness.api.paths.large import COPIED, SHARE, STEP
from harness.api.paths.passes import begin, is_nan, size_of
from harness.api.paths.transfers import Transfer, Transfers
from harness.elimination import find_cycle, find_nan
from harness.errors import ProblemError
from harness.interface import Findings
from harness.semiring import Semiring

# Most rows of a range, and how many ranges a GPU has at least, as long as they are longer than STEP.
_MOST_ROWS, _RANGES = 512, 16
# Which part of all panels rows that arrive late catch up with, where there is memory for them.
_LATE = 4


class Shares(NamedTuple):
    """How rows are dealt: the rows of a range, and with how many panels rows that arrive late catch up."""

    rows: int
    late: int

    def bytes_of(self, n: int, itemsize: int, gpus: int) -> int:
        """Return the bytes on each GPU: its rows, panels, the columns of a product, and the scratch of a closure."""
        own = math.ceil(math.ceil(n / self.rows) / gpus) * self.rows
        columns = self.rows * (own + min(COPIED, self.rows))
        return ((own + (self.late + 1) * self.rows) * n + columns) * itemsize


def shares_of(matrix: np.ndarray, gpus: int, cap: int) -> Shares:
    """Return how the rows of a matrix are dealt to GPUs.

    Raises
    ------
    ProblemError
        If `cap` bytes on each GPU do not hold its rows.
    """
    n, itemsize = matrix.shape[-1], matrix.itemsize
    rows = STEP
    while rows < _MOST_ROWS and 2 * rows * gpus * _RANGES <= n:
        rows *= 2
    shares = Shares(rows, max(math.ceil(n / rows) // _LATE, 1))
    while shares.late > 1 and shares.bytes_of(n, itemsize, gpus) > cap * SHARE:
        shares = Shares(rows, shares.late // 2)
    taken = shares.bytes_of(n, itemsize, gpus)
    if taken > cap * SHARE:
        raise ProblemError(
            f"closure: {gpus} GPUs do not hold the rows of the matrix",
            expected=f"memory_cap={math.ceil(taken / SHARE) + 1} or more",
            got=f"{cap} bytes on each for {matrix.shape} of {matrix.dtype}",
            fix="more GPUs, or one, through which rows pass",
        )
    return shares


def close_on_several(
    module: Any,
    matrix: np.ndarray,
    devices: Sequence[int],
    shares: Shares,
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
    shares : Shares
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
    n, rows = len(matrix), shares.rows
    ranges = [slice(first, min(first + rows, n)) for first in range(0, n, rows)]
    best = np.empty((n, n), matrix.dtype)
    with contextlib.ExitStack() as stack:
        gpus = []
        for number, device in enumerate(devices):
            with module.cuda.Device(device):
                transfers = stack.enter_context(Transfers(module, threads))
                mine = ranges[number :: len(devices)]
                gpus.append(_Gpu(module, device, mine, matrix, shares, semiring, rows_of, transfers))
                stack.callback(gpus[-1].copies.synchronize)
        for number, gpu in enumerate(gpus):
            gpu.meet(gpus)
            gpu.touch(best[number * n // len(gpus) : (number + 1) * n // len(gpus)])
        _close(gpus, ranges, shares.late, best)
        for gpu in gpus:
            gpu.wait()
        if any(gpu.has_nan() for gpu in gpus):
            check_found(matrix, semiring, Findings(find_nan(matrix), False, -1))
    check_found(best, semiring, Findings(-1, False, find_cycle(best[None], semiring)))
    return best


def _close(gpus: list[_Gpu], ranges: list[slice], late: int, best: np.ndarray) -> None:
    """Have all paths pass through all vertices, and begin to copy the rows to the host."""
    last = ranges[len(ranges) - late :]
    for gpu in gpus:
        gpu.begin(0, late)
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
            behind = gpu.before(last[0]) if number >= len(ranges) - late else 0
            for part in gpu.all_but(done, behind):
                gpu.improve(number, pivots, part)
            for part in gpu.begin(number + 1, late):
                for before, others in enumerate(ranges[: number + 1]):
                    gpu.improve(before, others, part)
            gpu.end_step()
    _leave(gpus, last, len(ranges) - late, best)


def _leave(gpus: list[_Gpu], last: list[slice], first: int, best: np.ndarray) -> None:
    """Let paths from all rows but the last pivots pass through those, from range `first` on; begin to copy all rows."""
    for gpu in gpus:
        gpu.touched.wait()
    for gpu in gpus:
        gpu.store(best, gpu.all_but([], gpu.before(last[0])))
    for share in range(len(last)):
        for gpu in gpus:
            for part in gpu.share(share, len(last), gpu.before(last[0])):
                for number, pivots in enumerate(last, first):
                    gpu.improve(number, pivots, part)
                gpu.store(best, [part])


class _Gpu:
    """The rows of a GPU, and panels by turns: those of the last pivots, and the next ones.

    Attributes
    ----------
    device : int
    arrived : list of event
        After which each panel is there.
    copies : stream
        Of panels that arrive.
    touched : Transfer
        After which rows of the result may be written to.
    """

    def __init__(
        self,
        module: Any,
        device: int,
        ranges: list[slice],
        matrix: np.ndarray,
        shares: Shares,
        semiring: Semiring,
        rows_of: Callable[[Any], Rows],
        transfers: Transfers,
    ) -> None:
        n, own, (rows, late) = len(matrix), sum(map(size_of, ranges)), shares
        self._module, self.device, self._semiring, self._transfers = module, device, semiring, transfers
        self._ranges, self._size, self._begun = ranges, shares.rows, 0
        self._best = module.empty((own, n), matrix.dtype)
        self._panels = module.empty((late + 1, rows, n), matrix.dtype)
        self._rows = rows_of(module.empty((max(own, rows) * rows,), matrix.dtype))
        self._stream, self.copies = module.cuda.get_current_stream(), module.cuda.Stream(non_blocking=True)
        event = self._stream.record()
        self._steps, self.arrived = [event] * 2, [event] * (late + 1)
        self._coming = [transfers.up(self._best[self.local(x)], matrix[x], event=event) for x in ranges]
        self._leaving: list[Transfer] = []
        self.touched = Transfer([])
        self._least: list[Any] = []

    def meet(self, gpus: list[_Gpu]) -> None:
        """Let this GPU read the memory of others, where it can; else their copies pass through the host."""
        runtime = self._module.cuda.runtime
        with self._current():
            for gpu in gpus:
                if gpu is not self and runtime.deviceCanAccessPeer(self.device, gpu.device):
                    with contextlib.suppress(runtime.CUDARuntimeError):  # it was let before
                        runtime.deviceEnablePeerAccess(gpu.device)

    def touch(self, x: np.ndarray) -> None:
        """Begin to have the system clear the pages of rows of the result."""
        self.touched = self._transfers.touch(x)

    def begin(self, share: int, of: int) -> list[slice]:
        """Add empty paths to a share of the rows, when they have arrived; return where they lie."""
        part = self.share(share, of, len(self._best))
        with self._current():
            for rows, transfer in zip(self._ranges, self._coming, strict=True):
                local = self.local(rows)
                if part and part[0].start <= local.start < part[0].stop:
                    transfer.before(self._stream)
                    self._least += begin(self._module, self._best[local], rows.start, self._semiring)
                    self._begun = local.stop
        return part

    def has_nan(self) -> bool:
        """Return whether an edge is NaN."""
        with self._current():
            return is_nan(self._least)

    def local(self, rows: slice) -> slice:
        """Return where a range lies here."""
        first = self._ranges.index(rows) * self._size
        return slice(first, first + size_of(rows))

    def before(self, rows: slice) -> int:
        """Return how many rows lie here before a range."""
        return sum(size_of(x) for x in self._ranges if x.start < rows.start)

    def share(self, share: int, of: int, rows: int) -> list[slice]:
        """Return where a share of the first `rows` rows lies, in whole ranges, if there is anything in it."""
        ranges = -(-rows // self._size)
        ends = (min(-(-ranges * x // of) * self._size, rows) for x in (share, share + 1))
        part = slice(*ends)
        return [part] if part.start < part.stop else []

    def all_but(self, done: list[slice], first: int) -> Iterator[slice]:
        """Yield where rows lie that are begun, from `first` on but for some ranges."""
        ends = [first]
        for x in sorted(map(self.local, done), key=lambda x: x.start):
            ends += [x.start, x.stop]
        ends.append(self._begun)
        return (slice(*pair) for pair in zip(ends[::2], ends[1::2], strict=True) if pair[0] < pair[1])

    def improve(self, number: int, pivots: slice, rows: slice) -> None:
        """Let paths from rows pass through pivots of range `number`."""
        place = number % len(self._panels)
        with self._current():
            self._stream.wait_event(self.arrived[place])
            self._rows.improve(self._best[rows], pivots, self._panels[place][: size_of(pivots)])

    def end_step(self) -> None:
        """Tell that all is enqueued that reads the panel which the one after the next takes the place of."""
        with self._current():
            self._steps = [self._steps[1], self._stream.record()]

    def close(self, number: int, rows: slice, gpus: list[_Gpu]) -> None:
        """Close range `number`, which lies here, and have all others copy it."""
        place = number % len(self._panels)
        with self._current():
            # The others have copied the last panel of this place: each has closed one since, which arrived here.
            x, panel = self._best[self.local(rows)], self._panels[place][: size_of(rows)]
            self._rows.close(x, rows, panel)
            x[...] = panel
            closed = self.arrived[place] = self._stream.record()
        for gpu in gpus:
            if gpu is not self:
                gpu.copy(place, panel, self.device, closed)

    def copy(self, place: int, panel: Any, device: int, closed: Any) -> None:
        """Begin to copy a panel from another GPU, after an event."""
        target, copies = self._panels[place], self.copies
        with self._current():
            copies.wait_event(closed)
            copies.wait_event(self._steps[0])
            self._module.cuda.runtime.memcpyPeerAsync(
                target.data.ptr, self.device, panel.data.ptr, device, panel.nbytes, copies.ptr
            )
            self.arrived[place] = copies.record()

    def store(self, best: np.ndarray, parts: Iterable[slice]) -> None:
        """Begin to copy rows to the host."""
        with self._current():
            event = self._stream.record()
            for part, rows in itertools.product(parts, self._ranges):
                local = self.local(rows)
                if part.start <= local.start < part.stop:
                    self._leaving.append(self._transfers.down(best[rows], self._best[local], event=event))

    def wait(self) -> None:
        """Return when they are there."""
        for transfer in self._leaving:
            transfer.wait()

    def _current(self) -> contextlib.AbstractContextManager[Any]:
        context: contextlib.AbstractContextManager[Any] = self._module.cuda.Device(self.device)
        return context
