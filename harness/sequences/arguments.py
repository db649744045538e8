"""The arguments of a model, checked once: of B sequences, all of one dtype, with a matrix for each step."""

from __future__ import annotations

import functools
import warnings
from typing import Any, NamedTuple

import numpy as np

from harness import arithmetic
from harness.api import choice, limits
from harness.api.arrays import Arrays, kind_of
from harness.api.remembered.recent import Recent
from harness.dtypes import is_float
from harness.errors import ProblemError
from harness.interface import Stepped, Steps
from harness.problem import Problem
from harness.semiring import SEMIRINGS, Semiring
from harness.sequences import chunks
from harness.sequences.by_products import steps_by_products
from harness.tuning.sequences import PRODUCT_COUNT, PRODUCT_STATES

# Steps on the host that are kept ready: a few hundred bytes each.
_kept = Recent[Steps](lambda: 64)

_SUM_OF_ROW = 1e-3  # how far from 1 the sum of probabilities may be


class Model(NamedTuple):
    """A model and the sequences that it is computed for.

    Attributes
    ----------
    arrays : Arrays
    caller : str
    initial : (B, S) array
    transition : (B, T - 1, S, S) array
        Of strides 0 where one matrix serves all steps, or all sequences.
    emission : (B, T, S) array
    lengths : (B,) array of int64, on the host
    is_batched : bool
        Whether the caller gave a B.
    """

    arrays: Arrays
    caller: str
    initial: Any
    transition: Any
    emission: Any
    lengths: np.ndarray
    is_batched: bool

    @property
    def lengths_there(self) -> Any:
        """The lengths where the arrays lie."""
        return self.arrays.module.asarray(self.lengths)

    def reversed(self) -> Model:
        """Return the same with time running back: the matrices are transposed."""
        flipped, one = self.transition[:, ::-1].swapaxes(-1, -2), np.zeros((), self.emission.dtype)
        initial = self.arrays.module.broadcast_to(self.arrays.constant(one), self.initial.shape)
        return self._replace(initial=initial, transition=flipped, emission=self.emission[:, ::-1])

    def given(self, x: Any) -> Any:
        """Return a result as the caller gave arguments: without a B if there was none."""
        return x if self.is_batched else x[0]


def read_model(caller: str, initial: Any, transition: Any, emission: Any, lengths: Any, *, counts: bool) -> Model:
    """Check and convert the arguments of `caller`; with `counts` integers are scores, too.

    Raises
    ------
    ProblemError
    """
    given = {"initial": initial, "transition": transition, "emission": emission}
    arrays = kind_of(caller, given)
    given = {name: arrays.take(caller, name, x) for name, x in given.items()}
    with arrays.in_force():
        dtype = _dtype(caller, given, counts=counts)
        initial, transition, emission = (arrays.converted(x, dtype) for x in given.values())
        if emission.ndim not in (2, 3):
            raise _shape_error(caller, "emission", "(T, S) or (B, T, S)", emission)
        is_batched = emission.ndim == 3
        emission = emission if is_batched else emission[None]
        count, steps, states = emission.shape
        if states == 0:
            raise _shape_error(caller, "emission", "of one state or more", emission)
        whole = {"initial": (count, states), "transition": (count, max(steps - 1, 0), states, states)}
        initial = _broadcast(arrays, caller, "initial", initial, whole["initial"])
        if transition.ndim == 3 and is_batched and transition.shape[0] != whole["transition"][1]:
            raise _shape_error(caller, "transition", _shapes(whole["transition"]), transition)
        transition = _broadcast(arrays, caller, "transition", transition, whole["transition"])
        if not arrays.on_device:
            _warn_of_probabilities(caller, initial, transition)
    checked = _lengths(caller, lengths, count, steps, is_batched=is_batched)
    return Model(arrays, caller, initial, transition, emission, checked, is_batched)


def _dtype(caller: str, given: dict[str, Any], *, counts: bool) -> np.dtype[Any]:
    dtype = np.dtype(np.result_type(*(x.dtype for x in given.values())))
    if is_float(dtype):
        return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    if counts and dtype.kind == "i":
        return dtype if dtype.itemsize >= 4 else np.dtype(np.int32)
    raise ProblemError(
        f"{caller}: {dtype.name} holds no logarithms",
        expected="float32, float64, or 16-bit floats" + (", or signed integers as scores" if counts else ""),
        got=", ".join(f"{name}: {x.dtype}" for name, x in given.items()),
        fix="numpy.log(probabilities), or x.astype('float64')",
    )


def _shapes(whole: tuple[int, ...]) -> str:
    return " or ".join(str(whole[i:]) for i in range(len(whole) - 2, -1, -1))


