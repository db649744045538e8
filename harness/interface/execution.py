"""A product that is ready to run, as `Backend.prepare` returns it, and the device queue that times it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from harness.operands import Operands

Repeat = Callable[..., None]

# Bytes that wide loads need an address to be a multiple of. Arrays of `Execution.repeat` are as much aligned to it as
# those that it was prepared for.
ALIGNMENT = 16


class Execution(Protocol):
    """A product that is ready to be computed, any number of times. Made by `Backend.prepare`.

    On the host derive from `HostExecution`. One that computes on a device derives from this class.
    """

    @property
    def queue(self) -> DeviceQueue | None:
        """The device queue that `run` uses and that times it; None: the clock of the host times it."""
        return None

    def run(self) -> None:
        """Compute once. Timed: everything that depends on the values of A, B and C (packing too), and nothing else."""

    def wait(self) -> None:
        """Return when the result is complete. Timed with `run`; nothing to do on a CPU."""

    def result(self) -> np.ndarray:
        """Return D as an (m, n) host array, or `out` itself where that lies on a device. Not timed."""
        ...

    def upload(self) -> None:
        """Copy the operands to the device anew: their values have changed. Nothing to do without such copies."""

    def repeat(self) -> Repeat | None:
        """Return a function that computes the same product of other arrays on the device, or None if there is none.

        The public calls keep it, by problem and layouts. It is called with a, b, c if there is one, out, and argk if
        `prepare_argk` made it. They have the shapes, dtypes, strides and GPU of those in `prepare`, addresses as much
        aligned (to `ALIGNMENT` or not), any values, and no memory in common with out.
        Their GPU is the current one. The function enqueues to its current stream, does not wait, and computes
        everything that depends on values anew. It may be called by several threads at once, and while a graph is
        captured. If it reads nothing of its arrays but ``data.ptr``, its attribute ``takes_addresses = True`` says so:
        arrays of other libraries then come as addresses, which is quicker.
        """
        return None


class Findings(NamedTuple):
    """What a closure finds in its matrices; places are indices of them as one flat array, -1 for none.

    Attributes
    ----------
    nan : int
        The first edge that is NaN.
    betters : bool
        Whether an edge is better than the one.
    cycle : int
        The first row whose element on the diagonal is better than the one.
    """

    nan: int
    betters: bool
    cycle: int


# Closes C-ordered matrices in place, with their predecessors, or None.
Closure = Callable[[Any, Any], Findings]


class BitClosure(ABC):
    """A `Closure` of graphs of bools that also takes bits, and edges that lie elsewhere."""

    @abstractmethod
    def close(self, edges: Any, best: Any) -> None:
        """Write the closure of `edges`, in which any byte but 0 is true, to `best`; they may be the same array.

        Parameters
        ----------
        edges, best : (..., n, n) arrays of bool, or (..., n, bytes) of uint8
            C-ordered. Of uint8: eight edges each, the lowest bit first. Bits after the last edge are ignored, and
            written as zeros.
        """

    def __call__(self, best: Any, before: Any) -> Findings:
        """Close graphs in place; `before` is None."""
        self.close(best, best)
        return Findings(-1, False, -1)


class Stepped(NamedTuple):
    """What the steps of B sequences give, see `Abilities.prepare_steps`.

    Attributes
    ----------
    states : (B, T, S) array or None
        After each step; the semiring's zero beyond the end of a sequence.
    last : (B, S) array
        The states after the last step, without `offsets`. Undefined for a sequence of no steps.
    offsets : (B,) array of float64
        What was taken off the last states, over logarithms; else zeros.
    paths : (B, T) array of int32 or None
        States of a best path, of equal ones those of the smallest number; -1 beyond the end.
    """

    states: Any
    last: Any
    offsets: Any
    paths: Any


# Takes initial (B, S), transition (B, T - 1, S, S) and emission (B, T, S), of any strides, lengths and firsts (B,).
Steps = Callable[[Any, Any, Any, np.ndarray, np.ndarray], Stepped]


class TreeSteps(Protocol):
    """Steps of a closure with predecessors, over C-ordered (n, n) arrays `best` and `before` on the host.

    Attributes
    ----------
    block : int
        Pivots whose rows are closed at once, if the caller names no number.
    """

    block: int

    def close_rows(self, best: Any, before: Any, pivots: slice) -> None:
        """Let paths from the pivots to all vertices pass through each pivot, one after the other."""

    def take(self, best: Any, before: Any, rows: slice, pivots: slice, terms: Any, which: Any) -> None:
        """Take what is better of `terms`, paths from `rows` through the pivots; `which` says through which, from 0."""


class HostExecution(Execution):
    """A product on the host, complete in `operands.out` when `run` returns.

    Parameters
    ----------
    operands : Operands
    run : callable, optional
        ``run()`` computes once. None: the subclass defines `run`.
    """

    def __init__(self, operands: Operands, run: Callable[[], Any] | None = None) -> None:
        self.operands = operands
        if run is not None:
            self.run = run  # type: ignore[method-assign] # nothing stands between the caller and compiled code

    def wait(self) -> None:
        """Return: `run` has returned, so the result is complete."""

    def result(self) -> np.ndarray:
        """Return D, the output array itself."""
        return self.operands.out


class DeviceQueue(Protocol):
    """The operations that time work on a device: in CUDA a stream, its events, and one blocking kernel.

    Everything but `synchronize` and the readings only enqueues, and returns at once. All of it goes into the queue that
    `Execution.run` uses. Two devices, or two streams, are two queues.

    Attributes
    ----------
    name : str
        How intervals are taken: ``"CUDA events"``.
    nominal_mhz : float
        The clock that the device runs at unless it is throttled [MHz]; 0: not known.
    """

    name: str
    nominal_mhz: float

    def stamp(self) -> Any:
        """Enqueue a time stamp, and return it for `between_ns`."""
        ...

    def between_ns(self, start: Any, stop: Any) -> float:
        """Return the time on the device between two stamps that it has reached [ns]."""
        ...

    def block(self, most_s: float) -> None:
        """Enqueue something that holds up all that comes after it until `release`, but no longer than `most_s`."""

    def release(self) -> None:
        """Let the queue go on, at once and without entering the queue: through memory that host and device share."""

    def gave_up(self) -> bool:
        """Return whether the last `block`, which is over, was ended by its time-out and not by `release`."""
        ...

    def flush(self) -> None:
        """Enqueue a write of as many bytes as the last level of cache holds, or more."""

    def synchronize(self) -> None:
        """Return when the queue is empty, and all else that the device does has ended."""

    def read(self) -> Mapping[str, float]:
        """Return the readings of the device now, by name.

        ``mhz``, its clock, ``watts``, and ``power_capped``, 1 if power lowers that clock; any of them may be missing.
        """
        ...
