"""Tasks that time a product together with its copies between host and GPU: the cost for arrays on the host.

    always      A and B to the GPU, the product, C back: every call
    once        A and B stay on the GPU; C comes back

Partial tiles are left to the backend, or whole tiles are made of A and B on the way to the GPU:

    on the host A and B are copied into padded arrays of the host, these to the GPU
    in transit  padded arrays of the GPU are filled with the zero, and rows of A and B copied into them by a 2-D copy

Either way the product is one of whole tiles, and a 2-D copy brings back the part that is asked for. Copies are of
ordinary (pageable) arrays, as `gemm` is given them. The host's clock times them.

Source: in transit: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), section 5; on the
host: course work on matrix products on GPUs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from backends.gpu._cuda import device
from backends.gpu._program.program import ceil_div
from harness.errors import PlanError
from harness.interface import Backend, Execution
from harness.machine import detect
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem

COPIES = ("always", "once")
BY_BACKEND, ON_HOST, IN_TRANSIT = PADDING = ("", "on the host", "in transit")
_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyKind


class OffloadedProduct:
    """One product by a backend of the gpu family, from arrays of the host."""

    def __init__(
        self, backend: Backend, problem: Problem, copies: str, seed: int, parameters: Mapping[str, Any]
    ) -> None:
        self._problem, self._seed, self._copies_operands = problem, seed, copies == "always"
        self._host = Operands.generate(problem, seed)
        self._plan = self._planned(backend, parameters)
        computed = self._plan.problem
        a, b = (device.empty(shape, problem.dtype) for shape in _shapes(computed))
        self._device = Operands(a, b, None, device.empty((computed.m, computed.n), problem.dtype))
        self._send()
        self._execution: Execution = backend.prepare(self._plan, self._device)
        self._extra_error = backend.extra_error(self._plan, self._host)

    def _planned(self, backend: Backend, parameters: Mapping[str, Any]) -> Plan:
        """Return the plan of what the GPU computes."""
        return backend.plan(self._problem, detect()).override(parameters)

    def _send(self) -> None:
        """Copy A and B to the GPU."""
        self._device.a.set(self._host.a)
        self._device.b.set(self._host.b)

    def _fetch(self) -> None:
        """Copy the result to the host."""
        self._device.out.get(out=self._host.out)

    def run(self) -> None:
        """Copy, multiply, copy back."""
        if self._copies_operands:
            self._send()
        self._execution.run()
        self._fetch()

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
        copied = self._host.out.nbytes + self._copies_operands * (self._host.a.nbytes + self._host.b.nbytes)
        copies = {"bytes_copied": copied, "extra_bytes": self._extra_bytes()}
        return {**self._problem.work, "plan": self._plan.to_json(), **copies}

    def _extra_bytes(self) -> int:
        """Return the bytes of arrays and scratch beside those of A, B and C, on the GPU and on the host."""
        arrays = (self._device.a, self._device.b, self._device.out)
        plain = self._host.a.nbytes + self._host.b.nbytes + self._host.out.nbytes
        return sum(int(x.nbytes) for x in arrays) - plain + int(getattr(self._execution, "extra_bytes", 0))


class PaddedInTransit(OffloadedProduct):
    """One whose A and B are padded to whole tiles by the copy."""

    def _planned(self, backend: Backend, parameters: Mapping[str, Any]) -> Plan:
        """Return the plan of the product of whole tiles, of the same tiles.

        Raises
        ------
        PlanError
            If the backend has no tiles.
        """
        plan = super()._planned(backend, parameters)
        if plan.launch is None:
            raise PlanError(f"{backend.name}: a product without tiles cannot be padded to whole ones")
        steps = plan.launch.bm, plan.launch.bn, plan.launch.bk
        sizes = (self._problem.m, self._problem.n, self._problem.k)
        m, n, k = (ceil_div(size, step) * step for size, step in zip(sizes, steps, strict=True))
        whole = dataclasses.replace(self._problem, m=m, n=n, k=k)
        tiles = {name: value for name, value in dataclasses.asdict(plan.launch).items() if value}
        return backend.plan(whole, detect()).override({**parameters, **tiles})

    def _send(self) -> None:
        zero = self._problem.semiring.zero(self._problem.dtype)
        for target, source in ((self._device.a, self._host.a), (self._device.b, self._host.b)):
            target.fill(zero)
            _copy_rows(target.data.ptr, target.shape[1], source.ctypes.data, source.shape[1], source, _TO_DEVICE)

    def _fetch(self) -> None:
        out, produced = self._host.out, self._device.out
        _copy_rows(out.ctypes.data, out.shape[1], produced.data.ptr, produced.shape[1], out, _TO_HOST)


class PaddedOnHost(PaddedInTransit):
    """One whose A and B are padded to whole tiles on the host, before they are copied."""

    def __init__(self, *arguments: Any) -> None:
        self._padded: dict[str, np.ndarray] = {}
        super().__init__(*arguments)

    def _send(self) -> None:
        zero = self._problem.semiring.zero(self._problem.dtype)
        for name in "ab":
            source, target = getattr(self._host, name), getattr(self._device, name)
            padded = self._padded.setdefault(name, np.empty(target.shape, source.dtype))
            rows, columns = source.shape
            padded[:rows, :columns] = source
            padded[rows:], padded[:rows, columns:] = zero, zero
            target.set(padded)

    def _extra_bytes(self) -> int:
        return super()._extra_bytes() + sum(padded.nbytes for padded in self._padded.values())


_PRODUCTS = {BY_BACKEND: OffloadedProduct, ON_HOST: PaddedOnHost, IN_TRANSIT: PaddedInTransit}


def _shapes(problem: Problem) -> tuple[tuple[int, int], tuple[int, int]]:
    return (problem.m, problem.k), (problem.k, problem.n)


def _copy_rows(to: int, ld_to: int, source: int, ld_source: int, like: np.ndarray, kind: int) -> None:
    """Copy rows of a matrix as large as `like` between host and GPU, after all work of the current stream.

    Leading dimensions are in elements.
    """
    device.synchronize()
    (rows, columns), size = like.shape, like.itemsize
    copy = device.cupy().cuda.runtime.memcpy2D
    copy(to, ld_to * size, source, ld_source * size, columns * size, rows, kind)


def product(
    *,
    problem: Mapping[str, Any],
    backend: str,
    copies: str,
    seed: int,
    threads: int,
    parameters: Mapping[str, Any] | None = None,
    padding: str = BY_BACKEND,
) -> OffloadedProduct:
    """Prepare one, its plan overridden by `parameters`; `padding` is one of `PADDING`.

    Raises
    ------
    Declined
        If there is no GPU, or the backend declines the product.
    """
    from harness import registry

    decoded, chosen = Problem.from_json(dict(problem)), _PRODUCTS[padding]
    return chosen(registry.admit(backend, decoded), decoded, copies, seed, parameters or {})
