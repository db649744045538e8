"""Tasks, which a worker runs, times and proves right. The ordinary task is one product by one backend."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from harness import machine, registry
from harness.dtypes import is_complex
from harness.errors import VerificationError
from harness.interface import Execution, Prepared, make_plan
from harness.operands import Operands, poison
from harness.plan import Plan
from harness.problem import Problem
from harness.timing.clock import Clock, CpuClock
from harness.timing.device_clock import CudaEventClock

# The most bytes of operands that are kept from one verification to the next.
MOST_KEPT = 1 << 29


class Task(Protocol):
    """Something that is run, timed and proven.

    A factory ``make(threads=..., **arguments)`` returns a task whose untimed work is done. Four attributes are
    optional. ``clock()`` returns the `harness.timing.clock.Clock` that times the task; by default it is the host's.
    ``turn()`` gives the task other operands, and when called once more the first ones again. ``renew()`` gives it
    operands that it has never had; nothing is verified after that. ``starts_processes``, if
    True, allows the task processes that live on, and sleep while it does not run.
    """

    def run(self) -> None:
        """Run the task once. Timed."""

    def wait(self) -> None:
        """Return when the work of `run` is done. Timed."""

    def spoil(self) -> None:
        """Overwrite the last result with values that `verify` would not accept."""

    def verify(self) -> str:
        """Return a sentence that says what was compared; raise VerificationError if the last result is wrong."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return the facts of the record: ``operations``, ``bytes_moved``, ``plan`` and all that figures need."""
        ...


class GemmTask(Prepared):
    """One product by one backend.

    Parameters
    ----------
    plan : Plan
    operands : Operands
        Drawn from `seed`.
    execution : Execution
    seed : int
    extra_error : float
        Tolerance of the backend, see `harness.interface.abilities`.
    starts_processes : bool
        Of the backend, too.
    known : mapping
        Further facts.
    """

    def __init__(
        self,
        plan: Plan,
        operands: Operands,
        execution: Execution,
        seed: int,
        extra_error: float = 0.0,
        *,
        starts_processes: bool = False,
        known: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(plan, operands, execution)
        self.seed, self.extra_error, self.is_reversed = seed, extra_error, False
        self.starts_processes, self.known = starts_processes, dict(known)
        self._drawn_again: Operands | None = None  # for the next verification; drawing takes longer than the product
        self._is_reversed_there = False

    def run(self) -> None:
        self.execution.run()

    def wait(self) -> None:
        self.execution.wait()

    def clock(self) -> Clock:
        """Return the clock of the device that the product is computed on, or the host's."""
        queue = self.queue
        return CpuClock() if queue is None else CudaEventClock(queue)

    def spoil(self) -> None:
        poison(self.operands.out)

    def turn(self) -> None:
        """Reverse rows and columns of operands, as `_REVERSED` says: another result of equal distributions."""
        self.is_reversed = not self.is_reversed
        _reverse(self.operands, self.plan.problem.triangle)
        self.upload()

    def renew(self) -> None:
        """Move the elements of B on by one: an order that no earlier call has had."""
        self.operands.b[...] = np.roll(self.operands.b, 1)
        self.upload()

    def verify(self) -> str:
        """Return a sentence that says what was compared; raise VerificationError if D or an operand is wrong."""
        from harness.proof.verify import verify

        problem, untouched = self.plan.problem, self._untouched()
        for name, operand, original in zip("abc", *map(_inputs, (self.operands, untouched)), strict=True):
            if operand is not None and not _is_same(operand, original):
                raise VerificationError(f"the backend changed its operand {name}")
        result = self.execution.result()

        def compare(operands: Operands) -> str:
            return verify(problem, operands, result, seed=self.seed, extra_error=self.extra_error)

        try:
            return compare(untouched)
        except VerificationError as error:
            if kept := self._kept(untouched, compare):
                raise VerificationError(f"{error.what}: {kept}", expected=error.expected, got=error.got) from None
            raise

    def _kept(self, now: Operands, compare: Callable[[Operands], str]) -> str:
        """Return which operands the result is of, if some are those before the last turn; else an empty string."""
        before = Operands.generate(self.plan.problem, self.seed)
        if not self.is_reversed:
            _reverse(before, self.plan.problem.triangle)
        for names in ("ab", "b", "a"):
            with contextlib.suppress(VerificationError):
                compare(dataclasses.replace(now, **{name: getattr(before, name) for name in names}))
                return f"it is the product of {' and '.join(names.upper())} as they were before"
        return ""

    def _untouched(self) -> Operands:
        """Return the operands as they were drawn, turned like those of the task; no backend has seen these arrays."""
        problem, is_reversed = self.plan.problem, self._is_reversed_there
        untouched = self._drawn_again
        if untouched is None:
            untouched, is_reversed = Operands.generate(problem, self.seed), False
        if is_reversed != self.is_reversed:
            _reverse(untouched, problem.triangle)
        fits = sum(x.nbytes for x in untouched.inputs()) <= MOST_KEPT
        self._drawn_again, self._is_reversed_there = untouched if fits else None, self.is_reversed
        return untouched

    def facts(self) -> dict[str, Any]:
        problem = self.plan.problem
        extra = getattr(self.execution, "extra_bytes", None)  # beside operands and result, where it is known
        return {
            **({} if extra is None else {"extra_bytes": extra}),
            **problem.work,
            "plan": self.plan.to_json(),
            **self.known,
        }


def gemm(
    *, problem: Mapping[str, Any], backend: str, seed: int, threads: int, parameters: Mapping[str, Any] | None = None
) -> GemmTask:
    """Prepare one product.

    Raises
    ------
    Declined
        If the backend is missing here or declines the problem.
    PlanError
        If a parameter is unknown or has no legal value.
    """
    product = Problem.from_json(dict(problem))
    chosen = registry.admit(backend, product)
    plan = make_plan(chosen, product, machine.detect().with_threads(threads)).override(parameters or {})
    operands = Operands.generate(product, seed)
    execution, extra_error = chosen.prepare(plan, operands), chosen.extra_error(plan, operands)
    nest = chosen.loops(plan)
    told = {"nest": nest and nest.to_json(), "kernels": chosen.kernels(), "project": chosen.project}
    known = {name: fact for name, fact in told.items() if fact}
    return GemmTask(plan, operands, execution, seed, extra_error, starts_processes=chosen.starts_processes, known=known)


def _is_same(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether two arrays of one dtype have the same bits: to look for NaN would take three times as long."""
    if is_complex(x.dtype):
        return _is_same(x.real, y.real) and _is_same(x.imag, y.imag)
    bits = np.dtype(f"u{x.dtype.itemsize}")
    return np.array_equal(x.view(bits), y.view(bits))


def _inputs(operands: Operands) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    return operands.a, operands.b, operands.c


# What a turn reverses of A, B and C, by the problem's triangle: nothing that would move elements across the diagonal.
_ROWS, _COLUMNS, _NEITHER = np.s_[::-1, :], np.s_[:, ::-1], np.s_[:, :]
_REVERSED = {
    "": (_ROWS, _COLUMNS, np.s_[::-1, ::-1]),
    **dict.fromkeys("ah", (_NEITHER, _ROWS, _NEITHER)),
    "d": (_ROWS, _COLUMNS, _NEITHER),
}


def _reverse(operands: Operands, triangle: str) -> None:
    for x, order in zip(_inputs(operands), _REVERSED[triangle], strict=True):
        if x is not None:
            x[...] = x[order].copy()
