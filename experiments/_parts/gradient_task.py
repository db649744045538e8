"""The task of a product over a semiring with its gradients: forward and backward, by one of several methods.

    harness     harness.torch.gemm
    broadcast   PyTorch's own operations over an array of all m n k terms
    einsum      torch_semiring_einsum.log_einsum, in blocks of the summed index

KeOps is none of them: its reductions are of formulas of vectors, and a product needs a matrix of elements A[i, p].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments._parts.call_task import HostTime
from experiments._parts.computed import Computed, nothing, require
from harness.errors import BackendUnavailable, Declined, VerificationError
from harness.problem import Problem
from harness.timing.clock import CpuClock

CHECKED = 8  # rows of dA and columns of dB that are computed anew

# Sum of the errors over the sum of the gradients. It allows for ties, which PyTorch divides among all equal terms.
TOLERANCE = 2e-3


def check(problem: Problem, given: Sequence[Any], gradients: Sequence[Any]) -> str:
    """Compare rows of dA and columns of dB with the definition, in float64; `given` are A, B and the gradient of D."""
    a, b, g = (x.detach().cpu().double().numpy() for x in given)
    of_a, of_b = (x.cpu().double().numpy() for x in gradients)
    rows, columns = (
        np.linspace(0, size - 1, min(CHECKED, size)).astype(int) for x, size in zip((a, b), g.shape, strict=True)
    )
    expected_a = [_weights(problem, a[i, :, None] + b) @ g[i] for i in rows]
    expected_b = [_weights(problem, a.T + b[:, j, None]) @ g[:, j] for j in columns]
    for name, got, expected in (("dA", of_a[rows], expected_a), ("dB", of_b.T[columns], expected_b)):
        error = np.abs(got - expected).sum() / np.abs(expected).sum()
        if not error <= TOLERANCE:
            raise VerificationError(f"{name} is wrong", expected=f"an error of {TOLERANCE} at most", got=f"{error:.2g}")
    return f"{len(rows)} rows of dA and {len(columns)} columns of dB"


def _weights(problem: Problem, terms: np.ndarray) -> np.ndarray:
    """Return the derivative of each sum along the first axis by each of its terms."""
    if problem.semiring.add.name == "max":
        return (np.arange(len(terms))[:, None] == terms.argmax(axis=0)).astype(float)
    exponentials = np.exp(terms - terms.max(axis=0))
    return np.asarray(exponentials / exponentials.sum(axis=0))


def gradients(
    *,
    m: int,
    n: int,
    k: int,
    semiring: str,
    device: str,
    method: str,
    threads: int,
    seed: int = 1,
    host_time: bool = False,
) -> Computed:
    """Prepare one, over float32; with `host_time` it is timed by what the host spends on it.

    Raises
    ------
    Declined
        If a package or the GPU is missing here, or the method has no such gradient.
    """
    require("torch")
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise Declined("missing", "PyTorch finds no GPU")
    torch.set_num_threads(threads)
    problem = Problem(m, n, k, semiring, "float32")
    function, rng = METHODS[method](semiring), np.random.default_rng(seed)
    a, b, g = (
        torch.tensor(rng.standard_normal(shape), dtype=torch.float32, device=device)
        for shape in ((m, k), (k, n), (m, n))
    )
    given = a.requires_grad_(), b.requires_grad_(), g
    wait = torch.cuda.synchronize if device == "cuda" else nothing
    try:
        return Computed(
            lambda: torch.autograd.grad(function(a, b), (a, b), g),
            lambda gradients: check(problem, given, gradients),
            {**problem.work, "software": {"torch": torch.__version__}},
            PROJECTS.get(method, ""),
            wait,
            (lambda: HostTime(wait)) if host_time else CpuClock,
        )
    except BackendUnavailable as error:
        raise Declined("missing", str(error)) from None


def _harness(semiring: str) -> Callable[[Any, Any], Any]:
    from harness.torch import gemm

    return lambda a, b: gemm(a, b, semiring=semiring)


def _broadcast(semiring: str) -> Callable[[Any, Any], Any]:
    if semiring == "max_plus":
        return lambda a, b: (a[:, :, None] + b).amax(1)
    return lambda a, b: (a[:, :, None] + b).logsumexp(1)


def _einsum(semiring: str) -> Callable[[Any, Any], Any]:
    require("torch_semiring_einsum", "torch-semiring-einsum")
    if semiring != "logaddexp_plus":
        raise Declined("declined", f"torch-semiring-einsum has no gradient over {semiring}")
    import torch_semiring_einsum as package

    equation = package.compile_equation("ik,kj->ij")
    return lambda a, b: package.log_einsum(equation, a, b, block_size=package.AUTOMATIC_BLOCK_SIZE)


METHODS = {"harness": _harness, "broadcast": _broadcast, "einsum": _einsum}
# Whose the methods of others are.
PROJECTS = {"broadcast": "PyTorch", "einsum": "torch-semiring-einsum"}
