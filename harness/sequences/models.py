"""Hidden Markov models and linear-chain CRFs: forward, backward, posterior, Viterbi and samples, of logarithms.

    forward    alpha[t, j] = log sum_i exp(alpha[t - 1, i] + A[t - 1, i, j]) + e[t, j],   alpha[0] = initial + e[0]
    backward   beta[t, i]  = log sum_j exp(A[t, i, j] + e[t + 1, j] + beta[t + 1, j]),    beta[T - 1] = 0
    posterior  p[t, j]     = exp(alpha[t, j] + beta[t, j] - log_likelihood)
    viterbi    forward over max_plus, and the path back along what was best

All steps of all sequences are one call of a compiled kernel where the backend has one (`Abilities.prepare_steps`). Over
floats the largest state is taken off at each step and kept in float64, so that float32 does not lose its digits in long
sequences.

Source: Rabiner, "A tutorial on hidden Markov models" (1989), section III; for sampling Scott (2002), section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.api.libraries.views import any_library
from harness.errors import ProblemError
from harness.interface import Stepped
from harness.sequences import recorded
from harness.sequences.arguments import Model, read_model, run_steps
from harness.sequences.by_products import finite_tops

_NAMES = "initial", "transition", "emission"


@recorded.by_autograd("forward")
@any_library(*_NAMES)
def forward(
    initial: Any, transition: Any, emission: Any, lengths: Any = None,
    *, backend: str = "auto", threads: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Compute the log-likelihood of sequences, and the logarithms of all prefixes.

    Parameters
    ----------
    initial : (S,) or (B, S) array
        ``initial[i]`` is the logarithm of the weight with which a sequence begins in state i; -inf: never.
    transition : (S, S), (T - 1, S, S) or (B, T - 1, S, S) array
        ``transition[i, j]`` is that of the step from state i to j. One matrix for all steps is the fastest.
    emission : (T, S) or (B, T, S) array
        ``emission[t, j]`` is that of what is seen at t, if the state is j. It fixes B, T and S.
    lengths : (B,) integers, optional
        Steps of each sequence; None: T. What lies beyond is not looked at.
    backend, threads
        As in `harness.gemm`.

    Returns
    -------
    log_likelihood : (B,) array
        The logarithm of the sum over all paths; 0 for a sequence of no steps; -inf if no path is possible.
    alphas : (B, T, S) array
        -inf beyond the end of a sequence. Without B if `emission` has none.

    Raises
    ------
    ProblemError
        If shapes do not chain, a length lies beyond T, or the dtype holds no logarithms.

    Notes
    -----
    16-bit floats are computed as float32. Over PyTorch `log_likelihood` has gradients by all three arguments, which are
    posteriors; `alphas` has none. Where no path is possible they are 0.

    Examples
    --------
    >>> import numpy as np
    >>> start, step, seen = np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.2, 0.8]]), np.log([[0.3, 0.6], [0.3, 0.6]])
    >>> forward(start, step, seen)[0].round(6)
    np.float64(-1.559223)
    """
    model = read_model("forward", initial, transition, emission, lengths, counts=False)
    return _forward(model, backend, threads)


def _forward(model: Model, backend: str, threads: int | None) -> tuple[Any, Any]:
    with model.arrays.in_force():
        stepped = run_steps(model, "logaddexp_plus", "after", backend, threads)
        return model.given(_total(model, stepped)), model.given(stepped.states)


def forward_apart(model: Model, backend: str, threads: int | None) -> tuple[Any, Any, Any, Any]:
    """Return what `forward` does, and the alphas less what was `taken` off them at each t, and that, both with a B."""
    with model.arrays.in_force():
        stepped = run_steps(model, "logaddexp_plus", "after", backend, threads, is_relative=True)
        alphas = model.arrays.module.empty_like(stepped.states)
        sums = stepped.taken.cumsum(axis=1)[..., None]
        model.arrays.module.add(stepped.states, sums, out=alphas, casting="same_kind")
        return model.given(_total(model, stepped)), model.given(alphas), stepped.states, stepped.taken


