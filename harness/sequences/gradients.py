"""Gradients of the log-likelihood and of the best score, from those of the results: posteriors, and paths.

    d log_likelihood / d e[t, j]     = p[t, j],                  the posterior; of initial, p[0]
    d log_likelihood / d A[t, i, j]  = exp(alpha[t, i] + A[t, i, j] + e[t + 1, j] + beta[t + 1, j] - log_likelihood)

Of a matrix that serves all steps they are summed over all of them: one product over logaddexp_plus. Each alpha and beta
is taken less a number of its own at each t. That of alpha[t] cancels in a quotient by the sum of alpha[t] + beta[t].
That of beta[t + 1] is seen in one state: beta[t, i] is the sum of A[t, i, j] + e[t + 1, j] + beta[t + 1, j] over j. Of
a score they are 1 along its path. Where no path is possible all are 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.api.gemm import gemm
from harness.sequences.arguments import Model
from harness.sequences.by_products import finite_tops
from harness.sequences.models import both_ways, posterior_of


class Gradients(NamedTuple):
    """By initial (B, S), transition (S, S) or (B, T - 1, S, S), and emission (B, T, S)."""

    initial: Any
    transition: Any
    emission: Any


def of_likelihood(
    model: Model, g: Any, *, is_shared: bool, backend: str = "auto", threads: int | None = None
) -> Gradients:
    """Return the gradients, from those of the log-likelihoods of all sequences.

    Parameters
    ----------
    g : (B,) array
    is_shared : bool
        Whether one matrix serves all steps of all sequences.
    """
    xp = model.arrays.module
    alphas, betas = both_ways(model, backend, threads)
    emission = g[:, None, None] * posterior_of(model, alphas, betas)
    both = alphas[:, :-1] + betas[:, :-1]
    right = betas[:, 1:] + model.emission[:, 1:]
    right = right - finite_tops(xp, right)
    likeliest = both.argmax(axis=-1)[..., None]  # its beta is finite where a path is possible
    rows = xp.take_along_axis(model.transition, likeliest[..., None], axis=2)[:, :, 0]
    before = xp.take_along_axis(betas[:, :-1], likeliest, axis=2)
    left = alphas[:, :-1] - _log_sums(xp, both) - (_log_sums(xp, rows + right) - before)
    if not is_shared:
        joint = xp.exp(left[..., :, None] + model.transition + right[..., None, :])
        return Gradients(_first(xp, emission), g[:, None, None, None] * joint, emission)
    states = emission.shape[-1]
    transition = xp.zeros((states, states), emission.dtype)
    matrix = model.transition[0, 0] if left.size else transition
    for part, sign in ((g, 1), (-g, -1)) if left.size else ():
        if (part > 0).any():
            weighted = left + xp.log(xp.maximum(part, 0))[:, None, None]
            sums = gemm(
                weighted.reshape(-1, states).T, right.reshape(-1, states),
                semiring="logaddexp_plus", backend=backend, threads=threads,
            )  # fmt: skip
            transition = transition + sign * xp.exp(matrix + sums)
    return Gradients(_first(xp, emission), transition, emission)


def of_score(model: Model, g: Any, paths: Any, scores: Any, *, is_shared: bool, **_: Any) -> Gradients:
    """Return the gradients along `paths`, from those of `scores`, of all sequences or of one; no products are taken."""
    paths, scores = paths.reshape(model.emission.shape[:2]), scores.reshape(-1)
    xp, shape = model.arrays.module, model.emission.shape
    (count, steps, states), emission = shape, xp.zeros(shape, g.dtype)
    possible = (xp.arange(steps) < model.lengths_there[:, None]) & (scores > -np.inf)[:, None]
    b, t = xp.nonzero(possible)
    emission[b, t, paths[b, t]] = g[b]
    b, t = xp.nonzero(possible[:, 1:])
    i, j = paths[b, t].astype(np.int64), paths[b, t + 1].astype(np.int64)
    if is_shared:
        sums = xp.bincount(i * states + j, weights=g[b], minlength=states * states)
        return Gradients(_first(xp, emission), sums.reshape(states, states).astype(g.dtype), emission)
    transition = xp.zeros((count, max(steps - 1, 0), states, states), g.dtype)
    transition[b, t, i, j] = g[b]
    return Gradients(_first(xp, emission), transition, emission)


def _first(xp: Any, emission: Any) -> Any:
    return emission[:, 0] if emission.shape[1] else xp.zeros((emission.shape[0], emission.shape[2]), emission.dtype)


def _log_sums(xp: Any, x: Any) -> Any:
    """Return the sums over logaddexp along the last axis; +inf where there is nothing, so that a quotient is 0."""
    top = finite_tops(xp, x)
    sums = xp.exp(x - top).sum(axis=-1, keepdims=True)
    return xp.where(sums > 0, top + xp.log(sums), xp.full_like(top, np.inf))
