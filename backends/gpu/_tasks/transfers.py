"""A task that times a product together with its copies between host and GPU: the cost for arrays on the host.

    always   A and B to the GPU, the product, C back: every call
    once     A and B stay on the GPU; C comes back

Copies are of ordinary (pageable) arrays, as `gemm` is given them. The host's clock times them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from harness.interface import Backend, Execution
from harness.machine import detect
from harness.operands import Operands
from harness.problem import Problem

COPIES = ("always", "once")


class OffloadedProduct:
    """One product by a backend of the gpu family, from arrays of the host."""

    def __init__(
        self, backend: Backend, problem: Problem, copies: str, seed: int, parameters: Mapping[str, Any]
    ) -> None:
        self._problem, self._seed, self._copies_operands = problem, seed, copies == "always"
        self._host = Operands.generate(problem, seed)
        a, b = device.upload(self._host.a), device.upload(self._host.b)
        self._device = Operands(a, b, None, device.empty((problem.m, problem.n), problem.dtype))
        self._plan = backend.plan(problem, detect()).override(parameters)
        self._execution: Execution = backend.prepare(self._plan, self._device)
        self._extra_error = backend.extra_error(self._plan, self._host)

    def run(self) -> None:
        """Copy, multiply, copy back."""
        if self._copies_operands:
            self._device.a.set(self._host.a)
            self._device.b.set(self._host.b)
        self._execution.run()
        self._device.out.get(out=self._host.out)

    def wait(self) -> None:
        """Return: the copy has waited."""

    def spoil(self) -> None:
        """Overwrite the last result."""
        self._host.out.view(np.uint8)[...] = 0x7B
        self._device.out.view(np.uint8)[...] = 0x7B

    def verify(self) -> str:
        """Compare the last result with the definition."""
        from harness.proof.verify import verify

        return verify(self._problem, self._host, self._host.out, seed=self._seed, extra_error=self._extra_error)

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        problem = self._problem
        copied = self._host.out.nbytes + self._copies_operands * (self._host.a.nbytes + self._host.b.nbytes)
        facts = {"operations": problem.operations, "bytes_moved": problem.bytes_moved, "bytes_copied": copied}
        return {**facts, "problem": problem.to_json(), "plan": self._plan.to_json()}


def product(
    *,
    problem: Mapping[str, Any],
    backend: str,
    copies: str,
    seed: int,
    threads: int,
    parameters: Mapping[str, Any] | None = None,
) -> OffloadedProduct:
    """Prepare one, its plan overridden by `parameters`.

    Raises
    ------
    Declined
        If there is no GPU, or the backend declines the product.
    """
    from harness import registry

    decoded = Problem.from_json(dict(problem))
    return OffloadedProduct(registry.admit(backend, decoded), decoded, copies, seed, parameters or {})
