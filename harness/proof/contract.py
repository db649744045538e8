"""Prove a backend: every case of `contract_cases` for every semiring and dtype that it does not decline.

Each case is planned, prepared, run, verified against the definition, and run again over other garbage in the output;
its operands must be unchanged afterwards. Those of other layouts are run once more, with other values in the operands.
Whatever a backend raises becomes a finding; the other cases go on. If asked for, every operand lies beside a page that
may not be touched (`fences`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from harness import machine, registry
from harness.dtypes import is_complex, is_exact, mixed_dtypes
from harness.errors import HarnessError, VerificationError
from harness.interface import Backend, Prepared, make_plan, prepare
from harness.machine import Machine
from harness.operands import Operands, lower_triangle
from harness.plan import Plan
from harness.problem import Problem
from harness.proof import conduct, fences
from harness.proof.argk import run_argk_case
from harness.proof.contract_cases import LAYOUTS, SEED, ContractCase, cases, compact_cases, short_cases
from harness.proof.verify import verify
from harness.semiring import DTYPES, HALF, SEMIRINGS, Semiring

Depth = Literal["quick", "full"]

# Every kernel is compiled, so a quick check takes one floating-point dtype, or bool, for each semiring, and float16 if
# the backend computes it. It adds an integer dtype where overflow wraps, and one where it saturates. Each other dtype
# has a few products over as many semirings as `SHORT_SEMIRINGS`: those, or else the first that the backend computes.
QUICK_DTYPES = tuple(np.dtype(name) for name in ("float32", "float16", "bool"))
QUICK_INTEGERS = {("plus_times", np.dtype(np.int16)), ("min_plus", np.dtype(np.int16))}
SHORT_SEMIRINGS = "plus_times", "min_plus"

# A backend that declines all declines the kernel: two matrices, a matrix and a vector, a symmetric matrix and a matrix
# or a vector, two matrices with a small k, and two that one block of threads multiplies.
ORDINARY = (
    ((64, 64, 64), ""), ((64, 1, 64), ""), ((64, 64, 64), "a"), ((64, 1, 64), "a"), ((64, 64, 8), ""),
    ((16, 16, 16), ""),
)  # fmt: skip

# Kernels whose memory is looked at product by product, which is slow: the first few that a backend computes.
MEMORY_KERNELS = (
    ("plus_times", "float32"), ("min_plus", "int16"), ("lor_land", "bool"), ("plus_times", "float64"),
    ("min_plus", "float32"), ("min_plus", "float16"),
)  # fmt: skip
MEMORY_OPERANDS = ("bfloat16", "float8_e4m3fn", "int8", "complex64")  # each is read by code of its own
MOST_MEMORY_KERNELS = 3


@dataclass(frozen=True)
class Finding:
    """The result of checking one aspect of one kernel."""

    status: Literal["ok", "failed", "declined"]
    what: str  # kernel and aspect, "min_plus float32: layouts"
    detail: str  # what was compared, what is wrong, or why it is declined


def findings(*, backend: str, depth: Depth, is_fenced: bool = False) -> Iterator[dict[str, str]]:
    """Yield the findings of `check_backend` as JSON objects, for the backend called `backend`: they can be sent."""
    for finding in check_backend(registry.find(backend), depth=depth, is_fenced=is_fenced):
        yield dataclasses.asdict(finding)


def check_backend(
    backend: Backend,
    *,
    depth: Depth = "quick",
    semirings: Iterable[Semiring] | None = None,
    is_fenced: bool = False,
) -> Iterator[Finding]:
    """Check what `backend` declares and every kernel of it.

    Parameters
    ----------
    backend : Backend
        Not missing anything on this machine.
    depth : "quick" or "full"
        Every aspect of some dtypes and a few products of the others, or every aspect of all.
    semirings : iterable of Semiring, optional
        None: those of the table.
    is_fenced : bool
        Whether every case is computed twice: with memory that may not be touched after, and before, each operand.

    Yields
    ------
    Finding
        As soon as it is known: one for the declaration, then one for each aspect of each kernel.
    """
    yield check_declaration(backend)
    ability = {HALF: "half"} | {dtype: "complex" for dtype in DTYPES if is_complex(dtype)}
    dtypes = [dtype for dtype in DTYPES if dtype not in ability or ability[dtype] in backend.takes]
    semirings = list(SEMIRINGS.values() if semirings is None else semirings)
    for semiring, dtype in itertools.product(semirings, dtypes):
        if semiring.unsupported(dtype) is None and (depth == "full" or _is_quick(semiring, dtype)):
            yield from check_kernel(backend, semiring, dtype, is_fenced=is_fenced)
    for dtype in dtypes if depth == "quick" else ():
        yield from _check_shortly(backend, semirings, dtype, is_fenced=is_fenced)
    for narrow, wide in mixed_dtypes() if "mixed" in backend.takes else ():
        yield from check_kernel(backend, SEMIRINGS["plus_times"], wide, narrow, is_fenced=is_fenced)


def _is_quick(semiring: Semiring, dtype: np.dtype[Any]) -> bool:
    """Return whether a quick check looks at every aspect of this kernel."""
    return dtype in QUICK_DTYPES or (semiring.name, dtype) in QUICK_INTEGERS


def _check_shortly(
    backend: Backend, semirings: list[Semiring], dtype: np.dtype[Any], *, is_fenced: bool
) -> Iterator[Finding]:
    """Check a few products over `dtype`, for some of the kernels that a quick check leaves out and `backend` has."""
    left_out = [x for x in semirings if x.unsupported(dtype) is None and not _is_quick(x, dtype)]
    left_out.sort(key=lambda semiring: semiring.name not in SHORT_SEMIRINGS)
    found = (list(check_kernel(backend, x, dtype, is_short=True, is_fenced=is_fenced)) for x in left_out)
    taken = (findings for findings in found if findings[0].status != "declined")
    for of_kernel in itertools.islice(taken, len(SHORT_SEMIRINGS)):
        yield from of_kernel


def check_declaration(backend: Backend) -> Finding:
    """Check the name, idea, source and step that `backend` declares."""
    for attribute in ("name", "idea", "source"):
        value = getattr(backend, attribute, None)
        if not isinstance(value, str) or not value.strip():
            return Finding("failed", "declaration", f"{attribute} is {value!r}; expected a sentence")
    if not isinstance(backend.step, int) or isinstance(backend.step, bool):
        return Finding("failed", "declaration", f"step is {backend.step!r}; expected an integer")
    return Finding("ok", "declaration", f"{backend.name}: {backend.idea}")


def check_kernel(
    backend: Backend,
    semiring: Semiring,
    dtype: np.dtype[Any],
    operand_dtype: np.dtype[Any] | None = None,
    *,
    is_short: bool = False,
    is_fenced: bool = False,
) -> Iterator[Finding]:
    """Check one kernel of `backend`; a mixed one if there is an `operand_dtype`; `is_short`: by a few products alone.

    `is_fenced` is as in `check_backend`.

    Yields
    ------
    Finding
        One that it declines, or one for each aspect: ok if all its cases are, else the first case that fails.
    """
    here = machine.detect()
    kernel = f"{semiring.name} {dtype.name}" + (f" of {operand_dtype.name}" if operand_dtype else "")
    try:
        taken, reason = _ordinary(backend, semiring, dtype, operand_dtype)
        if taken is None:
            yield Finding("declined", kernel, reason)
            return
        if not is_short:
            yield _check_plan(backend, taken, here)
        kernel_cases = list(short_cases(taken) if is_short else cases(backend, taken, here))
        if is_fenced:
            kernel_cases = [beside for case in kernel_cases for beside in case.fenced()]
    except Exception as error:  # noqa: BLE001 a backend may raise anything; it becomes a finding
        yield Finding("failed", kernel, f"planning: {_sentence(error)}")
        return
    for aspect, group in itertools.groupby(kernel_cases, key=lambda case: case.aspect):
        yield _check_aspect(backend, f"{kernel}: {aspect}", list(group), here)


def memory_cases(backend: Backend) -> Iterator[ContractCase]:
    """Yield a few products of odd sizes over a few semirings and dtypes, of which `run_case` computes each twice."""
    plain = ((SEMIRINGS[name], np.dtype(dtype), None) for name, dtype in MEMORY_KERNELS)
    pairs = [pair for pair in mixed_dtypes() if pair[0].name in MEMORY_OPERANDS and "mixed" in backend.takes]
    mixed = ((SEMIRINGS["plus_times"], wide, narrow) for narrow, wide in pairs)
    of_complex = [(SEMIRINGS["plus_times"], np.dtype(np.complex128), None)]
    for kernels, most in ((plain, MOST_MEMORY_KERNELS), (of_complex, 1), (mixed, len(MEMORY_OPERANDS))):
        taken = filter(None, (_ordinary(backend, *kernel)[0] for kernel in kernels))
        for ordinary in itertools.islice(taken, most):
            yield from (case for case in compact_cases(ordinary, backend) if not backend.refuses(case.problem))


def _ordinary(
    backend: Backend, semiring: Semiring, dtype: np.dtype[Any], operand_dtype: np.dtype[Any] | None
) -> tuple[Problem | None, str]:
    """Return an ordinary product that `backend` computes by the kernel, or else None and why it declines."""
    reasons = []
    for size, triangle in ORDINARY:
        problem = Problem(*size, semiring, dtype, operand_dtype=operand_dtype, triangle=triangle)
        reason = _declines(backend, problem)
        if not reason:
            return problem, ""
        reasons.append(reason)
    return None, reasons[0]


def run_case(backend: Backend, case: ContractCase, here: Machine) -> None:
    """Compute one case twice and verify it.

    Raises
    ------
    HarnessError
        If the result is wrong, an operand was changed, or memory beside the operands touched.
    """
    with fences.watched() if case.side else contextlib.nullcontext():
        (run_argk_case if case.seeks_k else _run_case)(backend, case, here)


def _check_aspect(backend: Backend, aspect: str, group: list[ContractCase], here: Machine) -> Finding:
    """Run every case of `group`; report the first that fails, and how many do."""
    faults, declined = [], []
    for case in group:
        try:
            reason = _declines(backend, case.problem)
            if reason:
                declined.append(reason)
            else:
                run_case(backend, case, here)
        except Exception as error:  # noqa: BLE001 a backend may raise anything; it becomes a finding
            faults.append(f"{case.what}: {_sentence(error)}")
    if faults:
        more = f" ({len(faults)} of {len(group)} cases fail)" if len(faults) > 1 else ""
        return Finding("failed", aspect, faults[0] + more)
    if declined:
        status: Literal["ok", "declined"] = "declined" if len(declined) == len(group) else "ok"
        return Finding(status, aspect, f"{len(declined)} of {len(group)} cases declined: {declined[0]}")
    return Finding("ok", aspect, f"{len(group)} cases")


def _run_case(backend: Backend, case: ContractCase, here: Machine) -> None:
    """Compute one case twice and verify it.

    Raises
    ------
    HarnessError
        If the result is wrong, changes from run to run, or an operand was changed.
    """
    operands = case.operands()
    before = [x.copy() for x in operands.inputs()]
    plan = make_plan(backend, case.problem, here).override(case.parameters)
    prepared = prepare(backend, plan, operands)
    first = np.array(_produce(prepared))
    _check_unchanged(before, operands)  # before verification, which reads the operands
    extra_error = backend.extra_error(plan, operands)
    verify(case.problem, operands, first, seed=SEED, extra_error=extra_error)
    if case.expected is not None and not extra_error and not _same(first, case.expected(operands)):
        raise VerificationError("the result is within the bound but not exact, as it must be for an identity matrix")
    operands.out[...] = 1  # neither the result nor the poison: shows whether a backend reads the output
    before_out = operands.out.copy()
    second = np.asarray(_produce(prepared))
    if case.problem.triangle == "d":
        above = ~lower_triangle(case.problem.m)
        if not _same(operands.out[above], before_out[above]):
            raise VerificationError("the output was written above the diagonal")
        first[above] = second[above] = 0
    if not _same(first, second, exactly=case.problem.is_exact):
        if case.problem.is_exact:
            raise VerificationError("a second run over another content of the output gives another result")
        verify(
            case.problem, operands, second, seed=SEED, extra_error=extra_error
        )  # sums may overflow in one order alone
    _check_unchanged(before, operands)
    if case.aspect == LAYOUTS and not case.is_read_only:
        _check_other_values(backend, prepared, operands)


def _check_other_values(backend: Backend, prepared: Prepared, operands: Operands) -> None:
    """Check that a further run reads the operands, whose values are others by then: that nothing of them was kept."""
    for x in operands.inputs():
        x[...] = x[..., ::-1, ::-1].copy()
    prepared.upload()
    plan = prepared.plan
    extra_error = backend.extra_error(plan, operands)
    try:
        verify(plan.problem, operands, np.asarray(_produce(prepared)), seed=SEED, extra_error=extra_error)
    except VerificationError as error:
        raise VerificationError(
            f"a run after the operands changed does not compute with their new values: {error}"
        ) from None


def _produce(prepared: Prepared) -> np.ndarray:
    """Compute once. A triangle must come to `operands.out`, whose other elements stay; else the backend may choose."""
    with conduct.watched():
        return np.asarray(prepared.run_once() if prepared.plan.problem.triangle == "d" else prepared.produce())


def _check_unchanged(before: list[np.ndarray], operands: Operands) -> None:
    for name, old, new in zip("abc", before, operands.inputs(), strict=False):
        if old.tobytes() != new.tobytes():
            raise VerificationError(f"operand {name} was changed")


def _check_plan(backend: Backend, problem: Problem, here: Machine) -> Finding:
    """Check that planning is reproducible, keeps the problem, and obeys the number of threads."""
    aspect = f"{str(problem).rpartition(' ')[0]}: plan"
    for threads in sorted({1, here.cores}):
        limited = here.with_threads(threads)
        first: Any = backend.plan(problem, limited)
        second: Any = backend.plan(problem, limited)
        if not isinstance(first, Plan):
            return Finding("failed", aspect, f"plan() returned a {type(first).__name__}; expected a Plan")
        if first != second:
            return Finding("failed", aspect, f"planned twice, {first.to_json()} and then {second.to_json()}")
        if first.problem != problem:
            return Finding("failed", aspect, f"the plan is for another problem, {first.problem}")
        if first.threads > threads:
            return Finding("failed", aspect, f"the plan takes {first.threads} threads of {threads}")
    return Finding("ok", aspect, "pure")


def _declines(backend: Backend, problem: Problem) -> str | None:
    reason = backend.refuses(problem)
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise VerificationError(f"declines() returned {reason!r}; expected a sentence or None")
    return reason


def _same(x: np.ndarray, y: np.ndarray, *, exactly: bool = True) -> bool:
    """Return whether two results are equal, NaN to NaN; not `exactly`: up to the order of parallel sums."""
    if exactly or is_exact(x.dtype):
        return np.array_equal(x, y, equal_nan=not is_exact(x.dtype))
    tolerance = float(np.sqrt(np.finfo(x.dtype).eps))
    with np.errstate(all="ignore"):
        return np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)


def _sentence(error: Exception) -> str:
    """Return the message of `error`, with its type if it is no error of the harness's own."""
    return str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
