"""The task of the experiment on batches: one whole call of a library, on the host or on a GPU, with its checks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.api.gemm import gemm
from harness.errors import Declined
from harness.operands import Operands, poison
from harness.problem import Problem
from harness.proof.verify import verify
from harness.threads import limit

# What is called, by name; a name of `gemm` may say a semiring.
GEMM, MIN_PLUS, NUMPY, CUPY, TORCH = "gemm", "gemm, min_plus", "numpy.matmul", "cupy.matmul", "torch.bmm"

# Whose calls are not this project's.
PROJECTS = {NUMPY: "NumPy", CUPY: "CuPy", TORCH: "PyTorch"}


class BatchCall:
    """One call on the host, from arguments to result."""

    def __init__(self, problem: Problem, name: str, seed: int, threads: int) -> None:
        self._problem, self._name, self._seed = problem, name, seed
        self._operands = Operands.generate(problem, seed)
        self._out = self._placed(self._operands.out)
        a, b = (self._placed(x) for x in (self._operands.a, self._operands.b))
        self.run, self._limit = self._bound(a, b, threads), contextlib.ExitStack()
        self.run()  # which may load the libraries whose threads are meant
        if threads:
            self._limit.enter_context(limit(threads))

    def wait(self) -> None:
        """Return: the call has returned."""

    def spoil(self) -> None:
        """Overwrite the last result."""
        poison(self._out)

    def verify(self) -> str:
        """Compare the last result with the definition."""
        return verify(self._problem, self._operands, self._result(), seed=self._seed)

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        problem = self._problem
        work = {"operations": problem.operations, "bytes_moved": problem.bytes_moved}
        whose = {"project": PROJECTS[self._name]} if self._name in PROJECTS else {}
        return {**work, "problem": problem.to_json(), "plan": {"call": self._name}, **whose}

    def _bound(self, a: Any, b: Any, threads: int) -> Callable[[], object]:
        """Return the call without arguments."""
        if self._name in (GEMM, MIN_PLUS):
            limit = None if threads == 0 else threads
            return functools.partial(gemm, a, b, semiring=self._problem.semiring, out=self._out, threads=limit)
        if self._name == TORCH:
            return self._torch(a, b, threads)
        return functools.partial(self._module().matmul, a, b, out=self._out)

    def _torch(self, a: Any, b: Any, threads: int) -> Callable[[], object]:
        import torch

        if threads:
            torch.set_num_threads(threads)
        x, y, z = (torch.as_tensor(array) for array in (a, b, self._out))
        return torch.inference_mode()(functools.partial(torch.bmm, x, y, out=z))

    def _module(self) -> Any:
        return np

    def _placed(self, x: np.ndarray) -> Any:
        return x

    def _result(self) -> np.ndarray:
        return np.asarray(self._out)


class BatchCallOnGpu(BatchCall):
    """One call on the current GPU and stream, timed by its clock."""

    def wait(self) -> None:
        """Return when the GPU is done."""
        self._module().cuda.get_current_stream().synchronize()

    def spoil(self) -> None:
        """Overwrite the last result."""
        self._out.fill(np.nan)

    def clock(self) -> Any:
        """Return the clock of the GPU."""
        from backends.gpu._cuda.queue import current_queue
        from harness.timing.device_clock import CudaEventClock

        return CudaEventClock(current_queue())

    def _module(self) -> Any:
        from backends.gpu._cuda import device

        return device.cupy()

    def _placed(self, x: np.ndarray) -> Any:
        return self._module().asarray(x)

    def _result(self) -> np.ndarray:
        return np.asarray(self._out.get())


def call(*, problem: Mapping[str, Any], name: str, seed: int, threads: int, where: str = "host") -> BatchCall:
    """Prepare one.

    Raises
    ------
    Declined
        If there is no GPU, or PyTorch is not installed.
    """
    if name == TORCH and importlib.util.find_spec("torch") is None:
        raise Declined("missing", "package torch is not installed")
    decoded = Problem.from_json(dict(problem))
    if name == MIN_PLUS:
        decoded = dataclasses.replace(decoded, semiring="min_plus")
    if where != "gpu":
        return BatchCall(decoded, name, seed, threads)
    from backends.gpu._tasks.device_task import require_gpu

    require_gpu()
    return BatchCallOnGpu(decoded, name, seed, 0)
