"""The task of the experiment on the automatic choice: a whole call of gemm by one backend, or by ``"auto"``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from experiments._parts.call_task import CallOnGpu, WholeCall
from harness.api.arrays import Arrays, kind_of
from harness.api.choice import choose
from harness.api.gemm import gemm
from harness.errors import Declined
from harness.problem import Problem
from harness.tuning.choice.contenders import contenders

AUTO = "auto"


class ChosenCall(WholeCall):
    """One call on the host with the backend named; `threads` of 0: without the argument."""

    def _bound(self, a: Any, b: Any) -> Callable[[], object]:
        """Return the call without arguments."""
        problem, self._count = self._problem, self._threads or None
        options = {"semiring": problem.semiring, "triangle": problem.triangle, "threads": self._count}
        options |= {"dtype": problem.dtype} if problem.is_mixed else {}
        return functools.partial(gemm, a, b, out=self._out, backend=self._name, **options)

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call, and the backend that computes it."""
        problem = self._problem
        with self._arrays().in_force():
            chosen = choose(problem.of_one(), self._name, self._arrays(), problem.batch, self._count)
        return {**super().facts(), "plan": {"call": self._name, "backend": chosen.name}}

    def _arrays(self) -> Arrays:
        return kind_of("gemm", {"out": self._out})


class ChosenCallOnGpu(ChosenCall, CallOnGpu):
    """The same on the current GPU and stream, timed by its clock."""


def call(*, problem: Mapping[str, Any], name: str, seed: int, threads: int, where: str = "host") -> WholeCall:
    """Prepare one.

    Raises
    ------
    Declined
        If there is no GPU, or the backend is none that ``"auto"`` may take for the product.
    """
    decoded, on_device = Problem.from_json(dict(problem)), where == "gpu"
    if on_device:
        from backends.gpu._tasks.device_task import require_gpu

        require_gpu()
    if name != AUTO and name not in {backend.name for backend in contenders(decoded.of_one(), on_device=on_device)}:
        raise Declined("declined", "it misses something here, or does not compute this product as auto must")
    return (ChosenCallOnGpu if on_device else ChosenCall)(decoded, name, seed, threads)
