"""The interface a backend implements. A subclass of Backend in a module of its own is all it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import HALF, Semiring

Shortcut = Callable[[Any, Any, Any], bool]


class DeviceQueue(Protocol):
    """What the harness needs of a device to time work on it: in CUDA a stream, its events, and one blocking kernel.

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
        """Enqueue a time stamp, and return what `between_ns` takes."""
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
        """Return when the queue is empty."""

    def read(self) -> Mapping[str, float]:
        """Return what the device tells of itself now, by name.

        ``mhz``, its clock, ``watts``, and ``power_capped``, 1 if power lowers that clock; any of them may be missing.
        """
        ...


class Execution(Protocol):
    """A product that is ready to be computed, any number of times. Made by `Backend.prepare`.

    One that computes on a device says so by an attribute ``queue``, a `DeviceQueue`: it is then timed on the device.
    Without one it is timed on the host.
    """

    def run(self) -> None:
        """Compute once. Timed: everything that depends on the values of A, B and C (packing too), and nothing else."""

    def wait(self) -> None:
        """Return when the result is complete. Timed with `run`; nothing to do on a CPU."""

    def result(self) -> np.ndarray:
        """Return D as an (m, n) host array. Not timed."""
        ...


class Backend(ABC):
    """One way to compute ``D := alpha (x) A (x) B  (+)  beta (x) C`` over a semiring.

    A subclass states what it is by four class attributes, and what it does by `plan` and `prepare`. It must compute any
    size, m != n != k, any strides and zero sizes, or say in `declines` what it does not. It must not read
    `operands.out` before writing it, nor change any other operand. A failure is an exception: it becomes a FAILED cell.

    Attributes
    ----------
    name : str
        ``"cpu-packed"``: unique and stable, the key in stored results.
    step : int
        Rung on its ladder: naive lowest, vendor library highest.
    idea : str
        One sentence: what this rung adds to the one below.
    source : str
        Paper and section, or course, that the method comes from.
    takes_mixed : bool
        Whether it computes products whose A and B have a narrower dtype than the sums. Those that do not say so never
        see one.
    takes_half : bool
        Whether it computes products over float16, where (+) selects; likewise.
    takes_device_arrays : bool
        Whether operands may be arrays of CuPy, which it computes with where they lie, in the current stream: `prepare`
        copies what it must in that stream, and `Execution.result` returns `out`.
    calls_libraries : bool
        Whether it may call libraries with threads of their own, such as BLAS: they are told how many a product may use,
        and the whole process with them. False: its loops are Numba's alone.
    """

    name: ClassVar[str]
    step: ClassVar[int]
    idea: ClassVar[str]
    source: ClassVar[str]
    takes_mixed: ClassVar[bool] = False
    takes_half: ClassVar[bool] = False
    takes_device_arrays: ClassVar[bool] = False
    calls_libraries: ClassVar[bool] = True

    def missing(self) -> str | None:
        """Return why this machine cannot run it ("no CUDA device"), or None."""
        return None

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` is out of scope, or None."""
        return None

    def refuses(self, problem: Problem) -> str | None:
        """Return why `problem` is not to be handed to this backend, or None: what callers ask, and nobody overrides."""
        if problem.is_mixed and not self.takes_mixed:
            return "a and b are narrower than the sums: it takes one dtype for all"
        if problem.dtype == HALF and not self.takes_half:
            return "it has no arithmetic over float16"
        return self.declines(problem)

    def shortcut(self, semiring: Semiring, dtype: np.dtype[Any], machine: Machine) -> Shortcut | None:
        """Return the fastest way to small plain products, for the public call, or None if there is none.

        It may take whatever time it needs to compile. What it returns is called with any three objects: if they are
        matrices of NumPy of `dtype`, and `out` is writable, it computes ``out := a (x) b``, on no more threads than
        `machine.threads`, and returns True; or it returns False and has done nothing, for whatever else they are and
        whatever sizes, strides or overlap it does not care for.
        """
        return None

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return how much further from the definition than the bound of `harness.proof.verify` a float result may be.

        0: the element-wise bound holds, as it does for sums of terms in any order. An algorithm whose error is bounded
        by norms of `operands` alone returns that bound, for the largest element, by `plan`.

        Whoever overrides this computes for those who name it: ``backend="auto"`` leaves it out, see `loosens`.
        """
        return 0.0

    def loosens(self, problem: Problem) -> bool:
        """Return whether `extra_error` may be more than 0 for `problem`, so that ``backend="auto"`` must not choose it.

        A backend whose own `extra_error` is 0 for some problems may say for which.
        """
        return type(self).extra_error is not Backend.extra_error

    def prepare_blocks(self, plan: Plan, operands: Operands, block: np.ndarray, steps: int) -> Execution | None:
        """Prepare a plain product that also says which block of k each element comes from, or return None.

        Asked where (+) selects; `harness.gemm_argk` does without where the answer is None.

        Parameters
        ----------
        plan : Plan
        operands : Operands
            Without a C.
        block : (m, n) array of int8
            Rows contiguous; `run` writes to it the number, from 0, of the first block of `steps` terms that attains the
            element, and -1 where the element is the semiring's zero.
        steps : int
        """
        return None

    def architecture(self) -> str:
        """Return the architecture of the device that it computes on, as the compiler calls it; empty: the host's."""
        return ""

    def compile(self, plans: Iterable[Plan]) -> int:
        """Compile what `plans` need, on all cores, and return how many kernels that was; `prepare` does without."""
        return 0

    def prepare_argk(self, plan: Plan, operands: Operands, argk: np.ndarray) -> Execution | None:
        """Prepare a plain product that also says which k each element comes from, or return None.

        Asked where (+) selects, and before `prepare_blocks`, by `harness.gemm_argk`.

        Parameters
        ----------
        plan : Plan
        operands : Operands
            Without a C.
        argk : (m, n) array of int32
            C-ordered; where `operands` are. When `result` has returned, it holds the smallest k that attains the
            element, and -1 where the element is the semiring's zero.
        """
        return None

    def listing(self, plan: Plan) -> str:
        """Return the innermost loop of the kernel that `plan` compiles, for a reader; empty: there is none to show."""
        return ""

    @abstractmethod
    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Choose block sizes and options for `machine.threads` threads. Pure: touches no operand, compiles nothing.

        Every option that a user may vary stands in the plan with its default.
        """

    @abstractmethod
    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        """Do everything that must not be timed: compile, warm, allocate, upload.

        Raises
        ------
        PlanError
            If an option of the plan has no legal value.
        """
