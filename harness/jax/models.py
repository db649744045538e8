"""`harness.jax.forward`, `viterbi` and `scan`: as those of `harness.sequences`, with their gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from harness.api.libraries.gpu import cupy
from harness.jax.calls import call, like, result
from harness.jax.products import gemm, sum_to
from harness.semiring import Semiring, as_semiring
from harness.sequences import forward as forward_of_arrays
from harness.sequences import gradients, scans
from harness.sequences import viterbi as viterbi_of_arrays
from harness.sequences.arguments import read_model

Array = Any  # jax.Array, or a tracer


def forward(initial: Array, transition: Array, emission: Array, lengths: Array | None = None) -> tuple[Array, Array]:
    """Compute the log-likelihood of sequences, and all prefixes, as `harness.sequences.forward` does.

    The log-likelihood has gradients by the first three arguments. `jax.vmap` makes more sequences of one call.
    """
    (total, alphas), is_batched = _applied(_forward, initial, transition, emission, lengths, counts=False)
    alphas = jax.lax.stop_gradient(alphas)
    return (total, alphas) if is_batched else (total[0], alphas[0])


def viterbi(initial: Array, transition: Array, emission: Array, lengths: Array | None = None) -> tuple[Array, Array]:
    """Compute the best path through each sequence, and its score, which has gradients."""
    (path, score), is_batched = _applied(_viterbi, initial, transition, emission, lengths, counts=True)
    return (path, score) if is_batched else (path[0], score[0])


def scan(
    a: Array, semiring: str | Semiring = "plus_times", *, initial: Array | None = None, reverse: bool = False
) -> Array:
    """Compute all prefix products of matrices over a semiring, as `harness.sequences.scan` does, with its gradients."""
    a, semiring = scans.check_matrices("scan", jnp.asarray(a)), as_semiring(semiring)
    if initial is None:
        return scans.prefixes(jnp, a, functools.partial(gemm, semiring=semiring), reverse=reverse)
    initial = jnp.asarray(initial)
    scans.check_initial(a, initial)
    return _vectors(a, initial, semiring, reverse)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _vectors(a: Array, initial: Array, semiring: Semiring, reverse: bool) -> Array:
    batch = np.broadcast_shapes(a.shape[:-3], initial.shape[:-1])
    shape = (*batch, a.shape[-3], a.shape[-1])
    return call(_vectors_of_arrays(semiring, reverse), [result(shape, jnp.result_type(a, initial))], a, initial)[0]


@functools.cache
def _vectors_of_arrays(semiring: Semiring, reverse: bool) -> Callable[..., Any]:
    return lambda a, initial: scans.scan(a, semiring, initial=initial, reverse=reverse)


def _vectors_by_steps(a: Array, initial: Array, semiring: Semiring, reverse: bool) -> Array:
    """Return the same step by step, by products that have gradients."""

    def step(vector: Array, matrix: Array) -> tuple[Array, Array]:
        matrix = matrix.swapaxes(-1, -2) if reverse else matrix
        vector = gemm(vector, matrix, semiring=semiring)
        return vector, vector[..., 0, :]

    batch = np.broadcast_shapes(a.shape[:-3], initial.shape[:-1])
    vector = jnp.broadcast_to(initial, (*batch, initial.shape[-1]))[..., None, :]
    return jnp.moveaxis(jax.lax.scan(step, vector, jnp.moveaxis(a, -3, 0), reverse=reverse)[1], 0, -2)


def _vectors_forward(a: Array, initial: Array, semiring: Semiring, reverse: bool) -> tuple[Array, Any]:
    return _vectors(a, initial, semiring, reverse), (a, initial)


def _vectors_backward(semiring: Semiring, reverse: bool, kept: Any, g: Array) -> Any:
    return jax.vjp(functools.partial(_vectors_by_steps, semiring=semiring, reverse=reverse), *kept)[1](g)


_vectors.defvjp(_vectors_forward, _vectors_backward)


def _applied(
    function: Any, initial: Array, transition: Array, emission: Array, lengths: Array | None, *, counts: bool
) -> tuple[Any, bool]:
    """Return ``function(...)`` of arguments that are checked, of the dtype of results, and have all dimensions."""
    given = [jnp.asarray(x) for x in (initial, transition, emission)]
    like_initial, like_transition, like_emission = map(like, given)
    name = function.__name__.strip("_")
    model = read_model(name, like_initial, like_transition, like_emission, None, counts=counts)
    count, steps, states = model.emission.shape
    initial, transition, emission = (x.astype(model.emission.dtype) for x in given)
    steps_of = transition.shape[-3] if transition.ndim > 2 else 1
    whole = transition.reshape(transition.shape[0] if transition.ndim == 4 else 1, steps_of, states, states)
    lengths = jnp.full(count, steps, jnp.int32) if lengths is None else jnp.asarray(lengths).reshape(count)
    arguments = initial.reshape(-1, states), whole, emission.reshape(count, steps, states), lengths
    return function(*arguments), model.is_batched


def _flat(
    initial: Any, transition: Any, emission: Any, lengths: Any, *results: Any
) -> tuple[tuple[int, ...], list[Any]]:
    """Return the dimensions of sequences, and the arguments with one in their place, (N, S) and so on.

    A matrix that serves all steps of all sequences stays one.
    """
    batch = np.broadcast_shapes(initial.shape[:-1], transition.shape[:-3], emission.shape[:-2], lengths.shape)
    rows = int(np.prod(batch, dtype=np.int64))
    given, xp = (initial, transition, emission, lengths, *results), _module(emission)
    made = []
    for x, rank in zip(given, (1, 3, 2, 0, *(y.ndim - lengths.ndim for y in results)), strict=True):
        own = x.shape[x.ndim - rank :]
        flat = xp.broadcast_to(x, (*batch, *own)) if x.size != int(np.prod(own, dtype=np.int64)) else x
        is_one = rank == 3 and own[0] == 1 and flat.size == own[1] * own[2]
        made.append(x.reshape(own[1:]) if is_one else xp.broadcast_to(x, (*batch, *own)).reshape(rows, *own))
    return batch, made


def _module(x: Any) -> Any:
    return np if isinstance(x, np.ndarray) else cupy()


def _forward_of_arrays(*given: Any) -> Any:
    batch, flat = _flat(*given)
    total, alphas = forward_of_arrays(*flat)
    return total.reshape(batch), alphas.reshape(*batch, *alphas.shape[1:])


def _viterbi_of_arrays(*given: Any) -> Any:
    batch, flat = _flat(*given)
    path, score = viterbi_of_arrays(*flat)
    return path.reshape(*batch, -1), score.reshape(batch)


@jax.custom_vjp
def _forward(initial: Array, transition: Array, emission: Array, lengths: Array) -> tuple[Array, Array]:
    results = [result(emission.shape[:-2], emission.dtype), result(emission.shape, emission.dtype)]
    total, alphas = call(_forward_of_arrays, results, initial, transition, emission, lengths)
    return total, alphas


@jax.custom_vjp
def _viterbi(initial: Array, transition: Array, emission: Array, lengths: Array) -> tuple[Array, Array]:
    results = [result(emission.shape[:-1], jnp.int32), result(emission.shape[:-2], emission.dtype)]
    path, score = call(_viterbi_of_arrays, results, initial, transition, emission, lengths)
    return path, score


def _gradients_of_arrays(name: str, of_results: Any, *given: Any) -> Any:
    """Return the gradients of each call that `jax.vmap` made one of: each has its own of a matrix that all share."""
    g, *others = given
    lead = np.broadcast_shapes(*(x.shape[:-rank] for x, rank in zip(others, (2, 4, 3, 1), strict=False)), g.shape[:-1])
    xp, made = _module(g), []
    for index in np.ndindex(lead):
        own = (
            [x[tuple(i % size for i, size in zip(index, x.shape, strict=False))] for x in (g, *others)]
            if lead
            else given
        )
        of_g, initial, transition, emission, lengths, *results = own
        is_shared = transition.shape[:2] == (1, 1)
        model = read_model(
            name, initial, transition[0, 0] if is_shared else transition, emission, lengths, counts=False
        )
        with model.arrays.in_force():
            found = of_results(model, of_g.astype(emission.dtype), *results, is_shared=is_shared)
            if is_shared:
                found = found._replace(transition=found.transition[None, None])
            made.append(found)
    return tuple(xp.stack(x).reshape(*lead, *x[0].shape) for x in zip(*made, strict=True))


_of_likelihood = functools.partial(_gradients_of_arrays, "forward", gradients.of_likelihood)
_of_score = functools.partial(_gradients_of_arrays, "viterbi", gradients.of_score)


def _backward(function: Any, g: Array, kept: Any) -> Any:
    _, transition, emission, lengths, *_ = kept
    count, steps, states = emission.shape
    is_shared = transition.shape[:2] == (1, 1)
    matrices = transition.shape if is_shared else (count, max(steps - 1, 0), states, states)
    shapes = (count, states), matrices, emission.shape
    found = call(function, [result(shape, emission.dtype) for shape in shapes], g, *kept)
    fitting = (sum_to(x, y) for x, y in zip(found, kept[:3], strict=True))
    return *fitting, np.zeros(lengths.shape, jax.dtypes.float0)


def _forward_forward(*arguments: Array) -> tuple[Any, Any]:
    return _forward(*arguments), arguments


def _viterbi_forward(*arguments: Array) -> tuple[Any, Any]:
    path, score = _viterbi(*arguments)
    return (path, score), (*arguments, path, score)


_forward.defvjp(_forward_forward, lambda kept, g: _backward(_of_likelihood, g[0], kept))
_viterbi.defvjp(_viterbi_forward, lambda kept, g: _backward(_of_score, g[1], kept))
