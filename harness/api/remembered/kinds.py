"""Calls on a device that were checked for other sizes: so are those of all matrices that differ in sizes alone."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from harness.api.arguments import Arguments, order_of
from harness.api.arrays import Arrays
from harness.api.remembered.recent import Recent
from harness.operands import shares_with_itself
from harness.problem import Problem

# Most kinds of calls that are remembered.
MOST = 256


class _Kind(NamedTuple):
    """What a kind of call has in common: the kind of its arrays, and a product of other sizes."""

    arrays: Arrays
    problem: Problem


_kinds = Recent[_Kind](lambda: MOST)


def recall(options: Hashable, operands: dict[str, Any], out: Any) -> Arguments | None:
    """Return the arguments of a call of matrices that is checked but for sizes; None: it is not, or they do not fit.

    Parameters
    ----------
    options : hashable
        That of `repeats.options_of_gemm`.
    operands : dict
        a, b, and c if there is one.
    out : array or None
    """
    try:
        kind = _kinds.get(_key(options, operands, out))
        if kind is None:
            return None
        (m, k), (rows, n) = operands["a"].shape, operands["b"].shape
    except (TypeError, AttributeError, ValueError):  # no arrays, or no matrices, which the checks report
        return None
    c, of_out = operands.get("c"), "C" if out is None else order_of(out)
    if k != rows or any(x is not None and x.shape != (m, n) for x in (c, out)) or kind.problem.triangle:
        return None
    if of_out == "A" and shares_with_itself(out.shape, out.strides, out.itemsize):
        return None
    layout = order_of(operands["a"]) + order_of(operands["b"]) + of_out
    return Arguments(kind.arrays, operands, kind.problem.laid_out(layout, m=m, n=n, k=k), ())


def remembered(arguments: Arguments, options: Hashable, out: Any) -> Arguments:
    """Return arguments that were checked, and remember the kind of their call, if it is one of matrices on a device."""
    arrays = *arguments.inputs.values(), *(() if out is None else (out,))
    is_plain = all(type(x) is arguments.arrays.module.ndarray and x.ndim == 2 for x in arrays)
    if options is not None and arguments.arrays.on_device and is_plain:
        _kinds.put(_key(options, arguments.inputs, out), _Kind(arguments.arrays, arguments.problem))
    return arguments


def forget() -> None:
    """Forget every kind."""
    _kinds.clear()


def _key(options: Hashable, operands: dict[str, Any], out: Any) -> Hashable:
    """Return all of a call but its sizes."""
    of_arrays = [(name, x.__class__, x.dtype, x.data.device_id) for name, x in operands.items()]
    return options, *of_arrays, None if out is None else (out.__class__, out.dtype, out.data.device_id)
