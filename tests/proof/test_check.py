"""The check of a backend must find each way in which one can be bad, and say it in a sentence."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness import SEMIRINGS, Backend, Machine, Operands, Plan, Problem
from harness.interface import HostExecution
from harness.machine import detect
from harness.proof.contract import Finding, check_backend, check_declaration, check_kernel
from harness.proof.contract_cases import cases
from harness.semiring import DTYPES

# Dtypes of which a quick check tries a few products, of a backend without other abilities.
OTHERS = {f"{dtype.name}:" for dtype in DTYPES if dtype.kind != "c"} - {"float32:", "float16:", "bool:", "int16:"}
FLOAT, INT = np.dtype(np.float64), np.dtype(np.int32)


class Good(Backend):
    """plus_times by NumPy, right in every case."""

    name, step, idea, source = "test-good", 1, "right", "a test"

    def declines(self, problem: Problem) -> str | None:
        return None if problem.semiring.is_ordinary else "plus_times only"

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        return Plan(problem, machine.threads)

    def prepare(self, plan: Plan, operands: Operands) -> Any:
        return Execution(self, plan.problem, operands)

    def compute(self, problem: Problem, operands: Operands) -> None:
        operands.out[...] = self.value(problem, operands)

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        a = operands.a if problem.alpha is None else problem.alpha * operands.a
        value = a @ operands.b
        if problem.accumulate and operands.c is not None:
            value = value + (operands.c if problem.beta is None else problem.beta * operands.c)
        return value


class Execution(HostExecution):
    """Calls `compute` of its backend."""

    def __init__(self, backend: Good, problem: Problem, operands: Operands) -> None:
        super().__init__(operands)
        self.backend, self.problem = backend, problem

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self.backend.compute(self.problem, self.operands)


class KeepsOperands(Good):
    def prepare(self, plan: Plan, operands: Operands) -> Any:
        kept = Operands(operands.a.copy(), operands.b.copy(), operands.c, operands.out)
        return Execution(self, plan.problem, kept)


class Lazy(Good):
    def compute(self, problem: Problem, operands: Operands) -> None:
        """Write nothing."""


class Reader(Good):
    def compute(self, problem: Problem, operands: Operands) -> None:
        operands.out[...] = operands.out * 0 + self.value(problem, operands)


class ReadsIntegers(Good):
    def compute(self, problem: Problem, operands: Operands) -> None:
        right = self.value(problem, operands)
        operands.out[...] = np.where(operands.out == 1, right + 1, right)  # garbage that is no NaN


class Raises(Good):
    def compute(self, problem: Problem, operands: Operands) -> None:
        raise RuntimeError("illegal address")


class LosesLastRow(Good):
    def compute(self, problem: Problem, operands: Operands) -> None:
        operands.out[: problem.m // 4 * 4] = self.value(problem, operands)[: problem.m // 4 * 4]


class HasABadTail(Good):
    """Is wrong in the last column of a few n only."""

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        value = super().value(problem, operands)
        if problem.n > 16 and problem.n % 16 == 13:
            value[:, -1] += 1
        return value


class HasABadTailOfSteps(Good):
    """Leaves out the last term of a few k only."""

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        terms = problem.k - (problem.k == 54)
        return super().value(problem, Operands(operands.a[:, :terms], operands.b[:terms], operands.c, operands.out))


class LosesLastStep(Good):
    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        even = problem.k // 2 * 2
        return super().value(problem, Operands(operands.a[:, :even], operands.b[:even], operands.c, operands.out))


class ForgetsBeta(Good):
    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        return operands.a @ operands.b + (0 if operands.c is None else operands.c)


class AssumesRows(Good):
    """Reads memory as if every operand were in C order."""

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        a, b = (x.ravel("K").reshape(x.shape) for x in (operands.a, operands.b))
        return super().value(problem, Operands(a, b, operands.c, operands.out))


class TurnsRows(Good):
    """Writes rows as if the first were the lowest in memory."""

    def compute(self, problem: Problem, operands: Operands) -> None:
        rows = operands.out[::-1] if operands.out.strides[0] < 0 else operands.out
        rows[...] = self.value(problem, operands)


class ReadsFromTheFirst(Good):
    """Reads rows of A on from the first, whatever the sign of their step."""

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        a = operands.a[::-1] if operands.a.strides[0] < 0 else operands.a
        return super().value(problem, Operands(a, operands.b, operands.c, operands.out))


class ScalesInPlace(Good):
    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        if operands.a.flags.writeable and problem.alpha is not None:
            operands.a[...] *= problem.alpha
            return operands.a @ operands.b
        return super().value(problem, operands)


class Warns(Good):
    """Prints what NumPy says of infinities, wherever the caller does not silence it."""

    def compute(self, problem: Problem, operands: Operands) -> None:
        with np.errstate(all="warn"):
            super().compute(problem, operands)


class Drops(Good):
    """Drops NaN, as a masked kernel might."""

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        return np.nan_to_num(super().value(problem, operands), nan=0.0)


class Narrow(Good):
    def prepare(self, plan: Plan, operands: Operands) -> Any:
        execution = super().prepare(plan, operands)
        execution.result = lambda: operands.out.astype(np.float32)
        return execution


class Grows(Good):
    def __init__(self) -> None:
        self.calls = 0

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        self.calls += 1
        return Plan(problem, machine.threads, options={"calls": self.calls})


class Greedy(Good):
    def plan(self, problem: Problem, machine: Machine) -> Plan:
        return Plan(problem, machine.threads + 1)


class SaysFalse(Good):
    def declines(self, problem: Problem) -> Any:
        return False


BAD = [
    (Lazy, FLOAT, "the output was not written"),
    (Lazy, INT, "is wrong"),
    (Reader, FLOAT, "the output was not written"),
    (ReadsIntegers, INT, "another content of the output gives another result"),
    (Raises, FLOAT, "RuntimeError: illegal address"),
    (LosesLastRow, FLOAT, "was not written, in the last row alone"),
    (HasABadTail, FLOAT, r"every size: 16x61x49: (.|\n)*last column alone \(3 of 70 cases fail\)"),
    (HasABadTailOfSteps, INT, r"int32: every size: \d+x\d+x54: "),
    (LosesLastStep, FLOAT, "as if k were 0"),
    (ForgetsBeta, FLOAT, "alpha was left out"),
    (AssumesRows, FLOAT, "FCC 13x11x7: "),
    (TurnsRows, FLOAT, "CCA 13x11x7, rows backwards in memory: "),
    (ReadsFromTheFirst, INT, "ACC 13x11x7, rows backwards in memory: "),
    (ScalesInPlace, FLOAT, "alpha=0.75: operand a was changed"),
    (Drops, FLOAT, "nan; |expected  nan"),
    (Narrow, FLOAT, "has not the form of the product"),
    (Grows, FLOAT, "planned twice"),
    (Greedy, FLOAT, "threads of"),
    (SaysFalse, FLOAT, "declines\\(\\) returned False"),
]


def _failures(backend: Backend, dtype: np.dtype) -> list[Finding]:
    return [f for f in check_kernel(backend, SEMIRINGS["plus_times"], dtype) if f.status == "failed"]


@pytest.mark.parametrize("dtype", [FLOAT, INT], ids=str)
def test_a_right_backend_passes(dtype: np.dtype) -> None:
    assert _failures(Good(), dtype) == []


@pytest.mark.deep(but=7)
@pytest.mark.parametrize(("cls", "dtype", "says"), BAD, ids=[f"{cls.__name__}-{dtype}" for cls, dtype, _ in BAD])
def test_a_bad_backend_is_found_out_and_told_why(cls: type[Good], dtype: np.dtype, says: str) -> None:
    details = "\n".join(f"{finding.what}: {finding.detail}" for finding in _failures(cls(), dtype))
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(details)


@pytest.mark.parametrize(("takes", "at_once"), [((), 70), (("device arrays",), 14)])
def test_kernels_of_a_backend_together_take_each_size_as_m_as_n_and_as_k(takes: tuple[str, ...], at_once: int) -> None:
    backend = Good()
    backend.takes = frozenset(takes)
    seen: list[tuple[int, int, int]] = []
    for semiring in SEMIRINGS.values():
        problem = Problem(64, 64, 64, semiring, bool if semiring.unsupported(FLOAT) else FLOAT)
        sizes = [case.problem for case in cases(backend, problem, detect()) if case.aspect == "every size"]
        assert len(sizes) == at_once
        seen += [(p.m, p.n, p.k) for p in sizes]
    for of_one in zip(*seen, strict=True):
        assert set(of_one) == set(range(1, 71))


@pytest.mark.filterwarnings("ignore")  # as for a user, whose warnings are no errors
def test_a_backend_that_warns_of_infinities_is_found_out() -> None:
    details = [finding.detail for finding in _failures(Warns(), FLOAT)]
    assert details
    assert all("RuntimeWarning" in detail for detail in details)


BESIDE = {
    "run printed 'hello\\n'": lambda: print("hello"),  # noqa: T201
    "run printed 'oh'": lambda: sys.stderr.write("oh"),
    "UserWarning: slow": lambda: warnings.warn("slow", stacklevel=1),
    "run changed the environment (PLANTED)": lambda: os.environ.update(PLANTED="1"),
}


class DoesMore(Good):
    """Does something beside the product, once."""

    def __init__(self, more: Callable[[], object]) -> None:
        self.more = [more]

    def compute(self, problem: Problem, operands: Operands) -> None:
        super().compute(problem, operands)
        if self.more:
            self.more.pop()()


@pytest.mark.filterwarnings("default")  # as for a user, whose warnings are no errors
@pytest.mark.parametrize(("says", "more"), BESIDE.items(), ids=["print", "stderr", "warn", "environment"])
def test_a_run_that_does_more_than_its_product_is_found_out(
    monkeypatch: pytest.MonkeyPatch, says: str, more: Callable[[], object]
) -> None:
    monkeypatch.setenv("PLANTED", "0")
    (failed,) = _failures(DoesMore(more), FLOAT)
    assert says in failed.detail


@pytest.mark.parametrize(("attribute", "value"), [("idea", ""), ("source", None), ("name", 3), ("step", "1")])
def test_a_declaration_must_say_something(attribute: str, value: Any) -> None:
    cls = type("Silent", (Good,), {attribute: value})
    finding = check_declaration(cls())
    assert finding.status == "failed"
    assert attribute in finding.detail


def test_quick_check_of_a_backend_reports_what_is_declined() -> None:
    findings = list(check_backend(Good()))
    assert not [finding for finding in findings if finding.status == "failed"]
    declined = {finding.what for finding in findings if finding.status == "declined"}
    assert "min_plus float32" in declined
    assert findings[0].what == "declaration"


class Narrows(Good):
    """Computes float64 and int64 in the dtype of half the width, as a kernel of another dtype would."""

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        narrow = {"float64": np.float32, "int64": np.int32}.get(problem.dtype.name, problem.dtype)
        a, b = operands.a.astype(narrow), operands.b.astype(narrow)
        return super().value(problem, Operands(a, b, operands.c, operands.out))


class WrapsInInt32(Good):
    """max_plus by NumPy over int32 alone: sums that do not fit wrap, where they must saturate."""

    def declines(self, problem: Problem) -> str | None:
        takes = problem.semiring.name == "max_plus" and problem.dtype == INT and problem.alpha is None
        return None if takes and not problem.accumulate else "max_plus over int32, without a C"

    def value(self, problem: Problem, operands: Operands) -> np.ndarray:
        terms = operands.a[:, :, None] + operands.b[None]
        return terms.max(1, initial=np.iinfo(INT).min)


@pytest.mark.parametrize(
    ("backend", "kernels"),
    [
        (Good(), []),
        (Narrows(), ["plus_times float64: in short", "plus_times int64: in short"]),
        (WrapsInInt32(), ["max_plus int32: in short"]),
    ],
)
def test_a_quick_check_tries_every_dtype_that_the_backend_computes(backend: Good, kernels: list[str]) -> None:
    findings = list(check_backend(backend))
    assert sorted(finding.what for finding in findings if finding.status == "failed") == kernels
    short = {finding.what.split()[1] for finding in findings if finding.what.endswith("in short")}
    assert short == ({"int32:"} if kernels[:1] == ["max_plus int32: in short"] else OTHERS)


class SaysK(Good):
    """min_plus by NumPy, with the smallest k of each element."""

    takes = frozenset({"batch"})

    def declines(self, problem: Problem) -> str | None:
        return None if problem.semiring.name == "min_plus" and not problem.accumulate else "min_plus without a C only"

    def prepare_argk(self, plan: Plan, operands: Operands, argk: np.ndarray) -> Any:
        return HostExecution(operands, lambda: self.say(operands, argk))

    def say(self, operands: Operands, argk: np.ndarray) -> None:
        terms = operands.a[..., :, :, None] + operands.b[..., None, :, :]
        operands.out[...] = terms.min(-2)
        argk[...] = terms.argmin(-2)


class SaysTheLastK(SaysK):
    def say(self, operands: Operands, argk: np.ndarray) -> None:
        backwards = Operands(operands.a[..., ::-1], operands.b[..., ::-1, :], None, operands.out)
        super().say(backwards, argk)
        argk[...] = operands.a.shape[-1] - 1 - argk


class WritesTooFar(SaysK):
    """Writes k of a row as if its elements lay as far apart as those of a column."""

    def say(self, operands: Operands, argk: np.ndarray) -> None:
        super().say(operands, argk)
        if argk.shape[-2:] == (1, 50):
            np.lib.stride_tricks.as_strided(argk, (60,))[50:] = 3


@pytest.mark.parametrize(
    ("backend", "reason"),
    [(SaysK(), ""), (SaysTheLastK(), "k of element .* is wrong"), (WritesTooFar(), "beside D, or beside the k")],
)
def test_who_says_k_says_the_smallest_and_writes_nothing_else(backend: SaysK, reason: str) -> None:
    (finding,) = (x for x in check_kernel(backend, SEMIRINGS["min_plus"], INT) if x.what.endswith(": argk"))
    assert finding.status == ("failed" if reason else "ok"), finding
    assert re.search(reason, finding.detail)


def test_a_backend_that_keeps_values_of_its_operands_is_found() -> None:
    faults = [
        finding
        for finding in check_kernel(KeepsOperands(), SEMIRINGS["plus_times"], FLOAT)
        if finding.status == "failed"
    ]
    assert [finding.what for finding in faults] == ["plus_times float64: layouts"]
    assert "a run after the operands changed does not compute with their new values" in faults[0].detail
