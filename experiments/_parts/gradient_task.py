"""The task of a product over a semiring with its gradients: forward and backward, by one of several methods.

    harness     harness.torch.gemm
    broadcast   PyTorch's own operations over an array of all m n k terms
    einsum      torch_semiring_einsum.log_einsum, in blocks of the summed index

KeOps is none of them: its reductions are of formulas of vectors, and a product needs a matrix of elements A[i, p].
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments._parts.call_task import HostTime
from harness.errors import BackendUnavailable, Declined, VerificationError
from harness.problem import Problem
from harness.timing.clock import CpuClock

PACKAGES = {"torch": "torch", "torch_semiring_einsum": "torch-semiring-einsum"}
CHECKED = 8  # rows of dA and columns of dB that are computed anew

# Sum of the errors over the sum of the gradients. It allows for ties, which PyTorch divides among all equal terms.
TOLERANCE = 2e-3


class GradientTask:
    """A product and both of its gradients, from random operands and a random gradient of the result.

    Parameters
    ----------
    problem : Problem
        Over max_plus or logaddexp_plus.
    device : str
        ``"cpu"`` or ``"cuda"``.
    function : callable
        ``function(a, b)`` returns the product of tensors that require gradients.
    seed : int
    project : str
        Whose function it is, if not this project's.
    """

    clock: Callable[[], CpuClock]

    def __init__(
        self, problem: Problem, device: str, function: Callable[[Any, Any], Any], seed: int, project: str = ""
    ) -> None:
        import torch

        self._project = project
        self._torch, self._problem, self._function, self._device = torch, problem, function, device
        rng = np.random.default_rng(seed)
        shapes = (problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)
        a, b, g = (
            torch.tensor(rng.standard_normal(shape), dtype=getattr(torch, problem.dtype.name), device=device)
            for shape in shapes
        )
        self._a, self._b, self._g = a.requires_grad_(), b.requires_grad_(), g
        self.run()  # loads and compiles
        self.wait()

    def run(self) -> None:
        result = self._function(self._a, self._b)
        self._gradients = self._torch.autograd.grad(result, (self._a, self._b), self._g)

    def wait(self) -> None:
        """Return when the GPU is done."""
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def spoil(self) -> None:
        self._gradients = tuple(self._torch.full_like(x, self._torch.nan) for x in (self._a, self._b))

    def verify(self) -> str:
        a, b, g = (x.detach().cpu().double().numpy() for x in (self._a, self._b, self._g))
        of_a, of_b = (x.cpu().double().numpy() for x in self._gradients)
        rows, columns = (
            np.linspace(0, size - 1, min(CHECKED, size)).astype(int) for x, size in zip((a, b), g.shape, strict=True)
        )
        expected_a = [self._weights(a[i, :, None] + b) @ g[i] for i in rows]
        expected_b = [self._weights(a.T + b[:, j, None]) @ g[:, j] for j in columns]
        for name, got, expected in (("dA", of_a[rows], expected_a), ("dB", of_b.T[columns], expected_b)):
            error = np.abs(got - expected).sum() / np.abs(expected).sum()
            if not error <= TOLERANCE:
                raise VerificationError(
                    f"{name} is wrong", expected=f"an error of {TOLERANCE} at most", got=f"{error:.2g}"
                )
        return f"{len(rows)} rows of dA and {len(columns)} columns of dB"

    def _weights(self, terms: np.ndarray) -> np.ndarray:
        """Return the derivative of each sum along the first axis by each of its terms."""
        if self._problem.semiring.add.name == "max":
            return (np.arange(len(terms))[:, None] == terms.argmax(axis=0)).astype(float)
        exponentials = np.exp(terms - terms.max(axis=0))
        return np.asarray(exponentials / exponentials.sum(axis=0))

    def facts(self) -> dict[str, Any]:
        """Return the work of the product alone for every method, so that rates rank as times do."""
        whose = {"project": self._project} if self._project else {}
        return {**self._problem.work, "software": {"torch": self._torch.__version__}, **whose}


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
) -> GradientTask:
    """Prepare one, over float32; with `host_time` it is timed by what the host spends on it.

    Raises
    ------
    Declined
        If a package or the GPU is missing here, or the method has no such gradient.
    """
    _require("torch")
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise Declined("missing", "PyTorch finds no GPU")
    torch.set_num_threads(threads)
    problem = Problem(m, n, k, semiring, "float32")
    try:
        made = GradientTask(problem, device, METHODS[method](semiring), seed, PROJECTS.get(method, ""))
    except BackendUnavailable as error:
        raise Declined("missing", str(error)) from None
    made.clock = (lambda: HostTime(made.wait)) if host_time else CpuClock
    return made


def _harness(semiring: str) -> Callable[[Any, Any], Any]:
    from harness.torch import gemm

    return lambda a, b: gemm(a, b, semiring=semiring)


def _broadcast(semiring: str) -> Callable[[Any, Any], Any]:
    if semiring == "max_plus":
        return lambda a, b: (a[:, :, None] + b).amax(1)
    return lambda a, b: (a[:, :, None] + b).logsumexp(1)


def _einsum(semiring: str) -> Callable[[Any, Any], Any]:
    _require("torch_semiring_einsum")
    if semiring != "logaddexp_plus":
        raise Declined("declined", f"torch-semiring-einsum has no gradient over {semiring}")
    import torch_semiring_einsum as package

    equation = package.compile_equation("ik,kj->ij")
    return lambda a, b: package.log_einsum(equation, a, b, block_size=package.AUTOMATIC_BLOCK_SIZE)


METHODS = {"harness": _harness, "broadcast": _broadcast, "einsum": _einsum}
# Whose the methods of others are.
PROJECTS = {"broadcast": "PyTorch", "einsum": "torch-semiring-einsum"}


def _require(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise Declined("missing", f"package {PACKAGES[module]} is not installed: pip install {PACKAGES[module]}")
