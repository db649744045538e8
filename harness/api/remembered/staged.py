"""Small products of NumPy arrays that are remembered: a further call copies in, computes, and copies out.

Checks, the choice of a backend, its plan and its preparation take 0.1 to 0.3 ms, whatever the sizes. A small product
that has no shortcut (a C that is broadcast, two dtypes, strides, bools, a triangle, an argk) takes a hundredth of that.
So the second call of a kind prepares the product on arrays of its own, of the same layout, and later calls copy
operands to these.

A kind of call is given by its options and the layout of each array, not by values or addresses. So the bits are those
of the first call, and `out` may share memory with operands. Each kind has such arrays for as many Python threads as
have computed it at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from harness.api.arguments import Arguments
from harness.api.remembered.recent import Recent
from harness.memory import on_free
from harness.operands import Operands, span

# Most kinds of calls, and most bytes of the arrays of one: a copy of more takes as long as what it saves.
MOST, MOST_BYTES = 64, 2**19

# prepare(operands, *others) -> run: `run` computes into `operands.out` and the other results, any number of times.
Prepare = Callable[..., Callable[[], Any]]
Results = tuple[np.ndarray, ...]
Context = Callable[[], AbstractContextManager[Any]]


class Stage(NamedTuple):
    """A product on arrays of its own.

    Attributes
    ----------
    run : callable
        ``run()`` computes `results` from `inputs`.
    inputs : list of (callable, array)
        What copies an operand, and where to: a, b, and C if it is read.
    results : tuple of array
        D, and argk if that is asked for.
    has_rest : bool
        Whether the product leaves a part of D as it is, so that this is copied in too.
    fill : scalar or None
        What a new D holds in that part.
    """

    run: Callable[[], Any]
    inputs: list[tuple[Callable[..., None], np.ndarray]]
    results: Results
    has_rest: bool
    fill: Any

    def compute(self, operands: Sequence[np.ndarray], out: Results | None) -> Results:
        """Return `out`, or new arrays, with the product of `operands`."""
        for (copy, own), x in zip(self.inputs, operands, strict=False):
            copy(own, x, casting="unsafe")
        if self.has_rest and out is not None:
            np.copyto(self.results[0], out[0])
        elif self.fill is not None:
            self.results[0].fill(self.fill)
        self.run()
        if out is None:
            return tuple([x.copy() for x in self.results])
        for own, x in zip(self.results, out, strict=True):
            np.copyto(x, own)
        return out


# Of a signalling NaN a cast reports that it is invalid.
_cast = np.errstate(all="ignore")(np.copyto)


class _Kind(NamedTuple):
    """A kind of call: stages that no thread is using, none at first, and the context that a product is computed in."""

    idle: list[Stage]
    limited: Context


_kinds = Recent[_Kind](lambda: MOST)


def _key(options: Hashable, operands: Sequence[Any], out: Results | None) -> Hashable:
    """Return the kind of a call; None: it is not remembered."""
    if options is None:
        return None
    layouts = []
    for x in operands if out is None else (*operands, *out):
        if x.__class__ is not np.ndarray:
            return None
        layouts.append((x.dtype, x.shape, x.strides, x.flags.num))
    return options, len(operands), *layouts


def recall(options: Hashable, operands: Sequence[Any], out: tuple[Any, ...] | None) -> Results | None:
    """Compute a product of a remembered kind, and return the results; None: nothing was done.

    Parameters
    ----------
    options : hashable
        Those of `repeats.options_of_gemm` or `repeats.options_of_argk`.
    operands : sequence of array
        a, b, and C if there is one.
    out : tuple of array or None
        Where the results go; None: they are new arrays.
    """
    try:
        kind = _kinds.get(_key(options, operands, out))
        if kind is None:
            return None
        stage = kind.idle.pop()
    except (TypeError, IndexError):  # no key at all, which the checks report; or other threads compute with all of them
        return None
    try:
        with kind.limited():
            return stage.compute(operands, out)
    finally:
        kind.idle.append(stage)


def remember(
    options: Hashable,
    arguments: Arguments,
    out: tuple[Any, ...] | None,
    prepare: Prepare,
    limited: Context,
    others: Sequence[np.dtype[Any]] = (),
) -> None:
    """Remember a kind of call that has been computed: its stage is made when it comes again.

    Parameters
    ----------
    options, out
        As of `recall`.
    arguments : Arguments
    prepare : callable
        ``prepare(operands, *results)`` returns ``run()``, by which the chosen backend computes the product, or the
        batch, any number of times. It keeps no memory that another product may use meanwhile.
    limited : callable
        Returns the context in which it has the number of threads of the call.
    others : sequence of dtype
        Of the results beside D, which have its shape.
    """
    key = _key(options, tuple(arguments.inputs.values()), out)
    if key is None or not arguments.problem.pairs or _bytes_of(arguments, out, others) > MOST_BYTES:
        return
    kind = _kinds.get(key)
    if kind is None:
        _kinds.put(key, _Kind([], limited))
    else:
        kind.idle.append(_stage(arguments, out, prepare, others))


@on_free
def forget() -> None:
    """Forget every kind of call, and give back its arrays."""
    _kinds.clear()


def _stage(arguments: Arguments, out: Results | None, prepare: Prepare, others: Sequence[np.dtype[Any]]) -> Stage:
    """Return the product on arrays of its own, which has not been computed."""
    problem, inputs = arguments.problem, arguments.inputs
    dtypes = (problem.dtype, *others)
    if out is None:
        results = tuple(np.empty(arguments.shape, dtype) for dtype in dtypes)
    else:
        results = tuple(map(_like, out, dtypes))
    own = {name: _like(x, arguments.dtype_of(name)) for name, x in inputs.items()}
    if not problem.accumulate:
        own.pop("c", None)
    batches = {name: np.broadcast_to(x, (*arguments.batch, *x.shape[-2:])) for name, x in own.items()}
    has_rest = problem.triangle == "d"
    fill = problem.semiring.zero(problem.dtype) if has_rest else None
    run = prepare(Operands(batches["a"], batches["b"], batches.get("c"), results[0]), *results[1:])
    copied = [(np.copyto if x.dtype == inputs[name].dtype else _cast, x) for name, x in own.items()]
    return Stage(run, copied, results, has_rest, fill)


def _bytes_of(arguments: Arguments, out: Results | None, others: Sequence[np.dtype[Any]]) -> int:
    """Return the bytes of the arrays of a stage: operands, and results, also those that a call returns as new ones."""
    arrays = [*arguments.inputs.values(), *(out or ())]
    spans = [span(x.shape, x.strides, x.itemsize) for x in arrays]
    total = sum(max(end - low, int(x.nbytes)) for x, (low, end) in zip(arrays, spans, strict=True))
    if out is None:
        total += math.prod(arguments.shape) * sum(x.itemsize for x in (arguments.problem.dtype, *others))
    return total


def _like(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return an array of the layout that backends see of `x`: its own, or that of a copy with the product's dtype."""
    if x.dtype != dtype or not x.flags.aligned:
        return np.empty_like(x, dtype, subok=False)
    low, end = span(x.shape, x.strides, x.itemsize)
    return np.ndarray(x.shape, dtype, np.empty(end - low, np.uint8), -low, x.strides)
