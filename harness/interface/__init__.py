"""The interface a backend implements. A subclass of Backend in a module of its own is all it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from harness.errors import PlanError
from harness.interface.abilities import Abilities, Shortcut
from harness.interface.execution import (
    ALIGNMENT,
    BitClosure,
    Closure,
    DeviceQueue,
    Execution,
    Findings,
    HostExecution,
    Repeat,
    Stepped,
    Steps,
    TreeSteps,
)
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import Operands, write_result
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import HALF
from harness.surroundings import is_to_end

__all__ = [
    "ALIGNMENT",
    "Backend",
    "BitClosure",
    "Closure",
    "DeviceQueue",
    "Execution",
    "Findings",
    "HostExecution",
    "Nest",
    "Prepared",
    "Repeat",
    "Shortcut",
    "Stepped",
    "Steps",
    "TreeSteps",
    "make_plan",
    "prepare",
]


_ONE_BY_ONE = "it computes one product at a time: `gemm` asks for those of a batch one after the other"


class Backend(Abilities, ABC):
    """One way to compute ``D := alpha (x) A (x) B  (+)  beta (x) C`` over a semiring.

    A subclass describes itself by four class attributes, and works by `plan` and `prepare`. It must compute any size,
    m != n != k, any strides and zero sizes, or return from `declines` why it does not. It must not read
    `operands.out` before writing it, nor change any other operand. A failure is an exception: it becomes a FAILED cell.
    Optional abilities are in `harness.interface.abilities`.

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
    """

    name: ClassVar[str]
    step: ClassVar[int]
    idea: ClassVar[str]
    source: ClassVar[str]

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

    def missing(self) -> str | None:
        """Return why this machine cannot run it ("no CUDA device"), or None."""
        return None

    def declines(self, problem: Problem) -> str | None:
        """Return why `problem` is out of scope, or None."""
        return None

    def refuses(self, problem: Problem) -> str | None:
        """Return why `problem` must not be passed to this backend, or None. Subclasses do not override it."""
        for is_needed, ability, reason in (
            (problem.is_mixed, "mixed", "a and b are narrower than the sums: it takes one dtype for all"),
            (problem.dtype == HALF, "half", "it has no arithmetic over float16"),
            (problem.is_complex, "complex", "it has no arithmetic over complex numbers"),
            (problem.conjugate, "conjugate", "it conjugates nothing: `gemm` gives it copies that are"),
            (problem.batch, "batch", _ONE_BY_ONE),
            (problem.triangle, "triangle", "it computes whole matrices: it cannot leave a triangle out"),
        ):
            if is_needed and ability not in self.takes:
                return reason
        return self.declines(problem)


class Prepared:
    """A product of given operands that is ready to run.

    Parameters
    ----------
    plan : Plan
    operands : Operands
    execution : Execution
    """

    def __init__(self, plan: Plan, operands: Operands, execution: Execution) -> None:
        self.plan, self.operands, self.execution = plan, operands, execution

    def run_once(self) -> Any:
        """Compute once, and return `operands.out`, which then holds the result.

        On the host the result is complete. Where `out` lies on a device it is complete for later work in the same
        stream, without a host synchronisation.
        """
        out, produced = self.operands.out, self.produce()
        if produced is not out:  # a backend may return an array of its own
            write_result(self.plan.problem, produced, out)
        return out

    def produce(self) -> Any:
        """Compute once, and return the array that the execution returns, which need not be `operands.out`."""
        self.execution.run()
        if isinstance(self.operands.out, np.ndarray):
            self.execution.wait()
        produced: object = self.execution.result()
        if produced is None:
            what = f"{type(self.execution).__name__}: its result() returned None"
            raise _wrong(what, "D, an array", "return self.operands.out")
        return produced

    @property
    def queue(self) -> DeviceQueue | None:
        """The device queue that times the product, if there is one."""
        return getattr(self.execution, "queue", None)  # a plug-in's execution need not derive from `Execution`

    def upload(self) -> None:
        """Have the execution read the operands anew: their values have changed."""
        getattr(self.execution, "upload", _nothing)()

    def repeat(self) -> Repeat | None:
        """Return the same product of other arrays on the device, if the execution offers it."""
        repeat: Repeat | None = getattr(self.execution, "repeat", _nothing)()
        return repeat


def make_plan(backend: Backend, problem: Problem, machine: Machine) -> Plan:
    """Have `backend` plan the product.

    Raises
    ------
    PlanError
        If what it returns is no plan, or it tries to end the process; and as `Backend.plan` does.
    """
    plan: object = _asked(backend, "plan", problem, machine)
    if not isinstance(plan, Plan):
        what = f"{backend.name}: its plan() returned {_shown(plan)}"
        raise _wrong(what, "a harness.plan.Plan", "return Plan(problem, machine.threads)")
    return plan


def prepare(backend: Backend, plan: Plan, operands: Operands) -> Prepared:
    """Have `backend` prepare the product.

    Raises
    ------
    PlanError
        If what it returns is no execution, or it tries to end the process; and as `Backend.prepare` does.
    """
    execution: object = _asked(backend, "prepare", plan, operands)
    if not all(hasattr(execution, name) for name in ("run", "wait", "result")):
        what = f"{backend.name}: its prepare() returned {_shown(execution)}"
        raise _wrong(what, "an object with run, wait and result", "return HostExecution(operands, run)")
    return Prepared(plan, operands, execution)  # type: ignore[arg-type] # it has all methods


def _asked(backend: Backend, method: str, *arguments: Any) -> object:
    """Return what a method returns; raise PlanError for its `SystemExit`, which would end the caller's program."""
    try:
        return getattr(backend, method)(*arguments)
    except SystemExit as error:
        if is_to_end(error):
            raise
        what = f"{backend.name}: its {method}() raised SystemExit: {error}"
        raise _wrong(what, "an Exception where it fails", "raise one") from error


def _wrong(what: str, expected: str, fix: str) -> PlanError:
    """Return the error that a backend breaks its contract."""
    return PlanError(what, expected=expected, fix=f"{fix}; docs/backends.md has the contract")


def _shown(x: object) -> str:
    """Return what a backend returned, for a message."""
    return "None" if x is None else f"an object of type {type(x).__name__}"


def _nothing() -> None:
    return None
