"""The task of the experiment on small products: one whole call, as user code writes it, with all its checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.api.gemm import gemm
from harness.operands import Operands, poison
from harness.problem import Problem
from harness.proof.verify import verify

# ``call(a, b, c)`` by its form. Naming defaults must cost no more than passing them.
CALL, CALL_OF_LIBRARY = "gemm(a, b, out=c)", "numpy.matmul(a, b, out=c)"
CALLS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], object]] = {
    CALL: lambda a, b, c: gemm(a, b, out=c),
    "gemm(a, b, out=c, threads=1)": lambda a, b, c: gemm(a, b, out=c, threads=1),
    CALL_OF_LIBRARY: lambda a, b, c: np.matmul(a, b, out=c),
}


class WholeCall:
    """One call, plus_times, from arguments to result."""

    def __init__(self, problem: Problem, name: str, seed: int) -> None:
        self._problem, self._name, self._seed, self._call = problem, name, seed, CALLS[name]
        self._operands = Operands.generate(problem, seed)

    def run(self) -> None:
        """Call it once."""
        self._call(self._operands.a, self._operands.b, self._operands.out)

    def wait(self) -> None:
        """Return: the call has returned."""

    def spoil(self) -> None:
        """Overwrite the last result."""
        poison(self._operands.out)

    def verify(self) -> str:
        """Compare the last result with the definition."""
        return verify(self._problem, self._operands, self._operands.out, seed=self._seed)

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        problem = self._problem
        work = {"operations": problem.operations, "bytes_moved": problem.bytes_moved}
        whose = {"project": "NumPy"} if self._name == CALL_OF_LIBRARY else {}
        return {**work, "problem": problem.to_json(), "plan": {"call": self._name}, **whose}


def call(*, problem: Mapping[str, Any], name: str, seed: int, threads: int) -> WholeCall:
    """Prepare one."""
    return WholeCall(Problem.from_json(dict(problem)), name, seed)