@any_library(*_NAMES)
def backward(
    initial: Any, transition: Any, emission: Any, lengths: Any = None,
    *, backend: str = "auto", threads: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Compute the log-likelihood of sequences, and the logarithms of all suffixes; arguments are those of `forward`.

    Returns
    -------
    log_likelihood : (B,) array
    betas : (B, T, S) array
        -inf beyond the end of a sequence.
    """
    model = read_model("backward", initial, transition, emission, lengths, counts=False)
    with model.arrays.in_force():
        stepped = run_back(model, backend, threads, is_relative=False)
        from_begin = stepped._replace(last=stepped.last + model.initial)
        return model.given(_total(model, from_begin)), model.given(stepped.states)


@any_library(*_NAMES)
def posterior(
    initial: Any, transition: Any, emission: Any, lengths: Any = None,
    *, backend: str = "auto", threads: int | None = None,
) -> Any:  # fmt: skip
    """Compute the probability of each state at each t, given the whole sequence; arguments are those of `forward`.

    Returns
    -------
    (B, T, S) array
        Probabilities, no logarithms: they sum to 1 over the states, or are all 0 where no path is possible and beyond
        the end of a sequence.
    """
    model = read_model("posterior", initial, transition, emission, lengths, counts=False)
    with model.arrays.in_force():
        alphas = run_steps(model, "logaddexp_plus", "after", backend, threads, is_relative=True).states
        betas = run_back(model, backend, threads, is_relative=True).states
        return model.given(posterior_of(model, alphas + betas)[0])


@recorded.by_autograd("viterbi")
@any_library(*_NAMES)
def viterbi(
    initial: Any, transition: Any, emission: Any, lengths: Any = None,
    *, backend: str = "auto", threads: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Compute the best path of states through each sequence; arguments are those of `forward`, or integer scores.

    Returns
    -------
    path : (B, T) array of int32
        Of equal paths the one whose states, from the last to the first, have the smallest numbers; -1 beyond the end.
    score : (B,) array
        The sum along the path, of the dtype of the arguments; -inf, or the least integer, if no path is possible.

    Notes
    -----
    On the host one back-pointer takes 1 byte for up to 256 states, 2 up to 65,536, else 4, for each state and step of
    the sequences that are traced at once. A GPU keeps the states of all steps, as large as the emission. Over PyTorch
    `score` has gradients: 1 along the path.

    Examples
    --------
    >>> import numpy as np
    >>> viterbi(np.array([0, 1]), np.array([[3, 0], [0, 1]]), np.array([[5, 0], [0, 0], [0, 9]]))
    (array([0, 0, 1], dtype=int32), np.int64(17))
    """
    model = read_model("viterbi", initial, transition, emission, lengths, counts=True)
    with model.arrays.in_force():
        stepped = run_steps(model, "max_plus", "", backend, threads, is_traced=True)
        return model.given(stepped.paths), model.given(_total(model, stepped, is_best=True))


@any_library(*_NAMES)
def sample(
    initial: Any, transition: Any, emission: Any, lengths: Any = None, key: Any = None,
    *, backend: str = "auto", threads: int | None = None,
) -> Any:  # fmt: skip
    """Draw a path of states of each sequence from its posterior; arguments are those of `forward`.

    Parameters
    ----------
    key : numpy.random.Generator or int
        What random numbers come from, or a seed; None: a fresh one. They are drawn on the host.

    Returns
    -------
    (B, T) array of int32
        -1 beyond the end, and everywhere if no path is possible.
    """
    model = read_model("sample", initial, transition, emission, lengths, counts=False)
    generator, xp = _generator(key), model.arrays.module
    with model.arrays.in_force():
        alphas = run_steps(model, "logaddexp_plus", "after", backend, threads, is_relative=True).states
        count, steps, _ = alphas.shape
        draws, rows, there = xp.asarray(generator.random((steps, count))), xp.arange(count), model.lengths_there
        paths, state = xp.full((count, steps), -1, np.int32), xp.zeros(count, np.int64)
        for t in range(steps - 1, -1, -1):
            weights = alphas[:, t]
            if t < steps - 1:
                into = model.transition[rows, t, :, xp.maximum(state, 0)]
                weights = xp.where((t == there - 1)[:, None], weights, weights + into)
            drawn = xp.where((t < there - 1) & (state < 0), -1, _drawn(xp, weights, draws[t]))
            state = xp.where(t < there, drawn, state)
            paths[:, t] = xp.where(t < there, state, -1)
        return model.given(paths)


def _drawn(xp: Any, weights: Any, draws: Any) -> Any:
    """Return a state of each row of logarithms, by the inverse of the cumulative sums; -1 if none is possible."""
    sums = xp.exp(weights - finite_tops(xp, weights)).cumsum(axis=1, dtype=np.float64)
    # a draw below the sum: the first state whose sum exceeds it has a weight of its own
    drawn = (sums <= (draws * sums[:, -1])[:, None]).sum(axis=1)
    return xp.where(sums[:, -1] > 0, drawn, -1)


def _generator(key: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(key)
    except (TypeError, ValueError):
        raise ProblemError(
            "sample: key is no source of random numbers",
            expected="a numpy.random.Generator, or an integer >= 0",
            got=repr(key),
        ) from None


def run_back(model: Model, backend: str, threads: int | None, *, is_relative: bool) -> Stepped:
    """Return the betas; `last` are those of the first step, with its emission."""
    back = model.reversed()
    firsts = model.emission.shape[1] - model.lengths
    stepped = run_steps(back, "logaddexp_plus", "before", backend, threads, firsts=firsts, is_relative=is_relative)
    return stepped._replace(states=stepped.states[:, ::-1])


def posterior_of(model: Model, joint: Any, weights: Any = 1) -> tuple[Any, Any]:
    """Return the probabilities of the states, in place of their logarithms less a number of its own at each t.

    Parameters
    ----------
    joint : (B, T, S) array
    weights : (B, 1, 1) array or 1
        Factors of the probabilities.

    Returns
    -------
    posterior : (B, T, S) array
        `joint` itself; all 0 where no path is possible.
    sums : (B, T, 1) array
        What `joint` was above the logarithms of probabilities; inf where no path is possible.
    """
    xp = model.arrays.module
    if not joint.size:
        return joint, joint[..., :1]
    top = finite_tops(xp, joint)
    joint -= top
    xp.exp(joint, out=joint)
    sums = joint.sum(axis=-1, keepdims=True)
    is_possible = sums > 0
    joint *= weights / xp.where(is_possible, sums, xp.ones_like(sums))
    return joint, xp.where(is_possible, top + xp.log(sums), xp.full_like(sums, np.inf))


def _total(model: Model, stepped: Stepped, *, is_best: bool = False) -> Any:
    """Return the sum of the last states, of the dtype of the model: the best one, or that of exponentials."""
    xp, last, dtype = model.arrays.module, stepped.last, model.emission.dtype
    top = last.max(axis=1)
    if dtype.kind == "f":
        if not is_best:
            shift = finite_tops(xp, last)
            top = shift[:, 0] + xp.log(xp.exp(last - shift).sum(axis=1))
        top = top + stepped.offsets
    return xp.where(model.lengths_there > 0, top, xp.zeros_like(top)).astype(dtype)
