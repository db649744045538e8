"""Gradients of the log-likelihood and of the best score, from those of the results: posteriors, and paths.

    d log_likelihood / d e[t, j]     = p[t, j],                  the posterior; of initial, p[0]
    d log_likelihood / d A[t, i, j]  = exp(alpha[t, i] + A[t, i, j] + e[t + 1, j] + beta[t + 1, j] - log_likelihood)

Of a matrix that serves all steps they are summed over all of them: one product over logaddexp_plus. Each alpha and beta
is taken less a number of its own at each t. Where alpha[t + 1] is less `taken` more than alpha[t], the log-likelihood
there is the sum of alpha[t + 1] + beta[t + 1], and `taken`. Of a score they are 1 along its path. Where no path is
possible all are 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.api.gemm import gemm
from harness.sequences.arguments import Model, run_steps
from harness.sequences.models import posterior_of, run_back


class Gradients(NamedTuple):
    """By initial (B, S), transition (S, S) or (B, T - 1, S, S), and emission (B, T, S)."""

    initial: Any
    transition: Any
    emission: Any


def of_likelihood(
    model: Model, g: Any, alphas: Any = None, taken: Any = None,
    *, is_shared: bool, backend: str = "auto", threads: int | None = None,
) -> Gradients:  # fmt: skip
    """Return the gradients, from those of the log-likelihoods of all sequences.

    Parameters
    ----------
    g : (B,) array
    alphas, taken : (B, T, S) array, (B, T) array
        As of `forward_apart`; None: they are computed.
    is_shared : bool
        Whether one matrix serves all steps of all sequences.
    """
    xp, (_, steps, states) = model.arrays.module, model.emission.shape
    if alphas is None:
        stepped = run_steps(model, "logaddexp_plus", "after", backend, threads, is_relative=True)
        alphas, taken = stepped.states, stepped.taken
    betas = run_back(model, backend, threads, is_relative=True).states
    emission, sums = posterior_of(model, alphas + betas, g[:, None, None])
    if steps < 2:
        shape = (states, states) if is_shared else model.transition.shape
        return Gradients(_first(xp, emission), xp.zeros(shape, emission.dtype), emission)
    right = betas + model.emission
    if (model.lengths != steps).any():
        right[xp.arange(steps) >= model.lengths_there[:, None]] = -np.inf
    right[:, 0] = -np.inf  # no step leads to the first
    less = (sums + taken[..., None]).astype(right.dtype)
    if not is_shared:
        right -= less
        joint = alphas[:, :-1, :, None] + model.transition
        joint += right[:, 1:, None, :]
        xp.exp(joint, out=joint)
        joint *= g[:, None, None, None]
        return Gradients(_first(xp, emission), joint, emission)
    transition, left = xp.zeros((states, states), emission.dtype), alphas.reshape(-1, states)[:-1]
    for part, sign in ((g, 1), (-g, -1)):
        if (part > 0).any():
            weighted = right - (less - xp.log(xp.maximum(part, 0))[:, None, None])
            sums = gemm(
                left.T, weighted.reshape(-1, states)[1:],
                semiring="logaddexp_plus", backend=backend, threads=threads,
            )  # fmt: skip
            transition += sign * xp.exp(model.transition[0, 0] + sums)
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
