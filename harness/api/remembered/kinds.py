"""Products on a device of sizes that are new, where the same call was checked for others: prepared, and then recalled.

Such a call differs from a checked one in nothing but the sizes and strides of its matrices. So it is enough that these
fit each other, and what is prepared is remembered as if the product had been computed before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from harness.api.arguments import Arguments, order_of
from harness.api.arrays import Arrays
from harness.api.choice import chooser
from harness.api.limits import machine_of
from harness.api.remembered import repeats
from harness.interface import Backend, make_plan, prepare
from harness.operands import Operands, shares_with_itself
from harness.problem import Problem


class _Kind(NamedTuple):
    """What calls that differ in sizes have in common.

    Attributes
    ----------
    arrays : Arrays
    problem : Problem
        Of any sizes.
    choose : callable
        Returns the backend of a product that is no batch (`harness.api.choice.chooser`).
    threads : int or None
    """

    arrays: Arrays
    problem: Problem
    choose: Callable[[Problem, tuple[int, ...]], Backend]
    threads: int | None


def prepared(options: Hashable, operands: Sequence[Any], out: Any) -> repeats.Entry | None:
    """Prepare a product of matrices of a kind that is known, and return it, remembered; None: that cannot be done.

    The checks then say what is wrong, if anything is.

    Parameters
    ----------
    options : hashable
        That of `repeats.options_of_gemm`.
    operands : sequence of array
        a, b, and c if there is one.
    out : array or None
    """
    try:
        kind = repeats.kinds.get(_key(options, operands, out))
        problem = kind and _problem(kind.problem, operands, out)
        return _prepare(kind, problem, options, operands, out) if kind and problem else None
    except Exception:  # noqa: BLE001 - whatever it is, the long way reports it
        return None


def remember(options: Hashable, arguments: Arguments, out: Any, backend: str, count: int | None) -> None:
    """Remember the kind of a call that has been checked, if it is one of matrices, none of which is converted."""
    problem, inputs = arguments.problem, arguments.inputs
    is_plain = all(x.ndim == 2 for x in inputs.values()) and not problem.triangle and not arguments.are_converted()
    if options is not None and is_plain:
        kind = _Kind(arguments.arrays, problem, chooser(backend, arguments.arrays, count), count)
        repeats.kinds.put(_key(options, tuple(inputs.values()), out), kind)


def _key(options: Hashable, operands: Sequence[Any], out: Any) -> Hashable:
    """Return all of a call but its sizes and strides."""
    arrays = operands if out is None else (*operands, out)
    return options, out is None, *[(x.__class__, x.dtype, x.data.device_id) for x in arrays]


def _problem(like: Problem, operands: Sequence[Any], out: Any) -> Problem | None:
    """Return the product of matrices, as `like` but for its sizes and layout; None: they do not fit."""
    a, b, *others = operands
    (m, k), (rows, n), written = a.shape, b.shape, "C"
    if out is not None:
        others.append(out)
        written = order_of(out)
        if written == "A" and shares_with_itself(out.shape, out.strides, out.itemsize):
            return None
    if k != rows or not (m and n and k) or any(x.shape != (m, n) for x in others):
        return None
    return like.laid_out(order_of(a) + order_of(b) + written, m=m, n=n, k=k)


def _prepare(
    kind: _Kind, problem: Problem, options: Hashable, operands: Sequence[Any], out: Any
) -> repeats.Entry | None:
    arrays, count = kind.arrays, kind.threads
    with arrays.in_force():
        arrays.refuse_capture("this product has not been computed before", "call it once before the capture begins")
        backend = kind.choose(problem, ())
        result = arrays.empty((problem.m, problem.n), problem.dtype) if out is None else out
        a, b, c = (*operands, None)[:3]
        placed = Operands(a, b, c if problem.accumulate else None, result)
        execution = prepare(backend, make_plan(backend, problem, machine_of(count)), placed)
        return repeats.remember(options, execution, arrays, operands, (result,), out)
