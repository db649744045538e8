"""What calls of sequences must return: the definitions, step by step in a wide type, and all paths where those are few.

Errors that are allowed follow the steps: (+) of logarithms loses no more than its operands have lost, and rounds by
what it computes with, states less the largest among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from harness.dtypes import is_exact, is_float
from harness.errors import VerificationError
from harness.problem import Problem
from harness.proof import reference
from harness.proof.programs.program import SEQUENCES, Program, semiring_of
from harness.semiring import Semiring

MOST_PATHS = 512  # that are enumerated
LARGEST = 1e6  # of a value that is computed with: overlapping arrays have any bytes
_WIDE = np.longdouble
ROUNDINGS = 16  # of a sum, beside one for each term


class Model(NamedTuple):
    """One sequence, cut to its length: initial (S,), matrices (L - 1, S, S), emission (L, S), and eps of its dtype."""

    initial: np.ndarray
    matrices: np.ndarray
    emission: np.ndarray
    eps: float


class Along(NamedTuple):
    """States at each t (L, S), and the error that is allowed at each (L,)."""

    states: np.ndarray
    errors: np.ndarray


def check(program: Program, inputs: list[np.ndarray], results: list[np.ndarray]) -> None:
    """Raise VerificationError unless `results` are those of the call."""
    with np.errstate(all="ignore"):
        if all(map(_is_computed_with, inputs)):
            (_check_model if SEQUENCES[program.call] else _check_scan)(program, inputs, results)


def step_of(program: Program, inputs: list[np.ndarray]) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return a step as a product, and its operands."""
    dtype, states = _dtype(program, inputs), inputs[-1].shape[-1]
    a = b = np.zeros((states, states), dtype)
    return Problem(states, states, states, semiring_of(program.semiring), dtype), a, b, None


def _dtype(program: Program, inputs: list[np.ndarray]) -> np.dtype[Any]:
    dtype = np.result_type(*(x.dtype for x in inputs))
    if SEQUENCES[program.call] and dtype.itemsize < 4:
        return np.dtype(np.float32 if is_float(dtype) else np.int32)
    return dtype


