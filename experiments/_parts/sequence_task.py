"""The task of a hidden Markov model: its log-likelihood, or its best path, by one of several methods.

harness     harness.sequences by a backend; those of a GPU with arrays there
numpy       a loop of NumPy: of the log-likelihood a step is a product by BLAS, less the largest logarithm
hmmlearn    its compiled loops over logarithms, and for the log-likelihood those over scaled probabilities
jax         jax.lax.scan of logsumexp, compiled
torch       a loop of torch.logsumexp
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments._parts.computed import Computed, require
from harness.errors import Declined, VerificationError
from harness.sequences import forward, viterbi

PACKAGES = {"hmmlearn": "hmmlearn", "hmmlearn, scaled": "hmmlearn", "jax": "jax", "torch": "torch"}
TOLERANCE = 1e-5  # of a log-likelihood or a score, relative

Model = tuple[np.ndarray, np.ndarray, np.ndarray]


def by_definition(initial: np.ndarray, transition: np.ndarray, emission: np.ndarray, what: str) -> float:
    """Return the log-likelihood, or the best score, by a loop of NumPy."""
    add = np.logaddexp if what == "forward" else np.maximum
    x = initial + emission[0]
    for e in emission[1:]:
        x = add.reduce(x[:, None] + transition, axis=0) + e
    return float(add.reduce(x))


def model_of(states: int, steps: int, seed: int) -> Model:
    """Return a random model of one sequence."""
    rng = np.random.default_rng(seed)
    initial, transition = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(states), states)
    return np.log(initial), np.log(transition), np.log(rng.random((steps, states)))


def sequence(
    *, states: int, steps: int, what: str, method: str, threads: int, backend: str = "auto", seed: int = 1
) -> Computed:
    """Prepare one result of a model of one sequence, a number.

    Raises
    ------
    Declined
        If the package is not installed, or has no such function.
    """
    package = "cupy" if backend.startswith("gpu-") else PACKAGES.get(method, "numpy")
    require(package)
    model = model_of(states, steps, seed)
    made = {"harness": functools.partial(_harness, backend=backend), "numpy": _numpy, "jax": _jax, "torch": _torch}
    compute = made.get(method, _hmmlearn)(model, what, method, threads)
    known = {"operations": 2 * (steps - 1) * states**2, "bytes_moved": model[2].nbytes}

    def check(value: float) -> str:
        expected = by_definition(*model, what)
        if not abs(value - expected) <= TOLERANCE * abs(expected):
            raise VerificationError(f"{what} is wrong", expected=f"{expected}", got=f"{value}")
        return f"the {what} result with a loop in float64, within a relative {TOLERANCE}"

    return Computed(lambda: float(compute()), check, known, "" if method == "harness" else package)


def _harness(model: Model, what: str, method: str, threads: int, *, backend: str) -> Callable[[], Any]:
    arrays: Any = model
    if backend.startswith("gpu-"):
        arrays = [importlib.import_module("cupy").asarray(x) for x in model]
    if what == "forward":
        return lambda: forward(*arrays, backend=backend, threads=threads)[0]
    return lambda: viterbi(*arrays, backend=backend, threads=threads)[1]


def _numpy(model: Model, what: str, method: str, threads: int) -> Callable[[], Any]:
    initial, transition, emission = model
    probabilities = np.exp(transition)

    def log_likelihood() -> Any:
        x = initial + emission[0]
        for e in emission[1:]:
            top = x.max()
            x = np.log(np.exp(x - top) @ probabilities) + (top + e)
        return np.logaddexp.reduce(x)

    return log_likelihood if what == "forward" else functools.partial(by_definition, *model, what)


def _hmmlearn(model: Model, what: str, method: str, threads: int) -> Callable[[], Any]:
    loops = importlib.import_module("hmmlearn._hmmc")
    initial, transition, emission = model
    if what == "viterbi":
        if method != "hmmlearn":
            raise Declined("declined", "hmmlearn has one loop for the best path")
        return lambda: loops.viterbi(np.exp(initial), np.exp(transition), emission)[0]
    if method == "hmmlearn":
        return lambda: loops.forward_log(np.exp(initial), np.exp(transition), emission)[0]
    return lambda: loops.forward_scaling(np.exp(initial), np.exp(transition), np.exp(emission))[0]


def _jax(model: Model, what: str, method: str, threads: int) -> Callable[[], Any]:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    add = jax.scipy.special.logsumexp if what == "forward" else jax.numpy.max

    @jax.jit
    def compute(initial: Any, transition: Any, emission: Any) -> Any:
        def step(x: Any, e: Any) -> tuple[Any, Any]:
            x = add(x[:, None] + transition, axis=0) + e
            return x, x

        return add(jax.lax.scan(step, initial + emission[0], emission[1:])[0])

    arrays = [jax.numpy.asarray(x) for x in model]
    return lambda: compute(*arrays)


def _torch(model: Model, what: str, method: str, threads: int) -> Callable[[], Any]:
    torch = importlib.import_module("torch")
    initial, transition, emission = (torch.from_numpy(x) for x in model)
    add = torch.logsumexp if what == "forward" else torch.amax

    def compute() -> Any:
        x = initial + emission[0]
        for e in emission[1:]:
            x = add(x[:, None] + transition, 0) + e
        return add(x, 0)

    return compute