def _broadcast(arrays: Arrays, caller: str, name: str, x: Any, whole: tuple[int, ...]) -> Any:
    """Return `x` with all dimensions, of strides 0 where it has none."""
    least = 1 if name == "initial" else 2
    own = (1,) * (len(whole) - x.ndim) + x.shape
    if x.ndim < least or x.ndim > len(whole) or own[-least:] != whole[-least:]:
        raise _shape_error(caller, name, f"{whole[-1:]} or {whole}" if least == 1 else _shapes(whole), x)
    if any(mine not in (1, other) for mine, other in zip(own, whole, strict=True)):
        raise _shape_error(caller, name, f"{whole[-1:]} or {whole}" if least == 1 else _shapes(whole), x)
    return arrays.module.broadcast_to(x, whole)


def _shape_error(caller: str, name: str, expected: str, x: Any) -> ProblemError:
    return ProblemError(
        f"{caller}: {name} does not chain with the others",
        expected=f"shape {expected}",
        got=f"shape {tuple(x.shape)}",
        fix="emission is (T, S) or (B, T, S), and fixes B, T and S",
    )


def _lengths(caller: str, lengths: Any, count: int, steps: int, *, is_batched: bool) -> np.ndarray:
    if lengths is None:
        return np.full(count, steps, np.int64)
    lengths = lengths.cpu() if hasattr(lengths, "cpu") else lengths  # of PyTorch
    host = np.asarray(lengths.get() if hasattr(lengths, "get") else lengths)
    checked = host if is_batched else host.reshape(-1)
    if (checked.size and checked.dtype.kind not in "iu") or checked.shape != (count,):
        raise ProblemError(
            f"{caller}: lengths are not a number of steps of each sequence",
            expected=f"integers of shape ({count},)",
            got=f"{host.dtype} of shape {host.shape}",
        )
    checked = checked.astype(np.int64)
    if count and not 0 <= checked.min() <= checked.max() <= steps:
        raise ProblemError(
            f"{caller}: a length lies beyond the emission",
            expected=f"0 to {steps}, which is T",
            got=f"from {checked.min()} to {checked.max()}",
        )
    return checked


def _warn_of_probabilities(caller: str, initial: np.ndarray, transition: np.ndarray) -> None:
    """Warn if rows that should be logarithms sum to 1 as probabilities do."""
    for name, x in (("initial", initial[:1]), ("transition", transition[:1, :1])):
        is_of_rows = x.shape[-1] > 1 and x.size and is_float(x.dtype) and x.min() >= 0
        if is_of_rows and np.abs(x.sum(axis=-1) - 1).max() < _SUM_OF_ROW:
            warnings.warn(
                f"{caller}: {name} looks like probabilities (rows that sum to 1); it is taken for logarithms: "
                f"numpy.log({name})",
                stacklevel=5,
            )


def run_steps(
    model: Model, semiring: str | Semiring, keeps: str, backend: str, threads: int | None,
    *, firsts: np.ndarray | None = None, **options: bool,
) -> Stepped:  # fmt: skip
    """Compute all steps of the model, by the options of `Abilities.prepare_steps`."""
    steps = _steps_of(model, semiring, keeps, backend, threads, **options)
    firsts = np.zeros_like(model.lengths) if firsts is None else firsts
    return steps(model.initial, model.transition, model.emission, model.lengths, firsts)


def _steps_of(
    model: Model, semiring: str | Semiring, keeps: str, backend: str, threads: int | None,
    *, is_relative: bool = False, is_traced: bool = False,
) -> Steps:  # fmt: skip
    """Return what computes the steps of the model: a backend's own kernel, or products."""
    semiring = SEMIRINGS[semiring] if isinstance(semiring, str) else semiring
    threads = limits.check_threads(threads)
    count, _, states = model.emission.shape
    is_one = model.transition.strides[:2] == (0, 0)
    is_of_products = not model.arrays.on_device and is_one and count >= PRODUCT_COUNT and states >= PRODUCT_STATES
    options = keeps, is_relative, is_traced
    key = count, states, semiring, model.emission.dtype, backend, threads, options, is_of_products
    found = None if model.arrays.on_device else _kept.get((*key, arithmetic.is_native()))
    if found is not None:
        return found
    problem = Problem(count, states, states, semiring, model.emission.dtype)
    chosen = choice.choose(problem, backend, model.arrays, count=threads)
    steps = None
    if not is_of_products:
        steps = chosen.prepare_steps(problem, keeps, is_relative=is_relative, is_traced=is_traced)
    if steps is None:
        return functools.partial(steps_by_products, model.arrays, problem, *options, backend, threads)

    def limited(*arguments: Any) -> Any:
        with limits.limited_to(threads, chosen):
            return steps(*arguments)

    if not model.arrays.on_device:
        _kept.put((*key, arithmetic.is_native()), limited)
    elif chunks.pays(problem, model.emission.shape, model.transition.strides):
        return chunks.InChunks(chosen, problem, limited, *options)
    return limited