def _is_computed_with(x: np.ndarray) -> bool:
    if is_exact(x.dtype):
        extremes = () if x.dtype == bool else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        return (
            x.dtype.itemsize < 2
            or not x.size
            or bool((np.isin(x, extremes) | (x // 1000 == 0) | (x // 1000 == -1)).all())
        )
    wide = x.astype(np.float64)
    return not np.isnan(wide).any() and bool((np.isinf(wide) | (np.abs(wide) < LARGEST)).all())


def _assert_form(what: str, x: np.ndarray, shape: tuple[int, ...], dtype: Any) -> None:
    if (x.shape, x.dtype) != (shape, np.dtype(dtype)):
        expected, got = f"{shape} of {np.dtype(dtype)}", f"{x.shape} of {x.dtype}"
        raise VerificationError(f"{what} has another form", expected=expected, got=got)


def _assert_near(what: str, got: np.ndarray, expected: np.ndarray, allowed: Any) -> None:
    """Raise unless elements are equal, or as near as is allowed."""
    wide = got.astype(_WIDE) if is_float(got.dtype) else got
    wrong = wide != expected
    if np.any(allowed):
        wrong &= ~(np.isfinite(expected) & (np.abs(wide - expected) <= allowed))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        far = f"{expected[at]}, within {np.broadcast_to(allowed, wrong.shape)[at]:.3g}"
        raise VerificationError(f"element {at} of {what} is wrong", expected=far, got=str(got[at]))


# ------------------------------------------------------------------------------------------------------------ models


def _check_model(program: Program, inputs: list[np.ndarray], results: list[np.ndarray]) -> None:
    dtype, given = _dtype(program, inputs), [_as_scores(x, _dtype(program, inputs)) for x in inputs]
    is_batched = given[2].ndim == 3
    emission = given[2] if is_batched else given[2][None]
    count, steps, states = emission.shape
    shapes = {
        "forward": ((count,), (count, steps, states)), "posterior": ((count, steps, states),),
        "viterbi": ((count, steps), (count,)),
    }  # fmt: skip
    kinds = {"viterbi": (np.int32, dtype)}.get(program.call, (dtype, dtype))
    found = [x if is_batched else x[None] for x in results]
    for x, shape, kind in zip(found, shapes.get(program.call, shapes["forward"]), kinds, strict=False):
        _assert_form(program.call, x, shape, kind)
    initial = np.broadcast_to(given[0], (count, states))
    matrices = np.broadcast_to(given[1], (count, max(steps - 1, 0), states, states))
    lengths = program.options.get("lengths") or [steps] * count
    eps = 0.0 if is_exact(dtype) else float(np.finfo(dtype).eps)
    check_one = {"viterbi": _check_path, "posterior": _check_marginals}.get(program.call, _check_states)
    for b, length in enumerate(lengths):
        model = Model(initial[b], matrices[b, : max(length - 1, 0)], emission[b, :length], eps)
        check_one(program, model, [x[b] for x in found])


def _as_scores(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return logarithms; the least integer is -inf."""
    x = x.astype(dtype)
    return x.astype(_WIDE) if is_float(dtype) else np.where(x == np.iinfo(dtype).min, -np.inf, x.astype(_WIDE))


def _reach(*arrays: np.ndarray) -> float:
    return float(sum(np.abs(x[np.isfinite(x)]).max(initial=0) for x in arrays))


def _forward(model: Model, add: Any) -> Along:
    """Return the states after each step."""
    states, errors = [], []
    x, error = model.initial, 0.0
    for t, e in enumerate(model.emission):
        if t:
            error += model.eps * (len(x) + ROUNDINGS + _reach(_less_top(x), model.matrices[t - 1]))
            x = add.reduce(x[:, None] + model.matrices[t - 1], axis=0)
        error += model.eps * _reach(_less_top(x), e, *(() if t else (x,)))
        x = x + e
        error += (
            float(np.finfo(np.float64).eps * np.abs(_top(x))[0]) if model.eps else 0.0
        )  # what was taken off is a double
        states.append(x)
        errors.append(error)
    return Along(np.array(states).reshape(-1, len(x)), np.array(errors))


def _backward(model: Model) -> Along:
    """Return what follows each state."""
    flipped = model.emission[::-1], model.matrices[::-1].swapaxes(-1, -2)
    along = _forward(Model(np.zeros_like(model.initial), flipped[1], flipped[0], model.eps), np.logaddexp)
    states = np.zeros((len(model.emission), len(model.initial)), _WIDE)
    for t in range(len(states) - 2, -1, -1):
        states[t] = np.logaddexp.reduce(model.matrices[t] + (model.emission[t + 1] + states[t + 1]), axis=1)
    return Along(states, along.errors[::-1])


def _top(x: np.ndarray) -> Any:
    top = x.max(axis=-1, keepdims=True)
    return np.where(top > -np.inf, top, 0)


def _less_top(x: np.ndarray) -> np.ndarray:
    less: np.ndarray = x - _top(x)
    return less


def _paths(model: Model) -> np.ndarray:
    """Return the value of each path, (S,) * L."""
    values: np.ndarray = model.initial + model.emission[0]
    for matrix, e in zip(model.matrices, model.emission[1:], strict=True):
        values = values[..., None] + matrix + e
    return values


def _total(model: Model, add: Any, last: np.ndarray) -> Any:
    """Return the sum over all paths."""
    length, states = model.emission.shape
    is_short = length < 10 and states**length <= MOST_PATHS
    return add.reduce(_paths(model).ravel() if is_short else last)


def _check_states(program: Program, model: Model, found: list[np.ndarray]) -> None:
    """Check a log-likelihood, and alphas or betas."""
    length, states = model.emission.shape
    if not length:
        _assert_near("the log-likelihood", found[0], np.array(0.0), 0)
        return _assert_near("what is beyond the end", found[1], np.full(found[1].shape, -np.inf), 0)
    alphas = _forward(model, np.logaddexp)
    along = alphas if program.call == "forward" else _backward(model)
    total, rounding = np.asarray(_total(model, np.logaddexp, alphas.states[-1])), 2 * model.eps
    last = max(alphas.errors[-1], along.errors[0]) + model.eps * (states + ROUNDINGS + _reach(model.initial))
    _assert_near("the log-likelihood", found[0], total, last + rounding * np.abs(total))
    allowed = along.errors[:, None] + rounding * np.abs(along.states)
    _assert_near("the states", found[1][:length], along.states, allowed)
    return _assert_near("what is beyond the end", found[1][length:], np.full(found[1][length:].shape, -np.inf), 0)


def _check_marginals(_: Program, model: Model, found: list[np.ndarray]) -> None:
    """Check the probabilities of states."""
    length, states = model.emission.shape
    _assert_near("what is beyond the end", found[0][length:], np.zeros(found[0][length:].shape), 0)
    if not length:
        return
    alphas, betas = _forward(model, np.logaddexp), _backward(model)
    joint = alphas.states + betas.states
    total = _total(model, np.logaddexp, alphas.states[-1])
    expected = np.exp(joint - total) if total > -np.inf else np.zeros_like(joint)
    far = [np.abs(np.where(np.isfinite(x.states), _less_top(x.states), 0)) for x in (alphas, betas)]
    relative = (alphas.errors + betas.errors)[:, None] + model.eps * (states + ROUNDINGS + far[0] + far[1])
    smallest = float(np.finfo(found[0].dtype).smallest_normal)
    _assert_near("the posterior", found[0][:length], expected, np.expm1(2 * relative) * expected + smallest)


def _check_path(_: Program, model: Model, found: list[np.ndarray]) -> None:
    """Check a path and its score: the best one, and of several such the one with the smallest states from the end."""
    path, score = found
    length, states = model.emission.shape
    _assert_near("what is beyond the end", path[length:], np.full(path[length:].shape, -1), 0)
    if not length:
        return _assert_near("the score", score, np.array(0), 0)
    if not ((path[:length] >= 0) & (path[:length] < states)).all():
        raise VerificationError("a path leaves the states", expected=f"0 to {states - 1}", got=str(path[:length]))
    along = _forward(model, np.maximum)
    best = np.asarray(_total(model, np.maximum, along.states[-1]))
    allowed = along.errors[-1] + 2 * model.eps * np.abs(best)
    least = best if is_float(score.dtype) or best > -np.inf else np.array(np.iinfo(score.dtype).min)
    _assert_near("the score", score, least, allowed)
    if best == -np.inf:
        return None
    if all(_is_integral(x) for x in model[:3]):
        return _assert_near("the path", path[:length], _best_path(model, along.states), 0)
    steps = model.matrices[np.arange(length - 1), path[: length - 1], path[1:length]]
    value = model.initial[path[0]] + model.emission[np.arange(length), path[:length]].sum() + steps.sum()
    return _assert_near("the value of the path", np.asarray(value), best, 2 * allowed)


def _is_integral(x: np.ndarray) -> bool:
    return bool((np.isinf(x) | (np.rint(x) == x)).all())


def _best_path(model: Model, states: np.ndarray) -> np.ndarray:
    path = [int(states[-1].argmax())]
    for before, matrix in zip(states[-2::-1], model.matrices[::-1], strict=True):
        path.append(int((before + matrix[:, path[-1]]).argmax()))
    return np.array(path[::-1])


# ------------------------------------------------------------------------------------------------------------- scans


def _check_scan(program: Program, inputs: list[np.ndarray], results: list[np.ndarray]) -> None:
    """Check prefix products, or suffixes, of matrices or of vectors; and the whole product."""
    dtype, semiring, a, *vectors = _dtype(program, inputs), semiring_of(program.semiring), *inputs
    steps, states, is_back = a.shape[-3], a.shape[-1], bool(program.options.get("reverse"))
    batch = np.broadcast_shapes(a.shape[:-3], *(x.shape[:-1] for x in vectors))
    own = (states,) if vectors else (states, states)
    _assert_form("the result", results[0], (*batch, *(() if program.call == "chain" else (steps,)), *own), dtype)
    algebra = reference.algebra(semiring, dtype)
    add: Any = algebra.add
    a, *vectors = (x.astype(dtype).astype(algebra.work) for x in inputs)
    a, vectors = (
        np.broadcast_to(a, (*batch, steps, states, states)),
        [np.broadcast_to(x, (*batch, states)) for x in vectors],
    )
    for index in np.ndindex(batch):
        matrices = a[index][::-1].swapaxes(-1, -2) if is_back else a[index]
        begin = vectors[0][index][None] if vectors else _identity(semiring, dtype, states).astype(algebra.work)
        products = _prefixes(begin, matrices, lambda x, y: add.reduce(algebra.multiply(x[:, :, None], y), axis=1))
        allowed = _allowed(semiring, dtype, begin, matrices)
        if allowed is None:
            continue
        if is_back:
            products, allowed = products[::-1], allowed[::-1]
            products, allowed = (x if vectors else x.swapaxes(-1, -2) for x in (products, allowed))
        got = results[0][index]
        if program.call == "chain":
            products, allowed = (products[-1], allowed[-1]) if steps else (begin, np.zeros(()))
        _assert_near(
            f"the products {index}",
            got,
            products.reshape(got.shape),
            np.broadcast_to(allowed, products.shape).reshape(got.shape),
        )


def _identity(semiring: Semiring, dtype: np.dtype[Any], states: int) -> np.ndarray:
    one = np.full((states, states), semiring.zero(dtype), dtype)
    np.fill_diagonal(one, semiring.one(dtype))
    return one


def _prefixes(x: np.ndarray, matrices: np.ndarray, multiply: Callable[..., np.ndarray]) -> np.ndarray:
    """Return the products of `x` and of the first matrices, (T, rows, S)."""
    products = np.empty((len(matrices), *x.shape), x.dtype)
    for t, matrix in enumerate(matrices):
        products[t] = x = multiply(x, matrix)
    return products


def _allowed(semiring: Semiring, dtype: np.dtype[Any], begin: np.ndarray, matrices: np.ndarray) -> np.ndarray | None:
    """Return what products in any order may lose, or None if some of them overflow."""
    steps, _, states = matrices.shape
    roundings = 0.0 if is_exact(dtype) else 2 * (steps + 1) * (states + ROUNDINGS) * float(np.finfo(dtype).eps)
    if semiring.multiply.name == "times" and roundings:
        sizes = np.abs(matrices)
        if np.maximum(sizes.sum(axis=-1).max(axis=-1), 1).prod() * np.abs(begin).max() > np.finfo(dtype).max / 4:
            return None
        return _prefixes(np.abs(begin), sizes, np.matmul) * roundings + float(np.finfo(dtype).smallest_normal)
    if semiring.multiply.name != "plus" or not roundings:
        return np.zeros((steps, 1, 1))
    reach, fractions = _reach(begin, *matrices), [x for x in (begin, matrices) if not _is_integral(x)]
    is_rounded = semiring.is_log_sum or fractions or reach * float(np.finfo(dtype).eps) > 1  # whole numbers, too
    return np.full((steps, 1, 1), roundings * (1 + reach) if is_rounded else 0.0)
